// fcrn and dp-fed-sgd from a config to a certificate that verifies.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiment/build.h"
#include "experiment/second_order_plan.h"
#include "experiment/test_runs.h"

namespace tacit {
namespace {

using nlohmann::json;

class FcrnRuns : public TestRuns {
 protected:
  FcrnRuns()
      : TestRuns(R"(
[data]
source = "synthetic-logistic"
rows = 1200
features = 12
density = 1.0
clients = 6
row_norm = "unit"
[model]
l2 = 0.01
penalty = "box"
radius = 2.0
[privacy]
epsilon = 2.0
delta = 1e-5
clip = 1.0
noise = "replayable"
[algorithm]
name = "fcrn"
rounds = 12
solver_steps = 5
sample_records = 10
record_sampling = "full"
allocation = "static"
strong_convexity = 0.3
)") {}
  static std::string Read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
};

const std::vector<std::pair<const char*, std::vector<Assignment>>>& Variants() {
  static const std::vector<std::pair<const char*, std::vector<Assignment>>> all = {
      {"subspace", {}},
      {"subspace_of_some", {{"algorithm.coordinates", "5"}}},
      {"full", {{"algorithm.design", "full"}, {"algorithm.coordinates", "5"}}},
      {"once", {{"algorithm.design", "once"}, {"algorithm.hessian_share", "0.3"}}},
      {"once_at_clients", {{"algorithm.design", "once"}, {"algorithm.solve_at", "client"}}},
      {"fixed", {{"algorithm.record_sampling", "fixed"}, {"algorithm.coordinates", "5"}}},
      {"poisson", {{"algorithm.record_sampling", "poisson"}, {"algorithm.design", "once"}}},
      {"late", {{"algorithm.allocation", "late"}, {"algorithm.rounds", "30"}}},
      {"geometric", {{"algorithm.allocation", "geometric"}, {"algorithm.ratio", "0.9"}}},
      {"fed_sgd", {{"algorithm.name", "dp-fed-sgd"}, {"algorithm.local_rate", "0.5"}}},
      {"fed_sgd_of_some", {{"algorithm.name", "dp-fed-sgd"}, {"algorithm.coordinates", "3"}}},
      {"float", {{"privacy.mechanism", "gaussian"}}},
      {"mean_of_last", {{"algorithm.last", "4"}}},
      {"paper",
       {{"algorithm.mode", "paper"},
        {"algorithm.sample_records", "1"},
        {"algorithm.record_sampling", "fixed"},
        {"privacy.epsilon", "0.8"}}},
      {"paper_cycle",
       {{"algorithm.mode", "paper"},
        {"algorithm.sample_records", "1"},
        {"algorithm.record_sampling", "cycle"},
        {"algorithm.solver_steps", "0"}}},
      {"exposed", {{"privacy.mechanism", "expose"}}},
  };
  return all;
}

TEST_F(FcrnRuns, EveryDesignKeepsItsBudgetAndVerifies) {
  for (const auto& [name, sets] : Variants()) {
    SCOPED_TRACE(name);
    const RunResult r = Good(Make(sets));
    ASSERT_FALSE(r.folder.empty());
    if (r.plan.mode == "certified" && r.plan.mechanism != "expose") {
      EXPECT_LE(r.certified_epsilon, 2.0);
      EXPECT_GT(r.certified_epsilon, 2 * (1 - 1e-4));
    }
    EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
    EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
    for (const double v : r.model) EXPECT_LE(std::abs(v), 2.0);
    Holds(r.folder);
    const std::string trace = Read(r.folder / "trace.jsonl");
    EXPECT_EQ(json::parse(trace.substr(0, trace.find('\n')))["step_size"], r.plan.second_order->options.rate);
  }
}

TEST_F(FcrnRuns, ResumesBitForBitForAnyNumberOfThreads) {
  for (const auto& [name, sets] : Variants()) {
    if (name == std::string("poisson")) continue;      // as fixed, and a plan of samples takes its time
    SCOPED_TRACE(name);
    const RunResult whole = Good(Make(sets, "whole"));
    std::atomic<bool> interrupt{false};
    TrainHooks hooks;
    hooks.interrupt = &interrupt;
    hooks.threads = 3;
    const std::size_t stop = whole.rounds_done / 2;
    hooks.progress = [&](const Progress& p) { interrupt = p.round >= whole.plan.schedule[stop].round; };
    const RunResult part = Good(Make(sets, "part"), hooks);
    EXPECT_LT(part.rounds_done, whole.rounds_done);
    EXPECT_EQ(part.certified_epsilon, whole.certified_epsilon);
    Holds(part.folder);
    const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->model, whole.model);
    EXPECT_EQ(Read(part.folder / "trace.jsonl"), Read(whole.folder / "trace.jsonl"));
  }
}

TEST_F(FcrnRuns, WhatIsCreditedForASample) {
  const auto plan = [&](const std::vector<Assignment>& sets) {
    const Config c = Make(sets);
    const auto p = MakePlan(c, *FactsWithoutData(c));
    EXPECT_TRUE(p.ok()) << p.error().message;
    return p.ok() ? *p : Plan{};
  };
  const Plan sampled = plan({{"algorithm.record_sampling", "fixed"}}), all = plan({});
  ASSERT_TRUE(sampled.account && all.account);
  // 10 of 200 records: the noise on a mean of ten against that on a mean of two hundred.
  const auto* event = std::get_if<FixedSizeGaussianEvent>(&sampled.account->lines().front().event);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->rate.value(), 0.05);
  EXPECT_EQ(sampled.account->lines().front().count, 12u);      // once a round, not once a step
  EXPECT_NEAR(event->mu.value(), std::sqrt(4.0) * sampled.sensitivity / sampled.schedule[0].sigma, 1e-6);
  EXPECT_GT(event->mu.value(), all.schedule[0].mu);
  // More steps of the solver share the same budget of a round.
  const Plan longer = plan({{"algorithm.solver_steps", "17"}});
  EXPECT_NEAR(longer.schedule[0].sigma / all.schedule[0].sigma, 2, 1e-6);
  // Late: the last round has the least noise, and early ones are skipped where their share is nothing.
  const Plan late = plan({{"algorithm.allocation", "late"}, {"algorithm.rounds", "30"}});
  EXPECT_GT(late.skipped, 0u);
  EXPECT_GT(late.schedule.front().sigma, late.schedule.back().sigma);
  EXPECT_LT(late.schedule.back().sigma, all.schedule.back().sigma);
}

