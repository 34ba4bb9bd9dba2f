// Columns of a CSV as features: one-hot, missing values, ranges; and whose record a row is.
#include <gtest/gtest.h>

#include "data/load.h"
#include "data/partition.h"
#include "data/preprocess.h"

namespace tacit {
namespace {

LoadOptions Layout(CsvLayout csv) {
  LoadOptions o;
  o.csv = std::move(csv);
  return o;
}

TEST(OneHot, KnownUnknownAndMissingCategories) {
  const char* kText = "red,1,0\nblue,2,1\ngreen,3,0\n?,4,1\n,5,1\n";
  const auto zeros = ParseCsv(kText, Layout({.one_hot = {{"0", {"red", "blue"}}}}));
  ASSERT_TRUE(zeros.ok()) << zeros.error().message;
  EXPECT_EQ(zeros->features, 3u);
  EXPECT_EQ(zeros->value, (LineVec{1, 0, 1, 0, 1, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5}));
  const auto other = ParseCsv(kText, Layout({.one_hot = {{"0", {"red", "blue"}, true}}}));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->value, (LineVec{1, 0, 0, 1, 0, 1, 0, 2, 0, 0, 1, 3, 0, 0, 1, 4, 0, 0, 1, 5}));
}

TEST(OneHot, CategoriesThatAreNumbersAreComparedAsNumbers) {
  const auto d = ParseCsv("1.0,0\n1,0\n+1e0,0\n2,0\n1x,0\n", Layout({.one_hot = {{"0", {"1", "1x"}}}}));
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(d->value, (LineVec{1, 0, 1, 0, 1, 0, 0, 0, 0, 1}));
}

TEST(Missing, FillAndIndicator) {
  const auto d = ParseCsv("a,b,y\n1,?,0\n,4,1\n",
                          Layout({.header = true, .missing = -7, .fill = {{"a", 2.5}}, .indicator = {"b"}}));
  ASSERT_TRUE(d.ok()) << d.error().message;
  EXPECT_EQ(d->value, (LineVec{1, -7, 1, 2.5, 4, 0}));
  const auto all = ParseCsv("1,?,x,0\n", Layout({.one_hot = {{"2", {"x"}}}, .indicator = {"*"}}));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->value, (LineVec{1, 0, 0, 1, 1}));
}

TEST(Ranges, ByColumnAndOthersStay) {
  auto d = ParseCsv("20,5,red,1\n80,6,blue,0\n200,7,red,0\n", Layout({.names = {"age", "n", "colour", "y"},
                                                                      .one_hot = {{"colour", {"red"}}},
                                                                      .range = {{"age", 20, 80}}}));
  ASSERT_TRUE(d.ok()) << d.error().message;
  ASSERT_TRUE(Preprocess({}, *d).ok());
  EXPECT_EQ(d->value, (LineVec{-1, 5, 1, 1, 6, 0, 1, 7, 1}));
  auto both = ParseCsv("20,1\n", Layout({.range = {{"0", 20, 80}}}));
  PreprocessOptions o;
  o.lower = {0};
  o.upper = {1};
  EXPECT_FALSE(Preprocess(o, *both).ok());
}

TEST(Layout, HowManyFeaturesIsKnownWithoutTheFile) {
  const CsvLayout l{.one_hot = {{"0", {"a", "b", "c"}}, {"1", {"d"}, true}}, .indicator = {"*"}};
  const auto d = ParseCsv("a,d,3,4,0\n", Layout(l));
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(l.Features(4), 3u + 2 + 2 + 2);
  EXPECT_EQ(d->features, l.Features(4));
  LoadOptions o = Layout(l);
  o.features = 4;
  EXPECT_FALSE(ParseCsv("a,d,3,4,0\n", o).ok());
}

