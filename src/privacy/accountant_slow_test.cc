#include <algorithm>
#include <string>
#include <tuple>

#include "privacy/accountant_cases.h"
#include "privacy/pld.h"

namespace tacit {
namespace {

TEST(Accountant, SampledRounds) {
  // The first two are upper bounds of the dominating pair, to four digits.
  EXPECT_NEAR(EpsilonOf(Account(Adjacency::kReplaceOne, Fixed(0.01, 1), 1000), 1e-5).upper, 2.1989, 2e-4);
  EXPECT_NEAR(EpsilonOf(Account(Adjacency::kReplaceOne, Fixed(1e-3, 2), 1000), 1e-5).upper, 3.2860, 2e-4);
  const Bracket one = DeltaOf(Account(Adjacency::kReplaceOne, Fixed(0.01, 1)), 0.1);
  EXPECT_NEAR(one.upper, 7.29003770e-5, 1e-12);
  EXPECT_NEAR(one.lower, one.upper, 1e-15);
  // The same sample in ten steps of a round, against a new sample in each step.
  EXPECT_NEAR(EpsilonOf(Account(Adjacency::kReplaceOne, Fixed(1e-3, std::sqrt(10.0)), 100), 1e-5).upper,
              9.6396, 2e-3);
  EXPECT_NEAR(EpsilonOf(Account(Adjacency::kReplaceOne, Fixed(1e-3, 1), 1000), 1e-5).upper, 0.1798, 2e-3);
  // Add-remove understates replace-one.
  EXPECT_NEAR(DeltaOf(Account(Adjacency::kAddOrRemove, Poisson(0.5, 1)), 0.5).upper, 0.0799, 1e-4);
}

TEST(Accountant, BracketsAreNarrowFromTinyToHuge) {
  struct Case {
    const char* why;
    double q, mu;
    std::uint64_t rounds;
    double delta, width;
  };
  const Case cases[] = {
      {"an everyday run", 0.01, 1, 1000, 1e-5, 1e-9},
      {"a tiny delta", 0.01, 1, 10000, 1e-15, 1e-9},
      {"a tiny delta, few rounds", 0.1, 1, 5, 1e-15, 1e-9},
      {"a million rounds", 0.001, 0.5, 1000000, 1e-6, 1e-9},
      {"a million rounds, a tiny delta", 0.001, 0.5, 1000000, 1e-15, 1e-8},
      {"a million rounds of a tiny rate", 1e-5, 1, 1000000, 1e-6, 1e-6},
      {"10^12 rounds", 1e-6, 0.1, 1000000000000, 1e-6, 1e-3},
      {"a large epsilon", 0.05, 1.5, 100000, 1e-6, 1e-9},
      {"epsilon above 1000", 0.1, 2, 10000, 1e-6, 1e-9},
      {"epsilon below 1e-4", 1e-4, 0.01, 100, 1e-7, 1e-8},
      {"much noise", 0.5, 0.01, 10000, 1e-6, 1e-9},
      {"little noise", 0.001, 3, 1000, 1e-6, 1e-8},
      {"little noise and a tiny rate", 1e-5, 3, 10000, 1e-7, 1e-7},
      {"two rounds", 0.01, 1, 2, 1e-5, 1e-6},
      {"two rounds at a high rate", 0.5, 1, 2, 1e-6, 1e-9},
      {"two rounds with little noise", 0.01, 2, 2, 1e-5, 1e-5},
      {"five rounds", 0.1, 1, 5, 1e-5, 1e-9},
      {"ten rounds", 0.01, 2, 10, 1e-5, 1e-8},
      {"a hundred rounds of a tiny rate", 1e-4, 1, 100, 1e-8, 1e-6},
      {"two rounds of a tiny rate: rare large losses, by the grid", 1e-3, 1, 2, 1e-9, 1e-3},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Bracket e = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(c.q, c.mu), c.rounds), c.delta);
    EXPECT_GT(e.lower, 0);
    EXPECT_LE((e.upper - e.lower) / e.upper, c.width) << e.lower << ' ' << e.upper << ' ' << e.method;
  }
}

TEST(Accountant, MostlyNothingIsSampled) {
  // One round in a million rounds is with the unit; the tail of δ is a single large loss.
  const Bracket e = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(1e-6, 1), 1000000), 1e-15);
  EXPECT_GT(e.lower, 0.00884);
  EXPECT_LT(e.upper, 0.00901);
  const Bracket d = DeltaOf(Account(Adjacency::kAddOrRemove, Poisson(1e-6, 1), 1000000), 0.0045);
  EXPECT_LE(d.upper - d.lower, 1e-2 * d.upper);
}

TEST(Accountant, WidthsByRate) {
  // What docs/accounting.md says of the widths.
  struct Case {
    double q, width;
  };
  for (const Case& c :
       {Case{0.1, 1e-6}, Case{0.01, 1e-4}, Case{1e-3, 1e-3}, Case{1e-4, 2e-2}, Case{1e-5, 0.7}}) {
    double widest = 0;
    std::string where;
    for (const double z : {0.1, 0.5, 1.0, 4.0})
      for (const std::uint64_t rounds : {2, 10, 100, 10000})
        for (const double delta : {1e-5, 1e-9}) {
          const Bracket e = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(c.q, 1 / z), rounds), delta);
          const double width = e.upper > 0 ? (e.upper - e.lower) / e.upper : 0;
          if (width > widest)
            widest = width, where = testing::PrintToString(std::tuple(z, rounds, delta)) + ' ' + e.method;
        }
    EXPECT_LE(widest, c.width) << c.q << " at " << where;
  }
}

TEST(Accountant, IsMonotoneEverywhere) {
  // Brackets may overlap, but none lies on the wrong side of one that must be below it.
  for (const double q : {1e-3, 0.03, 0.6})
    for (const double mu : {0.2, 1.5})
      for (const std::uint64_t t : {1, 2, 7, 60, 4000})
        for (const double delta : {1e-4, 1e-9}) {
          SCOPED_TRACE(testing::Message() << q << ' ' << mu << ' ' << t << ' ' << delta);
          const auto at = [](double rate, double unit, std::uint64_t rounds, double d) {
            return EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(rate, unit), rounds), d);
          };
          const Bracket base = at(q, mu, t, delta);
          EXPECT_LE(base.lower, at(q * 1.05, mu, t, delta).upper);
          EXPECT_LE(base.lower, at(q, mu * 1.05, t, delta).upper);
          EXPECT_LE(base.lower, at(q, mu, t + 1, delta).upper);
          EXPECT_LE(base.lower, at(q, mu, t, delta * 0.9).upper);
        }
}

TEST(Accountant, AgreesWithAnotherGrid) {
  // An independent method: connect-the-dots on a grid, an upper bound.
  for (const double q : {0.003, 0.4})
    for (const double mu : {0.3, 1.0})
      for (const std::size_t t : {60, 700}) {
        SCOPED_TRACE(testing::Message() << q << ' ' << mu << ' ' << t);
        const Bracket e = EpsilonOf(Account(Adjacency::kReplaceOne, Fixed(q, mu), t), 1e-6);
        const Result<double> grid =
            SubsampledEpsilon(Of<Probability>(q), Of<Mu>(mu), t, Of<Delta>(1e-6), {.cells = 1U << 14});
        ASSERT_TRUE(grid.ok());
        EXPECT_LE(e.upper, *grid * (1 + 1e-3));
        EXPECT_NEAR(e.upper, *grid, 2e-2 * *grid);
      }
}

}  // namespace
}  // namespace tacit
