#include "kill_federation.h"

namespace tacit {
namespace {

TEST(FederationKill, TwoHundredKillsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kills_{}", ::getpid()))
      .Run(200, 2);
}

}  // namespace
}  // namespace tacit
