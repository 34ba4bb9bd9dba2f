#include "faulty_federation.h"

namespace tacit {
namespace {

std::filesystem::path Home() {
  return std::filesystem::temp_directory_path() /
         fmt::format("tacit_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                     ::getpid());
}

TEST(FederationFaults, TwoHundredFullDisksLoseNothing) { FaultyFederation(Home()).FullDisks(200, 4); }
TEST(FederationFaults, NorDoFiftyWithinMaskedRounds) { FaultyFederation(Home(), "masked").FullDisks(50, 5); }
TEST(FederationFaults, ClocksMayJumpWithinMaskedRounds) {
  FaultyFederation(Home(), "masked", "deadline = 1800").JumpingClocks(6);
}

}  // namespace
}  // namespace tacit
