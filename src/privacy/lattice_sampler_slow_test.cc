#include <gtest/gtest.h>

#include "privacy/lattice_attack.h"

namespace tacit {
namespace {

// Two million values of p beside cell boundaries, over all octaves and scales.
TEST(LatticeDraw, CellBoundariesAreNeverCrossed) {
  Stream stream({1, Purpose::kTest, 0, 0});
  AttackReport report;
  while (report.tried < 2'000'000) {
    const double c = 0x1p30 * (1 + stream.Uniform());
    Attack{.c = c}.Run(5, stream, report);
    Attack{.c = c, .lowest_octave = 44}.Run(75, stream, report);
    Attack{.c = c, .lowest_octave = 60}.Run(20, stream, report);
  }
  EXPECT_EQ(report.wrong, 0u);
  for (int tier : {1, 2, 3}) EXPECT_GT(report.by_tier[tier], 100'000u) << tier;
}

// The finest grids, where tier 2 has a tighter bound.
TEST(LatticeDraw, CellBoundariesAreNeverCrossedOnTheFinestGrids) {
  Stream stream({3, Purpose::kTest, 0, 0});
  AttackReport report;
  while (report.tried < 300'000) {
    const double c = std::ldexp(1 + stream.Uniform(), 31 + static_cast<int>(stream.Below(9)));
    Attack{.c = c}.Run(5, stream, report);
    Attack{.c = c, .lowest_octave = 44}.Run(40, stream, report);
  }
  EXPECT_EQ(report.wrong, 0u);
  for (int tier : {1, 2, 3}) EXPECT_GT(report.by_tier[tier], 15'000u) << tier;
}

// The bound is nearly attained, in few segments only: hence many boundaries.
TEST(LatticeDraw, TheAttackCatchesABoundLoosenedByATenth) {
  const auto proven = internal::LatticeBounds::Certified();
  Stream stream({2, Purpose::kTest, 0, 0});
  AttackReport report;
  Attack{
      .c = 0x1.6p30, .bounds = {0.9 * proven.fast, proven.second}, .lowest_octave = 60, .deep_one_in = 1000}
      .Run(6000, stream, report);
  EXPECT_GT(report.wrong, 0u);
}

}  // namespace
}  // namespace tacit
