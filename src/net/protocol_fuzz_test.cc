// Random and mutated messages to a live server and a live peer, seeded; protocol_fuzz_slow_test.cc sends
// more.
#include "net/test_protocol_fuzz.h"

namespace tacit {
namespace {

TEST_F(ProtocolFuzz, AServerRefusesWhatIsNoAnswerAndTrainsOn) { Attack(4, 4'000, 1); }
TEST_F(ProtocolFuzz, APeerRefusesWhoIsNoNeighbourAndTrainsOn) { AttackPeer(3'000, 2); }

}  // namespace
}  // namespace tacit
