// Ranks over MPI: the part of the program that needs the library. It is a module of its own, loaded where a
// run has several processes, so that nothing else pays for it.
#include <mpi.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/ranks.h"

namespace tacit {
namespace {

// Counts are ints: longer messages go in pieces, and a piece that is shorter than this is the last.
constexpr std::size_t kPiece = std::size_t{1} << 30;
constexpr int kTag = 1;
constexpr double kGrace = 0.3;  // seconds between the signal and giving up; mpirun kills after one

const std::atomic<bool>* ending = nullptr;
std::string error;                  // NOLINT: read by last_error
std::vector<MPI_Request> pending;   // NOLINT: of begin_send

int Say(const std::string& why) {
  error = why;
  return 1;
}

int Check(int code, const char* what) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Say(std::string(what) + ": " + text);
}

// Asks until it is so, or until the job ends. Spins for what takes microseconds, and then lets others have
// the core: ranks may outnumber cores, and a round may take minutes.
template <class Ask>
int Await(Ask ask, const char* what) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin{}, signal{};
  for (std::size_t tries = 0;; ++tries) {
    int done = 0;
    if (const int code = ask(&done); code != MPI_SUCCESS) return Check(code, what);
    if (done != 0) return 0;
    if (tries < 200) continue;
    const auto now = Clock::now();
    if (tries == 200) begin = now;
    if (ending->load(std::memory_order_relaxed)) {
      if (signal == Clock::time_point{}) signal = now;
      if (std::chrono::duration<double>(now - signal).count() > kGrace)
        return Say("SIGTERM came and nothing after it");
    }
    if (now - begin < std::chrono::milliseconds(2)) {
      sched_yield();
    } else {
      const timespec nap{0, now - begin < std::chrono::milliseconds(50) ? 50'000 : 500'000};
      nanosleep(&nap, nullptr);
    }
  }
}

int Start(const std::atomic<bool>* flag, std::uint32_t* rank, std::uint32_t* size, std::uint32_t* here) {
  ending = flag;
  int given = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given); code != MPI_SUCCESS)
    return Say("MPI_Init_thread failed");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int r = 0, n = 0, local = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm node = MPI_COMM_NULL;
  if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, r, MPI_INFO_NULL, &node) == MPI_SUCCESS) {
    MPI_Comm_size(node, &local);
    MPI_Comm_free(&node);
  }
  *rank = static_cast<std::uint32_t>(r);
  *size = static_cast<std::uint32_t>(n);
  *here = static_cast<std::uint32_t>(local);
  return 0;
}

int BeginSend(std::uint32_t to, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  for (bool more = true; more; at += kPiece) {
    const std::size_t now = std::min(size, kPiece);
    MPI_Request request = MPI_REQUEST_NULL;
    if (const int bad = Check(MPI_Isend(at, static_cast<int>(now), MPI_BYTE, static_cast<int>(to), kTag,
                                        MPI_COMM_WORLD, &request),
                              "sending");
        bad != 0)
      return bad;
    pending.push_back(request);
    more = now == kPiece;
    size -= now;
  }
  return 0;
}

int FinishSends() {
  for (MPI_Request& request : pending)
    if (const int bad =
            Await([&](int* done) { return MPI_Test(&request, done, MPI_STATUS_IGNORE); }, "sending");
        bad != 0)
      return bad;
  pending.clear();
  return 0;
}

int Send(std::uint32_t to, const void* data, std::size_t size) {
  const std::size_t before = pending.size();  // what goes by begin_send is left to finish_sends
  if (const int bad = BeginSend(to, data, size); bad != 0) return bad;
  for (std::size_t i = before; i < pending.size(); ++i)
    if (const int bad =
            Await([&](int* done) { return MPI_Test(&pending[i], done, MPI_STATUS_IGNORE); }, "sending");
        bad != 0)
      return bad;
  pending.resize(before);
  return 0;
}

int Receive(std::uint32_t* from, RankWire::Room room, void* into) {
  for (bool more = true; more;) {
    const int source = *from == kAnyRank ? MPI_ANY_SOURCE : static_cast<int>(*from);
    MPI_Status found;
    MPI_Message message = MPI_MESSAGE_NULL;
    if (const int bad = Await(
            [&](int* done) { return MPI_Improbe(source, kTag, MPI_COMM_WORLD, done, &message, &found); },
            "receiving");
        bad != 0)
      return bad;
    *from = static_cast<std::uint32_t>(found.MPI_SOURCE);
    int size = 0;
    MPI_Get_count(&found, MPI_BYTE, &size);
    void* to = room(into, static_cast<std::size_t>(size));
    MPI_Request request = MPI_REQUEST_NULL;
    if (const int bad = Check(MPI_Imrecv(to, size, MPI_BYTE, &message, &request), "receiving"); bad != 0)
      return bad;
    if (const int bad =
            Await([&](int* done) { return MPI_Test(&request, done, MPI_STATUS_IGNORE); }, "receiving");
        bad != 0)
      return bad;
    more = static_cast<std::size_t>(size) == kPiece;
  }
  return 0;
}

void Stop() {
  if (FinishSends() == 0) MPI_Finalize();
}

void Abort(int code) {
  std::fflush(nullptr);
  // Where the job is being ended anyway, there is nobody left to tell.
  if (!ending->load()) MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

}  // namespace
}  // namespace tacit

extern "C" const tacit::RankWire tacit_rank_wire;
const tacit::RankWire tacit_rank_wire = {
    .abi = tacit::kRankWireAbi,
    .version = TACIT_VERSION,
    .start = tacit::Start,
    .send = tacit::Send,
    .receive = tacit::Receive,
    .begin_send = tacit::BeginSend,
    .finish_sends = tacit::FinishSends,
    .last_error = [] { return tacit::error.c_str(); },
    .stop = tacit::Stop,
    .abort = tacit::Abort,
};