TEST_F(FcrnRuns, PaperModeStatesWhatItsClaimIsWorth) {
  // The paper's setting in small: m = 10,000 records, 40,000 rounds, δ₀ = 0.01.
  const Config c = Make({{"data.rows", "400000"},
                         {"data.clients", "40"},
                         {"data.features", "2000"},
                         {"model.l2", "1e-4"},
                         {"model.radius", "0.5"},
                         {"algorithm.mode", "paper"},
                         {"algorithm.strong_convexity", "-1"},
                         {"algorithm.rounds", "40000"},
                         {"algorithm.sample_records", "1"},
                         {"algorithm.record_sampling", "fixed"},
                         {"algorithm.coordinates", "200"},
                         {"algorithm.solver_steps", "0"},
                         {"privacy.epsilon", "0.8"}});
  const auto p = MakePlan(c, *FactsWithoutData(c));
  ASSERT_TRUE(p.ok()) << p.error().message;
  EXPECT_EQ(*p->claimed_epsilon, 0.8);
  EXPECT_NEAR(p->second_order->granted_epsilon, 40.62, 0.02);      // if (6) held
  EXPECT_GT(p->certified_epsilon, 40.62);                          // and it does not
  EXPECT_NEAR(p->second_order->printed_sensitivity, 7.70, 0.01);
  EXPECT_NEAR(p->second_order->printed_steps, 137, 2);
  EXPECT_EQ(p->second_order->options.steps, 137u);
}

TEST_F(FcrnRuns, CertificatesThatWereChangedAreFound) {
  const RunResult r = Good(Make({{"algorithm.design", "once"},
                                 {"algorithm.coordinates", "5"},
                                 {"algorithm.record_sampling", "fixed"}}));
  Holds(r.folder);
  const json honest = json::parse(Read(r.folder / "certificate.json"));
  const auto found = [&](const char* what, auto change) {
    json j = honest;
    change(j);
    const auto v = Verify(j, "certificate.json");
    if (!v.ok()) return;      // refused outright
    EXPECT_FALSE(v->findings.empty()) << what;
  };
  found("less noise",
        [](json& j) { j["releases"][0]["sigma"][0] = j["releases"][0]["sigma"][0].get<double>() / 2; });
  found("a smaller rate", [](json& j) { j["second_order"]["rate"] = 0.01; });
  found("fewer records", [](json& j) { j["second_order"]["sample_records"] = 5; });
  found("fewer rounds", [](json& j) { j["account"]["events"][0]["count"] = 6; });
  found("a smaller hessian bound", [](json& j) { j["second_order"]["clip_hessian"] = 0.01; });
  found("more noise on the hessian", [](json& j) { j["second_order"]["noise_hessian"] = 10.0; });
  found("another design", [](json& j) { j["second_order"]["design"] = "gradient"; });
  found("fewer coordinates", [](json& j) { j["second_order"]["coordinates"] = 0; });
  found("not said at all", [](json& j) { j["second_order"] = nullptr; });
  found("epsilon", [](json& j) { j["privacy"]["certified_epsilon"] = 1.0; });
}

