// A network that delays, drops, cuts, repeats, changes and replays, and clients that are gone: seeded, a few
// of each. network_faults_slow_test.cc has many.
#include "net/test_faults.h"

namespace tacit {
namespace {

TEST_F(NetworkFaults, ANetworkThatSpoilsBytesChangesNothing) { Disturb(false, 40, 40, 1); }
TEST_F(NetworkFaults, NorDoesItWithinMaskedRounds) { Disturb(true, 4, 30, 2); }
TEST_F(NetworkFaults, ThirtyPercentOfClientsGoneInEveryRoundAreCountedOut) { Drop(4, 3); }
TEST_F(NetworkFaults, AlsoWhereMessagesAddUp) { Drop(4, 4, "dpd-ef21-2"); }
TEST_F(NetworkFaults, AndWhereSumsAreMasked) { Drop(3, 8, "dp-fedavg", /*masked=*/true); }

}  // namespace
}  // namespace tacit
