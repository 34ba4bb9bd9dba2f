#include "cluster_runs.h"

namespace tacit {
namespace {

using ClusterKill = ClusterTest;

TEST_F(ClusterKill, ManyRanks) { KillRanks(100); }

}  // namespace
}  // namespace tacit
