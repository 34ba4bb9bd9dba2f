// Clients weighed by their records, from a config to a certificate: equal records are no weights at all, no
// weight costs anything, and certificates with other weights are found out.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiment/client_runs.h"
#include "experiment/kill_runs.h"

namespace tacit {
namespace {

using nlohmann::json;
using Sets = std::vector<Assignment>;

class ClientWeights : public ClientRuns {
 protected:
  ClientWeights() : ClientRuns({{"algorithm.rounds", "12"}, {"algorithm.weights", "records"}}) {}
  RunResult Good(const Sets& sets, const TrainHooks& hooks = {}, const char* where = "runs") const {
    return ClientRuns::Good(Make(sets, where), hooks);
  }
  // The same run with uniform weights; it leaves no folder.
  RunResult Uniform(Sets sets) const {
    sets.push_back({"algorithm.weights", "uniform"});
    TrainHooks hooks;
    hooks.write_folder = false;
    return Good(sets, hooks);
  }
};

Sets With(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}
constexpr const char* kNames[] = {"fedexp", "dp-fedavg", "dp-scaffold"};
constexpr const char* kTrusts[] = {"local", "central"};
const Sets kUneven = {{"data.split", "dirichlet"}, {"data.alpha", "0.5"}};

// Without noise, since the noise of a replayable run follows from its config.
TEST_F(ClientWeights, EqualRecordsAreUniformWeightsBitForBit) {
  const Sets fixed = {{"algorithm.sampling", "fixed"}, {"algorithm.sample_clients", "7"}};
  for (const char* name : kNames)
    for (const char* trust : kTrusts)
      for (const bool sampled : {false, true}) {
        if (sampled && trust == kTrusts[1]) continue;      // the sample would be another
        SCOPED_TRACE(fmt::format("{} {} {}", name, trust, sampled));
        const Sets sets =
            With(sampled ? fixed : Sets{},
                 {{"algorithm.name", name}, {"privacy.trust", trust}, {"privacy.mechanism", "expose"}});
        const RunResult by_records = Good(sets), uniform = Uniform(sets);
        EXPECT_EQ(by_records.model, uniform.model);
        EXPECT_EQ(by_records.plan.everyone, 20);
        EXPECT_EQ(by_records.plan.expected_weight(), uniform.plan.expected());
        EXPECT_GT(Norm(uniform.model), 0);
        Holds(by_records.folder);
      }
  // The moving clip too.
  for (const char* trust : kTrusts) {
    const Sets sets = {{"algorithm.name", "dp-fedavg"},
                       {"privacy.trust", trust},
                       {"privacy.mechanism", "expose"},
                       {"algorithm.clip_quantile", "0.5"}};
    EXPECT_EQ(Good(sets).model, Uniform(sets).model);
  }
}

TEST_F(ClientWeights, UnequalRecordsCostWhatEqualOnesCost) {
  for (const char* name : kNames)
    for (const char* trust : kTrusts)
      for (const char* adjacency : {"replace-one", "zero-out"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, trust, adjacency));
        const Sets sets = With(
            kUneven, {{"algorithm.name", name}, {"privacy.trust", trust}, {"privacy.adjacency", adjacency}});
        const RunResult r = Good(sets), uniform = Uniform(sets);
        Holds(r.folder);
        EXPECT_EQ(r.certified_epsilon, uniform.certified_epsilon);
        EXPECT_EQ(r.mu, uniform.mu);
        EXPECT_EQ(r.releases[0].sigma, uniform.releases[0].sigma);
        EXPECT_EQ(r.plan.sensitivity, uniform.plan.sensitivity);
        EXPECT_NE(r.model, uniform.model);
        EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
        EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
        // The weights are what the records make, the largest 1, and rows over the most records together.
        EXPECT_EQ(*std::max_element(r.plan.weights.begin(), r.plan.weights.end()), 1.0);
        EXPECT_GE(*std::min_element(r.plan.weights.begin(), r.plan.weights.end()), 0.0);
        EXPECT_LT(r.plan.everyone, 15);  // or the split is not uneven at all
        EXPECT_NEAR(r.plan.everyone * static_cast<double>(r.plan.most_records), 400, 1e-9);
        const PlannedRound& round = r.plan.schedule[0];
        EXPECT_NEAR(
            round.noise_on_mean,
            trust == kTrusts[1] ? round.sigma / r.plan.everyone : uniform.plan.schedule[0].noise_on_mean,
            1e-12);
        const json certificate = json::parse(ReadFile(r.folder / "certificate.json"));
        EXPECT_EQ(certificate["privacy"]["weights"]["total"], r.plan.everyone);
        EXPECT_NE(certificate["privacy"]["protects"].dump().find("not how many records"), std::string::npos);
      }
}

// The account of a secret sample does not know of weights at most 1; what divides the sum is public.
TEST_F(ClientWeights, SecretSamplesCostTheSameAndDivideByExpectedWeights) {
  const Sets central = With(kUneven, {{"privacy.trust", "central"}});
  const Sets poisson = {{"algorithm.sampling", "poisson"}, {"algorithm.sample_rate", "0.25"}},
             fixed = {{"algorithm.sampling", "fixed"}, {"algorithm.sample_clients", "5"}};
  for (const Sets* sampling : {&poisson, &fixed}) {
    const RunResult r = Good(With(central, *sampling)), uniform = Uniform(With(central, *sampling));
    Holds(r.folder);
    EXPECT_EQ(r.certified_epsilon, uniform.certified_epsilon);
    EXPECT_EQ(r.releases[0].sigma, uniform.releases[0].sigma);
    EXPECT_NEAR(r.plan.expected_weight(), 0.25 * r.plan.everyone, 1e-12);
  }
  Holds(Good(With(With(central, poisson), {{"algorithm.name", "dp-scaffold"}})).folder);
  Holds(Good(With(With(kUneven, poisson), {{"algorithm.participations", "2"}})).folder);
}

TEST_F(ClientWeights, PaperModeClaimsAndCostsTheSame) {
  for (const char* trust : kTrusts) {
    const Sets sets =
        With(kUneven,
             {{"privacy.trust", trust}, {"algorithm.mode", "paper"}, {"algorithm.noise_multiplier", "5"}});
    const RunResult r = Good(sets), uniform = Uniform(sets);
    Holds(r.folder);
    EXPECT_EQ(r.claimed_epsilon, uniform.claimed_epsilon);
    EXPECT_EQ(r.certified_epsilon, uniform.certified_epsilon);
  }
}

TEST_F(ClientWeights, ThreadsAndInterruptionsChangeNothing) {
  for (const char* name : kNames)
    for (const char* trust : kTrusts) {
      SCOPED_TRACE(fmt::format("{} {}", name, trust));
      const Sets sets = With(kUneven, {{"algorithm.name", name}, {"privacy.trust", trust}});
      TrainHooks one;
      one.threads = 1;
      const RunResult whole = Good(sets, one, "whole");
      std::atomic<bool> interrupt{false};
      TrainHooks hooks;
      hooks.interrupt = &interrupt;
      hooks.threads = 3;
      hooks.progress = [&](const Progress& p) { interrupt = p.round >= 5; };
      const RunResult part = Good(sets, hooks, "part");
      Holds(part.folder);
      const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
      ASSERT_TRUE(rest.ok()) << rest.error().message;
      EXPECT_EQ(rest->model, whole.model);
      EXPECT_EQ(ReadFile(part.folder / "weights.csv"), ReadFile(whole.folder / "weights.csv"));
      Holds(part.folder);
    }
}

TEST_F(ClientWeights, ForgedWeightsAreFound) {
  const RunResult r = Good(With(kUneven, {{"privacy.trust", "central"}}));
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  const std::size_t most = r.plan.most_records;
  const auto found = [&](const std::string& figure, auto forge) {
    json forged = honest;
    forge(forged["privacy"]);
    const auto v = Verify(forged, "forged");
    if (!v.ok()) return false;
    for (const Finding& f : v->findings)
      if (f.figure == figure) return true;
    return false;
  };
  ASSERT_TRUE(Verify(honest, "honest")->holds());
  EXPECT_TRUE(found("privacy.weights.total", [](json& p) { p["weights"]["total"] = 20; }));
  EXPECT_TRUE(found("privacy.weights.total", [&](json& p) { p["weights"]["most_records"] = most - 1; }));
  EXPECT_TRUE(found("privacy.weights.most_records", [](json& p) {  // clients with more than the largest one
    p["weights"] = {{"by", "records"}, {"most_records", 10}, {"total", 40}};
  }));
  EXPECT_TRUE(found("privacy.weights.most_records", [](json& p) {
    p["weights"] = {{"by", "records"}, {"most_records", 800}, {"total", 0.5}};
  }));
  EXPECT_TRUE(found("privacy.weights", [](json& p) { p["adjacency"] = "add-remove"; }));

  // Changed consistently, it is found out by the rest of the folder.
  const auto figures = [&] {
    const auto v = VerifyFolder(r.folder);
    EXPECT_TRUE(v.ok());
    std::string all;
    for (const Finding& f : v->findings) all += f.figure + ";";
    return all;
  };
  const auto write = [&](const json& certificate) {
    std::ofstream(r.folder / "certificate.json", std::ios::binary) << CertificateJson(certificate);
    std::ofstream(r.folder / "certificate.txt", std::ios::binary) << CertificateText(certificate);
  };
  EXPECT_EQ(figures(), "");
  json forged = honest;
  forged["privacy"]["weights"] = {{"by", "records"}, {"most_records", 400}, {"total", 1}};
  EXPECT_TRUE(Verify(forged, "forged")->holds());
  write(forged);
  EXPECT_NE(figures().find("privacy.weights.most_records"), std::string::npos);
  forged["privacy"]["weights"] = nullptr;
  write(forged);
  EXPECT_NE(figures().find("privacy.weights"), std::string::npos);
  write(honest);
  EXPECT_EQ(figures(), "");
  const std::string text = ReadFile(r.folder / "weights.csv");
  for (const char* line : {"20,20,1\n", "1,7,1.5\n", "1,7\n", "99,1,1\n", ""}) {
    std::ofstream(r.folder / "weights.csv", std::ios::binary) << "clients,records,weight\n" << line;
    EXPECT_NE(figures(), "") << line;
  }
  std::ofstream(r.folder / "weights.csv", std::ios::binary) << text;
  EXPECT_EQ(figures(), "");
  std::filesystem::remove(r.folder / "weights.csv");
  EXPECT_NE(figures().find("weights.csv"), std::string::npos);
}

TEST_F(ClientWeights, KilledRunsEndAsIfTheyHadLived) {
  KillRuns(home_ / "kills", 3,
           With(kUneven, {{"algorithm.name", "dp-fedavg"},
                          {"algorithm.weights", "records"},
                          {"privacy.unit", "client"},
                          {"privacy.trust", "central"},
                          {"algorithm.allocation", "static"}}));
}

TEST_F(ClientWeights, MistakesAreSentencesThatNameThingValueAndRemedy) {
  const struct {
    Sets sets;
    const char* part;
  } kMistakes[] = {
      {{{"algorithm.name", "dp-fedavg"}, {"privacy.unit", "record"}}, "is for clients as what is hidden"},
      {{{"privacy.mechanism", "priv-unit"}}, "leave it out with privacy.mechanism"},
      {{{"privacy.trust", "central"},
        {"privacy.adjacency", "add-remove"},
        {"algorithm.sampling", "poisson"},
        {"algorithm.sample_rate", "0.2"}},
       "whether a client is there cannot be hidden"},
      {{{"algorithm.weights", "rows"}}, "algorithm.weights"},
  };
  for (const auto& [sets, part] : kMistakes) {
    const std::string why = Why(sets);
    EXPECT_NE(why.find(part), std::string::npos) << why;
    EXPECT_NE(why.find("algorithm.weights"), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace tacit
