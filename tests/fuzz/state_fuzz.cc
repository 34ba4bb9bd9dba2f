#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/check.h"
#include "net/server.h"
#include "net/state_files.h"

// The files by which a server and a client know each other's processes again: `answered` after an even first
// byte, `name` after an odd one. What is taken of `answered` is no less than what was known, names no folder
// that is none, and is the same when it is written and read again.
namespace {

using namespace tacit;

constexpr std::uint32_t kRounds = 300;

Job MakeJob() {
  Job job;
  job.clients = {"a", "north", "south.2"};
  job.config.algorithm.rounds = kRounds;
  return job;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 != 0) {
    const auto place = ParsePlace(text);
    if (!place) return 0;
    TACIT_CHECK(IsHex(place->name, kSessionPart) && place->starts + 1 > place->starts);
    const auto again = ParsePlace(PlaceLine(*place));
    TACIT_CHECK(again && again->name == place->name && again->starts == place->starts);
    return 0;
  }
  static const Job job = MakeJob();
  const std::string home(kSessionPart, '1');
  std::vector<std::uint32_t> round = {0, 7, 0};
  std::vector<std::string> folder = {"", home, ""};
  const bool taken = TakeAnswered(text, job, round, folder);
  TACIT_CHECK(round.size() == job.clients.size() && folder.size() == job.clients.size());
  if (!taken) {
    TACIT_CHECK(round[0] == 0 && round[1] == 7 && folder[0].empty() && folder[1] == home);
    return 0;
  }
  TACIT_CHECK(round[1] >= 7 && !folder[1].empty());
  std::string written;
  for (std::size_t i = 0; i < job.clients.size(); ++i) {
    TACIT_CHECK(round[i] <= kRounds && (folder[i].empty() ? round[i] == 0 : IsHex(folder[i], kSessionPart)));
    written += AnsweredLine(round[i], job.clients[i], folder[i]);
  }
  std::vector<std::uint32_t> same_round(job.clients.size());
  std::vector<std::string> same_folder(job.clients.size());
  TACIT_CHECK(TakeAnswered(written, job, same_round, same_folder));
  TACIT_CHECK(same_round == round && same_folder == folder);
  return 0;
}