TEST_F(FcrnRuns, CertificatesOfSamplesThatTheirAlgorithmDoesNotHaveAreRefused) {
  const auto certificate = [&](const std::vector<Assignment>& sets, const char* where) {
    return json::parse(Read(Good(Make(sets, where)).folder / "certificate.json"));
  };
  const json newton = certificate({}, "newton"), sgd = certificate({{"algorithm.name", "dp-fed-sgd"}}, "sgd");
  const Config plain;
  const json other =
      certificate({{"algorithm.name", "isrl-dp"},
                   {"algorithm.record_sampling", plain.algorithm.record_sampling},
                   {"algorithm.sample_records", fmt::format("{}", plain.algorithm.sample_records)},
                   {"algorithm.solver_steps", fmt::format("{}", plain.algorithm.solver_steps)}},
                  "other");
  const auto refused = [](json j, const char* part) {
    const auto v = Verify(j, "certificate.json");
    ASSERT_FALSE(v.ok());
    EXPECT_EQ(v.error().code, Code::kMalformed);
    EXPECT_NE(v.error().message.find(part), std::string::npos) << v.error().message;
  };
  EXPECT_TRUE(Verify(newton, "certificate.json").ok());
  EXPECT_TRUE(Verify(sgd, "certificate.json").ok());
  EXPECT_TRUE(Verify(other, "certificate.json").ok());
  for (const char* name : {"isrl-dp", "dp-fedavg", "primal-dual", "dpd-ef21-2"}) {
    json j = newton;
    j["algorithm"] = name;
    refused(j, "has no samples of records");
  }
  json j = other;
  j["second_order"] = newton["second_order"];
  refused(j, "has no samples of records");
  j = other;
  j["algorithm"] = "dp-fed-sgd";
  refused(j, "has samples of records, which are missing");
  j = newton;
  j.erase("second_order");
  refused(j, "has samples of records, which are missing");
  // The two algorithms that sample have designs of their own.
  for (const json& one : {newton, sgd}) {
    j = one;
    j["algorithm"] = one["algorithm"] == "fcrn" ? "dp-fed-sgd" : "fcrn";
    const auto v = Verify(j, "certificate.json");
    ASSERT_TRUE(v.ok()) << v.error().message;
    bool found = false;
    for (const Finding& f : v->findings) found |= f.sentence.find("second_order.design") != std::string::npos;
    EXPECT_TRUE(found);
  }
  // A sample that was not taken: all records were used, and a rate below 1 is claimed.
  j = newton;
  j["second_order"]["rate"] = 0.05;
  const auto v = Verify(j, "certificate.json");
  EXPECT_TRUE(!v.ok() || !v->findings.empty());
}

TEST_F(FcrnRuns, WhatIsRefusedSaysWhy) {
  const auto has = [&](const std::vector<Assignment>& sets, const char* part) {
    const std::string why = Why(sets);
    EXPECT_NE(why.find(part), std::string::npos) << why;
  };
  has({{"privacy.unit", "client"}}, "what is sampled and hidden are records");
  has({{"privacy.adjacency", "zero-out"}}, "replacing one");
  has({{"model.penalty", "none"}}, "public box");
  has({{"model.penalty", "l1"}, {"model.weight", "0.1"}}, "projects on a box");
  has({{"model.name", "hinge"}}, "second derivatives");
  has({{"data.row_norm", "none"}}, "algorithm.cubic is not set");
  has({{"algorithm.solver_steps", "1"}}, "at least 2");
  has({{"algorithm.record_sampling", "cycle"}}, "no sample");
  has({{"algorithm.mode", "paper"}}, "one record each");
  has({{"algorithm.server_rate", "1.5"}}, "at most 1");
  has({{"algorithm.sampling", "poisson"}, {"algorithm.sample_rate", "0.1"}}, "record_sampling");
  has({{"algorithm.name", "dp-fed-sgd"}, {"algorithm.allocation", "late"}}, "two phases");
  has({{"algorithm.name", "dp-fedavg"}, {"algorithm.allocation", "late"}, {"model.penalty", "none"}},
      "is for fcrn");
  has({{"model.l2", "0"}, {"algorithm.strong_convexity", "-1"}}, "positive number");
  has({{"algorithm.design", "once"}, {"privacy.clip_hessian", "0"}}, "positive bound");
}

