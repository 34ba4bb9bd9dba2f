// What a certificate costs: ε of T sampled Gaussian rounds at δ = 1e-5, both directions, from nothing.
#include <benchmark/benchmark.h>

#include "privacy/accountant.h"

namespace tacit {
namespace {

void Certify(benchmark::State& state) {
  const Delta delta = Delta::Proven(1e-5);
  const PoissonGaussianEvent event{.rate = Probability::Proven(0.01), .mu = Mu::Proven(1.0)};
  double width = 0;
  for (auto _ : state) {
    Accountant account(Adjacency::kAddOrRemove);
    if (!account.Compose(event, static_cast<std::uint64_t>(state.range(0))).ok())
      state.SkipWithError("refused");
    const Result<Bracket> e = account.EpsilonAt(delta);
    if (!e.ok()) state.SkipWithError("no answer");
    width = e->upper - e->lower;
  }
  state.counters["width"] = width;
}
BENCHMARK(Certify)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tacit

BENCHMARK_MAIN();
