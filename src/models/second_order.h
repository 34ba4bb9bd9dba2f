#pragma once

// Sums of outer products of rows, for Hessians of linear models. Not on the hot path.
#include "core/vec.h"
#include "data/dataset.h"

namespace tacit {

// h ← h + Σ_l coefficient[l] row_l row_lᵀ, lower triangle; h is the first entry of a block of a
// row-major matrix whose rows lie `stride` apart. For the diagonal block of a Hessian.
void AddOuterProducts(const Shard&, View coefficient, Span h, std::size_t stride);
// The same, all entries: for the blocks below the diagonal.
void AddFullOuterProducts(const Shard&, View coefficient, Span h, std::size_t stride);

}  // namespace tacit
