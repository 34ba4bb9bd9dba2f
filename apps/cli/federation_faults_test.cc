#include "faulty_federation.h"

namespace tacit {
namespace {

TEST(FederationFaults, AFullDiskLosesNothing) { FaultyFederation(Home()).FullDisks(12, 1); }
TEST(FederationFaults, NorDoesASmallFileSystem) { FaultyFederation(Home()).SmallFileSystems(); }
TEST(FederationFaults, ClocksMayJump) {
  FaultyFederation(Home(), "local", "deadline = 1800").JumpingClocks(2);
}
TEST(FederationFaults, AndMayBeSetBack) {
  FaultyFederation(Home(), "local", "deadline = 1800").ClocksSetBack();
}
TEST(FederationFaults, DeadlinesAreBySteadyClocks) {
  FaultyFederation(Home(), "local", "deadline = 0.1, minimum = 2")
      .DeadlinesComeAllTheSame(3, FaultyFederation::kRounds);
}
TEST(FederationFaults, CertificatesAreRefusedOutsideTheirTime) {
  FaultyFederation(Home()).CertificatesHaveTheirTime();
}

}  // namespace
}  // namespace tacit
