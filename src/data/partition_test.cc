#include "data/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace tacit {
namespace {

constexpr std::uint64_t kSeeds = 500;      // random cases, the same every time

// Row i carries its own number as its only value (dense), or i entries of it mod 5 (sparse).
Dataset Numbered(std::size_t rows, std::size_t classes, bool sparse) {
  Dataset d;
  d.features = sparse ? 5 : 1;
  if (sparse) d.row_begin.push_back(0);
  for (std::size_t i = 0; i < rows; ++i) {
    d.label.push_back(static_cast<double>(i * 7 % classes));
    d.norm.push_back(static_cast<double>(i));
    d.group.push_back(static_cast<std::uint32_t>(i % 3));
    if (!sparse) d.value.push_back(static_cast<double>(i));
    for (std::uint32_t k = 0; sparse && k < i % 5; ++k) {
      d.value.push_back(static_cast<double>(i));
      d.column.push_back(k);
    }
    if (sparse) d.row_begin.push_back(d.value.size());
  }
  d.group_name = {"a", "b", "c"};
  d.row_bound = static_cast<double>(rows);
  return d;
}

// Which original row each row is; fails if a row was torn apart.
std::vector<std::size_t> Origin(const Dataset& d, std::size_t classes) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < d.rows(); ++i) {
    const auto id = static_cast<std::size_t>(d.norm[i]);
    EXPECT_TRUE(d.label[i] == static_cast<double>(id * 7 % classes));
    EXPECT_TRUE(d.group[i] == id % 3);
    const Row r = d.row(i);
    EXPECT_TRUE(r.size == (d.sparse() ? id % 5 : 1));
    for (std::size_t k = 0; k < r.size; ++k) EXPECT_TRUE(r.value[k] == static_cast<double>(id));
    out.push_back(id);
  }
  return out;
}

TEST(Partition, EveryRowAppearsOnceAndSizesAreAsAsked) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Stream s({.seed = seed, .purpose = Purpose::kTest});
    const std::size_t rows = 3 + s.Below(200), classes = 1 + s.Below(6);
    PartitionOptions o;
    o.split = static_cast<Split>(s.Below(5));
    o.clients = 1 + s.Below(rows);
    o.seed = s();
    o.alpha = std::pow(10.0, 4 * s.Uniform() - 2);
    const bool fixed = s.Below(2) && o.split != Split::kDirichlet;
    const std::size_t holders = o.split == Split::kColumn ? 3 : o.clients;
    if (fixed) o.rows_per_client = 1 + s.Below(rows / holders);
    const auto p = MakePartition(o, Numbered(rows, classes, s.Below(2)));
    ASSERT_TRUE(p.ok());
    ASSERT_TRUE(p->clients() == holders);
    ASSERT_TRUE(p->begin.front() == 0u && p->begin.back() == p->data.rows());
    ASSERT_TRUE(p->data.row_bound == static_cast<double>(rows));
    const auto origin = Origin(p->data, classes);
    const std::set<std::size_t> distinct(origin.begin(), origin.end());
    ASSERT_TRUE(distinct.size() == origin.size());
    ASSERT_TRUE(origin.size() == (fixed ? o.rows_per_client * holders : rows));
    std::size_t least = rows, most = 0;
    for (std::size_t c = 0; c < holders; ++c) {
      least = std::min(least, p->size(c));
      most = std::max(most, p->size(c));
    }
    ASSERT_TRUE(least >= 1);
    if (fixed) {
      ASSERT_EQ(least, o.rows_per_client);
      ASSERT_EQ(most, o.rows_per_client);
    } else if (o.split != Split::kDirichlet) {
      ASSERT_LE(most - least, 1u);
    }
    const auto& label = p->data.label;
    ASSERT_TRUE(o.split != Split::kBlocks || std::is_sorted(origin.begin(), origin.end()));
    ASSERT_TRUE(o.split != Split::kByLabel || std::is_sorted(label.begin(), label.end()));
    for (std::size_t c = 0; o.split == Split::kColumn && c < 3; ++c)
      for (std::size_t i = p->begin[c]; i < p->begin[c + 1]; ++i) ASSERT_EQ(p->data.group[i], c);
  }
}

TEST(Partition, TheSeedDecides) {
  for (const Split split : {Split::kIid, Split::kDirichlet}) {
    const auto of = [&](std::uint64_t seed) {
      return MakePartition({.split = split, .clients = 7, .seed = seed}, Numbered(100, 3, false))->data.value;
    };
    EXPECT_EQ(of(1), of(1));
    EXPECT_NE(of(1), of(2));
  }
}

TEST(Partition, ByLabelIsStable) {
  const auto p = MakePartition({.split = Split::kByLabel, .clients = 3}, Numbered(9, 3, false));
  EXPECT_EQ(p->data.value, (LineVec{0, 3, 6, 1, 4, 7, 2, 5, 8}));
}

