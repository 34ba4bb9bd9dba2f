#pragma once

// Tier 1 of the lattice sampler on whole blocks, for three instruction sets. All do the same IEEE
// operations in the same order (conversion, subtraction, three fused multiply-adds, multiplication, one
// comparison), each correctly rounded, so their results are the same bits; which one runs is a
// question of speed only.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/simd.h"

namespace tacit::internal {

inline constexpr std::size_t kKernelBlock = 512;

// Replaces each word (sign, then 63 bits m) by its deviate where the cell is certain, that is where
// |y − nearest integer| ≤ limit. The other words stay; their positions go to undecided, which has
// room for block.size() ≤ kKernelBlock of them, in ascending order. Returns how many.
std::size_t RoundedNormals(Simd, double c, double limit, std::span<std::int64_t> block,
                           std::uint32_t* undecided);

// The deviates themselves, within kFastError of the exact quantile of (m + ½)/2^64, with m < 2^44
// undecided as above. out.size() == words.size().
std::size_t RealNormals(Simd, std::span<const std::uint64_t> words, double* out, std::uint32_t* undecided);

}  // namespace tacit::internal
