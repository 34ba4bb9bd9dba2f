// One round of zCDP-NFL (all peers: clipped subgradients, lattice noise from the cryptographic generator,
// notes, multipliers) on a random regular graph, elastic net.
//
//   nfl_bench      answers one request per line, "PEERS DEGREE FEATURES RECORDS THREADS SECONDS", with one
//   line
//                  of JSON: microseconds a round, least and median over blocks of rounds (processor time on
//                  one thread, the clock on several), and MiB of memory that peers, notes and runtime take
//
// bench/nfl_peers.py does the same work in NumPy.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "algorithms/nfl.h"
#include "clock.h"
#include "data/partition.h"
#include "data/preprocess.h"
#include "runtime/graph.h"

namespace tacit {
namespace {

double HeapMib() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

Dataset Rows(std::size_t rows, std::size_t features) {
  Stream rng({.seed = 1, .purpose = Purpose::kData});
  Dataset d;
  d.features = features;
  d.value.resize(rows * features);
  d.label.resize(rows);
  for (double& v : d.value) v = rng.Normal();
  for (double& v : d.label) v = rng.Normal();
  return d;
}

std::string Measure(std::size_t peers, std::size_t degree, std::size_t features, std::size_t records,
                    unsigned threads, double seconds) {
  Dataset data = Rows(peers * records, features);
  TACIT_CHECK(Preprocess({}, data).ok());
  const Partition partition = *MakePartition({.clients = peers, .rows_per_client = records}, std::move(data));
  const Graph graph = Regular(peers, degree, 1);
  const auto f = MakeObjective(Loss::kLeastSquares, 2);
  const auto g = *MakeRegularizer({.name = Penalty::kL1, .weight = 1e-3});
  const LatticeGaussian mechanism;
  const Problem problem{.f = f.get(),
                        .g = g.get(),
                        .l2 = 1e-2,
                        .dim = features,
                        .clients = static_cast<std::uint32_t>(peers),
                        .start = {}};
  Nfl::Options o;
  o.eta = {.c = 0.1, .falling = true};
  constexpr std::size_t kMost = 500000;
  for (std::uint32_t t = 1; t <= kMost; ++t) o.rounds.push_back(t);
  const auto sigma = std::make_shared<const NoisePlan>(kMost, NoiseStd{20.0});
  const double before = HeapMib();
  std::vector<Ledger> ledgers(peers, Ledger(MuSquared{1e12}, Adjacency::kReplaceOne));
  std::vector<Nfl::Peer> all;
  all.reserve(peers);
  for (std::uint32_t k = 0; k < peers; ++k)
    all.emplace_back(Holding{k, records, partition.shard(k), &ledgers[k]}, graph.degree(k), problem,
                     mechanism, o, sigma);
  GraphRuntime<Nfl> runtime(threads, {});
  const std::uint32_t block = peers > 1000 ? 1 : 20;
  std::vector<double> blocks;
  const double end = Now(false) + seconds;
  double last = 0;
  const Watcher watcher{.before = [](std::uint32_t) -> Status { return Ok{}; },
                        .after = [&](const RoundReport& r) -> Status {
                          if (r.round % block != 0) return Ok{};
                          const double now = Now(threads == 1);
                          if (r.round > block) blocks.push_back((now - last) / block);  // the first warms up
                          last = now;
                          return Now(false) < end ? Status(Ok{}) : Fail(Code::kInterrupted, "time is up");
                        }};
  const Status done = runtime.Run(graph, all, o.rounds, AlwaysHere(), watcher);
  if (!done.ok() && done.error().code != Code::kInterrupted) return done.error().message;
  const double mib = HeapMib() - before;
  std::sort(blocks.begin(), blocks.end());
  return fmt::format(R"({{"min_us": {:.3f}, "median_us": {:.3f}, "blocks": {}, "edges": {}, "mib": {:.2f}}})",
                     blocks.front() * 1e6, blocks[blocks.size() / 2] * 1e6, blocks.size(), graph.edges(),
                     mib);
}

int Main() {
  std::cout << "ready" << std::endl;
  std::size_t peers, degree, features, records;
  unsigned threads;
  for (double seconds; std::cin >> peers >> degree >> features >> records >> threads >> seconds;)
    std::cout << Measure(peers, degree, features, records, threads, seconds) << std::endl;
  return 0;
}

}  // namespace
}  // namespace tacit

int main() { return tacit::Main(); }