// 12 rows of each of 3 classes (row i is of class i mod 3): 2 of all classes and 5 of its own for each
// client.
TEST(Partition, MixedHasSomeOfAllAndTheRestOfOneClass) {
  const auto p = MakePartition({.split = Split::kMixed, .clients = 3, .rows_per_client = 7, .uniform = 2},
                               Numbered(36, 3, false));
  ASSERT_TRUE(p.ok()) << p.error().message;
  std::set<double> seen;
  for (std::size_t c = 0; c < 3; ++c) {
    ASSERT_EQ(p->size(c), 7u);
    for (std::size_t k = 0; k < 7; ++k) {
      const std::size_t at = p->begin[c] + k;
      EXPECT_TRUE(seen.insert(p->data.value[at]).second) << "a row is held twice";
      if (k >= 2) {
        EXPECT_EQ(p->data.label[at], p->data.label[p->begin[c] + 2]);
      }
    }
  }
  const auto first = [&](std::size_t c) { return p->data.label[p->begin[c] + 2]; };
  EXPECT_LT(first(0), first(1));
  EXPECT_LT(first(1), first(2));
  // 4 clients: the fourth begins with class 0 again, which has not so many left.
  const auto four = MakePartition({.split = Split::kMixed, .clients = 4, .rows_per_client = 9, .uniform = 0},
                                  Numbered(36, 3, false));
  ASSERT_FALSE(four.ok());
  EXPECT_NE(four.error().message.find("of its class"), std::string::npos) << four.error().message;
  EXPECT_FALSE(MakePartition({.split = Split::kMixed, .clients = 3}, Numbered(36, 3, false)).ok());
}

// Of one class with n rows over 2 clients, share ~ Beta(α, α): mean 1/2, variance 1/(4(2α + 1)). The
// mean of 400 seeds lies within 6 standard errors (false alarm below 1e-8), the variance within 40 %.
TEST(Partition, DirichletSharesHaveTheirMeanAndVariance) {
  for (const double alpha : {0.05, 0.3, 1.0, 20.0}) {
    SCOPED_TRACE(alpha);
    constexpr int kDraws = 400;
    double sum = 0, square = 0;
    for (int seed = 0; seed < kDraws; ++seed) {
      const auto p = MakePartition({.split = Split::kDirichlet,
                                    .clients = 2,
                                    .alpha = alpha,
                                    .seed = static_cast<std::uint64_t>(seed)},
                                   Numbered(1000, 1, false));
      const double share = static_cast<double>(p->size(0)) / 1000;
      sum += share;
      square += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 6 * std::sqrt(variance / kDraws));
    EXPECT_NEAR(square / kDraws / variance, 1, 0.4);
  }
}

TEST(Partition, DirichletLeavesNoClientEmpty) {
  const auto p =
      MakePartition({.split = Split::kDirichlet, .clients = 50, .alpha = 0.001}, Numbered(50, 2, true));
  ASSERT_TRUE(p.ok());
  for (std::size_t c = 0; c < 50; ++c) EXPECT_EQ(p->size(c), 1u);
}

// Rows of up to five entries out of 12 columns that come in few combinations, or in many.
Dataset Combined(std::size_t rows, bool few, bool one_valued) {
  Dataset d;
  d.features = 12;
  d.row_begin.push_back(0);
  for (std::size_t i = 0; i < rows; ++i) {
    Stream rng({.seed = few ? i % 6 : i, .purpose = Purpose::kTest});
    std::set<std::uint32_t> columns;
    for (std::size_t k = 0; k < i % 6; ++k) columns.insert(static_cast<std::uint32_t>(rng.Below(12)));
    for (const std::uint32_t c : columns) {
      d.column.push_back(c);
      d.value.push_back(static_cast<double>(one_valued ? i + 1 : d.value.size() + 1));
    }
    d.row_begin.push_back(d.value.size());
    d.label.push_back(1);
    d.norm.push_back(1);
  }
  return d;
}

