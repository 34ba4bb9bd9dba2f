#include "data/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tacit {
namespace {

TEST(Synthetic, ARowDependsOnTheSeedAndItsNumberAlone) {
  for (const double density : {1.0, 0.2}) {
    SyntheticOptions o{.rows = 60, .features = 8, .density = density, .clients = 7, .heterogeneity = 0.5};
    const Dataset all = *MakeSynthetic(o);
    o.rows = 10;
    const Dataset part = *MakeSynthetic(o, 25);
    ASSERT_EQ(part.rows(), 10u);
    for (std::size_t i = 0; i < 10; ++i) {
      const Row a = all.row(25 + i), b = part.row(i);
      ASSERT_EQ(a.size, b.size);
      EXPECT_TRUE(std::equal(a.value, a.value + a.size, b.value));
      EXPECT_EQ(all.label[25 + i], part.label[i]);
      EXPECT_EQ(part.group[i], (25 + i) % 7);
    }
  }
}

TEST(Synthetic, SeedsDiffer) {
  EXPECT_NE(MakeSynthetic({.rows = 5, .seed = 1})->value, MakeSynthetic({.rows = 5, .seed = 2})->value);
}

// 20,000 × 50 entries: the mean of the squares is 1/d per entry within 6 standard errors
// (relative √(2/10⁶)·6 = 0.9 %), false alarm below 1e-8.
TEST(Synthetic, RowsHaveUnitMeanSquareAndTheAskedDensity) {
  const Dataset dense = *MakeSynthetic({.rows = 20000, .features = 50});
  EXPECT_NEAR(NormSquared(dense.value) / 20000, 1, 0.009);
  const Dataset sparse = *MakeSynthetic({.rows = 20000, .features = 50, .density = 0.1});
  EXPECT_TRUE(sparse.sparse());
  EXPECT_NEAR(static_cast<double>(sparse.value.size()) / 1e6, 0.1, 6 * std::sqrt(0.09 / 1e6));
  EXPECT_NEAR(NormSquared(sparse.value) / 20000, 1, 0.03);
}

// At flip probability 1/2 the labels are fair coins: 10,000 of them within 6 standard deviations.
TEST(Synthetic, LabelNoise) {
  const Dataset coin = *MakeSynthetic({.rows = 10000, .features = 5, .label_noise = 0.5});
  double sum = 0;
  for (const double y : coin.label) sum += y;
  EXPECT_LT(std::abs(sum), 6 * std::sqrt(10000.0));
  const Dataset clean = *MakeSynthetic({.rows = 10000, .features = 5}),
                noisy = *MakeSynthetic({.rows = 10000, .features = 5, .label_noise = 0.1});
  EXPECT_EQ(clean.value, noisy.value);
  int flipped = 0;
  for (std::size_t i = 0; i < 10000; ++i) flipped += clean.label[i] != noisy.label[i];
  EXPECT_NEAR(flipped, 1000, 6 * std::sqrt(900.0));
}

// Without noise a linear set of n > d rows is reproduced by its model: rows of the same direction
// give labels on one line, here d = 1.
TEST(Synthetic, LinearLabelsAreLinear) {
  const Dataset d = *MakeSynthetic({.kind = SyntheticKind::kLinear, .rows = 100, .features = 1});
  const double w = d.label[0] / d.value[0];
  for (std::size_t i = 0; i < 100; ++i) EXPECT_NEAR(d.label[i], w * d.value[i], 1e-12);
}

TEST(Synthetic, NamesOfKinds) {
  for (const SyntheticKind kind :
       {SyntheticKind::kLogistic, SyntheticKind::kLinear, SyntheticKind::kFedexp}) {
    EXPECT_EQ(SyntheticKindOf(Name(kind)), kind);
    EXPECT_EQ(MakeSynthetic({.kind = kind, .rows = 2})->name, Name(kind));
  }
  EXPECT_EQ(SyntheticKindOf("synthetic"), std::nullopt);
}

// Labels of two clients' rows solve for the same model: w from the first d rows predicts all others.
TEST(Synthetic, FedexpClientsShareTheMinimiser) {
  const std::size_t d = 2;
  const Dataset s = *MakeSynthetic({.kind = SyntheticKind::kFedexp,
                                    .rows = 200,
                                    .features = d,
                                    .density = 0.1,
                                    .label_noise = 0.3,
                                    .clients = 7});
  EXPECT_FALSE(s.sparse());
  const double *a = &s.value[0], *b = &s.value[2], det = a[0] * b[1] - a[1] * b[0];
  const double w0 = (s.label[0] * b[1] - s.label[1] * a[1]) / det;
  const double w1 = (a[0] * s.label[1] - b[0] * s.label[0]) / det;
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_NEAR(s.label[i], w0 * s.value[2 * i] + w1 * s.value[2 * i + 1], 1e-10);
    EXPECT_EQ(s.group[i], i % 7);
  }
  const Dataset later =
      *MakeSynthetic({.kind = SyntheticKind::kFedexp, .rows = 10, .features = d, .clients = 7}, 50);
  EXPECT_TRUE(std::equal(later.value.begin(), later.value.end(), s.value.begin() + 100));
}

// One row each of 4000 clients, d = 25: row means have the variance 0.1 + 2/25, entries the variance 2.1, and
// entries of two rows of one client share 1.1 of it. Within 6 standard errors, false alarm below 1e-8.
TEST(Synthetic, FedexpRowsHaveTheStatedVariances) {
  const std::size_t d = 25, clients = 4000;
  const Dataset s = *MakeSynthetic(
      {.kind = SyntheticKind::kFedexp, .rows = 2 * clients, .features = d, .clients = clients});
  const auto n = static_cast<double>(clients);
  double means = 0, entries = 0, products = 0;
  for (std::size_t c = 0; c < clients; ++c) {
    const double *x = &s.value[c * d], *y = &s.value[(clients + c) * d];
    double mean = 0;
    for (std::size_t j = 0; j < d; ++j) {
      mean += x[j] / static_cast<double>(d);
      entries += x[j] * x[j] / (n * static_cast<double>(d));
      products += x[j] * y[j] / (n * static_cast<double>(d));
    }
    means += mean * mean / n;
  }
  EXPECT_NEAR(means, 0.18, 6 * 0.18 * std::sqrt(2 / n));
  // Var of a client's mean square: (2·2.1² + 24·2·0.1²)/25 = 0.37; of the mean product (2.1² + 1.1² +
  // 24·0.02)/25 = 0.25.
  EXPECT_NEAR(entries, 2.1, 6 * std::sqrt(0.372 / n));
  EXPECT_NEAR(products, 1.1, 6 * std::sqrt(0.245 / n));
}

TEST(Synthetic, RefusesBadOptions) {
  for (const SyntheticOptions& o : {SyntheticOptions{.rows = 0},
                                    {.features = 0},
                                    {.density = 0},
                                    {.density = std::nan("")},
                                    {.label_noise = 0.6},
                                    {.kind = SyntheticKind::kLinear, .label_noise = -1},
                                    {.clients = 0},
                                    {.heterogeneity = -1}})
    EXPECT_EQ(MakeSynthetic(o).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace tacit
