// Random and mutated messages to a live server and a live peer, seeded; protocol_fuzz_slow_test.cc sends
// more.
#include "net/test_protocol_fuzz.h"

namespace tacit {
namespace {

TEST_F(ProtocolFuzz, AServerRefusesWhatIsNoAnswerAndTrainsOn) { Attack(4, 4'000, 1); }
TEST_F(ProtocolFuzz, APeerRefusesWhoIsNoNeighbourAndTrainsOn) { AttackPeer(3'000, 2); }
TEST_F(ProtocolFuzz, AMaskedRoundGoesOnWithAMemberWhoSendsOtherThings) { AttackMasks(3, 30, 11); }
TEST_F(ProtocolFuzz, NorDoesAMemberSignOrOpenTwoSets) { AttackMember(3, 16); }
TEST_F(ProtocolFuzz, AClientIsNotLedAstrayByItsServer) { AttackClient("name = \"primal-dual\"", "", 25, 12); }
TEST_F(ProtocolFuzz, NorOneThatRemembersWhatItSent) { AttackClient("name = \"dpd-ef21-2\"", "", 25, 13); }
TEST_F(ProtocolFuzz, NorOneWithControlVariates) {
  AttackClient("name = \"dp-scaffold\"", ", unit = \"client\"", 25, 14);
}
TEST_F(ProtocolFuzz, NorOneWhoseSumsAreMasked) {
  AttackClient("name = \"dp-fedavg\", allocation = \"static\"",
               ", unit = \"client\", trust = \"masked\", mechanism = \"discrete_gaussian\"", 5, 15);
}

}  // namespace
}  // namespace tacit
