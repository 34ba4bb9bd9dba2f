// One round of the primal-dual method (all clients, server, prox) with logistic loss, every record clipped
// and lattice noise from the cryptographic generator, beside a floor kernel: the same sums over the same
// arrays written bare, without clipping, noise, ledger, messages or certified rounding.
//
//   primal_dual_bench DATA OUT          writes the rows for the peers to OUT, then answers one request per
//                                       line: "tacit 1 SECONDS", "floor 1 SECONDS" (by processor time) or
//                                       "wall THREADS SECONDS", with one line of JSON: microseconds a round,
//                                       least and median over blocks of rounds
//
// DATA is a LIBSVM file with 123 features, of which the first 11,220 rows are dealt to 20 clients; "-" makes
// rows of that shape. bench/primal_dual_peers.py does the same work in NumPy and SciPy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "algorithms/primal_dual.h"
#include "clock.h"
#include "data/load.h"
#include "data/partition.h"
#include "data/preprocess.h"
#include "models/exp.h"
#include "runtime/threads.h"

namespace tacit {
namespace {

constexpr std::size_t kClients = 20, kRecords = 561, kFeatures = 123, kRows = kClients * kRecords;
constexpr double kGamma = 0.25, kClip = 1.0, kL2 = 1e-3, kL1 = 1e-4, kRadius = 10.0, kSigma = 20.0;
constexpr int kBlock = 10;      // rounds between two looks at the clock

// As the survey that a9a comes from: 14 of 123 columns are 1, one each of 14 groups.
Dataset Generated() {
  Stream rng({.seed = 1, .purpose = Purpose::kData});
  Dataset d;
  d.features = kFeatures;
  d.row_begin.push_back(0);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::uint32_t k = 0; k < 14; ++k) {
      const std::uint32_t first = k * 123 / 14, last = (k + 1) * 123 / 14;
      d.column.push_back(first + static_cast<std::uint32_t>(rng.Below(last - first)));
      d.value.push_back(1.0);
    }
    d.row_begin.push_back(d.value.size());
    d.label.push_back(rng.Below(4) == 0 ? 1.0 : -1.0);
  }
  return d;
}

// The sums of times of blocks become microseconds a round.
struct Times {
  std::vector<double> blocks;
  std::string Json(const std::string& name) {
    std::sort(blocks.begin(), blocks.end());
    const auto us = [&](std::size_t i) { return blocks[i] * 1e6 / kBlock; };
    return fmt::format(R"({{"name": "{}", "min_us": {:.3f}, "median_us": {:.3f}, "blocks": {}}})", name,
                       us(0), us(blocks.size() / 2), blocks.size());
  }
};

std::string Tacit(const Partition& part, unsigned threads, bool processor, double seconds) {
  const auto f = MakeObjective(Loss::kLogistic, 2);
  const auto g = *MakeRegularizer({.name = Penalty::kL1Box, .weight = kL1, .radius = kRadius});
  const LatticeGaussian mechanism;
  const Problem problem{
      .f = f.get(), .g = g.get(), .l2 = kL2, .dim = kFeatures, .clients = kClients, .start = {}};
  PrimalDual::Options o;
  o.gamma = kGamma;
  o.l2 = kL2;
  o.clip = L2Bound{kClip};
  constexpr std::size_t kMost = 200000;
  for (std::uint32_t t = 1; t <= kMost; ++t) o.rounds.push_back(t);
  const auto sigma = std::make_shared<const NoisePlan>(kMost, NoiseStd{kSigma});
  std::vector<Ledger> ledgers(kClients, Ledger(MuSquared{1e9}, Adjacency::kReplaceOne));
  std::vector<PrimalDual::Client> clients;
  for (std::uint32_t i = 0; i < kClients; ++i)
    clients.emplace_back(Holding{i, kRecords, part.shard(i), &ledgers[i]}, problem, mechanism, o, sigma);
  PrimalDual::Server server(problem, o);
  ThreadRuntime<PrimalDual> runtime(threads, {});
  Times times;
  const double end = Now(false) + seconds;
  double last = 0;
  const Watcher watcher{.before = [](std::uint32_t) -> Status { return Ok{}; },
                        .after = [&](const RoundReport& r) -> Status {
                          if (r.round % kBlock != 0) return Ok{};
                          const double now = Now(processor);
                          if (r.round > kBlock) times.blocks.push_back(now - last);  // the first warms up
                          last = now;
                          return Now(false) < end ? Status(Ok{}) : Fail(Code::kInterrupted, "time is up");
                        }};
  const Status done = runtime.Run(server, clients, watcher);
  if (!done.ok() && done.error().code != Code::kInterrupted) return done.error().message;
  return times.Json("tacit");
}

// The floor: margins, slopes, sums by columns and the step of the method, in plain loops over the same
// arrays.
__attribute__((noinline)) void Slopes(const double* __restrict label, std::size_t n, double* __restrict z) {
  for (std::size_t l = 0; l < n; ++l) {
    const double t = label[l] * z[l], e = ExpNonPositive(-std::abs(t));
    z[l] = -label[l] * ((t >= 0 ? e : 1.0) / (1.0 + e));
  }
}

