// Runs with error feedback, from a config to a certificate that verifies.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiment/feedback_plan.h"
#include "experiment/kill_runs.h"
#include "experiment/test_runs.h"

namespace tacit {
namespace {

using nlohmann::json;
using Sets = std::vector<Assignment>;

class FeedbackRuns : public TestRuns {
 protected:
  FeedbackRuns()
      : TestRuns(R"(
[data]
source = "synthetic-logistic"
rows = 241
features = 20
density = 1.0
clients = 6
row_norm = "clip"
[model]
name = "logistic"
l2 = 0.05
[privacy]
epsilon = 2
delta = 1e-4
noise = "replayable"
[algorithm]
name = "dpd-ef21-2"
compressor = "top:0.2"
rounds = 25
)") {}
};

Assignment Method(const char* name) { return {"algorithm.name", name}; }
const Assignment kClient{"privacy.unit", "client"}, kPaper{"algorithm.mode", "paper"};

struct Kind {
  const char* why;
  Sets sets;
  bool stop = false;  // is stopped and resumed, too
};
const Kind kKinds[] = {
    {"mirrored, records", {}, true},
    {"mirrored, records, equal rounds", {{"algorithm.allocation", "static"}}},
    {"mirrored, records, geometric", {{"algorithm.allocation", "geometric"}, {"algorithm.ratio", "0.95"}}},
    {"mirrored, records, zero-out", {{"privacy.adjacency", "zero-out"}}},
    {"mirrored, secret samples of records",
     {{"algorithm.batch", "4"}, {"algorithm.allocation", "static"}},
     true},
    {"mirrored, clients", {kClient}},
    {"mirrored, clients, batches", {kClient, {"algorithm.batch", "7"}}},
    {"mirrored, random coordinates", {{"algorithm.compressor", "rand:0.25"}}},
    {"mirrored, rounding", {{"algorithm.compressor", "top:0.3+round:2"}}},
    {"mirrored, 8 bits", {{"algorithm.compressor", "identity/8"}}},
    {"mirrored, a projection", {{"model.penalty", "l2ball"}, {"model.radius", "2"}}},
    {"mirrored, growing steps", {{"algorithm.first_gamma", "0.01"}, {"algorithm.growth", "1.02"}}},
    {"mirrored, double-precision noise", {{"privacy.mechanism", "gaussian"}}},
    {"mirrored, no noise", {{"privacy.mechanism", "expose"}}},
    {"mirrored, a budget each", {{"privacy.budgets", "[1, 2, 1, 2, 0.5, 2]"}}},
    {"mirrored, samples of clients",
     {{"algorithm.sampling", "fixed"},
      {"algorithm.sample_clients", "3"},
      {"algorithm.allocation", "static"}}},
    {"mirrored, samples, few turns",
     {{"algorithm.sampling", "poisson"},
      {"algorithm.sample_rate", "0.5"},
      {"algorithm.participations", "8"},
      {"algorithm.allocation", "static"}},
     true},
    {"mirrored, layers of a network",
     {{"model.name", "mlp"},
      {"model.classes", "2"},
      {"model.hidden", "[5]"},
      {"algorithm.gamma", "0.1"},
      {"algorithm.compressor", "layers:0.2"}}},
    {"private", {Method("dpd-ef21"), kClient}},
    {"private, an equal split", {Method("dpd-ef21"), kClient, {"algorithm.allocation", "static"}}},
    {"private, following the iterates",
     {Method("dpd-ef21"),
      kClient,
      {"algorithm.radius_rule", "trajectory"},
      {"algorithm.radius_ratio", "0.9"}},
     true},
    {"private, rounds skipped", {Method("dpd-ef21"), kClient, {"algorithm.radius_ratio", "0.4"}}, true},
    {"private, samples",
     {Method("dpd-ef21"),
      kClient,
      {"algorithm.sampling", "fixed"},
      {"algorithm.sample_clients", "2"},
      {"algorithm.allocation", "static"}}},
    {"dp-clip21", {Method("dp-clip21"), kClient}},
    {"dp-clip21, mirrored", {Method("dp-clip21"), kClient, {"algorithm.state", "mirrored"}}, true},
    {"dp-clip21, the papers' mode", {Method("dp-clip21"), kClient, kPaper}},
    {"clip21-sgd2m", {Method("clip21-sgd2m"), kClient, {"algorithm.batch", "10"}}, true},
    {"clip21-sgd2m, the papers' mode", {Method("clip21-sgd2m"), kClient, kPaper, {"algorithm.beta", "0.2"}}},
    {"printed, (i)", {Method("dpd-ef21"), kPaper}},
    {"printed, (ii)", {Method("dpd-ef21"), kPaper, {"algorithm.schedule", "lyapunov"}}, true},
    {"printed, Theorem 1", {Method("dpd-ef21"), kPaper, {"algorithm.schedule", "theorem"}}},
    {"printed, Appendix D", {Method("dpd-ef21"), kPaper, {"algorithm.schedule", "levels"}}},
    {"printed 2, (i)", {kPaper}, true},
    {"printed 2, (ii)", {kPaper, {"algorithm.schedule", "lyapunov"}}},
};

TEST_F(FeedbackRuns, AllKindsRunVerifyAndDoNotDependOnThreads) {
  int number = 0;
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.why);
    const std::string where = fmt::format("k{}", number++);
    const Config c = Make(kind.sets, where.c_str());
    TrainHooks hooks;
    hooks.threads = 1;
    const RunResult r = Good(c, hooks);
    Holds(r.folder);
    if (c.algorithm.mode == "certified" && c.privacy.mechanism != "expose") {
      EXPECT_LE(r.certified_epsilon, 2);
      if (c.algorithm.sampling == "full") {
        EXPECT_GT(r.certified_epsilon, 1.99);
      }
    }
    for (const unsigned threads : {2u, 3u, 8u}) {
      TrainHooks more;
      more.threads = threads;
      more.write_folder = false;
      EXPECT_EQ(Good(c, more).model, r.model) << threads;
    }
  }
}

