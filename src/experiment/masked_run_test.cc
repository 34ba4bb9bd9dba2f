// Runs whose sums are masked, in one process: what is planned is charged and sent, certificates are verified
// by other code, and what cannot be masked is refused. Over the wire: net/federation_test.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/client_runs.h"
#include "experiment/kill_runs.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

using nlohmann::json;

class MaskedRun : public ClientRuns {
 protected:
  MaskedRun()
      : ClientRuns({{"privacy.trust", "masked"},
                    {"privacy.mechanism", "discrete_gaussian"},
                    {"algorithm.allocation", "static"},
                    {"algorithm.rounds", "12"}}) {}
};

TEST_F(MaskedRun, ThePlanIsWhatIsChargedAndSentAndTheCertificateHolds) {
  for (const char* name : {"fedexp", "dp-fedavg", "dp-scaffold"})
    for (const char* adjacency : {"replace-one", "zero-out"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, adjacency));
      const RunResult r = Good(Make({{"algorithm.name", name},
                                     {"privacy.adjacency", adjacency},
                                     {"privacy.survivors", "15"},
                                     {"privacy.colluding", "3"}}));
      EXPECT_LE(r.certified_epsilon, 2.0);
      EXPECT_GT(r.certified_epsilon, 2 * (1 - 1e-6));
      EXPECT_EQ(r.certified_epsilon, r.plan.certified_epsilon);
      EXPECT_EQ(r.rounds_done, 12u);
      EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
      EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
      Holds(r.folder);
    }
}

TEST_F(MaskedRun, ResumesBitForBitForAnyNumberOfThreads) {
  for (const auto& sets :
       std::vector<Sets>{{{"algorithm.name", "dp-scaffold"}},
                         {{"algorithm.name", "dp-fedavg"}, {"algorithm.clip_quantile", "0.5"}}}) {
    const RunResult whole = Good(Make(sets, "whole"));
    Holds(whole.folder);
    std::atomic<bool> interrupt{false};
    TrainHooks hooks;
    hooks.interrupt = &interrupt;
    hooks.threads = 3;
    hooks.progress = [&](const Progress& p) { interrupt = p.round >= 5; };
    const RunResult part = Good(Make(sets, "part"), hooks);
    EXPECT_EQ(part.certified_epsilon, whole.certified_epsilon);
    const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->model, whole.model);
  }
}

// σ of a share is that of the sum over √(m − c); of the whole a little more than a Gaussian's, since zCDP is
// all that is known of it.
TEST_F(MaskedRun, TheNoiseIsThatOfTheFewestWhoDoNotCollude) {
  const auto share = [&](const char* survivors, const char* colluding) {
    return Planned({{"algorithm.name", "dp-fedavg"},
                    {"privacy.survivors", survivors},
                    {"privacy.colluding", colluding}})
        .secure->share()
        .value();
  };
  const double all = share("0", "0");
  EXPECT_NEAR(share("20", "0"), all, all * 1e-9);
  EXPECT_NEAR(share("11", "0") / all, std::sqrt(20.0 / 11), 1e-6);
  EXPECT_NEAR(share("15", "4") / all, std::sqrt(20.0 / 11), 1e-6);
  // ρ-zCDP with ρ = ½·12·(2C)²/(20σ²), turned into (ε, δ) by no more than the usual formula.
  const double rho = 0.5 * 12 * 1.0 / (20 * all * all);
  EXPECT_GE(ZcdpEpsilon(Rho::Proven(rho), Delta::Proven(1e-4)), 2.0);
  const double gaussian = std::sqrt(12.0) / GdpMu(Epsilon::Proven(2), Delta::Proven(1e-4)).value();
  EXPECT_GT(all * std::sqrt(20.0), gaussian);
  EXPECT_LT(all * std::sqrt(20.0), 1.095 * gaussian);  // 1.092, as all orders give
}

TEST_F(MaskedRun, TheSquaredLengthOfFedExpGoesAlongAndIsChargedItsGrid) {
  const Plan p = Planned({{"algorithm.name", "fedexp"}});
  EXPECT_GT(p.square, 0);
  const auto e = std::get<DistributedDiscreteGaussianEvent>(p.account->lines().front().event);
  EXPECT_EQ(e.dimension, p.dim + 1);
  EXPECT_EQ(p.account->lines().front().count, 12u);
  EXPECT_NEAR(e.sensitivity.value() * p.secure->grid(),
              p.sensitivity + p.secure->grid() * std::sqrt(static_cast<double>(p.dim) + 1), 1e-12);
}

