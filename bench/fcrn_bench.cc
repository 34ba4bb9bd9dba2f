// The solver of DP-FCRN for all clients of a round, one record of logistic regression each.
//
//   fcrn_bench     answers one request per line, "WHAT CLIENTS FEATURES COORDINATES TAU SECONDS", with one
//   line of
//                  JSON: microseconds a round, least and median over blocks of rounds, of processor time on
//                  one thread. WHAT is
//                    plane    without noise or box: the two-dimensional recursion, slopes included
//                    steps    the same by steps of O(features), in a box that they may touch
//                    round    certified rounds of the subspace design, lattice noise and all
//                    bare     the same rounds without noise: the solver, the sample and the ledger
//                    sampler  the noise of those rounds alone
//                  "newton FILE FEATURES POSITIVE CLIENTS EACH CUBIC THREADS" instead makes cubic Newton
//                  steps without noise (design once, all records of a client, solved at the server) on a
//                  LIBSVM file, intercept appended, l2 = 0.001, until the gradient of the whole problem is
//                  below 1e-9, and answers with the times of reading and of the rounds, the
//                  rounds, the gradients after each and the bytes a client sent and got
//
// bench/fcrn_peers.py does the first two in NumPy.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "algorithms/fcrn.h"
#include "clock.h"
#include "data/load.h"
#include "data/partition.h"
#include "data/preprocess.h"
#include "privacy/lattice_sampler.h"
#include "runtime/threads.h"

