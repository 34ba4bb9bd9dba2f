#include "data/made_rows.h"

#include <gtest/gtest.h>

#include <thread>

#include "data/partition.h"

namespace tacit {
namespace {

struct Case {
  const char* name;
  SyntheticOptions made;
  PreprocessOptions pre;
};
const std::vector<Case>& Cases() {
  static const std::vector<Case> all = {
      {"dense, unit rows", {.rows = 300, .features = 30, .clients = 7}, {.row_norm = RowNorm::kUnit}},
      {"sparse, clients differ, intercept, clipped",
       {.rows = 300, .features = 30, .density = 0.2, .label_noise = 0.1, .clients = 7, .heterogeneity = 0.5},
       {.scale = 2, .intercept = true, .row_norm = RowNorm::kClip, .row_bound = 1.5}},
      {"linear",
       {.kind = SyntheticKind::kLinear, .rows = 300, .features = 30, .label_noise = 0.3, .clients = 3},
       {.labels = LabelKind::kReal, .label_bound = 1.0}},
      {"fedexp",
       {.kind = SyntheticKind::kFedexp, .rows = 300, .features = 30, .clients = 7},
       {.labels = LabelKind::kReal}},
  };
  return all;
}

void ExpectSameRow(const Row& a, const Row& b, std::size_t features) {
  Vec x(features), y(features);
  for (std::size_t j = 0; j < a.size; ++j) x[a.index == nullptr ? j : a.index[j]] = a.value[j];
  for (std::size_t j = 0; j < b.size; ++j) y[b.index == nullptr ? j : b.index[j]] = b.value[j];
  EXPECT_EQ(x, y);
}

TEST(MadeRows, AreTheRowsThatAreMadeAtOnce) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    for (const std::size_t first : {std::size_t{0}, std::size_t{1000}}) {
      Dataset at_once = *MakeSynthetic(c.made, first);
      ASSERT_TRUE(Preprocess(c.pre, at_once).ok());
      const Dataset made = *MakeOnDemand(c.made, first, c.pre);
      EXPECT_TRUE(made.value.empty());
      EXPECT_EQ(made.label, at_once.label);
      EXPECT_EQ(made.norm, at_once.norm);
      EXPECT_EQ(made.group, at_once.group);
      EXPECT_EQ(made.group_name, at_once.group_name);
      EXPECT_EQ(made.features, at_once.features);
      EXPECT_EQ(made.row_bound, at_once.row_bound);
      for (std::size_t k = 0; k < 300; ++k) {  // in some order, and twice
        const std::size_t i = k * 77 % 300;
        ExpectSameRow(made.row(i), at_once.row(i), made.features);
        ExpectSameRow(made.row(i), at_once.row(i), made.features);
      }
    }
  }
}

TEST(MadeRows, StayWhileOthersAreRead) {
  const Case& c = Cases().front();
  const Dataset made = *MakeOnDemand(c.made, 0, c.pre);
  const Row held = made.row(5);
  const Vec before(held.value, held.value + held.size);
  for (std::size_t i = 100; i < 100 + RowMaker::kKept - 1; ++i) made.row(i);
  EXPECT_EQ(Vec(held.value, held.value + held.size), before);
  // Also where it was there already, as the oldest.
  const Row again = made.row(5);
  EXPECT_EQ(again.value, held.value);
  for (std::size_t i = 200; i < 200 + RowMaker::kKept - 1; ++i) made.row(i);
  EXPECT_EQ(Vec(again.value, again.value + again.size), before);
}

TEST(MadeRows, GoToTheirClientsByNumber) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    for (const Split split : {Split::kBlocks, Split::kIid, Split::kColumn}) {
      Dataset at_once = *MakeSynthetic(c.made);
      ASSERT_TRUE(Preprocess(c.pre, at_once).ok());
      const PartitionOptions deal{
          .split = split, .clients = 6, .rows_per_client = split == Split::kIid ? 40u : 0u};
      const Partition expected = *MakePartition(deal, std::move(at_once)),
                      made = *MakePartition(deal, *MakeOnDemand(c.made, 0, c.pre));
      EXPECT_EQ(made.begin, expected.begin);
      EXPECT_EQ(made.data.label, expected.data.label);
      EXPECT_EQ(made.data.norm, expected.data.norm);
      ASSERT_EQ(made.data.rows(), expected.data.rows());
      for (std::size_t i = 0; i < made.data.rows(); ++i)
        ExpectSameRow(made.data.row(i), expected.data.row(i), made.data.features);
    }
  }
}

TEST(MadeRows, ThreadsAndSetsDoNotDisturbEachOther) {
  const Case &one = Cases()[0], &two = Cases()[2];
  const Dataset a = *MakeOnDemand(one.made, 0, one.pre), b = *MakeOnDemand(two.made, 0, two.pre);
  Dataset at_once = *MakeSynthetic(one.made), other = *MakeSynthetic(two.made);
  ASSERT_TRUE(Preprocess(one.pre, at_once).ok());
  ASSERT_TRUE(Preprocess(two.pre, other).ok());
  std::vector<int> wrong(3);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < wrong.size(); ++k)
    threads.emplace_back([&, k] {
      for (std::size_t n = 0; n < 600; ++n) {
        const std::size_t i = (n * 31 + 100 * k) % 300;
        wrong[k] += !std::equal(at_once.row(i).value, at_once.row(i).value + 30, a.row(i).value);
        if (n % 5 == 0) wrong[k] += !std::equal(other.row(i).value, other.row(i).value + 30, b.row(i).value);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, (std::vector<int>(3)));
}

}  // namespace
}  // namespace tacit
