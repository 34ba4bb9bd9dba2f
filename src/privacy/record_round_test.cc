#include "privacy/record_round.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/round.h"
#include "privacy/accountant.h"
#include "privacy/claims.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

RecordSampling Fixed(std::uint32_t b, double rate) {
  return {.sample = {.kind = SampleKind::kFixed, .rate = Probability::Proven(rate), .size = b}, .size = b};
}
NoiseRng Rng(std::uint32_t round = 0) { return NoiseRng::Replayable({7, Purpose::kNoise, 0, round}); }
std::vector<std::uint32_t> Seen(const RecordRound& r) {  // through the one way a test has: a bounded value
  const auto as_vector = r.sample().Map<[](const std::vector<std::uint32_t>& s) {
    Vec v(100);
    for (const std::uint32_t i : s) v[i] = 1;
    return v;
  }>();
  Private<Vec> copy = as_vector;
  NoiseBuffer noise;
  Released<Vec> out;
  NoiseRng rng = Rng();
  Ledger free(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  EXPECT_TRUE(
      Expose().Release(Bounded::Clip(copy, L2Bound{100.0}), NoiseStd{1.0}, free, rng, noise, out).ok());
  std::vector<std::uint32_t> sample;
  for (std::uint32_t i = 0; i < 100; ++i)
    if ((*out)[i] != 0) sample.push_back(i);
  return sample;
}

TEST(RecordRound, PaysOnceForTheRoundAndRefusesBeyondIt) {
  const Mu mu{0.5};
  const FixedSizeGaussianEvent event{Probability{0.1}, mu};
  Accountant plan(Adjacency::kReplaceOne);
  ASSERT_TRUE(plan.Compose(event, 2).ok());
  LedgerBook book(1, plan);
  NoiseRng rng = Rng();
  for (std::uint32_t t = 0; t < 2; ++t) {
    auto round = RecordRound::Open(Fixed(10, 0.1), 100, t, mu, book.account(0), rng);
    ASSERT_TRUE(round.ok());
    // Four releases of μ = 1/4 are μ = 1/2 together, and a fifth is one too many.
    const GaussianEvent one{Mu{0.25}, L2Bound{1.0}, NoiseStd{4.0}};
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(round->account().Charge(one).ok());
    EXPECT_EQ(round->account().Charge(one).error().code, Code::kBudget);
  }
  const auto third = RecordRound::Open(Fixed(10, 0.1), 100, 2, mu, book.account(0), rng);
  EXPECT_FALSE(third.ok());
  EXPECT_EQ(book.plan()->left()[0], 0u);
}

TEST(RecordRound, SamplesAreOfTheirSizeAndFresh) {
  Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  NoiseRng rng = Rng();
  std::set<std::vector<std::uint32_t>> different;
  for (std::uint32_t t = 0; t < 20; ++t) {
    const auto round = RecordRound::Open(Fixed(5, 0.05), 100, t, std::nullopt, ledger, rng);
    const auto sample = Seen(*round);
    EXPECT_EQ(sample.size(), 5u);
    different.insert(sample);
  }
  EXPECT_EQ(different.size(), 20u);
  // A client with fewer records than that uses all it has.
  EXPECT_EQ(Seen(*RecordRound::Open(Fixed(5, 1.0), 3, 0, std::nullopt, ledger, rng)).size(), 3u);
  const RecordSampling everyone{.sample = {}, .size = 1};
  EXPECT_EQ(Seen(*RecordRound::Open(everyone, 40, 0, std::nullopt, ledger, rng)).size(), 40u);
  EXPECT_EQ(everyone.Divisor(40), 40.0);
  EXPECT_EQ(everyone.Most(40), 40u);
  // Poisson: 5 of 100 in the mean; 200 rounds deviate by less than 6 standard deviations, √(1000·0.95).
  const RecordSampling poisson{.sample = {.kind = SampleKind::kPoisson, .rate = Probability{0.05}},
                               .size = 5};
  std::size_t total = 0;
  for (std::uint32_t t = 0; t < 200; ++t)
    total += Seen(*RecordRound::Open(poisson, 100, t, std::nullopt, ledger, rng)).size();
  EXPECT_NEAR(static_cast<double>(total), 1000, 6 * std::sqrt(950.0));
  EXPECT_EQ(poisson.Divisor(100), 5.0);
  EXPECT_EQ(poisson.Most(100), 100u);  // how many there are is secret
}

TEST(RecordRound, ACycleIsNoSampleAndAPassCostsOneRound) {
  const RecordSampling cycle{.sample = {}, .size = 10, .cycle = true};
  EXPECT_EQ(cycle.RoundsOfOne(25, 100), 3u);
  const Mu mu{0.5};
  EXPECT_TRUE(std::holds_alternative<GaussianEvent>(RoundEvent(cycle, mu)));
  Accountant plan(Adjacency::kReplaceOne);
  ASSERT_TRUE(plan.Compose(RoundEvent(cycle, mu), 3).ok());
  LedgerBook book(1, plan);
  NoiseRng rng = Rng();
  std::vector<int> used(100);
  for (std::uint32_t t = 0; t < 25; ++t) {
    const auto round = RecordRound::Open(cycle, 100, t, mu, book.account(0), rng);
    ASSERT_TRUE(round.ok()) << t;
    for (const std::uint32_t i : Seen(*round)) ++used[i];
  }
  EXPECT_EQ(*std::max_element(used.begin(), used.end()), 3);
  EXPECT_EQ(book.plan()->left()[0], 0u);
  EXPECT_FALSE(RecordRound::Open(cycle, 100, 30, mu, book.account(0), rng).ok());
}

// What the paper credits, amplification of every step, against what one sample for all steps costs.
TEST(RecordRound, OneSampleIsAmplifiedOnce) {
  const auto epsilon = [](double rate, double mu, std::uint64_t count) {
    Accountant account(Adjacency::kReplaceOne);
    EXPECT_TRUE(
        account.Compose(FixedSizeGaussianEvent{Probability::Proven(rate), Mu::Proven(mu)}, count).ok());
    return account.EpsilonAt(Delta{1e-5})->upper;
  };
  EXPECT_NEAR(epsilon(1e-3, std::sqrt(10.0), 100), 9.6396, 2e-3);
  EXPECT_NEAR(epsilon(1e-3, 1, 1000), 0.1798, 2e-3);
  EXPECT_NEAR(epsilon(1e-3, 3, 100), 8.3831, 2e-3);
  EXPECT_NEAR(epsilon(1e-3, 1, 900), 0.1702, 2e-3);
}

TEST(RecordRound, NoiseThatTheExperimentsOfThePaperWouldNeed) {
  const auto epsilon = [](double mu) {
    Accountant account(Adjacency::kReplaceOne);
    EXPECT_TRUE(account.Compose(FixedSizeGaussianEvent{Probability{1e-4}, Mu::Proven(mu)}, 40000).ok());
    return account.EpsilonAt(Delta{1e-5})->upper;
  };
  EXPECT_NEAR(epsilon(1.7923), 0.8, 3e-3);
  EXPECT_NEAR(epsilon(1.8482), 1.0, 3e-3);
  EXPECT_NEAR(FcrnRoundMu(Epsilon{0.8}, {}).value() / 1.7923, 2.271, 3e-3);
  EXPECT_NEAR(FcrnRoundMu(Epsilon{1.0}, {}).value() / 1.8482, 2.753, 3e-3);
}

TEST(RecordRound, ASampleIsNotLargerThanTheRateThatIsPaidFor) {
  const Mu mu{0.5};
  const auto open = [&](std::uint32_t b, double rate, std::size_t records) {
    Accountant plan(Adjacency::kReplaceOne);
    EXPECT_TRUE(plan.Compose(RoundEvent(Fixed(b, rate), mu), 1).ok());
    LedgerBook book(1, plan);
    NoiseRng rng = Rng();
    const auto round = RecordRound::Open(Fixed(b, rate), records, 0, mu, book.account(0), rng);
    // Refused before it is paid for, and so before a sample is drawn.
    EXPECT_EQ(book.plan()->left()[0], round.ok() ? 0u : 1u);
    return round.ok() ? std::optional<Code>() : round.error().code;
  };
  EXPECT_EQ(open(5, 0.05, 100), std::nullopt);
  EXPECT_EQ(open(5, 0.05, 120), std::nullopt) << "more records than planned with are a lower rate";
  EXPECT_EQ(open(5, 0.05, 99), Code::kInvalidArgument) << "one record fewer is a higher rate";
  EXPECT_EQ(open(6, 0.05, 100), Code::kInvalidArgument) << "one record more in the sample";
  EXPECT_EQ(open(1, DivUp(1.0, 3.0), 3), std::nullopt) << "rounded up";
  EXPECT_EQ(open(1, NextDown(DivUp(1.0, 3.0)), 3), Code::kInvalidArgument) << "rounded down";
  EXPECT_EQ(open(5, 1.0, 3), std::nullopt) << "all that there are";
  EXPECT_EQ(open(5, 0.9, 3), Code::kInvalidArgument) << "all of fewer than the sample, paid for as some";
  // Poisson samples of a client with fewer records are drawn at the rate that was paid for: 20 records at
  // 0.05 for 2000 rounds are 2000 in the mean, within 6 standard deviations; at 5/20 they would be 10,000.
  const RecordSampling poisson{.sample = {.kind = SampleKind::kPoisson, .rate = Probability{0.05}},
                               .size = 5};
  Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  NoiseRng rng = Rng();
  std::size_t total = 0;
  for (std::uint32_t t = 0; t < 2000; ++t)
    total += Seen(*RecordRound::Open(poisson, 20, t, std::nullopt, ledger, rng)).size();
  EXPECT_NEAR(static_cast<double>(total), 2000, 6 * std::sqrt(2000 * 0.95));
}

TEST(RecordRound, ARoundWithoutAPromiseCostsEverything) {
  Ledger tight(MuSquared{1.0}, Adjacency::kReplaceOne);
  NoiseRng rng = Rng();
  EXPECT_FALSE(RecordRound::Open(Fixed(1, 0.1), 10, 0, std::nullopt, tight, rng).ok());
  EXPECT_EQ(tight.spent().value(), 0.0);
  EXPECT_TRUE(std::holds_alternative<NonPrivateEvent>(RoundEvent(Fixed(1, 0.1), std::nullopt)));
}

}  // namespace
}  // namespace tacit
