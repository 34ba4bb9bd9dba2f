// Ranks that die at random instants: the run ends with an error, and goes on to the same model.
#include "cluster_runs.h"

namespace tacit {
namespace {

using ClusterKill = ClusterTest;

TEST_F(ClusterKill, AFewRanks) { KillRanks(4); }

}  // namespace
}  // namespace tacit