TEST(Layout, NamesThatDoNotFitAreRefused) {
  const struct {
    const char* why;
    CsvLayout csv;
    const char* message;
  } kCases[] = {
      {"unknown column", {.one_hot = {{"z", {"a"}}}}, "data.one_hot = 'z'"},
      {"the label", {.one_hot = {{"2", {"a"}}}}, "not a column of features"},
      {"a column twice", {.one_hot = {{"0", {"a"}}, {"0", {"b"}}}}, "named twice"},
      {"fill of a one-hot", {.one_hot = {{"0", {"a"}}}, .fill = {{"0", 1}}}, "data.fill"},
      {"range of a one-hot", {.one_hot = {{"0", {"a"}}}, .range = {{"0", 0, 1}}}, "data.bounds"},
      {"indicator of a one-hot", {.one_hot = {{"0", {"a"}}}, .indicator = {"0"}}, "end with *"},
      {"a dropped column", {.drop = {"0"}, .fill = {{"0", 1}}}, "not a column of features"},
      {"too few names", {.names = {"a"}}, "data.columns has 1 names"},
      {"the person is the label", {.person = "2"}, "also the label"},
      {"the person is dropped", {.drop = {"0"}, .person = "0"}, "person column"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto d = ParseCsv("1,2,0\n", Layout(c.csv));
    ASSERT_FALSE(d.ok());
    EXPECT_NE(d.error().message.find(c.message), std::string::npos) << d.error().message;
  }
}

TEST(Persons, AColumnNamesThem) {
  const auto d = ParseCsv("ann,1,0\nbob,2,1\nann,3,1\n", Layout({.person = "0"}));
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(d->features, 1u);
  EXPECT_EQ(d->person, (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_FALSE(ParseCsv("ann,1,0\n,2,1\n", Layout({.person = "0"})).ok());
}

TEST(Persons, TheFirstRecordsAreKeptAlsoAcrossBatches) {
  const char* kText = "ann,1,0\nbob,2,1\nann,3,1\nann,4,1\nbob,5,0\ncy,6,0\nann,7,0\n";
  Dataset whole = *ParseCsv(kText, Layout({.person = "0"}));
  PersonLimit(2).Apply(whole);
  EXPECT_EQ(whole.value, (LineVec{1, 2, 3, 5, 6}));
  PersonLimit limit(2);
  LineVec value;
  LoadOptions o = Layout({.person = "0"});
  o.batch = 2;
  o.sink = [&](Dataset&& d) -> Status {
    limit.Apply(d);
    value.insert(value.end(), d.value.begin(), d.value.end());
    return Ok{};
  };
  ASSERT_TRUE(ParseCsv(kText, o).ok());
  EXPECT_EQ(value, whole.value);
}

// 40 persons with 1 to 5 rows, which are scattered over the file.
Dataset Scattered(PersonBound bound) {
  Dataset d;
  d.features = 1;
  d.person_bound = bound;
  Stream rng({.seed = 3, .purpose = Purpose::kTest});
  std::vector<std::uint32_t> who;
  for (std::uint32_t p = 0; p < 40; ++p) who.insert(who.end(), 1 + rng.Below(5), p);
  for (std::size_t i = who.size(); i > 1; --i) std::swap(who[i - 1], who[rng.Below(i)]);
  for (std::size_t i = 0; i < who.size(); ++i) {
    d.person.push_back(who[i]);
    d.value.push_back(static_cast<double>(i));
    d.label.push_back(static_cast<double>(rng.Below(3)));
    d.group.push_back(who[i] % 4);
  }
  d.group_name = {"a", "b", "c", "d"};
  return d;
}

TEST(Persons, NoSplitCutsOneInTwo) {
  for (const PersonBound bound : {PersonBound::kRecords, PersonBound::kSum})
    for (const Split split :
         {Split::kBlocks, Split::kIid, Split::kByLabel, Split::kDirichlet, Split::kColumn}) {
      SCOPED_TRACE(static_cast<int>(split));
      const Dataset d = Scattered(bound);
      const auto p = MakePartition({.split = split, .clients = 4}, d);
      ASSERT_TRUE(p.ok()) << p.error().message;
      EXPECT_EQ(p->data.rows(), d.rows());
      EXPECT_EQ(p->data.person_bound, bound);
      std::vector<int> client_of(40, -1), runs(40);
      for (std::size_t c = 0; c < p->clients(); ++c) {
        EXPECT_GT(p->size(c), 0u);
        for (std::size_t i = p->begin[c]; i < p->begin[c + 1]; ++i) {
          const std::uint32_t who = p->data.person[i];
          EXPECT_TRUE(client_of[who] == -1 || client_of[who] == static_cast<int>(c));
          client_of[who] = static_cast<int>(c);
          if (i == p->begin[c] || p->data.person[i - 1] != who) ++runs[who];
          EXPECT_EQ(d.person[static_cast<std::size_t>(p->data.value[i])], who);      // rows moved whole
        }
      }
      for (const int r : runs) EXPECT_EQ(r, 1);      // together, so that a sum can be taken
    }
}

TEST(Persons, WhatWouldCutOneInTwoIsRefused) {
  Dataset d = Scattered(PersonBound::kSum);
  EXPECT_FALSE(MakePartition({.clients = 4, .rows_per_client = 3}, d).ok());
  EXPECT_FALSE(MakePartition({.clients = 41}, d).ok());
  d.group[0] = (d.group[0] + 1) % 4;
  std::size_t others = 0;
  for (std::size_t i = 1; i < d.rows(); ++i) others += d.person[i] == d.person[0];
  ASSERT_GT(others, 0u);
  const auto cut = MakePartition({.split = Split::kColumn}, d);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().message.find("two groups"), std::string::npos);
  d.person_bound = PersonBound::kRecords;
  EXPECT_TRUE(MakePartition({.split = Split::kColumn}, d).ok());      // the noise covers that
}

}  // namespace
}  // namespace tacit
