#include "models/entries.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/lanes.h"
#include "models/test_data.h"

namespace tacit {
namespace {

std::vector<Row> RowsOf(const Dataset& data) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < data.rows(); ++i) rows.push_back(data.row(i));
  return rows;
}

// Every width around the strips; the sums are those of plain loops, bit for bit, from dense and sparse rows.
TEST(Entries, ProductsAreThePlainLoopsOfFusedSums) {
  Entries x;      // reused: what is left of larger ones must not show
  for (const std::size_t columns : {300u, 1u, 8u, 129u})
    for (const std::size_t rows : {31u, 1u, 6u})
      for (const std::size_t out : {1u, 4u, 7u, 33u, 40u, 41u, 90u}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", " << out);
        const Dataset data = test::RandomData(Loss::kMlp, 2, rows, columns, 0.1, rows + 7 * columns + out);
        const Dataset sparse = test::Sparse(data);
        const Vec w = test::RandomVec(columns * out, 1.0, 1), start = test::RandomVec(out, 1.0, 2),
                  d = test::RandomVec(rows * out, 1.0, 3);
        Vec plain_z(rows * out), plain_g(columns * out);
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t o = 0; o < out; ++o) {
            double sum = start[o];
            for (std::size_t j = 0; j < columns; ++j) {
              const double v = data.row(r).value[j];
              sum = std::fma(v, w[j * out + o], sum);
              plain_g[j * out + o] = std::fma(v, d[r * out + o], plain_g[j * out + o]);
            }
            plain_z[r * out + o] = sum;
          }
        for (const Dataset* from : {&sparse, &data}) {
          const std::vector<Row> of = RowsOf(*from);
          if (!GatherEntries(of.data(), rows, columns, x)) {      // tiny ones may be dense
            EXPECT_EQ(from, &data);
            EXPECT_EQ(x.rows, 0u);
            continue;
          }
          Vec z(rows * out), g(columns * out, 5.0);
          SparseProduct(x, w.data(), start.data(), out, z.data());
          TurnEntries(of.data(), x);
          SparseOuter(x, d.data(), out, g.data());
          ASSERT_EQ(z, plain_z);
          ASSERT_EQ(g, plain_g);
          std::fill(g.begin(), g.end(), 0.0);
          AddSparseOuter(x, d.data(), out, g.data());
          ASSERT_EQ(g, plain_g);
        }
      }
}

// The products of rows with rows, as far as they are asked for.
TEST(Entries, ProductsWithinAreThePlainLoops) {
  Entries x;
  for (const std::size_t rows : {31u, 1u, 6u, 90u})
    for (const bool sparse : {false, true}) {
      const Dataset dense = test::RandomData(Loss::kMlp, 2, rows, 100, 0.05, rows);
      const Dataset data = sparse ? test::Sparse(dense) : dense;
      const std::vector<Row> of = RowsOf(data);
      ASSERT_TRUE(GatherEntries(of.data(), rows, 100, x));
      TurnEntries(of.data(), x);
      EXPECT_LE(x.by_column.used.size(), 100u);
      std::vector<std::uint32_t> end(rows);
      for (std::size_t r = 0; r < rows; ++r) end[r] = static_cast<std::uint32_t>(r * 7 % rows + 1);
      Vec z(rows * rows, 9.0);
      ProductsWithin(x, end.data(), z.data());
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t s = 0; s < end[r]; ++s) {
          double sum = 1;
          for (std::size_t j = 0; j < 100; ++j)
            sum = std::fma(dense.row(r).value[j], dense.row(s).value[j], sum);
          ASSERT_EQ(z[r * rows + s], sum) << rows << ": " << r << ", " << s;
        }
    }
}

