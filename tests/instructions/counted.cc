// What check.py counts the instructions of: a handful of hot kernels and rounds, each in a function of its
// own whose name begins with counted_. Everything is a function of fixed seeds, noise included.
#include <memory>
#include <vector>

#include "algorithms/nfl.h"
#include "algorithms/primal_dual.h"
#include "compress/select.h"
#include "core/rng.h"
#include "data/partition.h"
#include "data/preprocess.h"
#include "models/objective.h"
#include "privacy/accountant.h"
#include "privacy/discrete_gaussian.h"
#include "privacy/float_gaussian.h"
#include "privacy/lattice_sampler.h"
#include "runtime/graph.h"
#include "runtime/threads.h"

namespace tacit {
namespace {

Stream Random(std::uint64_t seed) { return Stream({.seed = seed, .purpose = Purpose::kTest}); }

// A fifth of the entries is not zero, as of handwritten digits.
Dataset Digits(std::size_t rows) {
  Stream rng = Random(1);
  Dataset d;
  d.features = 784;
  for (std::size_t k = 0; k < rows * 784; ++k) d.value.push_back(rng.Uniform() < 0.19 ? rng.Uniform() : 0.0);
  for (std::size_t i = 0; i < rows; ++i) d.label.push_back(static_cast<double>(rng.Below(10)));
  TACIT_CHECK(Preprocess({}, d).ok());
  return d;
}

// One entry in each of 14 groups of columns, as in the survey a9a.
Dataset Survey(std::size_t rows) {
  Stream rng = Random(2);
  Dataset d;
  d.features = 123;
  d.row_begin.push_back(0);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::uint32_t k = 0; k < 14; ++k) {
      const std::uint32_t first = k * 123 / 14, last = (k + 1) * 123 / 14;
      d.column.push_back(first + static_cast<std::uint32_t>(rng.Below(last - first)));
      d.value.push_back(1.0);
    }
    d.row_begin.push_back(d.value.size());
    d.label.push_back(rng.Below(4) == 0 ? 1.0 : -1.0);
  }
  TACIT_CHECK(Preprocess({}, d).ok());
  return d;
}

Watcher Until(std::uint32_t rounds) {
  return {.before = [](std::uint32_t) -> Status { return Ok{}; },
          .after = [=](const RoundReport& r) -> Status {
            return r.round < rounds ? Status(Ok{}) : Fail(Code::kInterrupted, "enough");
          }};
}