TEST_F(FeedbackRuns, RunsThatWereStoppedGoOnToTheSameEnd) {
  int number = 0;
  for (const Kind& kind : kKinds) {
    if (!kind.stop) continue;
    SCOPED_TRACE(kind.why);
    const std::string whole = fmt::format("w{}", number), part = fmt::format("p{}", number);
    ++number;
    const RunResult lived = Good(Make(kind.sets, whole.c_str()));
    std::atomic<bool> stop{false};
    TrainHooks hooks;
    hooks.interrupt = &stop;
    hooks.progress = [&](const Progress& p) { stop = p.round >= 11; };
    const RunResult stopped = Good(Make(kind.sets, part.c_str()), hooks);
    ASSERT_TRUE(stopped.interrupted);
    Holds(stopped.folder);
    const auto resumed = Resume(stopped.folder);
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    EXPECT_EQ(resumed->model, lived.model);
    EXPECT_EQ(resumed->bytes_up, lived.bytes_up);
    EXPECT_EQ(resumed->certified_epsilon, lived.certified_epsilon);
    Holds(stopped.folder);
  }
}

TEST_F(FeedbackRuns, BytesAreThoseThatTravel) {
  Sets sets = {{"data.features", "2000"}, {"data.rows", "60"}, {"algorithm.rounds", "5"}};
  const auto bytes = [&](const char* compressor) {
    Sets all = sets;
    all.push_back({"algorithm.compressor", compressor});
    const RunResult r = Good(Make(all, compressor));
    EXPECT_NEAR(static_cast<double>(r.bytes_up) / static_cast<double>(r.plan.bytes_up), 1, 0.05)
        << compressor;
    return r.bytes_up;
  };
  const std::size_t dense = bytes("identity");
  EXPECT_GT(dense, 6u * 5 * 16000);
  EXPECT_LT(bytes("identity/32"), dense * 51 / 100);
  EXPECT_LT(bytes("top:0.01"), dense / 100);
  EXPECT_LT(bytes("rand:0.01"), dense / 120);  // where the coordinates are need not be said
}

