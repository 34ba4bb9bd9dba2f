#include "peer_processes.h"

namespace tacit {
namespace {

TEST(PeerKill, AHundredKillsChangeNothing) {
  KilledPeers(std::filesystem::temp_directory_path() / fmt::format("tacit_kills_peers_{}", ::getpid()))
      .Run(100, 12);
}

}  // namespace
}  // namespace tacit
