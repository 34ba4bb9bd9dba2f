#include "faulty_federation.h"

namespace tacit {
namespace {

TEST(FederationFaults, TwoHundredFullDisksLoseNothing) { FaultyFederation(Home()).FullDisks(200, 4); }
TEST(FederationFaults, NorDoFiftyWithinMaskedRounds) { FaultyFederation(Home(), "masked").FullDisks(50, 5); }
TEST(FederationFaults, ClocksMayJumpWithinMaskedRounds) {
  FaultyFederation(Home(), "masked", "deadline = 1800").JumpingClocks(6);
}

}  // namespace
}  // namespace tacit