TEST_F(FeedbackRuns, ThePlanKnowsItsTheory) {
  const Plan p = Planned({{"algorithm.initial_error", "10"}, {"algorithm.target_error", "1e-3"}});
  const Ef21Theory t{.alpha = p.feedback->alpha, .smoothness = 0.25 + 0.05, .mu = 0.05};
  EXPECT_NEAR(p.feedback->alpha, 0.2, 1e-9);
  EXPECT_NEAR(p.gamma_max, t.LargestStep(), 1e-9);
  EXPECT_EQ(p.gamma, p.gamma_max);
  EXPECT_NEAR(p.feedback->theta, 10, 1e-6);
  ASSERT_TRUE(p.rounds_needed && p.feedback->rounds_printed && p.feedback->rounds_by_levels);
  EXPECT_EQ(*p.rounds_needed, std::ceil(4 / (p.gamma * 0.05) * std::log(1e4)));
  // Computed apart in 30 digits: A = 28/10·(1 + √0.8)², d = 20, n = 6, γ = γ_EF, q = 1/√h.
  EXPECT_EQ(*p.feedback->rounds_printed, 745492);  // 745,491.42
  EXPECT_EQ(*p.feedback->rounds_by_levels, 3976);  // 3,975.78
  EXPECT_GT(*p.feedback->least_epsilon, 100);
  const Plan grows = Planned({{"algorithm.first_gamma", "0.01"}, {"algorithm.growth", "1.02"}});
  EXPECT_EQ(*grows.feedback->rounds_printed, 613535);  // by round 125; 25 are planned
  const Plan other = Planned(
      {Method("dp-clip21"), kClient, {"algorithm.initial_error", "10"}, {"algorithm.target_error", "1e-3"}});
  EXPECT_FALSE(other.rounds_needed || other.feedback->rounds_printed || other.feedback->least_epsilon)
      << "the paper's theory is not about Clip21";
  // The floor of the optimal split for many rounds; with a compressor noise stays for longer, and none is
  // said.
  EXPECT_FALSE(p.feedback->floor);
  const Plan many = Planned(
      {{"algorithm.rounds", "4000"}, {"model.penalty", "l2ball"}, {"algorithm.compressor", "identity/32"}});
  const double m = 241.0 / 6, mu = many.mu_budget;
  EXPECT_NEAR(*many.feedback->floor / MirroredFloor(2 / m, 20, 6, 0.05, Mu::Proven(mu)), 1, 1e-3);
}

// All noise adds up where it comes after the compressor. Before it, a compressor that leaves coordinates out
// leaves noise out too, and noise by κV_t or by the iterates is not known in advance: then no floor is said.
TEST_F(FeedbackRuns, AFloorIsSaidWhereAllNoiseAddsUp) {
  const auto planned = [&](Sets sets) { return Planned(sets).feedback->floor; };
  const Assignment whole{"algorithm.compressor", "identity/32"}, round{"algorithm.compressor", "round:2"},
      rand{"algorithm.compressor", "rand:0.2"}, lyapunov{"algorithm.schedule", "lyapunov"},
      trajectory{"algorithm.radius_rule", "trajectory"}, mirrored{"algorithm.state", "mirrored"};
  const Assignment first = Method("dpd-ef21-2"), later = Method("dpd-ef21"), clip21 = Method("dp-clip21");
  EXPECT_TRUE(planned({kPaper, later}));
  EXPECT_TRUE(planned({kPaper, later, round}));
  EXPECT_TRUE(planned({kPaper, later, whole}));
  EXPECT_TRUE(planned({kPaper, first, whole}));
  EXPECT_FALSE(planned({kPaper, first}));
  EXPECT_FALSE(planned({kPaper, first, round}));
  EXPECT_FALSE(planned({kPaper, first, rand}));
  EXPECT_FALSE(planned({kPaper, first, whole, lyapunov}));
  EXPECT_FALSE(planned({kPaper, later, whole, lyapunov}));
  EXPECT_TRUE(planned({kClient, later}));
  EXPECT_FALSE(planned({kClient, later, trajectory}));
  EXPECT_TRUE(planned({kClient, clip21}));
  EXPECT_FALSE(planned({kClient, clip21, kPaper, mirrored}));
  EXPECT_TRUE(planned({first, whole}));
  EXPECT_FALSE(planned({first, round}));
  // dΣσ_t²/(nμ²), σ_t² = σ_0²(1 − γμ/4)^t with Δ_0 = 2 and ρ = ε²/(4 ln 1/δ) shared by 25 rounds.
  const Plan p = Planned({kPaper, later});
  const double sigma = 2 * std::sqrt(25 / (2 * 4 / (4 * std::log(1e4)))), ratio = 1 - p.gamma * 0.05 / 4;
  const double sum = sigma * sigma * (1 - std::pow(ratio, 25)) / (1 - ratio);
  EXPECT_NEAR(*p.feedback->floor / (20 * sum / (6 * 0.05 * 0.05)), 1, 1e-6);
}