// Every row is in one pair and every entry once in both forms, whatever is paired with what.
TEST(Entries, PairsHoldEveryEntryOnce) {
  Entries x;
  for (const std::size_t rows : {31u, 1u, 6u, 200u})      // of so many, neighbours are paired
    for (const std::size_t columns : {130u, 7u, 5000u}) {
      const Dataset data = test::RandomData(Loss::kMlp, 2, rows, columns, 0.1, rows + columns);
      const std::vector<Row> of = RowsOf(data);
      ASSERT_TRUE(GatherEntries(of.data(), rows, columns, x));
      TurnEntries(of.data(), x);
      Vec by_row(rows * columns), by_column(rows * columns);
      std::vector<int> seen(rows + 1);
      for (std::size_t i = 0; i < x.pair.size(); ++i) {
        ASSERT_LE(x.pair[i], rows);
        ++seen[x.pair[i]];
        for (std::size_t k = x.begin[i / 2]; k < x.begin[i / 2 + 1]; ++k) {
          ASSERT_TRUE(x.first[k] != 0 || x.second[k] != 0);
          if (x.pair[i] < rows)
            by_row[x.pair[i] * columns + x.by_column.used[x.rank[k]]] +=
                i % 2 == 0 ? x.first[k] : x.second[k];
        }
      }
      for (std::size_t r = 0; r < rows; ++r) EXPECT_EQ(seen[r], 1);
      const ColumnPairs& c = x.by_column;
      for (std::size_t p = 0; p + 1 < c.begin.size(); ++p)
        for (std::size_t k = c.begin[p]; k < c.begin[p + 1]; ++k) {
          by_column[c.row[k] * columns + c.used[2 * p]] += c.first[k];
          if (2 * p + 1 < c.used.size())
            by_column[c.row[k] * columns + c.used[2 * p + 1]] += c.second[k];
          else
            EXPECT_EQ(c.second[k], 0.0);
        }
      const Vec all(data.value.begin(), data.value.end());
      EXPECT_EQ(by_row, all);
      EXPECT_EQ(by_column, all);
    }
}

// A weight that is not finite reaches the rows that have an entry there, and not those paired with them.
TEST(Entries, WeightsThatAreNotFiniteDoNotReachAPartner) {
  Entries x;
  const std::size_t rows = 7, columns = 40, out = 11;
  const double infinite = std::numeric_limits<double>::infinity();
  Dataset data = test::RandomData(Loss::kMlp, 2, rows, columns, 0.2, 5);
  for (std::size_t r = 0; r < rows; ++r) data.value[r * columns + 3] = r == 2 ? 1.5 : 0.0;
  for (const double bad : {infinite, -infinite, std::nan("")}) {
    Vec w = test::RandomVec(columns * out, 1.0, 1);
    std::fill_n(w.begin() + 3 * out, out, bad);
    ASSERT_TRUE(GatherEntries(RowsOf(data).data(), rows, columns, x));
    Vec z(rows * out);
    SparseProduct(x, w.data(), nullptr, out, z.data());
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t o = 0; o < out; ++o) {
        double sum = 0;
        for (std::size_t j = 0; j < columns; ++j)
          if (const double v = data.row(r).value[j]; v != 0) sum = std::fma(v, w[j * out + o], sum);
        if (r == 2)
          EXPECT_FALSE(std::isfinite(z[r * out + o]));
        else
          EXPECT_EQ(z[r * out + o], sum);
      }
  }
}

// More used columns than are copied at once, and rows that have none of some.
TEST(Entries, ProductsOverManyColumnsAreThePlainLoops) {
  Entries x;
  for (const std::size_t columns : {64u, 65u, 700u}) {
    const std::size_t rows = 9, out = 13;
    Dataset data = test::RandomData(Loss::kMlp, 2, rows, columns, 0.25, columns);
    std::fill_n(data.value.begin(), columns, 0.0);                                // a row of zeros
    for (std::size_t j = 100; j < columns; ++j) data.value[2 * columns + j] = 0.0;  // one that ends early
    for (std::size_t j = 0; j + 100 < columns; ++j)
      data.value[3 * columns + j] = 0.0;  // one that begins late
    const Vec w = test::RandomVec(columns * out, 1.0, 1);
    ASSERT_TRUE(GatherEntries(RowsOf(data).data(), rows, columns, x));
    Vec z(rows * out, 3.0), plain(rows * out);
    SparseProduct(x, w.data(), nullptr, out, z.data());
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t o = 0; o < out; ++o)
        for (std::size_t j = 0; j < columns; ++j)
          plain[r * out + o] = std::fma(data.row(r).value[j], w[j * out + o], plain[r * out + o]);
    EXPECT_EQ(z, plain);
  }
}

