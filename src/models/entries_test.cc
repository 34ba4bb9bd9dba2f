#include "models/entries.h"

#include <gtest/gtest.h>

#include <cmath>

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
          if (!GatherEntries(RowsOf(*from).data(), rows, columns, x)) {      // tiny ones may be dense
            EXPECT_EQ(from, &data);
            EXPECT_EQ(x.rows, 0u);
            continue;
          }
          Vec z(rows * out), g(columns * out, 5.0);
          SparseProduct(x, w.data(), start.data(), out, z.data());
          SparseOuter(x, d.data(), out, g.data());
          ASSERT_EQ(z, plain_z);
          ASSERT_EQ(g, plain_g);
          std::fill(g.begin(), g.end(), 0.0);
          AddSparseOuter(x, d.data(), out, g.data());
          ASSERT_EQ(g, plain_g);
        }
      }
}

// The products of rows with rows, from where they are asked for.
TEST(Entries, UsedColumnsAreEnoughForProductsOfRows) {
  Entries x;
  Vec turned;
  for (const std::size_t rows : {31u, 1u, 6u}) {
    const Dataset data = test::RandomData(Loss::kMlp, 2, rows, 100, 0.05, rows);
    ASSERT_TRUE(GatherEntries(RowsOf(data).data(), rows, 100, x));
    TurnEntries(x, turned);
    EXPECT_LE(x.used.size(), 100u);
    const std::size_t first = rows / 3, count = rows - first, out = rows - rows / 4;
    const Vec start = test::RandomVec(rows, 1.0, 2);
    Vec z(count * rows, 9.0), plain = z;
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t s = 0; s < out; ++s) {
        double sum = start[s];
        for (std::size_t j = 0; j < 100; ++j)
          sum = std::fma(data.row(first + r).value[j], data.row(s).value[j], sum);
        plain[r * rows + s] = sum;
      }
    UsedProduct(x, first, count, turned.data(), start.data(), out, rows, z.data());
    EXPECT_EQ(z, plain);
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
      ASSERT_TRUE(GatherEntries(RowsOf(data).data(), rows, columns, x));
      const Vec d = test::RandomVec(rows * out, 1.0, 3);
      KeepFactors(x, d.data(), out, v);
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
  EXPECT_EQ(x.row_begin[4], 120u);
}

}  // namespace
}  // namespace tacit
