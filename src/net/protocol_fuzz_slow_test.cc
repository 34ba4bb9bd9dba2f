// As protocol_fuzz_test.cc, with more messages.
#include "net/test_protocol_fuzz.h"

namespace tacit {
namespace {

TEST_F(ProtocolFuzz, AServerRefusesWhatIsNoAnswerAndTrainsOn) { Attack(60, 200'000, 3); }
TEST_F(ProtocolFuzz, APeerRefusesWhoIsNoNeighbourAndTrainsOn) { AttackPeer(50'000, 4); }
TEST_F(ProtocolFuzz, AMaskedRoundGoesOnWithAMemberWhoSendsOtherThings) { AttackMasks(40, 400, 21); }
TEST_F(ProtocolFuzz, NorDoesAMemberSignOrOpenTwoSets) { AttackMember(40, 26); }
TEST_F(ProtocolFuzz, AClientIsNotLedAstrayByItsServer) {
  AttackClient("name = \"primal-dual\"", "", 600, 22);
}
TEST_F(ProtocolFuzz, NorOneThatRemembersWhatItSent) { AttackClient("name = \"dpd-ef21-2\"", "", 600, 23); }
TEST_F(ProtocolFuzz, NorOneWithControlVariates) {
  AttackClient("name = \"dp-scaffold\"", ", unit = \"client\"", 600, 24);
}
TEST_F(ProtocolFuzz, NorOneWhoseSumsAreMasked) {
  AttackClient("name = \"dp-fedavg\", allocation = \"static\"",
               ", unit = \"client\", trust = \"masked\", mechanism = \"discrete_gaussian\"", 60, 25);
}

}  // namespace
}  // namespace tacit
