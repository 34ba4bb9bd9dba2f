#include "experiment/kill_runs.h"

namespace tacit {
namespace {

TEST(Resume, TwoHundredKillsAtRandomInstants) {
  KillRuns(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_slow_{}", ::getpid()), 200);
}

}  // namespace
}  // namespace tacit
