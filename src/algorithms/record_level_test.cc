// Federated averaging, SCAFFOLD and ISRL-DP with records as the unit of privacy.
#include <gtest/gtest.h>

#include <cmath>

#include "algorithms/isrl_dp.h"
#include "algorithms/record_fed_avg.h"
#include "algorithms/test_world.h"

namespace tacit {
namespace {

using test::Rounds;
const Expose kExpose{};
const LatticeGaussian kLattice{};

struct World : test::World {
  World(std::size_t n, std::size_t m, std::size_t d, Loss loss = Loss::kLogistic)
      : test::World(test::RandomData(loss, 2, n * m, d, 1.0, 3), n, loss,
                    {.name = Penalty::kL2Ball, .weight = 0, .radius = 1.0}) {}
  template <class A>
  Vec Run(const typename A::Options& o, const Mechanism& mechanism, double sigma = 1) {
    typename A::Server server(problem, o);
    typename A::Down down;
    Scratch scratch;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    scratch.rng = &rng;
    const auto noise = std::make_shared<const NoisePlan>(o.rounds.size(), NoiseStd::Proven(sigma));
    std::vector<typename A::Client> clients;
    for (std::uint32_t i = 0; i < shards.size(); ++i)
      clients.emplace_back(Own(i), problem, mechanism, o, noise);
    for (bool more = server.Start(down); more;) {
      rng.Rekey({.seed = 1, .purpose = Purpose::kNoise, .who = 0, .round = server.round()});
      typename A::Sum sum;
      sum.Reset();
      for (auto& c : clients) {
        typename A::Up up;
        EXPECT_TRUE(c.Round(down, up, scratch).ok());
        sum.Add(up);
      }
      more = *server.Round(sum, down, scratch);
    }
    return Vec(server.model().begin(), server.model().end());
  }
};

RecordFedAvg::Options Options(std::uint32_t rounds, std::uint32_t steps, bool control, double rate = 0.2) {
  RecordFedAvg::Options o;
  o.local = {.rate = rate, .steps = steps};
  o.clip = L2Bound{1e6};
  o.control = control;
  o.rounds = Rounds(rounds);
  return o;
}

TEST(RecordFedAvg, OneLocalStepWithoutNoiseIsGradientDescent) {
  World w(5, 8, 4);
  Vec x(4);
  for (int t = 0; t < 20; ++t) Axpy(-0.2, w.Gradient(x), x);
  const Vec got = w.Run<RecordFedAvg>(Options(20, 1, false), kExpose);
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(got[j], x[j], 1e-13);
}

TEST(RecordFedAvg, WithoutNoiseControlVariatesRemoveTheDrift) {
  World w(4, 6, 3, Loss::kLeastSquares);
  EXPECT_LT(Norm(w.Gradient(w.Run<RecordFedAvg>(Options(600, 10, true, 0.02), kExpose))), 1e-8);
  EXPECT_GT(Norm(w.Gradient(w.Run<RecordFedAvg>(Options(600, 10, false, 0.02), kExpose))), 1e-4);
}

TEST(RecordFedAvg, OneClientsControlVariatesCancelBitForBit) {      // c = c_1, so c − c_1 = 0
  World w(1, 6, 3);
  EXPECT_EQ(w.Run<RecordFedAvg>(Options(10, 3, true), kLattice, 0.5),
            w.Run<RecordFedAvg>(Options(10, 3, false), kLattice, 0.5));
}

TEST(RecordFedAvg, EveryLocalStepIsPaidFor) {
  World w(3, 10, 4);
  auto o = Options(7, 5, true);
  o.clip = L2Bound{0.5};
  w.Run<RecordFedAvg>(o, kLattice, 2.0);
  for (const Ledger& l : w.ledgers) {
    EXPECT_EQ(l.charges(), 35u);
    EXPECT_NEAR(l.spent().value(), 35 * 0.25, 1e-6);      // μ = 2C/σ = ½ a step
  }
}

TEST(IsrlDp, WithoutNoiseIsProjectedGradientDescent) {
  World w(4, 10, 3);
  IsrlDp::Options o{.rate = 0.5, .clip = L2Bound{1e6}, .rounds = Rounds(30)};
  Vec x(3), mean(3);
  for (int t = 1; t <= 30; ++t) {
    Axpy(-0.5, w.Gradient(x), x);
    w.g->Prox(0.5, x);
    Axpy(1.0 / 30, x, mean);
  }
  const Vec got = w.Run<IsrlDp>(o, kExpose);
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(got[j], mean[j], 1e-13);
}

TEST(IsrlDp, WeightsIteratesByTheirRoundUnderStrongConvexity) {
  World w(4, 10, 3);
  IsrlDp::Options o{.strong_convexity = 0.5, .l2 = 0.5, .clip = L2Bound{1e6}, .rounds = Rounds(25)};
  Vec x(3), mean(3);
  for (int r = 1; r <= 25; ++r) {
    Vec g = w.Gradient(x);
    Axpy(0.5, x, g);
    Axpy(-2 / (0.5 * (r + 1)), g, x);
    w.g->Prox(1, x);
    Axpy(2.0 * r / (25 * 26), x, mean);
  }
  const Vec got = w.Run<IsrlDp>(o, kExpose);
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(got[j], mean[j], 1e-12);
}

}  // namespace
}  // namespace tacit
