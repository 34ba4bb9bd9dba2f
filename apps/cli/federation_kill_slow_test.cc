#include "kill_federation.h"

namespace tacit {
namespace {

TEST(FederationKill, TwoHundredKillsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kills_{}", ::getpid()))
      .Run(200, 2);
}

TEST(FederationKill, AHundredKillsWithinMaskedRoundsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kills_masked_{}", ::getpid()),
                   "masked")
      .Run(100, 4);
}

}  // namespace
}  // namespace tacit
