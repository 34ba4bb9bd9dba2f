// As protocol_fuzz_test.cc, with more messages.
#include "net/test_protocol_fuzz.h"

namespace tacit {
namespace {

TEST_F(ProtocolFuzz, AServerRefusesWhatIsNoAnswerAndTrainsOn) { Attack(60, 200'000, 3); }
TEST_F(ProtocolFuzz, APeerRefusesWhoIsNoNeighbourAndTrainsOn) { AttackPeer(50'000, 4); }

}  // namespace
}  // namespace tacit
