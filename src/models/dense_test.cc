#include "models/dense.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/test_data.h"

namespace tacit {
namespace {

// Every size around the tiles, the blocks and the lists; the sums are those of plain loops, bit for bit.
TEST(Dense, IsThePlainLoopOfFusedSums) {
  for (const std::size_t in : {1u, 5u, 130u, 700u})
    for (const std::size_t out : {1u, 2u, 4u, 7u, 11u, 12u, 33u, 40u, 47u})
      for (const std::size_t records : {1u, 2u, 3u, 5u, 9u, 32u})
        for (const double density : {0.02, 0.25, 1.0}) {
          SCOPED_TRACE(testing::Message()
                       << in << " x " << out << ", " << records << " records, " << density);
          const Dataset data = test::RandomData(Loss::kMlp, 2, records, in, density, in + 7 * out + records);
          const Dataset sparse = test::Sparse(data);
          const Vec w = test::RandomVec(in * out, 1.0, 1), start = test::RandomVec(out, 1.0, 2),
                    d = test::RandomVec(records * out, 1.0, 3), g0 = test::RandomVec(in * out, 1.0, 4);
          Vec z(records * out), plain_z(records * out), sparse_z(records * out), g = g0, plain_g = g0,
                                                                                 sparse_g = g0;
          const double *row[kRecordBlock], *slope[kRecordBlock];
          Row sparse_row[kRecordBlock];
          for (std::size_t r = 0; r < records; ++r) {
            row[r] = data.row(r).value;
            sparse_row[r] = sparse.row(r);
            slope[r] = d.data() + r * out;
            for (std::size_t o = 0; o < out; ++o) {
              double sum = start[o];
              for (std::size_t j = 0; j < in; ++j) {
                sum = std::fma(row[r][j], w[j * out + o], sum);
                plain_g[j * out + o] = std::fma(row[r][j], slope[r][o], plain_g[j * out + o]);
              }
              plain_z[r * out + o] = sum;
            }
            SparseForward(sparse_row[r], w.data(), start.data(), out, sparse_z.data() + r * out);
          }
          DenseForward(row, records, in, w.data(), start.data(), out, z.data());
          AddOuter(row, slope, records, in, out, g.data());
          AddSparseOuter(sparse_row, slope, records, in, out, sparse_g.data());
          ASSERT_EQ(z, plain_z);
          ASSERT_EQ(sparse_z, plain_z);
          ASSERT_EQ(g, plain_g);
          ASSERT_EQ(sparse_g, plain_g);
        }
}

TEST(Dense, ProductsOfRowsAreSumsOfEveryFourthTerm) {
  for (const std::size_t size : {1u, 3u, 4u, 9u, 200u}) {
    const Vec v = test::RandomVec(6 * size, 1.0, size);
    const double* b[4];
    for (std::size_t i = 0; i < 4; ++i) b[i] = v.data() + (2 + i) * size;
    double of[2][4];
    ProductsOfRows(v.data(), v.data() + size, b, size, of);
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t i = 0; i < 4; ++i) {
        double s[4] = {};
        for (std::size_t o = 0; o < size; ++o) s[o % 4] = std::fma(v[k * size + o], b[i][o], s[o % 4]);
        EXPECT_EQ(of[k][i], (s[0] + s[2]) + (s[1] + s[3]));
      }
  }
}

TEST(Dense, TransposeAndWeightedSums) {
  const Vec w = {1, 2, 3, 4, 5, 6};
  Vec t(6), g = {1, 1, 1};
  Transpose(w.data(), 2, 3, t.data());
  EXPECT_EQ(t, (Vec{1, 4, 2, 5, 3, 6}));
  const double weight[] = {2, -1};
  const double* d[] = {w.data(), w.data() + 3};
  AddWeighted(weight, d, 2, 3, g.data());
  EXPECT_EQ(g, (Vec{1 + 2 - 4, 1 + 4 - 5, 1 + 6 - 6}));
}

}  // namespace
}  // namespace tacit
