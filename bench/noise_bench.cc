// Time per deviate of every sampler and kernel, generator included (AES-256-CTR, keyed by the operating
// system): the column each, of CPU time. On a busy machine the rows _min tell most.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/rng.h"
#include "privacy/discrete_gaussian.h"
#include "privacy/float_gaussian_internal.h"
#include "privacy/lattice_sampler_internal.h"

namespace tacit {
namespace {

constexpr std::size_t kBatch = 4096;  // 32 KiB of output: the size of a first-level cache

double Least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

// Draws one batch per iteration.
template <typename T, typename Draw>
void Measure(const std::string& name, const Draw& draw) {
  const auto body = [draw](benchmark::State& state) {
    NoiseRng rng = NoiseRng::FromEntropy();
    std::vector<T> out(kBatch);
    for (auto _ : state) {
      draw(rng, out);
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
    state.counters["each"] = benchmark::Counter(
        kBatch, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  };
  benchmark::RegisterBenchmark(name.c_str(), body)
      ->Repetitions(9)
      ->MinTime(0.05)
      ->ReportAggregatesOnly(true)
      ->ComputeStatistics("min", Least);
}

void RegisterAll() {
  // Floors: the generator alone, and what a user of the standard library has.
  Measure<std::uint64_t>("words", [](NoiseRng& rng, auto& out) { rng.Fill(out); });
  Measure<double>("std_normal_distribution_mt19937_64", [](NoiseRng&, auto& out) {
    static std::mt19937_64 engine(1);
    static std::normal_distribution<double> normal;
    for (double& v : out) v = normal(engine);
  });
  for (internal::Simd simd : internal::kEverySimd) {
    if (simd > internal::BestSimd()) continue;
    const std::string kernel(internal::Name(simd));
    for (double c : {0x1.8p30, 0x1.8p35, 0x1p40})
      Measure<std::int64_t>("lattice/" + kernel + "/c=2^" + std::to_string(std::ilogb(c)),
                            [=](NoiseRng& rng, auto& out) { internal::LatticeNormalsBy(simd, c, rng, out); });
    Measure<double>("float/" + kernel,
                    [=](NoiseRng& rng, auto& out) { internal::FloatNormalsBy(simd, rng, out); });
  }
  for (double sigma : {0.5, 4.0, 15.0, 17.0, 1000.0, 0x1.8p30, 0x1p40}) {
    const DiscreteGaussian discrete(sigma);
    Measure<std::int64_t>("discrete/sigma=" + std::to_string(sigma),
                          [=](NoiseRng& rng, auto& out) { discrete.Fill(rng, out); });
  }
}

}  // namespace
}  // namespace tacit

int main(int argc, char** argv) {
  tacit::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
