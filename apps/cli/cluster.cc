// A run that is divided between several processes: who started them, and how they find each other.
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "cli.h"
#include "runtime/ranks.h"

namespace tacit::cli {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> ending = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");
void (*stop_softly)() = nullptr;

// mpirun ends a job by SIGTERM, and a second later by SIGKILL: after Ctrl-C, and when a process has died.
void OnTerminate(int) {
  ending.store(true);
  if (stop_softly != nullptr) stop_softly();
}
void OnStop(int) {
  if (stop_softly != nullptr) stop_softly();
}

std::uint32_t NumberOf(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const unsigned long n = std::strtoul(text, &end, 10);
  return *end == '\0' && n < 1u << 24 ? static_cast<std::uint32_t>(n) : 0;
}

// Where the module lies: beside the program, as built, or in lib/tacit, as installed.
Result<const RankWire*> LoadWire(const Launched& by) {
  std::error_code ec;
  const fs::path program = fs::read_symlink("/proc/self/exe", ec).parent_path();
  fs::path file;
  for (const fs::path& at :
       {program / "tacit-mpi.so", program / ".." / TACIT_LIBDIR / "tacit" / "tacit-mpi.so"})
    if (file.empty() && fs::exists(at, ec)) file = at;
  if (file.empty())
    return Fail(Code::kUnsupported,
                "{} has started {} processes, and this build of tacit has no MPI; install libopenmpi-dev and "
                "openmpi-bin and build it again, or start it without {}: --threads uses the cores of one "
                "machine",
                by.by, by.size, by.by);
  // Global: the library loads modules of its own, which look for its symbols.
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr)
    return Fail(Code::kUnsupported, "{}: cannot be loaded ({}); install openmpi-bin", file.string(),
                dlerror());
  const auto* wire = static_cast<const RankWire*>(dlsym(module, kRankWireSymbol));
  if (wire == nullptr || wire->abi != kRankWireAbi || std::string_view(wire->version) != TACIT_VERSION)
    return Fail(Code::kUnsupported, "{}: is of another version than this program; build both again",
                file.string());
  return wire;
}

}  // namespace

Launched HowLaunched() {
  struct Known {
    const char *by, *size, *rank;
  };
  // In this order: mpirun within a Slurm job has set both.
  static constexpr Known kKnown[] = {
      {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
      {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
      {"mpiexec", "PMI_SIZE", "PMI_RANK"},
  };
  for (const Known& k : kKnown)
    if (const std::uint32_t size = NumberOf(k.size); size > 0)
      return {.by = k.by, .rank = NumberOf(k.rank), .size = size};
  return {};
}

Result<std::unique_ptr<Ranks>> StartRanks(const Launched& by, void (*stop)()) {
  TACIT_TRY(const RankWire* wire, LoadWire(by));
  TACIT_TRY(std::unique_ptr<Ranks> ranks, Ranks::Start(*wire, ending));
  if (ranks->size() != by.size)
    return Fail(Code::kUnsupported,
                "{} has started {} processes, and by MPI there are {}; use the mpirun of Open MPI, or srun "
                "--mpi=pmix",
                by.by, by.size, ranks->size());
  // Rank 0 decides when to stop, and tells the others.
  if (ranks->first()) stop_softly = stop;
  std::signal(SIGTERM, OnTerminate);
  std::signal(SIGUSR1, OnStop);
  if (!ranks->first()) std::signal(SIGINT, SIG_IGN);
  return ranks;
}

}  // namespace tacit::cli
