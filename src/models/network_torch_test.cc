// Networks against PyTorch, where a Python with torch is at hand (TACIT_PYTHON, or python3).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "models/test_data.h"

namespace tacit {
namespace {

std::string Python() {
  const char* named = std::getenv("TACIT_PYTHON");
  return named != nullptr ? named : "python3";
}

std::string Problem(const ModelSpec& spec, const Dataset& data, const Vec& x) {
  std::string convolutions;
  for (const Convolution& c : spec.convolutions)
    convolutions += fmt::format(R"({}{{"filters": {}, "kernel": {}, "relu": {}, "pool": "{}"}})",
                                convolutions.empty() ? "" : ", ", c.filters, c.kernel, c.relu,
                                c.pool == Pooling::kMax    ? "max"
                                : c.pool == Pooling::kMean ? "mean"
                                                           : "none");
  std::string rows;
  for (std::size_t i = 0; i < data.rows(); ++i)
    rows += fmt::format("{}[{}]", i == 0 ? "" : ", ",
                        fmt::join(View(data.value).subspan(i * data.features, data.features), ", "));
  std::vector<int> labels(data.label.begin(), data.label.end());
  return fmt::format(
      R"({{"image": [{}, {}, {}], "convolutions": [{}], "hidden": [{}], "classes": {}, "activation": "{}",
"x": [{}], "rows": [{}], "labels": [{}]}})",
      spec.channels, spec.height, spec.width, convolutions, fmt::join(spec.hidden, ", "), spec.classes,
      spec.activation == Activation::kSigmoid ? "sigmoid" : "relu", fmt::join(x, ", "), rows,
      fmt::join(labels, ", "));
}

TEST(Torch, AgreesOnLossGradientAndNorms) {
  if (std::system((Python() + " -c 'import torch' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no PyTorch: name a Python that can import torch in TACIT_PYTHON";
  const struct {
    const char* why;
    ModelSpec spec;
    std::size_t features;
  } cases[] = {
      {"mlp 784-200-10",
       {.loss = Loss::kMlp, .classes = 10, .hidden = {200}, .activation = Activation::kSigmoid},
       784},
      {"deep mlp", {.loss = Loss::kMlp, .classes = 3, .hidden = {17, 9}}, 21},
      {"5,046 parameters", FedExpCentralCnn(), 784},
      {"237 parameters", FedExpLocalCnn(), 784},
      {"three channels, mean pooling, ReLU",
       {.loss = Loss::kCnn,
        .classes = 5,
        .hidden = {11},
        .channels = 3,
        .height = 11,
        .width = 13,
        .convolutions = {{6, 3, true, Pooling::kMean}, {7, 2, true, Pooling::kNone}}},
       429},
  };
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("tacit_torch_{}", ::getpid());
  std::filesystem::create_directories(folder);
  constexpr std::size_t kRows = 11;
  const auto data_of = [&](const auto& c) {
    return test::RandomData(c.spec.loss, c.spec.classes, kRows, c.features, 0.6, 7);
  };
  const auto point_of = [&](const auto& c) {
    const auto f = *MakeObjective(c.spec);
    Vec x(f->dim(c.features));
    f->Initialise(3, c.features, x);
    return x;
  };
  std::string command = Python() + " " + TACIT_TORCH_REFERENCE;   // once: importing torch takes seconds
  const auto file = [&](std::size_t k) { return (folder / std::to_string(k)).string(); };
  for (std::size_t k = 0; k < std::size(cases); ++k) {
    std::ofstream(file(k)) << Problem(cases[k].spec, data_of(cases[k]), point_of(cases[k]));
    command += " " + file(k);
  }
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (std::size_t k = 0; k < std::size(cases); ++k) {
    SCOPED_TRACE(cases[k].why);
    const Dataset data = data_of(cases[k]);
    const Vec x = point_of(cases[k]);
    const auto f = *MakeObjective(cases[k].spec);
    std::ifstream in(file(k) + ".out");
    Vec theirs;
    for (double v = 0; in >> v;) theirs.push_back(v);
    ASSERT_EQ(theirs.size(), 1 + x.size() + kRows);
    const Shard shard(data, 0, kRows);
    Workspace ws;
    Vec norm(kRows), g(x.size());
    EXPECT_NEAR(f->Value(shard, x, ws), theirs[0], 1e-12);
    f->RecordNorms(shard, x, ws, norm);
    f->WeightedSum(shard, x, ws, Vec(kRows, 1.0), g);
    for (std::size_t j = 0; j < x.size(); ++j) ASSERT_NEAR(g[j], theirs[1 + j], 1e-11) << j;
    for (std::size_t l = 0; l < kRows; ++l) EXPECT_NEAR(norm[l], theirs[1 + x.size() + l], 1e-11);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tacit
