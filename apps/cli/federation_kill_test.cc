#include "kill_federation.h"

namespace tacit {
namespace {

TEST(FederationKill, ThirtyKillsChangeNothing) {
  KilledFederation(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_{}", ::getpid()))
      .Run(30, 1);
}

}  // namespace
}  // namespace tacit