TEST_F(FcrnRuns, RowsThatAreMadeWhenTheyAreReadGiveTheSameModel) {
  for (const char* split : {"blocks", "iid"}) {
    SCOPED_TRACE(split);
    const std::vector<Assignment> sets = {{"data.split", split},
                                          {"privacy.mechanism", "expose"},
                                          {"algorithm.design", "once"},
                                          {"algorithm.coordinates", "7"},
                                          {"experiment.oracle", "true"}};
    std::vector<Assignment> nowhere = sets;
    nowhere.push_back({"data.store", "nowhere"});
    const RunResult kept = Good(Make(sets, "kept"));
    TrainHooks hooks;
    hooks.threads = 3;
    const RunResult made = Good(Make(nowhere, "made"), hooks);
    EXPECT_EQ(made.model, kept.model);
    EXPECT_EQ(made.metrics.train_loss, kept.metrics.train_loss);
    EXPECT_EQ(made.metrics.train_accuracy, kept.metrics.train_accuracy);
    EXPECT_TRUE(kept.metrics.optimality);
    EXPECT_FALSE(made.metrics.optimality);  // hundreds of passes
    Holds(made.folder);
  }
  const std::string file = (home_ / "rows.libsvm").string();
  std::ofstream out(file);
  for (int l = 0; l < 241; ++l) out << (l % 2 == 0 ? "+1" : "-1") << " 1:" << l << " 3:1\n";
  out.close();
  const std::string why =
      Why({{"data.store", "nowhere"}, {"data.source", file}, {"data.rows", "0"}, {"data.features", "0"}});
  EXPECT_NE(why.find("no generator"), std::string::npos) << why;
}

TEST_F(FcrnRuns, WithoutNoiseNewtonConvergesQuadratically) {
  const auto error = [&](const char* rounds) {
    const RunResult r = Good(Make({{"privacy.mechanism", "expose"},
                                   {"algorithm.design", "once"},
                                   {"algorithm.record_sampling", "full"},
                                   {"model.penalty", "none"},
                                   {"privacy.clip", "100"},
                                   {"privacy.clip_hessian", "100"},
                                   {"experiment.oracle", "true"},
                                   {"algorithm.rounds", rounds}}));
    return *r.metrics.optimality;
  };
  EXPECT_LT(error("12"), 1e-14);
}

TEST_F(FcrnRuns, NewtonOnA9aReachesTheLastDigitInFifteenRounds) {
  const char* data = std::getenv("TACIT_DATA");  // NOLINT(concurrency-mt-unsafe)
  if (data == nullptr || !std::filesystem::exists(std::filesystem::path(data) / "a9a"))
    GTEST_SKIP() << "a9a is not in TACIT_DATA";
  const Config c = Make({{"data.source", "a9a"},
                         {"data.rows", "0"},
                         {"data.features", "0"},
                         {"data.clients", "142"},
                         {"model.l2", "0.001"},
                         {"model.penalty", "none"},
                         {"privacy.mechanism", "expose"},
                         {"privacy.clip", "100"},
                         {"privacy.clip_hessian", "100"},
                         {"algorithm.design", "once"},
                         {"algorithm.cubic", "0.001"},
                         {"algorithm.rounds", "15"}});
  TrainHooks hooks;
  hooks.write_folder = false;
  const RunResult r = Good(c, hooks);
  const PublicFacts facts = *FactsWithoutData(c);
  const Partition part = *LoadPartition(c, facts);
  const auto f = *BuildObjective(c, facts);
  Vec gradient = r.model;
  Scale(c.model.l2, gradient);
  for (std::size_t i = 0; i < part.clients(); ++i) {
    const Shard s(part.data, part.begin[i], part.size(i));
    Workspace ws;
    Vec norm(s.size()), sum(r.model.size());
    f->RecordNorms(s, r.model, ws, norm);
    f->WeightedSum(s, r.model, ws, Vec(s.size(), 1.0), sum);
    Axpy(1.0 / static_cast<double>(s.size() * part.clients()), sum, gradient);
  }
  EXPECT_LT(Norm(gradient), 1e-12);
}

}  // namespace
}  // namespace tacit
