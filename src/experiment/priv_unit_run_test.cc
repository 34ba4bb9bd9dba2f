// Runs whose messages are directions and lengths: what is planned is charged as a whole, certificates are
// verified by other code, and paper mode shows the claim beside the proof.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiment/client_runs.h"
#include "experiment/kill_runs.h"
#include "privacy/data_ledger.h"
#include "privacy/event_json.h"
#include "privacy/randomizer_plan.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class PrivUnitRun : public ClientRuns {
 protected:
  PrivUnitRun()
      : ClientRuns(
            {{"privacy.epsilon", "12"}, {"privacy.mechanism", "priv-unit"}, {"algorithm.rounds", "10"}}) {}
  static void Holds(const RunResult& r) { ClientRuns::Holds(r.folder); }
};

TEST_F(PrivUnitRun, ThePlanIsWhatIsChargedAndSentAndTheCertificateHolds) {
  for (const char* name : {"fedexp", "dp-fedavg", "dp-scaffold"})
    for (const char* adjacency : {"replace-one", "zero-out"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, adjacency));
      const RunResult r = Good(Make({{"algorithm.name", name}, {"privacy.adjacency", adjacency}}));
      EXPECT_LE(r.certified_epsilon, 12);
      EXPECT_GT(r.certified_epsilon, 12 * (1 - 1e-3));
      EXPECT_EQ(r.certified_epsilon, r.plan.certified_epsilon);
      EXPECT_GT(r.plan.pure_epsilon, r.certified_epsilon);
      EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
      EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
      EXPECT_TRUE(std::isinf(r.mu));
      Holds(r);
    }
}

TEST_F(PrivUnitRun, ResumesBitForBitAndAnInterruptedRunPaysForItsPlan) {
  for (const char* name : {"fedexp", "dp-scaffold"}) {
    SCOPED_TRACE(name);
    const std::vector<Assignment> sets = {{"algorithm.name", name}};
    const RunResult whole = Good(Make(sets, "whole"));
    std::atomic<bool> interrupt{false};
    TrainHooks hooks;
    hooks.interrupt = &interrupt;
    hooks.threads = 3;
    hooks.progress = [&](const Progress& p) { interrupt = p.round >= 4; };
    const RunResult part = Good(Make(sets, "part"), hooks);
    EXPECT_EQ(part.rounds_done, 4u);
    EXPECT_EQ(part.certified_epsilon, whole.certified_epsilon);
    Holds(part);
    const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->model, whole.model);
    EXPECT_EQ(ReadFile(part.folder / "trace.jsonl"), ReadFile(whole.folder / "trace.jsonl"));
    Holds(*rest);
  }
}

TEST_F(PrivUnitRun, PaperModeShowsTheClaimOfOneMessageBesideTheRun) {
  const auto run = [&](const char* cap) {
    const RunResult r = Good(Make({{"algorithm.mode", "paper"},
                                   {"algorithm.rounds", "50"},
                                   {"privacy.delta", "1e-5"},
                                   {"privacy.split", "[2, 2, 2]"},
                                   {"privacy.cap", cap}}));
    EXPECT_EQ(*r.claimed_epsilon, 6.0);
    Holds(r);
    return r;
  };
  const RunResult best = run("best"), printed = run("printed");
  EXPECT_NEAR(best.plan.pure_epsilon, 300, 1e-3);
  EXPECT_LT(printed.plan.pure_epsilon, 300);
  EXPECT_LT(best.certified_epsilon, 300);
  EXPECT_GT(best.certified_epsilon, 250);
  EXPECT_LT(printed.certified_epsilon, best.certified_epsilon);
  // The same events by hand.
  Accountant account(Adjacency::kReplaceOne);
  ASSERT_TRUE(account.Compose(best.plan.randomizer->direction().event(), 50).ok());
  ASSERT_TRUE(account.Compose(best.plan.randomizer->length().event(), 50).ok());
  EXPECT_NEAR(best.certified_epsilon, account.EpsilonAt(Delta{1e-5})->upper, 1e-9);
}

TEST_F(PrivUnitRun, TheDataSetsBillHasTheWholePlan) {
  const RunResult r = Good(Make({}));
  const auto ledger = DataLedger::Read(home_ / "runs" / "ledger.db");
  ASSERT_TRUE(ledger.ok()) << ledger.error().message;
  ASSERT_EQ(ledger->front().runs.size(), 1u);
  const auto file = SqliteVault::Read(r.folder / "ledger.db");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->front().plan_epsilon, r.certified_epsilon);
  EXPECT_NE(file->front().plan.find("priv-unit"), std::string::npos) << file->front().plan;
}

TEST_F(PrivUnitRun, AForgedCertificateIsFound) {
  const auto found = [](const json& forged) {
    const auto v = Verify(forged, "forged");
    return !v.ok() || !v->findings.empty();
  };
  const RunResult r = Good(Make({{"algorithm.mode", "paper"}, {"privacy.split", "[2, 2, 2]"}}));
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  ASSERT_FALSE(found(honest));
  const auto with = [&](auto forge) {
    json forged = honest;
    forge(forged);
    return found(forged);
  };
  EXPECT_TRUE(with([](json& c) { c["account"]["events"][0]["count"] = 9; }));
  EXPECT_TRUE(with([](json& c) { c["account"]["events"].erase(1); }));
  EXPECT_TRUE(with([](json& c) { c["account"]["epsilon"] = 1.0; }));
  EXPECT_TRUE(with([](json& c) { c["account"] = nullptr; }));
  EXPECT_TRUE(with([](json& c) { c["privacy"]["certified_epsilon"] = 6.0; }));
  EXPECT_TRUE(with([](json& c) { c["privacy"]["claimed_epsilon"] = 5.0; }));
  EXPECT_TRUE(with([](json& c) { c["mechanism"]["split"] = {1, 1, 2}; }));
  EXPECT_TRUE(with([](json& c) { c["mechanism"]["name"] = "lattice_gaussian"; }));
  EXPECT_TRUE(with([](json& c) { c["privacy"]["trust"] = "central"; }));
  EXPECT_TRUE(with([](json& c) { c["rounds"]["planned"] = 9, c["rounds"]["done"] = 9; }));
}

