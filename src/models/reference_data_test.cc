#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "data/load.h"
#include "data/preprocess.h"
#include "models/reference.h"
#include "models/test_problem.h"

namespace tacit {
namespace {

using test::Make;
using test::ProximalGradient;
using test::SmoothGradient;

// LIBSVM a6a, 20 clients of 561 rows, elastic net on a box: the setting of the primal-dual experiments.
TEST(ReferenceData, A6aToTwelveDigits) {
  const char* root = std::getenv("TACIT_DATA");
  const std::filesystem::path file = std::filesystem::path(root ? root : "") / "a6a" / "a6a.bz2";
  if (root == nullptr || !std::filesystem::exists(file))
    GTEST_SKIP() << "TACIT_SKIPPED: set TACIT_DATA to a folder that has a6a/a6a.bz2";
  auto data = Load({.file = file});
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_TRUE(Preprocess({}, *data).ok());
  ASSERT_EQ(data->rows(), 11220u);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const auto g = Make({.name = Penalty::kL1Box, .weight = 0.01, .radius = 10});
  std::vector<Shard> clients;
  for (std::size_t i = 0; i < 20; ++i) clients.emplace_back(*data, i * 561, 561);
  const auto s = SolveReference(*f, clients, 0.1, *g);
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_LE(g->Residual(s->x, SmoothGradient(*f, clients, 0.1, s->x)), 2e-12);
  const Vec x = ProximalGradient(*f, clients, 0.1, *g, 0.4, 1500);
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(s->x[j], x[j], 1e-10);
  // The majority class alone gets 0.7602 of the rows right.
  EXPECT_GT(*f->Accuracy(Shard(*data, 0, 11220), s->x), 0.78);
}

}  // namespace
}  // namespace tacit
