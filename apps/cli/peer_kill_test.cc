// Peers without a server, each a process that is killed (SIGKILL) at random instants and started again.
#include "peer_processes.h"

namespace tacit {
namespace {

TEST(PeerKill, TenKillsChangeNothing) {
  KilledPeers(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_peers_{}", ::getpid()))
      .Run(10, 11);
}

}  // namespace
}  // namespace tacit
