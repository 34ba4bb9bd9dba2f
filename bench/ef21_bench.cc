// One round of EF21 with mirrored state (dpd-ef21-2): 10 clients of 64 digits, a network 784-200-10, the
// largest hundredth of the coordinates, in bytes and back, ledger included.
//
//   ef21_bench IMAGES|-     MNIST's images (idx, packed or not), the first 640 of them; -: rows with as many
//                  zeros, at random places. Answers one request per line, "plain|noisy SECONDS", with one
//                  line of JSON: microseconds a round, least and median, processor time of one thread. plain:
//                  Expose; noisy: lattice noise from the cryptographic generator on every coordinate
//
// bench/ef21_peers.py does the same work in NumPy.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "algorithms/ef21.h"
#include "clock.h"
#include "data/load.h"
#include "data/partition.h"
#include "data/preprocess.h"
#include "runtime/threads.h"

namespace tacit {
namespace {

constexpr std::size_t kClients = 10, kRecords = 64, kInputs = 784;

// 19 pixels of 100 are not black, as in MNIST.
Dataset MadeUp() {
  Stream rng({.seed = 1, .purpose = Purpose::kData});
  Dataset d;
  d.features = kInputs;
  d.value.resize(kClients * kRecords * kInputs);
  d.label.resize(kClients * kRecords);
  for (double& v : d.value) v = rng.Uniform() < 0.19 ? rng.Uniform() : 0;
  for (double& v : d.label) v = static_cast<double>(rng.Below(10));
  return d;
}

Dataset Digits(const std::string& images) {
  Dataset d = *Load({.file = images, .format = Format::kIdx, .rows = kClients * kRecords});
  for (double& v : d.value) v /= 255;
  return d;
}

std::string Measure(Dataset data, bool noisy, double seconds) {
  TACIT_CHECK(Preprocess({}, data).ok());
  const auto f = *MakeObjective({.loss = Loss::kMlp, .classes = 10, .hidden = {200}});
  Partition partition = *MakePartition({.clients = kClients}, std::move(data));
  KeepEntriesFor(*f, partition);  // as a run does
  const auto g = *MakeRegularizer({.name = Penalty::kNone, .weight = 0, .radius = 1.0});
  const LatticeGaussian lattice;
  const Expose expose;
  const Mechanism& mechanism = noisy ? static_cast<const Mechanism&>(lattice) : expose;
  Problem problem{.f = f.get(),
                  .g = g.get(),
                  .l2 = 0,
                  .dim = f->dim(kInputs),
                  .clients = static_cast<std::uint32_t>(kClients),
                  .start = {}};
  problem.start.resize(problem.dim);
  f->Initialise(1, kInputs, problem.start);
  constexpr std::size_t kMost = 100000;
  FeedbackOptions o;
  o.gamma.assign(kMost, 0.1);
  o.radius.assign(kMost, 1.0);
  o.clip = L2Bound{10.0};
  o.compressor = *ParseCompressor("top:0.01");
  for (std::uint32_t t = 1; t <= kMost; ++t) o.rounds.push_back(t);
  const auto sigma = std::make_shared<const NoisePlan>(kMost, NoiseStd{0.1});
  std::vector<Ledger> ledgers(kClients, Ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne));
  std::vector<MirroredEf21::Client> clients;
  for (std::uint32_t i = 0; i < kClients; ++i)
    clients.emplace_back(Holding{i, kRecords, partition.shard(i), &ledgers[i]}, problem, mechanism, o, sigma,
                         false);
  MirroredEf21::Server server(problem, o);
  ThreadRuntime<MirroredEf21> runtime(1, {});
  std::vector<double> rounds;
  const double end = Now(false) + seconds;
  double last = 0;
  const Watcher watcher{
      .before = [](std::uint32_t) -> Status { return Ok{}; },
      .after = [&](const RoundReport& r) -> Status {
        const double now = Now(true);
        if (r.round > 3) rounds.push_back(now - last);  // the first ones warm up
        last = now;
        return Now(false) < end || rounds.size() < 5 ? Status(Ok{}) : Fail(Code::kInterrupted, "time is up");
      }};
  const Status done = runtime.Run(server, clients, watcher);
  if (!done.ok() && done.error().code != Code::kInterrupted) return done.error().message;
  std::sort(rounds.begin(), rounds.end());
  return fmt::format(R"({{"min_us": {:.3f}, "median_us": {:.3f}, "blocks": {}}})", rounds.front() * 1e6,
                     rounds[rounds.size() / 2] * 1e6, rounds.size());
}

int Main(const std::string& images) {
  const Dataset rows = images == "-" ? MadeUp() : Digits(images);
  std::cout << "ready" << std::endl;
  std::string kind;
  for (double seconds; std::cin >> kind >> seconds;)
    std::cout << Measure(rows, kind == "noisy", seconds) << std::endl;
  return 0;
}

}  // namespace
}  // namespace tacit

int main(int argc, char** argv) { return tacit::Main(argc > 1 ? argv[1] : "-"); }
