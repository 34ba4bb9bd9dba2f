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
      {"a tiny delta", 0.01, 1, 10000, 1e-15, 1e-8},
      {"a million rounds", 0.001, 0.5, 1000000, 1e-6, 1e-7},
      {"a large epsilon", 0.05, 1.5, 100000, 1e-6, 1e-7},
      {"a tiny epsilon", 1e-4, 0.01, 100, 1e-7, 1e-3},
      {"much noise", 0.5, 0.01, 10000, 1e-6, 1e-7},
      {"little noise", 0.001, 3, 1000, 1e-6, 5e-3},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Bracket e = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(c.q, c.mu), c.rounds), c.delta);
    EXPECT_GT(e.lower, 0);
    EXPECT_LE((e.upper - e.lower) / e.upper, c.width) << e.lower << ' ' << e.upper << ' ' << e.method;
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