struct Steps {
  Steps(const ModelSpec& spec, std::size_t records)
      : data(Digits(records)), f(*MakeObjective(spec)), x(f->dim(784)), norm(records), weight(records) {
    f->Initialise(1, 784, x);
  }
  Dataset data;
  std::unique_ptr<Objective> f;
  Vec x, norm, weight;
  Workspace work;
  FactoredVec update;
};

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): names that check.py finds in what callgrind prints
extern "C" {

__attribute__((noinline)) void counted_lattice_noise(NoiseRng& rng, std::vector<std::int64_t>& out) {
  LatticeNormals(0x1.8p30, rng, out);
}
__attribute__((noinline)) void counted_float_noise(NoiseRng& rng, Vec& out) { FloatNormals(rng, out); }
__attribute__((noinline)) void counted_discrete_noise(const DiscreteGaussian& law, NoiseRng& rng,
                                                      std::vector<std::int64_t>& out) {
  law.Fill(rng, out);
}

// Two steps of gradient descent on a batch of 20, every record measured.
__attribute__((noinline)) void counted_cnn_steps(Steps& s) {
  const Shard shard(s.data, 0, s.data.rows());
  for (int k = 0; k < 2; ++k) {
    s.f->RecordNorms(shard, s.x, s.work, s.norm);
    for (std::size_t l = 0; l < s.norm.size(); ++l) s.weight[l] = s.norm[l] < kInf ? -0.01 : 0.0;
    s.f->WeightedSum(shard, s.x, s.work, s.weight, s.x);
  }
}

// The update of a client with 60 records, by its factors, and its way into a sum. Its entries were kept, as
// those of a run are.
__attribute__((noinline)) void counted_mlp_client(Steps& s, const Shard& shard, Vec& total) {
  static const std::vector<std::uint32_t> kBlocks = {3, 1, 5, 0, 2, 4};
  TACIT_CHECK(s.f->StepsByFactors(shard, {0.1, 10, kBlocks}, s.x, s.work));
  s.f->FactorsOfUpdate(shard, s.x, s.work, s.update);
  AddTimes(0.5, s.update, total);
}

// Ten rounds on 20 clients of 561 records.
__attribute__((noinline)) void counted_primal_dual_rounds(ThreadRuntime<PrimalDual>& runtime,
                                                          PrimalDual::Server& server,
                                                          std::vector<PrimalDual::Client>& clients) {
  (void)runtime.Run(server, clients, Until(10));
}

// Forty rounds on 50 peers of degree 3 with 50 records.
__attribute__((noinline)) void counted_nfl_rounds(GraphRuntime<Nfl>& runtime, const Graph& graph,
                                                  std::vector<Nfl::Peer>& peers,
                                                  const std::vector<std::uint32_t>& rounds) {
  (void)runtime.Run(graph, peers, rounds, AlwaysHere(), Until(40));
}

__attribute__((noinline)) void counted_accountant() {
  Accountant account(Adjacency::kAddOrRemove);
  TACIT_CHECK(account.Compose(PoissonGaussianEvent{Probability::Proven(0.01), Mu::Proven(1)}, 1000).ok());
  TACIT_CHECK(account.EpsilonAt(Delta::Proven(1e-5)).ok());
}

// Of 200,000 numbers the largest 2,000, without a guess and with one.
__attribute__((noinline)) void counted_top_k(const Vec& x, std::vector<std::uint32_t>& index) {
  SelectSpace space;
  for (int k = 0; k < 2; ++k) SelectLargest(std::span<const double>(x), 2000, space, index);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

namespace {

int Main() {
  NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
  std::vector<std::int64_t> integers(100000);
  Vec doubles(100000);
  counted_lattice_noise(rng, integers);
  counted_float_noise(rng, doubles);
  counted_discrete_noise(DiscreteGaussian(17.0), rng, integers);

  Steps cnn(FedExpCentralCnn(), 20);
  counted_cnn_steps(cnn);
  Steps mlp({.loss = Loss::kMlp, .classes = 10, .hidden = {200}}, 60);
  Vec total(mlp.x.size());
  const std::vector<std::size_t> whole = {0, mlp.data.rows()};
  const auto entries = KeepEntries(mlp.data, whole, {1}, std::size_t{1} << 30);
  TACIT_CHECK(entries != nullptr);
  counted_mlp_client(mlp, Shard(mlp.data, 0, mlp.data.rows(), nullptr, nullptr, &entries->shard[0]), total);

  constexpr std::size_t kMost = 1000;
  std::vector<std::uint32_t> rounds;
  for (std::uint32_t t = 1; t <= kMost; ++t) rounds.push_back(t);
  const auto sigma = std::make_shared<const NoisePlan>(kMost, NoiseStd{20.0});
  const LatticeGaussian mechanism;
  {
    const Partition part = *MakePartition({.clients = 20}, Survey(20 * 561));
    const auto f = MakeObjective(Loss::kLogistic, 2);
    const auto g = *MakeRegularizer({.name = Penalty::kL1Box, .weight = 1e-4, .radius = 10.0});
    const Problem problem{.f = f.get(), .g = g.get(), .l2 = 1e-3, .dim = 123, .clients = 20, .start = {}};
    PrimalDual::Options o;
    o.gamma = 0.25;
    o.l2 = 1e-3;
    o.clip = L2Bound{1.0};
    o.rounds = rounds;
    std::vector<Ledger> ledgers(20, Ledger(MuSquared{1e9}, Adjacency::kReplaceOne));
    std::vector<PrimalDual::Client> clients;
    for (std::uint32_t i = 0; i < 20; ++i)
      clients.emplace_back(Holding{i, 561, part.shard(i), &ledgers[i]}, problem, mechanism, o, sigma);
    PrimalDual::Server server(problem, o);
    ThreadRuntime<PrimalDual> runtime(1, {.replay_seed = 1});
    counted_primal_dual_rounds(runtime, server, clients);
  }
  {
    Dataset data;
    data.features = 8;
    Stream normal = Random(3);
    for (std::size_t k = 0; k < 50 * 50 * 8; ++k) data.value.push_back(normal.Normal());
    for (std::size_t i = 0; i < 50 * 50; ++i) data.label.push_back(normal.Normal());
    TACIT_CHECK(Preprocess({}, data).ok());
    const Partition part = *MakePartition({.clients = 50}, std::move(data));
    const Graph graph = Regular(50, 3, 1);
    const auto f = MakeObjective(Loss::kLeastSquares, 2);
    const auto g = *MakeRegularizer({.name = Penalty::kL1, .weight = 1e-3});
    const Problem problem{.f = f.get(), .g = g.get(), .l2 = 1e-2, .dim = 8, .clients = 50, .start = {}};
    Nfl::Options o;
    o.eta = {.c = 0.1, .falling = true};
    o.rounds = rounds;
    std::vector<Ledger> ledgers(50, Ledger(MuSquared{1e12}, Adjacency::kReplaceOne));
    std::vector<Nfl::Peer> peers;
    for (std::uint32_t k = 0; k < 50; ++k)
      peers.emplace_back(Holding{k, 50, part.shard(k), &ledgers[k]}, graph.degree(k), problem, mechanism, o,
                         sigma);
    GraphRuntime<Nfl> runtime(1, {.replay_seed = 1});
    counted_nfl_rounds(runtime, graph, peers, rounds);
  }

  counted_accountant();
  Vec heavy(200000);
  Stream tails = Random(4);
  for (double& v : heavy) v = tails.Normal() * tails.Normal();
  std::vector<std::uint32_t> index;
  counted_top_k(heavy, index);
  return 0;
}

}  // namespace
}  // namespace tacit

int main() { return tacit::Main(); }