// On a quadratic without compression the noise leaves what the plan says, with steps that grow too, and
// spreading it by what is left of it at the end is better than not to.
TEST_F(FeedbackRuns, GrowingStepsAreAllocatedByWhatIsLeft) {
  const Sets grow = {{"algorithm.compressor", "identity/32"},
                     {"algorithm.first_gamma", "0.05"},
                     {"algorithm.growth", "1.02"},
                     {"algorithm.gamma", "0.2"},
                     {"algorithm.rounds", "100"},
                     {"model.l2", "0.3"},
                     {"model.penalty", "l2ball"}};
  const Plan p = Planned(grow);
  const Vec& gamma = p.feedback->gamma;
  ASSERT_EQ(gamma.size(), 100u);
  double left = 0, same = 0, share = 0;
  const double sigma = p.schedule[0].sigma * std::sqrt(p.schedule[0].share);
  for (std::size_t t = 0; t < 100; ++t) {
    double q = gamma[t];
    for (std::size_t s = t + 1; s < 100; ++s) q *= 1 - gamma[s] * 0.3;
    left += q * q * p.schedule[t].noise_on_mean * p.schedule[t].noise_on_mean;
    same += q * q;
    share += p.schedule[t].share;
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_NEAR(*p.feedback->floor / (left * 20 / 6), 1, 1e-6);
  const double scale = p.schedule[0].noise_on_mean / p.schedule[0].sigma;
  EXPECT_NEAR(p.static_over_dynamic / (same * 100 * sigma * sigma * scale * scale / left), 1, 1e-3);
  EXPECT_GT(p.static_over_dynamic, 1.05);
}

TEST_F(FeedbackRuns, SampledClientsLeaveLessNoiseOnANoiselessStateAndAnUnknownAmountOnAMirroredOne) {
  const auto floor = [&](const char* name, const char* sampling, const char* state) {
    return Planned({{"algorithm.name", name},
                    {"algorithm.state", state},
                    {"algorithm.sampling", sampling},
                    {"algorithm.sample_clients", std::string_view(sampling) == "fixed" ? "3" : "0"},
                    {"algorithm.allocation", "static"},
                    {"privacy.unit", "client"}})
        .feedback->floor;
  };
  EXPECT_TRUE(floor("dp-clip21", "full", "mirrored"));
  EXPECT_FALSE(floor("dp-clip21", "fixed", "mirrored"));
  EXPECT_NEAR(*floor("dp-clip21", "fixed", "noiseless") / *floor("dp-clip21", "full", "noiseless"), 0.5,
              1e-6);
  EXPECT_NEAR(*floor("clip21-sgd2m", "full", "noiseless") / *floor("dp-clip21", "full", "noiseless"), 0.25,
              1e-6);
}

TEST_F(FeedbackRuns, RadiiThatFallAreNotSplitOverSampledRounds) {
  Sets sets = {{"algorithm.name", "dpd-ef21"},
               {"privacy.unit", "client"},
               {"algorithm.sampling", "fixed"},
               {"algorithm.sample_clients", "3"}};
  EXPECT_NE(Why(sets).find("a client's rounds cost the same; set static"), std::string::npos);
  sets.push_back({"algorithm.allocation", "static"});
  EXPECT_EQ(Why(sets), "");
}

// 4 of 40 records: the noise on the mean gradient is less than that of four records without a secret, and
// more than that of all forty.
TEST_F(FeedbackRuns, SecretSamplesOfRecordsAreCredited) {
  const Sets fixed = {{"algorithm.allocation", "static"}, {"algorithm.batch", "4"}};
  const Plan p = Planned(fixed), all = Planned({{"algorithm.allocation", "static"}});
  ASSERT_TRUE(p.account);
  EXPECT_EQ(p.record_rate, 0.1);
  EXPECT_LE(p.certified_epsilon, 2);
  EXPECT_GT(p.certified_epsilon, 1.999);
  const double whole = all.schedule.front().sigma, part = p.schedule.front().sigma;
  EXPECT_LT(part, whole);
  EXPECT_GT(p.schedule.front().noise_on_mean, all.schedule.front().noise_on_mean);
  Accountant account(Adjacency::kReplaceOne);
  ASSERT_TRUE(account.Compose(FixedSizeGaussianEvent{Probability{0.1}, Mu::Proven(2 / part)}, 25).ok());
  EXPECT_NEAR(account.EpsilonAt(Delta{1e-4})->upper, p.certified_epsilon, 1e-5);
}

TEST_F(FeedbackRuns, VariancesFallWithTheRadii) {
  const Plan p = Planned({Method("dpd-ef21"), kClient, {"algorithm.rounds", "1000"}, {"privacy.clip", "3"}});
  const FeedbackPlan& f = *p.feedback;
  ASSERT_TRUE(f.radii);
  EXPECT_NEAR(f.radii->sum, 3 * 99.9956828753, 1e-6);
  EXPECT_NEAR(f.radii->equal_split / f.radii->total, 5.02555952876, 1e-8);
  ASSERT_EQ(p.schedule.size() + p.skipped, 1000u);
  double total = 0;
  for (std::size_t k = 0; k < p.schedule.size(); ++k) {
    const double c = 3 * std::pow(0.99, static_cast<double>(p.schedule[k].round - 1));
    EXPECT_NEAR(f.radius[k] * 3, c, 1e-9 * c);
    const double variance = p.schedule[k].noise_on_mean * p.schedule[k].noise_on_mean;
    total += variance;
    EXPECT_NEAR(variance, 4 * c * f.radii->sum / (p.mu_budget * p.mu_budget), 1e-3 * variance);
    EXPECT_NEAR(p.schedule[k].mu, 2 * c / p.schedule[k].noise_on_mean, 1e-4 * p.schedule[k].mu);
  }
  EXPECT_NEAR(total / f.radii->total, 1, 1e-3);
  EXPECT_LE(p.certified_epsilon, 2);
}

TEST_F(FeedbackRuns, PrintedSchedulesClaimAndProveNothing) {
  for (const char* schedule : {"geometric", "theorem", "levels", "lyapunov"}) {
    const RunResult r = Good(Make({Method("dpd-ef21"), kPaper, {"algorithm.schedule", schedule}}, schedule));
    EXPECT_TRUE(std::isinf(r.certified_epsilon)) << schedule;
    EXPECT_EQ(r.claimed_epsilon, 2.0);
    const auto records = SqliteVault::Read(r.folder / "ledger.db");
    ASSERT_TRUE(records.ok());
    for (const double spent : records->front().spent) EXPECT_TRUE(std::isinf(spent));
  }
  // σ_t² ∝ (1 − γμ/4)^t and (1 − γμ/2)^t on what is sent.
  for (const double part : {4.0, 2.0}) {
    const Plan p =
        Planned({Method("dpd-ef21"), kPaper, {"algorithm.schedule", part == 4 ? "geometric" : "theorem"}});
    const double first = p.schedule.front().noise_on_mean, last = p.schedule.back().noise_on_mean;
    EXPECT_NEAR(last * last / (first * first), std::pow(1 - p.gamma * 0.05 / part, 24), 1e-9);
  }
  // The baselines clip, so what they cost is known, and less than zCDP says.
  const RunResult clip21 = Good(Make({Method("dp-clip21"), kClient, kPaper}));
  EXPECT_EQ(clip21.claimed_epsilon, 2.0);
  EXPECT_LT(clip21.certified_epsilon, 2.0);
}

TEST_F(FeedbackRuns, WithoutNoiseTheOptimumIsReached) {
  for (const Sets& sets :
       {Sets{}, Sets{kClient}, Sets{Method("dpd-ef21"), kClient, {"algorithm.radius_ratio", "1"}},
        Sets{Method("dp-clip21"), kClient},
        Sets{Method("dp-clip21"), kClient, {"algorithm.state", "mirrored"}},
        Sets{Method("clip21-sgd2m"), kClient}}) {
    Sets all = sets;
    for (const Assignment& a :
         Sets{{"privacy.mechanism", "expose"}, {"algorithm.rounds", "6000"}, {"experiment.oracle", "true"}})
      all.push_back(a);
    TrainHooks hooks;
    hooks.write_folder = false;
    const RunResult r = Good(Make(all), hooks);
    ASSERT_TRUE(r.metrics.optimality);
    EXPECT_LT(*r.metrics.optimality, 1e-8) << (sets.empty() ? "mirrored" : sets.front().value);
  }
}

TEST_F(FeedbackRuns, WhatDoesNotFitIsRefused) {
  const struct {
    Sets sets;
    const char* says;
  } kCases[] = {
      {{{"algorithm.compressor", "tip:0.1"}}, "algorithm.compressor"},
      {{{"algorithm.compressor", "unbiased-rand:0.1"}}, "is no contraction"},
      {{{"privacy.trust", "central"}}, "every client adds its own noise"},
      {{{"privacy.mechanism", "priv-unit"}}, "use lattice_gaussian"},
      {{{"privacy.adjacency", "add-remove"}}, "is proved for replace-one"},
      {{kClient, {"privacy.adjacency", "zero-out"}}, "is proved for replace-one"},
      {{Method("dpd-ef21")}, "set privacy.unit = \"client\""},
      {{Method("dp-clip21")}, "set privacy.unit = \"client\""},
      {{kPaper, kClient}, "set privacy.unit = \"record\""},
      {{{"algorithm.state", "mirrored"}}, "is for dp-clip21"},
      {{{"algorithm.schedule", "lyapunov"}}, "in paper mode"},
      {{{"algorithm.radius_rule", "trajectory"}}, "is for dpd-ef21"},
      {{{"algorithm.batch", "5"}}, "set static"},
      {{{"algorithm.batch", "40"}, {"algorithm.allocation", "static"}}, "is not below the 40 records"},
      {{{"algorithm.batch", "5"}, {"data.split", "dirichlet"}}, "which must be public"},
      {{{"algorithm.batch", "5"}, {"privacy.adjacency", "zero-out"}}, "are for replace-one"},
      {{{"algorithm.beta", "0.1"}}, "are for clip21-sgd2m"},
      {{{"algorithm.growth", "1.5"}}, "must be below"},
      {{{"algorithm.first_gamma", "0.01"}}, "algorithm.growth above 1"},
      {{{"algorithm.first_gamma", "10"}, {"algorithm.growth", "1.01"}}, "is above algorithm.gamma"},
      {{{"data.row_norm", "none"}}, "set algorithm.gamma"},
      {{{"algorithm.gamma", "30"}}, "overshoots"},
      {{Method("dpd-ef21"), kPaper, {"algorithm.schedule", "levels"}, {"algorithm.level_ratio", "0.1"}},
       "must be between"},
      {{Method("dpd-ef21"), kClient, {"algorithm.radius_ratio", "1e-10"}}, "nothing is left of the radius"},
      {{{"algorithm.local_steps", "3"}}, "federated averages"},
      {{{"algorithm.sampling", "poisson"}, {"algorithm.sample_rate", "0.5"}}, "set static"},
      {{{"algorithm.variance_cap", "1e-9"}}, "algorithm.variance_cap"},
  };
  for (const auto& c : kCases) {
    const std::string why = Why(c.sets);
    EXPECT_NE(why.find(c.says), std::string::npos) << c.says << "\n  but says: " << why;
  }
}

TEST_F(FeedbackRuns, ForgedCertificatesAreFound) {
  const RunResult ef21 = Good(Make({}, "mirrored")),
                  own = Good(Make({Method("dpd-ef21"), kClient}, "private")),
                  sampled =
                      Good(Make({{"algorithm.batch", "4"}, {"algorithm.allocation", "static"}}, "sampled")),
                  paper = Good(Make({kPaper}, "paper")),
                  clip21 = Good(Make({Method("dp-clip21"), kClient, kPaper}, "c"));
  const struct {
    const char* why;
    const RunResult& run;
    std::function<void(json&)> forge;
  } kCases[] = {
      {"another design", ef21, [](json& j) { j["feedback"]["design"] = "private"; }},
      {"another state", ef21, [](json& j) { j["feedback"]["state"] = "noiseless"; }},
      {"noise elsewhere", ef21, [](json& j) { j["feedback"]["noise"] = "after the compressor"; }},
      {"no compressor", ef21, [](json& j) { j["feedback"]["compressor"] = nullptr; }},
      {"radii that are not", ef21, [](json& j) { j["feedback"]["radius_ratio"] = 0.9; }},
      {"a smaller sample", sampled, [](json& j) { j["feedback"]["sampled_records"] = 1; }},
      {"a smaller rate", sampled, [](json& j) { j["feedback"]["record_rate"] = 0.01; }},
      {"larger clients", sampled, [](json& j) { j["feedback"]["least_records"] = 4000; }},
      {"no sample", sampled, [](json& j) { j["feedback"]["sampled_records"] = nullptr; }},
      {"a cheaper account", sampled, [](json& j) { j["account"]["events"][0]["rate"] = 0.01; }},
      {"more noise", ef21, [](json& j) { j["releases"][0]["sigma"][0] = 1e6; }},
      {"records for clients", own, [](json& j) { j["privacy"]["unit"] = "record"; }},
      {"a smaller clip", own, [](json& j) { j["enforced"]["record_bound"] = 0.1; }},
      {"half the neighbours", own, [](json& j) { j["privacy"]["adjacency"] = "zero-out"; }},
      {"something proved of what is printed", paper,
       [](json& j) { j["privacy"]["certified_epsilon"] = 2.0; }},
      {"a bound that is not enforced", paper, [](json& j) { j["enforced"]["record_bound"] = 1.0; }},
      {"a smaller claim", paper, [](json& j) { j["privacy"]["claimed_epsilon"] = 1.0; }},
      {"a smaller claim of a baseline", clip21, [](json& j) { j["privacy"]["claimed_epsilon"] = 1.0; }},
  };
  for (const auto& c : kCases) {
    json j = json::parse(ReadFile(c.run.folder / "certificate.json"));
    c.forge(j);
    const auto v = Verify(j, "certificate.json");
    ASSERT_TRUE(v.ok()) << c.why << ": " << v.error().message;
    EXPECT_FALSE(v->holds()) << c.why;
  }
  json j = json::parse(ReadFile(ef21.folder / "certificate.json"));
  j["feedback"] = nullptr;
  EXPECT_FALSE(Verify(j, "certificate.json").ok());
  // Beside config.toml.
  j = json::parse(ReadFile(ef21.folder / "certificate.json"));
  j["feedback"]["compressor"] = "top:0.3";
  std::ofstream(ef21.folder / "certificate.json") << CertificateJson(j);
  const auto v = VerifyFolder(ef21.folder);
  ASSERT_TRUE(v.ok());
  EXPECT_FALSE(v->holds());
}

}  // namespace
}  // namespace tacit
