#include "kill_federation.h"

namespace tacit {
namespace {

TEST(FederationKill, ThirtyKillsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_{}", ::getpid()))
      .Run(30, 1);
}

TEST(FederationKill, NoAnswerIsNoisedAgainAfterTwentyKills) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_entropy_{}", ::getpid()),
                   "local", "deadline = 600", /*entropy=*/true)
      .RunWithEntropy(20, 7);
}

TEST(FederationKill, TwentyKillsWithinMaskedRoundsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_masked_{}", ::getpid()),
                   "masked")
      .Run(20, 3);
}

TEST(FederationKill, TwentyKillsOfATrustedServerAndItsClientsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_central_{}", ::getpid()),
                   "central")
      .Run(20, 5);
}

}  // namespace
}  // namespace tacit
