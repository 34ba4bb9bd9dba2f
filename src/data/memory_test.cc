#include "data/memory.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>

namespace tacit {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Memory, DenseRowsAreReadWithWhatIsMissingFilled) {
  const std::vector<double> x = {1, 2, kNan, 4}, y = {1, 0};
  const auto offer = OfferedRows::Offer("memory:a", {.rows = 2, .features = 2, .value = x, .label = y});
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  const auto d = LoadMemory("memory:a", {.missing = 7});
  ASSERT_TRUE(d.ok()) << d.error().message;
  EXPECT_EQ(d->value, (LineVec{1, 2, 7, 4}));
  EXPECT_EQ(d->label, y);
  EXPECT_FALSE(d->sparse());
}

TEST(Memory, SparseRowsCanBeginInTheMiddle) {
  const std::vector<double> v = {1, 2, 3}, y = {1, -1, 1};
  const std::vector<std::int32_t> column = {4, 0, 2};
  const std::vector<std::int64_t> begin = {0, 1, 1, 3};
  const auto offer = OfferedRows::Offer(
      "memory:a", {.rows = 3, .features = 5, .value = v, .column = column, .row_begin = begin, .label = y});
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  const auto d = LoadMemory("memory:a", {.skip = 1});
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(d->value, (LineVec{2, 3}));
  EXPECT_EQ(d->column, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(d->row_begin, (std::vector<std::uint64_t>{0, 0, 2}));
  EXPECT_FALSE(LoadMemory("memory:a", {.rows = 3, .skip = 1}).ok());
}

TEST(Memory, WhatIsNotARowIsRefused) {
  const std::vector<double> x = {1, 2}, y = {1};
  const std::vector<std::int32_t> falling = {1, 0}, outside = {0, 2};
  const std::vector<std::int64_t> all = {0, 2}, more = {0, 3};
  const std::vector<std::uint32_t> group = {1};
  const struct {
    const char* why;
    MemoryRows rows;
  } kCases[] = {
      {"a label is missing", {.rows = 2, .features = 1, .value = x, .label = y}},
      {"a value is missing", {.rows = 1, .features = 3, .value = x, .label = y}},
      {"no features", {.rows = 1, .features = 0, .value = {}, .label = y}},
      {"columns fall",
       {.rows = 1, .features = 2, .value = x, .column = falling, .row_begin = all, .label = y}},
      {"a column too far",
       {.rows = 1, .features = 2, .value = x, .column = outside, .row_begin = all, .label = y}},
      {"rows past the end",
       {.rows = 1, .features = 2, .value = x, .column = falling, .row_begin = more, .label = y}},
      {"a client without a name",
       {.rows = 1, .features = 2, .value = x, .label = y, .group = group, .group_name = {"a"}}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    EXPECT_FALSE(OfferedRows::Offer("memory:a", c.rows).ok());
  }
}

// Another thread of the program may write to its arrays at any time: what is checked is the copy that is
// read.
TEST(Memory, RowsThatChangedSinceTheyWereOfferedAreCheckedAgain) {
  const struct {
    const char* why;
    std::function<void(std::vector<std::int32_t>&, std::vector<std::int64_t>&, std::vector<std::uint32_t>&)>
        change;
  } kCases[] = {
      {"a column too far", [](auto& column, auto&, auto&) { column[1] = 1'000'000'000; }},
      {"a negative column", [](auto& column, auto&, auto&) { column[0] = -1; }},
      {"columns fall", [](auto& column, auto&, auto&) { column[2] = 0; }},
      {"a row past the end", [](auto&, auto& begin, auto&) { begin[2] = 1 << 30; }},
      {"a row before the beginning", [](auto&, auto& begin, auto&) { begin[0] = -8; }},
      {"rows out of order", [](auto&, auto& begin, auto&) { begin[1] = 3, begin[2] = 1; }},
      {"a client without a name", [](auto&, auto&, auto& group) { group[1] = 9; }},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const std::vector<double> v = {1, 2, 3}, y = {1, -1};
    std::vector<std::int32_t> column = {4, 0, 2};
    std::vector<std::int64_t> begin = {0, 1, 3};
    std::vector<std::uint32_t> group = {0, 0};
    const auto offer = OfferedRows::Offer("memory:a", {.rows = 2,
                                                       .features = 5,
                                                       .value = v,
                                                       .column = column,
                                                       .row_begin = begin,
                                                       .label = y,
                                                       .group = group,
                                                       .group_name = {"a"}});
    ASSERT_TRUE(offer.ok());
    ASSERT_TRUE(LoadMemory("memory:a", {}).ok());
    c.change(column, begin, group);
    const auto d = LoadMemory("memory:a", {});
    ASSERT_FALSE(d.ok());
    EXPECT_EQ(d.error().code, Code::kMalformed);
  }
}

TEST(Memory, InfinitiesAreRefusedWithoutTheirValue) {
  const std::vector<double> x = {1, kInfinite}, y = {1, 1}, bad = {1, kNan}, fine = {1, 2};
  {
    const auto offer = OfferedRows::Offer("memory:a", {.rows = 2, .features = 1, .value = x, .label = y});
    const auto d = LoadMemory("memory:a", {});
    ASSERT_FALSE(d.ok());
    EXPECT_NE(d.error().message.find("row 1"), std::string::npos);
  }
  const auto offer = OfferedRows::Offer("memory:a", {.rows = 2, .features = 1, .value = fine, .label = bad});
  EXPECT_FALSE(LoadMemory("memory:a", {}).ok());
}

TEST(Memory, AnOfferIsOneThreadsAndEndsWithItsObject) {
  const std::vector<double> x = {1}, y = {1};
  const MemoryRows rows{.rows = 1, .features = 1, .value = x, .label = y};
  {
    const auto offer = OfferedRows::Offer("memory:a", rows);
    EXPECT_TRUE(IsOffered("memory:a"));
    EXPECT_FALSE(OfferedRows::Offer("memory:a", rows).ok());
    bool there = true;
    std::thread([&] { there = IsOffered("memory:a"); }).join();
    EXPECT_FALSE(there);
  }
  EXPECT_FALSE(IsOffered("memory:a"));
  EXPECT_EQ(LoadMemory("memory:a", {}).error().code, Code::kNotFound);
  EXPECT_FALSE(OfferedRows::Offer("memory:", rows).ok());
}

TEST(Memory, TheDigestIsOfTheRowsAndNotOfWhoHoldsThem) {
  const std::vector<double> x = {1, 2}, other = {1, 3}, y = {1, 1};
  const std::vector<std::uint32_t> group = {0, 1};
  const auto digest = [](const MemoryRows& m) {
    const auto offer = OfferedRows::Offer("memory:a", m);
    return MemoryDigest("memory:a");
  };
  const std::string plain = digest({.rows = 2, .features = 1, .value = x, .label = y});
  EXPECT_EQ(plain.size(), 64U);
  EXPECT_EQ(
      plain,
      digest({.rows = 2, .features = 1, .value = x, .label = y, .group = group, .group_name = {"a", "b"}}));
  EXPECT_NE(plain, digest({.rows = 2, .features = 1, .value = other, .label = y}));
  EXPECT_NE(plain, digest({.rows = 1, .features = 2, .value = x, .label = std::span(y).first(1)}));
  EXPECT_EQ(MemoryDigest("memory:a"), "");
}

}  // namespace
}  // namespace tacit
