#include "kill_federation.h"

namespace tacit {
namespace {

TEST(FederationKill, ThirtyKillsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_{}", ::getpid()))
      .Run(30, 1);
}

TEST(FederationKill, TwentyKillsWithinMaskedRoundsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_masked_{}", ::getpid()),
                   true)
      .Run(20, 3);
}

}  // namespace
}  // namespace tacit
