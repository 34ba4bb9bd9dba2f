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
//
// bench/fcrn_peers.py does the first two in NumPy.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "algorithms/fcrn.h"
#include "data/preprocess.h"
#include "privacy/lattice_sampler.h"

namespace tacit {
namespace {

double Now() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr double kL2 = 1e-4, kCurvature = 1.0, kCubic = 0.0962250448649;

template <class Round>
std::string Timed(double seconds, Round round) {
  round();
  std::vector<double> blocks;
  const double end = Now() + seconds;
  while (blocks.empty() || Now() < end) {
    const double begin = Now();
    for (int i = 0; i < 5; ++i) round();
    blocks.push_back((Now() - begin) / 5);
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
      const DpFcrn::Client client(
          Holding{i, kRecords, Private<Shard>(Shard(data, i * kRecords, kRecords)), &ledgers[i]}, problem,
          noisy ? static_cast<const Mechanism&>(lattice) : expose, o, sigma);
      TACIT_CHECK(client.Round(down, up, scratch).ok());
    }
  });
}

int Main() {
  std::cout << "ready" << std::endl;
  std::string what;
  std::size_t clients, features, coordinates;
  std::uint32_t tau;
  for (double seconds; std::cin >> what >> clients >> features >> coordinates >> tau >> seconds;)
    std::cout << Measure(what, clients, features, coordinates, tau, seconds) << std::endl;
  return 0;
}

}  // namespace
}  // namespace tacit

int main() { return tacit::Main(); }
