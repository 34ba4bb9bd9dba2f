#pragma once

// The products of dense layers. A weight matrix is in × out, row-major: w[j·out + o] leads from input j to
// output o, so that a sparse input touches whole rows of it.
//
// Every element is summed in one fixed order by fused multiply-adds, whatever the tiles, the number of
// records in a call or the vector width, and terms of a zero input may be left out; so a record's values
// do not depend on its neighbours, and a sparse row gives the bits of the dense one.
#include <cstddef>
#include <cstdint>

#include "core/vec.h"
#include "data/dataset.h"

namespace tacit {

inline constexpr std::size_t kRecordBlock = 32;   // records in a call, at most

// z[r·out + o] = start[o] + Σ_j row[r][j] w[j·out + o], j ascending; start == nullptr: 0.
void DenseForward(const double* const* row, std::size_t records, std::size_t in, const double* w,
                  const double* start, std::size_t out, double* z);
// z[r·out + o] += Σ_j row[r][j] w[j·out + o], likewise.
void AddDenseForward(const double* const* row, std::size_t records, std::size_t in, const double* w,
                     std::size_t out, double* z);
// DenseForward for one sparse row.
void SparseForward(const Row& row, const double* w, const double* start, std::size_t out, double* z);

// g[j·out + o] += Σ_r row[r][j] d[r][o], r ascending.
void AddOuter(const double* const* row, const double* const* d, std::size_t records, std::size_t in,
              std::size_t out, double* g);
void AddSparseOuter(const Row* row, const double* const* d, std::size_t records, std::size_t in,
                    std::size_t out, double* g);

// g[o] += Σ_r weight[r] d[r][o], r ascending.
void AddWeighted(const double* weight, const double* const* d, std::size_t records, std::size_t size,
                 double* g);

// of[k][i] = a_k·b[i] for two rows and four, each by four sums of every fourth term, (s0 + s2) + (s1 + s3).
void ProductsOfRows(const double* a0, const double* a1, const double* const b[4], std::size_t size,
                    double of[2][4]);

// t[o·in + j] = w[j·out + o].
void Transpose(const double* w, std::size_t in, std::size_t out, double* t);

}  // namespace tacit