TEST_F(PrivUnitRun, EventsThatDoNotFollowFromWhatWasStatedAreFound) {
  const auto settle = [](json& c) {  // all that follows from the events
    const auto file = ParseEvents(
        json{{"adjacency", c["privacy"]["adjacency"]}, {"events", c["account"]["events"]}}.dump(), "forged");
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto epsilon = file->account.EpsilonAt(Delta::Proven(c["privacy"]["delta"].get<double>()));
    ASSERT_TRUE(epsilon.ok());
    c["account"]["epsilon"] = c["privacy"]["certified_epsilon"] = c["releases"][0]["epsilon"] =
        epsilon->upper;
    c["account"]["epsilon_lower"] = c["privacy"]["certified_epsilon_lower"] = 0;
  };
  const auto names = [](const Result<Verification>& v, const std::string& figure) {
    EXPECT_TRUE(v.ok());
    for (const Finding& f : v->findings)
      if (f.figure.starts_with(figure)) return true;
    return false;
  };
  const auto direction = [](json& c) -> json& {
    for (json& e : c["account"]["events"])
      if (e.contains("q")) return e;
    return c["account"]["events"][0];
  };
  // Another cap with the same ε, which costs less over the rounds: p and q nearer to 0.
  const RunResult r = Good(Make({}));
  json forged = json::parse(ReadFile(r.folder / "certificate.json"));
  ASSERT_TRUE(direction(forged).contains("p")) << forged["account"].dump();
  const double p = direction(forged)["p"], q = direction(forged)["q"], smaller = p / 2;
  direction(forged)["p"] = smaller;
  direction(forged)["q"] = 1 / (1 + p * (1 - q) / ((1 - p) * q) * (1 - smaller) / smaller);
  settle(forged);
  EXPECT_LT(forged["account"]["epsilon"], r.certified_epsilon);
  EXPECT_TRUE(names(Verify(forged, "forged"), "account.events: p"));
  // Another randomizer of the same family: by itself it holds, beside config.toml it does not.
  const RunResult a = Good(Make({{"privacy.length_share", "0.3"}})),
                  b = Good(Make({{"privacy.length_share", "0.3"}, {"privacy.epsilon", "6"}}));
  forged = json::parse(ReadFile(b.folder / "certificate.json"));
  forged["config"] = json::parse(ReadFile(a.folder / "certificate.json"))["config"];
  EXPECT_TRUE(Verify(forged, "forged")->holds());
  std::ofstream(a.folder / "certificate.json", std::ios::binary) << CertificateJson(forged);
  EXPECT_TRUE(names(VerifyFolder(a.folder), "account.events"));
  // As a paper states it: no less than the split makes, and the cap of the config.
  const auto paper = [&](const char* cap) {
    return Good(Make({{"algorithm.mode", "paper"}, {"privacy.split", "[2, 2, 2]"}, {"privacy.cap", cap}}));
  };
  const RunResult best = paper("best"), printed = paper("printed");
  forged = json::parse(ReadFile(best.folder / "certificate.json"));
  direction(forged)["p"] = direction(forged)["p"].get<double>() * 0.9;
  settle(forged);
  EXPECT_TRUE(names(Verify(forged, "forged"), "account.events"));
  forged = json::parse(ReadFile(printed.folder / "certificate.json"));
  forged["config"] = json::parse(ReadFile(best.folder / "certificate.json"))["config"];
  EXPECT_TRUE(Verify(forged, "forged")->holds());
  std::ofstream(best.folder / "certificate.json", std::ios::binary) << CertificateJson(forged);
  EXPECT_TRUE(names(VerifyFolder(best.folder), "account.events"));
}

TEST_F(PrivUnitRun, MistakesAreSentencesThatNameThingValueAndRemedy) {
  const auto why = [&](const Sets& sets) {
    TrainHooks hooks;
    hooks.write_folder = false;
    const auto r = Train(Make(sets), hooks);
    return r.ok() ? "" : r.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(why({{"privacy.trust", "central"}}), "privacy.trust = \"local\"");
  has(why({{"algorithm.name", "dp-fedavg"}, {"privacy.unit", "record"}}), "privacy.unit = \"client\"");
  has(why({{"algorithm.mode", "paper"}}), "privacy.split has 0 numbers");
  has(why({{"privacy.split", "[2, 2, 2]"}}), "certified mode finds them");
  has(why({{"algorithm.mode", "paper"}, {"privacy.split", "[2, 2, 2]"}, {"privacy.length_share", "0.5"}}),
      "leave it out");
  has(why({{"algorithm.mode", "paper"}, {"privacy.split", "[2, 2, 2]"}, {"algorithm.noise_multiplier", "1"}}),
      "Gaussian noise");
  has(why({{"privacy.mechanism", "gaussian"}, {"privacy.cap", "printed"}}), "are for privacy.mechanism");
  has(why({{"model.l2", "0.1"}}), "set static");
  has(why({{"algorithm.name", "dp-fedavg"}, {"algorithm.clip_quantile", "0.5"}}), "clip_quantile out");
  has(why({{"data.features", "1"}}), "dimension");
}

}  // namespace
}  // namespace tacit
