// Top-K of 10⁶ numbers beside one read of them, and whole messages: C(x) to bytes and back. Warm: the
// threshold of the last call is a good guess, as it is from round to round; cold: there is none. The inputs
// change from call to call (a random walk of one part in a hundred), as gradients do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "compress/compressor.h"
#include "core/rng.h"

namespace tacit {
namespace {

constexpr std::size_t kSize = 1000000;
constexpr int kInputs = 8;  // 32 MB of floats: a call finds its input outside the second-level cache

double Least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

template <class T> const std::vector<std::vector<T>>& Inputs() {
  static const auto made = [] {
    Stream s({1, Purpose::kTest, 0, 0});
    std::vector<std::vector<T>> out(kInputs, std::vector<T>(kSize));
    for (std::size_t i = 0; i < kSize; ++i) {
      double v = s.Normal() * std::exp(s.Normal());  // heavier tails than the normal ones
      for (auto& x : out) x[i] = static_cast<T>(v += 0.01 * s.Normal());
    }
    return out;
  }();
  return made;
}

template <class Body> void Measure(const std::string& name, const Body& body) {
  benchmark::RegisterBenchmark(name.c_str(), body)
      ->Repetitions(9)
      ->MinTime(0.1)
      ->Unit(benchmark::kMicrosecond)
      ->ReportAggregatesOnly(true)
      ->ComputeStatistics("min", Least);
}

// The sum of all, in as many lanes as hide the latency of an addition.
template <class T> T Read(const std::vector<T>& x) {
  constexpr std::size_t kLanes = 128 / sizeof(T) * 2;
  T sum[kLanes] = {};
  for (std::size_t i = 0; i + kLanes <= x.size(); i += kLanes)
    for (std::size_t k = 0; k < kLanes; ++k) sum[k] += x[i + k];
  return std::accumulate(sum, sum + kLanes, T(0));
}

template <class T> void RegisterType(const std::string& type) {
  Measure("read/" + type, [](benchmark::State& state) {
    const auto& in = Inputs<T>();
    int t = 0;
    for (auto _ : state) {
      T sum = Read(in[static_cast<std::size_t>(t++ % kInputs)]);
      benchmark::DoNotOptimize(sum);
    }
  });
  for (const double part : {0.001, 0.01, 0.1, 0.4})
    for (const bool warm : {true, false}) {
      const auto k = static_cast<std::size_t>(part * kSize);
      Measure(
          "top/" + type + "/" + std::to_string(k) + (warm ? "/warm" : "/cold"), [=](benchmark::State& state) {
            const auto& in = Inputs<T>();
            SelectSpace space;
            std::vector<std::uint32_t> index;
            int t = 0;
            for (auto _ : state) {
              if (!warm) space.last.clear();
              // There and back, so that no step is longer than one of the walk.
              const int at = t++ % (2 * kInputs - 2);
              SelectLargest(
                  std::span<const T>(in[static_cast<std::size_t>(at < kInputs ? at : 2 * kInputs - 2 - at)]),
                  k, space, index);
              benchmark::DoNotOptimize(index.data());
            }
          });
    }
  Measure("nth_element/" + type + "/10000", [](benchmark::State& state) {
    const auto& in = Inputs<T>();
    std::vector<T> copy(kSize);
    int t = 0;
    for (auto _ : state) {
      const auto& x = in[static_cast<std::size_t>(t++ % kInputs)];
      for (std::size_t i = 0; i < kSize; ++i) copy[i] = std::abs(x[i]);
      std::nth_element(copy.begin(), copy.begin() + 10000, copy.end(), std::greater<>());
      benchmark::DoNotOptimize(copy.data());
    }
  });
}

void RegisterAll() {
  RegisterType<float>("float");
  RegisterType<double>("double");
  for (const char* text :
       {"identity/32", "top:0.01", "top:0.1/16", "rand:0.01", "round:2", "top:0.01+round:2"}) {
    const Compressor c = *ParseCompressor(text);
    Measure(std::string("compress/") + text, [c](benchmark::State& state) {
      CompressSpace space;
      Encoded e;
      int t = 0;
      for (auto _ : state) {
        c.Compress(Inputs<double>()[static_cast<std::size_t>(t % kInputs)], static_cast<std::uint64_t>(t), e,
                   space);
        ++t;
        benchmark::DoNotOptimize(e.data.data());
      }
      state.counters["bytes"] = static_cast<double>(e.bytes());
    });
    Measure(std::string("decode/") + text, [c](benchmark::State& state) {
      CompressSpace space;
      Encoded e;
      c.Compress(Inputs<double>()[0], 1, e, space);
      Vec y(kSize);
      for (auto _ : state) {
        benchmark::DoNotOptimize(AddDecoded(1.0, e, y, space.decode).ok());
        benchmark::ClobberMemory();
      }
    });
  }
}

}  // namespace
}  // namespace tacit

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  tacit::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