TEST(Partition, ColumnsHoldTheEntriesOfTheRows) {
  for (const bool few : {true, false})
    for (const bool one_valued : {true, false}) {
      SCOPED_TRACE(testing::Message() << few << one_valued);
      const Dataset d = Combined(601, few, one_valued);
      const auto part = MakePartition({.split = Split::kBlocks, .clients = 4}, d);
      ASSERT_TRUE(part.ok());
      ASSERT_EQ(part->columns.size(), 4u);
      std::size_t pair_lists = 0;
      for (std::size_t c = 0; c < 4; ++c) {
        const Columns& columns = part->columns[c];
        EXPECT_EQ(columns.value.empty(), one_valued);
        EXPECT_EQ(columns.first.empty(), !one_valued || !few);
        ASSERT_GE(columns.list_begin.size(), d.features + 1);
        pair_lists += columns.list_begin.size() - 1 - d.features;
        const std::size_t size = part->size(c);
        std::multiset<std::pair<std::size_t, std::uint32_t>> want, lists, tokens;      // (row, column)
        for (std::size_t l = 0; l < size; ++l) {
          const Row r = part->data.row(part->begin[c] + l);
          for (std::size_t k = 0; k < r.size; ++k) want.emplace(l, r.index[k]);
        }
        for (std::uint32_t j = 0; j + 1 < columns.list_begin.size(); ++j) {
          EXPECT_EQ(columns.list_begin[j + 1] % 4, 0u);
          for (std::uint32_t k = columns.list_begin[j]; k < columns.list_begin[j + 1]; ++k) {
            const std::uint32_t row = columns.row[k];
            ASSERT_LE(row, size);
            if (row == size) {      // filling
              EXPECT_TRUE(columns.value.empty() || columns.value[k] == 0);
              continue;
            }
            if (j >= d.features) {
              lists.emplace(row, columns.first[j - d.features]);
              lists.emplace(row, columns.second[j - d.features]);
              continue;
            }
            lists.emplace(row, j);
            const Row r = part->data.row(part->begin[c] + row);
            const auto at = std::find(r.index, r.index + r.size, j) - r.index;
            EXPECT_EQ(columns.value.empty() ? part->data.row_value[part->begin[c] + row] : columns.value[k],
                      r.value[at]);
          }
        }
        EXPECT_EQ(lists, want);
        if (columns.first.empty()) continue;
        ASSERT_EQ(columns.token_begin.size(), (size + 3) / 4 + 1);
        for (std::size_t q = 0; q + 1 < columns.token_begin.size(); ++q)
          for (std::uint32_t k = columns.token_begin[q]; k < columns.token_begin[q + 1]; ++k) {
            const std::uint32_t t = columns.token[k];
            const std::size_t row = 4 * q + k % 4;
            if (t < d.features) tokens.emplace(row, t);
            if (t <= d.features) continue;
            tokens.emplace(row, columns.first[t - d.features - 1]);
            tokens.emplace(row, columns.second[t - d.features - 1]);
          }
        EXPECT_EQ(tokens, want);
      }
      EXPECT_EQ(pair_lists > 0, one_valued && few);
      for (std::size_t i = 0; i < 601; ++i)
        EXPECT_EQ(std::isnan(part->data.row_value[i]), !one_valued && part->data.row(i).size > 1) << i;
    }
}

TEST(Partition, ColumnsAreLeftOutWhereTheyWouldNotPayOrNotHold) {
  Dataset d = Numbered(20, 3, true);  // 40 entries
  d.value[3] = std::numeric_limits<double>::infinity();  // client 0: a weight of 0 must hide it
  const auto some = MakePartition({.split = Split::kBlocks, .clients = 2}, d);
  EXPECT_TRUE(some->columns[0].list_begin.empty());
  EXPECT_FALSE(some->columns[1].list_begin.empty());
  d.features = 50;  // fewer entries than columns
  const auto none = MakePartition({.split = Split::kBlocks, .clients = 2}, d);
  EXPECT_TRUE(none->columns[1].list_begin.empty());
  EXPECT_TRUE(
      MakePartition({.split = Split::kBlocks, .clients = 2}, Numbered(20, 3, false))->columns.empty());
}

TEST(Partition, RefusesWhatCannotBeSplit) {
  Dataset no_groups = Numbered(10, 2, false);
  no_groups.group.clear();
  Dataset empty_group = Numbered(10, 2, false);
  empty_group.group_name.push_back("d");
  const struct {
    const char* why;
    PartitionOptions options;
    Dataset data;
    const char* expected;
  } kCases[] = {
      {"more clients than rows",
       {.clients = 11},
       Numbered(10, 2, false),
       "clients = 11: the data set has 10 rows"},
      {"no clients", {.clients = 0}, Numbered(10, 2, false), "clients = 0"},
      {"too many each",
       {.clients = 4, .rows_per_client = 3},
       Numbered(10, 2, false),
       "rows_per_client = 3: 4 clients can have at most 2 each of 10 rows"},
      {"overflowing product",
       {.clients = 4, .rows_per_client = std::size_t{1} << 63},
       Numbered(10, 2, false),
       "rows_per_client"},
      {"no group column",
       {.split = Split::kColumn},
       no_groups,
       "no group column; name one with data.group_column"},
      {"an empty group", {.split = Split::kColumn}, empty_group, "group 'd' has no rows"},
      {"a small group",
       {.split = Split::kColumn, .rows_per_client = 4},
       Numbered(10, 2, false),
       "group 'b' has 3 rows"},
      {"alpha", {.split = Split::kDirichlet, .alpha = 0}, Numbered(10, 2, false), "alpha = 0"},
      {"alpha NaN",
       {.split = Split::kDirichlet, .alpha = std::nan("")},
       Numbered(10, 2, false),
       "alpha = nan"},
      {"sizes of Dirichlet",
       {.split = Split::kDirichlet, .rows_per_client = 2},
       Numbered(10, 2, false),
       "a Dirichlet split has random sizes"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto p = MakePartition(c.options, c.data);
    ASSERT_FALSE(p.ok());
    EXPECT_NE(p.error().message.find(c.expected), std::string::npos) << p.error().message;
  }
}

}  // namespace
}  // namespace tacit