std::string Floor(const Partition& part, double seconds) {
  const Dataset& d = part.data;
  Vec x(kClients * kFeatures), lambda(x.size()), x_tilde(x.size()), mean(kFeatures), g(kFeatures),
      z(kRecords + 4), table;
  Times times;
  const double end = Now(false) + seconds;
  for (bool first = true; Now(false) < end; first = false) {
    const double begin = Now(true);
    for (int round = 0; round < kBlock; ++round) {
      Fill(mean, 0.0);
      for (std::size_t i = 0; i < kClients; ++i) {
        const Columns& columns = part.columns[i];
        const double* xi = x.data() + i * kFeatures;
        table.assign(xi, xi + kFeatures);
        table.push_back(0);
        for (std::size_t p = 0; p < columns.first.size(); ++p)
          table.push_back(xi[columns.first[p]] + xi[columns.second[p]]);
        for (std::size_t q = 0; 4 * q < kRecords; ++q) {
          double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
          for (std::size_t k = columns.token_begin[q]; k < columns.token_begin[q + 1]; k += 4) {
            s0 += table[columns.token[k]];
            s1 += table[columns.token[k + 1]];
            s2 += table[columns.token[k + 2]];
            s3 += table[columns.token[k + 3]];
          }
          z[4 * q] = s0;
          z[4 * q + 1] = s1;
          z[4 * q + 2] = s2;
          z[4 * q + 3] = s3;
        }
        Slopes(d.label.data() + part.begin[i], kRecords, z.data());
        z[kRecords] = 0;
        const auto sum = [&](std::size_t list) {
          double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
          for (std::size_t k = columns.list_begin[list]; k < columns.list_begin[list + 1]; k += 4) {
            s0 += z[columns.row[k]];
            s1 += z[columns.row[k + 1]];
            s2 += z[columns.row[k + 2]];
            s3 += z[columns.row[k + 3]];
          }
          return (s0 + s2) + (s1 + s3);
        };
        for (std::size_t j = 0; j < kFeatures; ++j) g[j] = sum(j);
        for (std::size_t p = 0; kFeatures + p + 1 < columns.list_begin.size(); ++p) {
          const double both = sum(kFeatures + p);
          g[columns.first[p]] += both;
          g[columns.second[p]] += both;
        }
        for (std::size_t j = 0; j < kFeatures; ++j) {
          const std::size_t at = i * kFeatures + j;
          x_tilde[at] = x[at] - kGamma * (g[j] * (1.0 / kRecords) + kL2 * x[at] + lambda[at]);
          mean[j] += x_tilde[at];
        }
      }
      Scale(1.0 / kClients, mean);
      for (std::size_t i = 0; i < kClients; ++i)
        for (std::size_t j = 0; j < kFeatures; ++j) {
          const std::size_t at = i * kFeatures + j;
          const double gap = x_tilde[at] - mean[j], zj = x_tilde[at] - kGamma * gap;
          const double soft = std::abs(zj) - kGamma * kL1;
          lambda[at] += gap;
          x[at] = soft > 0 ? std::copysign(soft < kRadius ? soft : kRadius, zj) : 0.0;
        }
    }
    if (!first) times.blocks.push_back(Now(true) - begin);
  }
  return times.Json("floor");
}

template <class V>
void Write(const std::string& file, const V& v) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(v.data()), static_cast<std::streamsize>(v.size() * sizeof(v[0])));
}

int Main(const std::string& source, const std::string& folder) {
  Dataset data;
  if (source == "-") {
    data = Generated();
  } else {
    auto loaded = Load({.file = source, .format = Format::kLibsvm, .features = kFeatures, .rows = kRows});
    if (!loaded.ok()) return fmt::print(stderr, "{}\n", loaded.error().message), 1;
    data = std::move(*loaded);
  }
  TACIT_CHECK(Preprocess({}, data).ok());
  const Partition part = *MakePartition({.clients = kClients}, std::move(data));
  for (const Columns& c : part.columns) TACIT_CHECK(!c.first.empty());  // the floor's case
  for (const double v : part.data.row_value) TACIT_CHECK(v == 1.0);
  Write(folder + "/value.f64", part.data.value);
  Write(folder + "/column.u32", part.data.column);
  Write(folder + "/row_begin.u64", part.data.row_begin);
  Write(folder + "/label.f64", part.data.label);
  std::cout << "ready" << std::endl;
  std::string what;
  unsigned threads = 1;
  for (double seconds; std::cin >> what >> threads >> seconds;)
    std::cout << (what == "floor" ? Floor(part, seconds) : Tacit(part, threads, what == "tacit", seconds))
              << std::endl;
  return 0;
}

}  // namespace
}  // namespace tacit

int main(int argc, char** argv) {
  if (argc != 3) return fmt::print(stderr, "usage: primal_dual_bench DATA|- OUT\n"), 2;
  return tacit::Main(argv[1], argv[2]);
}