TEST_F(MaskedRun, TheCertificateSaysWhatIsAssumedAndForgedOnesAreFound) {
  const RunResult r =
      Good(Make({{"algorithm.name", "dp-fedavg"}, {"privacy.survivors", "15"}, {"privacy.colluding", "3"}}));
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  ASSERT_TRUE(Verify(honest, "honest")->holds());
  const std::string text = CertificateText(honest);
  EXPECT_NE(text.find("masked: the server learns the sum only"), std::string::npos) << text;
  EXPECT_NE(text.find("survivors at least 15, assumed colluding 3"), std::string::npos) << text;
  EXPECT_NE(honest["privacy"]["against"].get<std::string>().find("up to 3 clients"), std::string::npos);
  const auto found = [&](const json::json_pointer& at, const json& value) {
    json forged = honest;
    forged[at] = value;
    const auto v = Verify(forged, "forged");
    return v.ok() && !v->findings.empty();
  };
  EXPECT_TRUE(found(json::json_pointer("/privacy/masked/survivors"), 20));  // more noise than there was
  EXPECT_TRUE(found(json::json_pointer("/privacy/masked/colluding"), 0));
  EXPECT_TRUE(found(json::json_pointer("/privacy/masked/colluding"), 15));
  EXPECT_TRUE(found(json::json_pointer("/privacy/masked/threshold"), 3));
  EXPECT_TRUE(found(json::json_pointer("/privacy/masked/bits"), 64));
  EXPECT_TRUE(found(json::json_pointer("/privacy/masked/grid_exponent"), -3));
  EXPECT_TRUE(found(json::json_pointer("/privacy/masked/noise_of_a_client"), 2.0));
  EXPECT_TRUE(found(json::json_pointer("/account/events/0/clients"), 20));
  EXPECT_TRUE(found(json::json_pointer("/privacy/trust"), "local"));
  EXPECT_TRUE(found(json::json_pointer("/mechanism/name"), "lattice_gaussian"));
}

TEST_F(MaskedRun, WhatCannotBeMaskedIsSaid) {
  const Sets fedavg = {{"algorithm.name", "dp-fedavg"}};
  const auto why = [&](Sets more) {
    more.insert(more.begin(), fedavg.begin(), fedavg.end());
    return Why(more);
  };
  EXPECT_EQ(why({}), "");
  for (const auto& [sets, part] : std::vector<std::pair<Sets, const char*>>{
           {{{"privacy.mechanism", "lattice_gaussian"}}, "discrete_gaussian"},
           {{{"privacy.trust", "central"}}, "discrete_gaussian"},
           {{{"privacy.trust", "central"},
             {"privacy.mechanism", "lattice_gaussian"},
             {"privacy.survivors", "3"}},
            "privacy.survivors"},
           {{{"privacy.survivors", "10"}}, "11 at least"},
           {{{"privacy.survivors", "21"}}, "20 clients"},
           {{{"privacy.colluding", "20"}}, "privacy.colluding"},
           {{{"privacy.unit", "record"}}, "privacy.unit"},
           {{{"privacy.budgets", "[1]"}}, "privacy.budgets"},
           {{{"algorithm.mode", "paper"}, {"algorithm.noise_multiplier", "1"}}, "certified mode"},
           {{{"algorithm.weights", "records"}}, "weights"},
           {{{"algorithm.sampling", "poisson"}, {"algorithm.sample_rate", "0.5"}}, "sampling"},
           {{{"algorithm.allocation", "geometric"}}, "static"},
           {{{"algorithm.name", "fedexp"}, {"algorithm.step", "naive"}}, "naive"},
           {{{"algorithm.name", "primal-dual"}, {"privacy.unit", "record"}}, "privacy.trust"},
           {{{"algorithm.name", "zcdp-nfl"}, {"privacy.unit", "record"}}, "privacy.trust"},
           {{{"privacy.adjacency", "add-remove"}}, "add-remove"}})
    EXPECT_NE(why(sets).find(part), std::string::npos) << part << " is not in: " << why(sets);
}

}  // namespace
}  // namespace tacit
