// One step of stochastic gradient descent on a network, every record's gradient clipped, on one core:
// norms, weights, sum and update. bench/network_torch.py times PyTorch's step without clipping.
// On a busy machine the rows _min tell most.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/objective.h"
#include "models/test_data.h"

namespace tacit {
namespace {

double Least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

void Measure(const std::string& name, const ModelSpec& spec, double density, bool sparse) {
  for (const std::size_t batch : {1u, 10u, 32u, 60u}) {
    const auto body = [=](benchmark::State& state) {
      const Dataset dense = test::RandomData(spec.loss, spec.classes, batch, 784, density, 1);
      const Dataset data = sparse ? test::Sparse(dense) : dense;
      const auto f = *MakeObjective(spec);
      Vec x(f->dim(784)), g(x.size()), norm(batch), weight(batch);
      f->Initialise(1, 784, x);
      Workspace ws;
      const Shard shard(data, 0, batch);
      for (auto _ : state) {
        Fill(g, 0.0);
        f->RecordNorms(shard, x, ws, norm);
        for (std::size_t l = 0; l < batch; ++l) weight[l] = norm[l] <= 1.0 ? 1.0 : 1.0 / norm[l];
        f->WeightedSum(shard, x, ws, weight, g);
        Axpy(-1e-4 / static_cast<double>(batch), g, x);
        benchmark::DoNotOptimize(x.data());
      }
    };
    benchmark::RegisterBenchmark((name + "/" + std::to_string(batch)).c_str(), body)
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.02)
        ->Repetitions(20)
        ->ComputeStatistics("min", Least)
        ->ReportAggregatesOnly(true);
  }
}

}  // namespace
}  // namespace tacit

int main(int argc, char** argv) {
  using namespace tacit;
  const ModelSpec mlp{.loss = Loss::kMlp, .classes = 10, .hidden = {200}, .activation = Activation::kSigmoid};
  Measure("mlp_784_200_10", mlp, 1.0, false);
  Measure("mlp_784_200_10_fifth_nonzero", mlp, 0.19, false);   // as handwritten digits are
  Measure("mlp_784_200_10_fifth_nonzero_sparse", mlp, 0.19, true);
  Measure("cnn_5046", FedExpCentralCnn(), 1.0, false);
  Measure("cnn_237", FedExpLocalCnn(), 1.0, false);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
