// What an account costs: ε of T sampled Gaussian rounds, both directions, from nothing, and how wide it is.
#include <benchmark/benchmark.h>

#include "privacy/accountant.h"

namespace tacit {
namespace {

void Measure(benchmark::State& state, Adjacency adjacency, const PrivacyEvent& event, std::uint64_t rounds,
             double at) {
  const Delta delta = Delta::Proven(at);
  double width = 0;
  for (auto _ : state) {
    Accountant account(adjacency);
    if (!account.Compose(event, rounds).ok()) state.SkipWithError("refused");
    const Result<Bracket> e = account.EpsilonAt(delta);
    if (!e.ok()) return state.SkipWithError("no answer");
    width = e->upper > 0 ? (e->upper - e->lower) / e->upper : 0;
  }
  state.counters["width"] = width;  // relative
}

PoissonGaussianEvent Poisson(double rate, double mu) { return {Probability::Proven(rate), Mu::Proven(mu)}; }

// A typical certificate.
void Certify(benchmark::State& state) {
  Measure(state, Adjacency::kAddOrRemove, Poisson(0.01, 1), static_cast<std::uint64_t>(state.range(0)), 1e-5);
}
BENCHMARK(Certify)->Arg(100)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

// Few rounds: the contour is long.
void FewRounds(benchmark::State& state) {
  Measure(state, Adjacency::kAddOrRemove, Poisson(0.01, 1), static_cast<std::uint64_t>(state.range(0)), 1e-5);
}
BENCHMARK(FewRounds)->Arg(1)->Arg(2)->Arg(5)->Arg(10)->Unit(benchmark::kMillisecond);

// Little noise at a small rate: large losses are rare.
void RareLosses(benchmark::State& state) {
  Measure(state, Adjacency::kAddOrRemove, Poisson(1e-3, 3), static_cast<std::uint64_t>(state.range(0)), 1e-6);
}
BENCHMARK(RareLosses)->Arg(10)->Arg(1000)->Unit(benchmark::kMillisecond);

void FixedSize(benchmark::State& state) {
  Measure(state, Adjacency::kReplaceOne,
          FixedSizeGaussianEvent{.rate = Probability::Proven(0.01), .mu = Mu::Proven(1)},
          static_cast<std::uint64_t>(state.range(0)), 1e-5);
}
BENCHMARK(FixedSize)->Arg(10)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tacit

BENCHMARK_MAIN();
