// As network_faults_test.cc, for longer.
#include "net/test_faults.h"

namespace tacit {
namespace {

TEST_F(NetworkFaults, ANetworkThatSpoilsBytesChangesNothing) { Disturb(false, 150, 400, 4); }
TEST_F(NetworkFaults, NorDoesItWithinMaskedRounds) { Disturb(true, 20, 200, 5); }
TEST_F(NetworkFaults, ThirtyPercentOfClientsGoneInEveryRoundAreCountedOut) { Drop(40, 6); }
TEST_F(NetworkFaults, AlsoWhereMessagesAddUp) { Drop(40, 7, "dpd-ef21-2"); }
TEST_F(NetworkFaults, AndWhereSumsAreMasked) { Drop(25, 9, "dp-fedavg", /*masked=*/true); }

}  // namespace
}  // namespace tacit