namespace tacit {
namespace {

constexpr double kL2 = 1e-4, kCurvature = 1.0, kCubic = 0.0962250448649;

template <class Round>
std::string Timed(double seconds, Round round) {
  round();
  std::vector<double> blocks;
  const double end = Now(true) + seconds;
  while (blocks.empty() || Now(true) < end) {
    const double begin = Now(true);
    for (int i = 0; i < 5; ++i) round();
    blocks.push_back((Now(true) - begin) / 5);
  }
  std::sort(blocks.begin(), blocks.end());
  return fmt::format(R"({{"min_us": {:.3f}, "median_us": {:.3f}, "blocks": {}}})", blocks.front() * 1e6,
                     blocks[blocks.size() / 2] * 1e6, blocks.size());
}

std::string Measure(const std::string& what, std::size_t clients, std::size_t features,
                    std::size_t coordinates, std::uint32_t tau, double seconds) {
  constexpr std::size_t kRecords = 20;
  Stream rng({.seed = 1, .purpose = Purpose::kData});
  Dataset data;
  data.features = features;
  data.value.resize(clients * kRecords * features);
  data.label.resize(clients * kRecords);
  for (double& v : data.value) v = rng.Normal();
  for (double& v : data.label) v = rng.Normal() > 0 ? 1.0 : -1.0;
  PreprocessOptions scale;
  scale.row_norm = RowNorm::kUnit;
  TACIT_CHECK(Preprocess(scale, data).ok());
  const auto f = MakeObjective(Loss::kLogistic, 2);
  const bool noiseless = what == "plane" || what == "steps";
  if (noiseless) {
    Vec x(features);
    for (double& v : x) v = 0.01 * rng.Normal();
    const GmOptions o{
        .curvature = kCurvature, .cubic = kCubic, .l2 = kL2, .box = what == "plane" ? kInf : 0.04};
    GmState state;
    Workspace ws;
    Vec slope(1), curvature(1);
    return Timed(seconds, [&] {
      for (std::size_t i = 0; i < clients; ++i) {
        const Shard one(data, i * kRecords, 1);
        f->Curvatures(one, x, ws, slope, curvature);
        GmSolveRecord(View(one.row(0).value, features), slope[0], curvature[0], x, o, tau, state);
      }
    });
  }
  const LatticeGaussian lattice;
  const Expose expose;
  if (what == "sampler") {
    NoiseRng noise = NoiseRng::FromEntropy();
    std::vector<std::int64_t> out(coordinates);
    const double c = LatticeScale::For(3.0).c;
    return Timed(seconds, [&] {
      for (std::size_t i = 0; i < clients * (tau - 1); ++i) LatticeNormals(c, noise, out);
    });
  }
  const bool noisy = what == "round";
  const auto g = *MakeRegularizer({.name = Penalty::kBox, .weight = 0, .radius = 0.5});
  const Problem problem{.f = f.get(),
                        .g = g.get(),
                        .l2 = kL2,
                        .dim = features,
                        .clients = static_cast<std::uint32_t>(clients),
                        .start = Vec(features)};
  DpFcrn::Options o;
  o.coordinates = coordinates;
  o.steps = tau;
  o.solver = {.curvature = kCurvature, .cubic = kCubic, .l2 = kL2, .box = 0.5};
  o.l2 = kL2;
  o.sampling = {.sample = {.kind = SampleKind::kFixed, .rate = Probability{0.05}, .size = 1}, .size = 1};
  o.rounds = {1};
  o.round_mu = {noisy ? std::optional(Mu{100.0}) : std::nullopt};
  const auto sigma = std::make_shared<const NoisePlan>(1, NoiseStd{3.0});
  std::vector<Ledger> ledgers(clients, Ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne));
  NoiseRng noise = NoiseRng::FromEntropy();
  Scratch scratch;
  scratch.rng = &noise;
  DpFcrn::Up up;
  const DpFcrn::Down down;
  return Timed(seconds, [&] {
    for (std::uint32_t i = 0; i < clients; ++i) {
      DpFcrn::Client client(
          Holding{i, kRecords, Private<Shard>(Shard(data, i * kRecords, kRecords)), &ledgers[i]}, problem,
          noisy ? static_cast<const Mechanism&>(lattice) : expose, o, sigma);
      TACIT_CHECK(client.Round(down, up, scratch).ok());
    }
  });
}

// ‖∇f‖ of (1/n) Σ f_i + (l2/2)‖x‖².
double GradientNorm(const Partition& part, const Objective& f, View x, double l2) {
  Vec total(x.begin(), x.end());
  Scale(l2, total);
  for (std::size_t i = 0; i < part.clients(); ++i) {
    const Shard s(part.data, part.begin[i], part.size(i));
    Workspace ws;
    Vec norm(s.size()), sum(x.size());
    f.RecordNorms(s, x, ws, norm);
    f.WeightedSum(s, x, ws, Vec(s.size(), 1.0), sum);
    Axpy(1.0 / static_cast<double>(s.size() * part.clients()), sum, total);
  }
  return Norm(total);
}

std::string Newton(const std::string& file, std::size_t features, double positive, std::size_t clients,
                   std::size_t each, double cubic, unsigned threads) {
  constexpr double kGoal = 1e-9, kRidge = 1e-3;
  const bool processor = threads == 1;
  const double begin = Now(processor);
  LoadOptions load;
  load.file = file;
  load.features = features;
  PreprocessOptions pre;
  pre.positive = positive;
  pre.intercept = true;
  Result<Dataset> data = Load(load);
  if (!data.ok() || !Preprocess(pre, *data).ok()) return R"({"missing": "the file"})";
  PartitionOptions deal;
  deal.clients = clients;
  deal.rows_per_client = each;
  const Result<Partition> part = MakePartition(deal, *std::move(data));
  if (!part.ok()) return R"({"missing": "rows"})";
  const double ready = Now(processor);
  const auto f = MakeObjective(Loss::kLogistic, 2);
  const auto g = *MakeRegularizer({});
  const std::size_t d = part->data.features;
  const Problem problem{.f = f.get(),
                        .g = g.get(),
                        .l2 = kRidge,
                        .dim = d,
                        .clients = static_cast<std::uint32_t>(clients),
                        .start = Vec(d)};
  DpFcrn::Options o;
  o.design = DpFcrn::Design::kOnce;
  o.clip = L2Bound{1e6};
  o.clip_hessian = 1e6;
  o.solver = {.curvature = kRidge, .cubic = cubic, .l2 = kRidge};
  o.l2 = kRidge;
  constexpr std::uint32_t kMost = 60;
  for (std::uint32_t t = 1; t <= kMost; ++t) o.rounds.push_back(t);
  o.round_mu.assign(kMost, std::nullopt);
  const Expose expose;
  const auto sigma = std::make_shared<const NoisePlan>(kMost, NoiseStd{1.0});
  std::vector<Ledger> ledgers(clients, Ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne));
  std::vector<DpFcrn::Client> all;
  for (std::uint32_t i = 0; i < clients; ++i)
    all.emplace_back(Holding{i, part->size(i), part->shard(i), &ledgers[i]}, problem, expose, o, sigma);
  DpFcrn::Server server(problem, o);
  ThreadRuntime<DpFcrn> runtime(threads, {.replay_seed = 1});
  double spent = 0, since = Now(processor);
  std::string norms;
  std::size_t rounds = 0, bytes = 0;
  const Watcher watcher{.before = [](std::uint32_t) -> Status { return Ok{}; },
                        .after = [&](const RoundReport& r) -> Status {
                          spent += Now(processor) - since;
                          const double norm = GradientNorm(*part, *f, server.model(), kRidge);  // not timed
                          norms += fmt::format("{}{:.3g}", rounds++ == 0 ? "" : ", ", norm);
                          bytes += (r.bytes_up + r.bytes_down) / clients;
                          since = Now(processor);
                          return norm > kGoal ? Status(Ok{}) : Fail(Code::kInterrupted, "it is there");
                        }};
  const Status done = runtime.Run(server, all, watcher);
  if (!done.ok() && done.error().code != Code::kInterrupted) return done.error().message;
  return fmt::format(R"({{"read_ms": {:.2f}, "min_us": {:.1f}, "rounds": {}, "bytes": {}, "norms": [{}]}})",
                     (ready - begin) * 1e3, spent * 1e6, rounds, bytes, norms);
}

int Main() {
  std::cout << "ready" << std::endl;
  std::string what, file;
  std::size_t clients, features, coordinates;
  std::uint32_t tau;
  double seconds;
  while (std::cin >> what) {
    if (what == "newton") {
      std::size_t each;
      double positive, cubic;
      unsigned threads;
      std::cin >> file >> features >> positive >> clients >> each >> cubic >> threads;
      std::cout << Newton(file, features, positive, clients, each, cubic, threads) << std::endl;
    } else {
      std::cin >> clients >> features >> coordinates >> tau >> seconds;
      std::cout << Measure(what, clients, features, coordinates, tau, seconds) << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace tacit

int main() { return tacit::Main(); }