// A vector kept by its factors is added as if it had been formed.
TEST(Entries, FactorsAreAddedAsTheVectorTheyMake) {
  Entries x;
  FactoredVec v;  // reused
  for (const std::size_t columns : {150u, 3u})
    for (const std::size_t out : {1u, 7u, 40u, 90u}) {
      const std::size_t rows = 11;
      const Dataset data = test::RandomData(Loss::kMlp, 2, rows, columns, 0.1, columns + out);
      const std::vector<Row> of = RowsOf(data);
      ASSERT_TRUE(GatherEntries(of.data(), rows, columns, x));
      TurnEntries(of.data(), x);
      const Vec d = test::RandomVec(rows * out, 1.0, 3);
      v.columns = columns;
      v.out = out;
      v.x = x.by_column;
      v.factors.resize(d.size() + 8);
      std::copy(d.begin(), d.end(),
                v.factors.begin() + static_cast<std::ptrdiff_t>(ToLine(v.factors.data())));
      v.tail = test::RandomVec(5, 1.0, 4);
      ASSERT_EQ(v.size(), columns * out + 5);
      Vec formed(3, 9.0), outer(columns * out);
      Form(v, formed);
      SparseOuter(x, d.data(), out, outer.data());
      EXPECT_EQ(Vec(formed.begin(), formed.end() - 5), outer);
      EXPECT_EQ(Vec(formed.end() - 5, formed.end()), v.tail);
      Vec total = test::RandomVec(v.size(), 1.0, 5), plain = total;
      AddTimes(0.3, v, total);
      for (std::size_t j = 0; j < plain.size(); ++j) plain[j] += 0.3 * formed[j];
      EXPECT_EQ(total, plain);
    }
}

TEST(Entries, ManyEntriesAreLeftToDenseProducts) {
  Entries x;
  const Dataset full = test::RandomData(Loss::kMlp, 2, 4, 30, 1.0, 1);
  EXPECT_FALSE(GatherEntries(RowsOf(full).data(), 4, 30, x));
  EXPECT_EQ(x.rows, 0u);
  const Dataset sparse = test::Sparse(full);
  EXPECT_TRUE(GatherEntries(RowsOf(sparse).data(), 4, 30, x));  // there is no dense form of these
  EXPECT_EQ(x.count, 120u);
}

// What is kept of each shard is what would be gathered of it.
TEST(Entries, KeptOnesAreThoseThatAreGathered) {
  const std::size_t columns = 130, out = 33;
  Dataset data = test::RandomData(Loss::kMlp, 2, 90, columns, 0.08, 3);
  std::fill_n(data.value.begin() + 40 * columns, 10 * columns, 0.5);  // shard 2 is not mostly zeros
  const std::vector<std::size_t> begin = {0, 31, 40, 50, 51, 90};
  const std::vector<std::uint8_t> keep = {1, 0, 1, 1, 1};
  constexpr std::size_t kMost = std::size_t{1} << 30;
  const auto kept = KeepEntries(data, begin, keep, kMost);
  ASSERT_NE(kept, nullptr);
  ASSERT_EQ(kept->shard.size(), keep.size());
  EXPECT_LE(kept->memory.size(), data.value.size());
  Entries x, scratch;
  for (std::size_t c = 0; c < keep.size(); ++c) {
    SCOPED_TRACE(c);
    const RowEntries& k = kept->shard[c];
    const std::size_t m = begin[c + 1] - begin[c];
    ASSERT_EQ(k.rows, c == 1 || c == 2 ? 0 : m);
    if (k.rows == 0) continue;
    std::vector<Row> of;
    for (std::size_t r = 0; r < m; ++r) of.push_back(data.row(begin[c] + r));
    ASSERT_TRUE(GatherEntries(of.data(), m, columns, x));
    TurnEntries(of.data(), x);
    const Vec w = test::RandomVec(columns * out, 1.0, 1), d = test::RandomVec(m * out, 1.0, 3);
    Vec z(m * out), z_kept(m * out), g(columns * out), g_kept(columns * out, 5.0), products(m * m);
    SparseProduct(x, w.data(), nullptr, out, z.data());
    SparseProduct(k, scratch, w.data(), nullptr, out, z_kept.data(), k.behind, k.ahead);
    EXPECT_EQ(z, z_kept);
    SparseOuter(x, d.data(), out, g.data());
    SparseOuter(k, d.data(), out, g_kept.data());
    EXPECT_EQ(g, g_kept);
    const std::vector<std::uint32_t> end(m, static_cast<std::uint32_t>(m));
    ProductsWithin(x, end.data(), products.data());
    for (std::size_t r = 0; r < m; ++r)
      for (std::size_t s = 0; s <= r; ++s)
        ASSERT_EQ(k.products[r * (r + 1) / 2 + s], products[r * m + s]) << r << ", " << s;
    EXPECT_LE(k.behind + k.ahead, kept->memory.data() + kept->memory.size());
  }
  EXPECT_EQ(KeepEntries(data, begin, {0, 0, 1, 0, 0}, kMost), nullptr) << "none is mostly zeros";
  EXPECT_EQ(KeepEntries(data, begin, keep, 4096), nullptr) << "too much memory";
  EXPECT_EQ(KeepEntries(test::Sparse(data), begin, keep, kMost), nullptr) << "not dense";
}

}  // namespace
}  // namespace tacit
