#include "experiment/verify.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/sha256.h"
#include "experiment/run.h"
#include "experiment/test_runs.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Certificates : public testing::Test {
 protected:
  Certificates() {
    std::string name = (fs::temp_directory_path() / "tacit-verify-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Certificates() override { fs::remove_all(folder_); }

  RunResult Run(const std::vector<Assignment>& sets, const TrainHooks& hooks = {}) const {
    const auto config = ParseConfig(fmt::format(R"(
[data]
source = "synthetic-logistic"
rows = 402
features = 6
clients = 4
row_norm = "clip"
[model]
l2 = 0.1
penalty = "l1box"
[privacy]
epsilon = 1
delta = 1e-4
[algorithm]
rounds = 40
[experiment]
output = "{}"
name = "run"
)",
                                                folder_.string()),
                                    "verify.toml", sets);
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto r = Train(*config, hooks);
    EXPECT_TRUE(r.ok()) << r.error().message;
    return r.ok() ? *std::move(r) : RunResult{};
  }
  static std::string Read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static void Write(const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  static bool Names(const Result<Verification>& v, const std::string& figure) {
    if (!v.ok()) return false;
    for (const Finding& f : v->findings)
      if (f.figure == figure && f.sentence.find(f.stated) != f.sentence.npos &&
          f.sentence.find(f.recomputed) != f.sentence.npos)
        return true;
    return false;
  }
  fs::path folder_;
};

TEST_F(Certificates, EveryKindOfRunVerifies) {
  const struct {
    const char* why;
    std::vector<Assignment> sets;
  } kCases[] = {
      {"as it comes", {}},
      {"the same noise in every round", {{"algorithm.allocation", "static"}}},
      {"zero-out", {{"privacy.adjacency", "zero-out"}}},
      {"add-remove", {{"privacy.adjacency", "add-remove"}}},
      {"add-remove with clients of unknown sizes",
       {{"privacy.adjacency", "add-remove"}, {"data.split", "dirichlet"}}},
      {"clients of unequal sizes", {{"data.split", "dirichlet"}}},
      {"double-precision noise", {{"privacy.mechanism", "gaussian"}}},
      {"no noise", {{"privacy.mechanism", "expose"}}},
      {"a budget each", {{"privacy.budgets", "[0.5, 1, 2, 0.5]"}}},
      {"a budget each, unequal sizes",
       {{"privacy.budgets", "[0.5, 1, 2, 0.5]"}, {"data.split", "dirichlet"}}},
      {"paper mode, bounded", {{"algorithm.mode", "paper"}}},
      {"paper mode, zero-out", {{"algorithm.mode", "paper"}, {"privacy.adjacency", "zero-out"}}},
      {"paper mode, a budget each", {{"algorithm.mode", "paper"}, {"privacy.budgets", "[0.5, 1, 2, 0.5]"}}},
      {"paper mode without noise", {{"algorithm.mode", "paper"}, {"privacy.mechanism", "expose"}}},
      {"paper mode, nothing bounds a record",
       {{"algorithm.mode", "paper"}, {"data.source", "synthetic-linear"}, {"model.name", "least-squares"}}},
      {"skipped rounds",
       {{"algorithm.rounds", "2000"}, {"algorithm.strong_convexity", "0.1"}, {"algorithm.gamma", "0.25"}}},
      {"traced in every round", {{"experiment.trace_every", "1"}}},
      {"a large network's dimension",
       {{"model.name", "mlp"}, {"model.classes", "2"}, {"model.hidden", "[300]"}, {"model.penalty", "none"}}},
      {"a tiny budget", {{"privacy.epsilon", "1e-3"}, {"privacy.delta", "1e-9"}}},
      {"a huge budget", {{"privacy.epsilon", "500"}}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const RunResult r = Run(c.sets);
    const auto v = VerifyFolder(r.folder);
    ASSERT_TRUE(v.ok()) << v.error().message;
    EXPECT_TRUE(v->holds()) << Findings(v);
    EXPECT_EQ(v->compared.size(), 6u);
    if (std::isinf(r.certified_epsilon)) {
      EXPECT_TRUE(std::isinf(v->epsilon));
    } else {
      EXPECT_NEAR(v->epsilon / r.certified_epsilon, 1, 1e-10);
      EXPECT_LE(v->epsilon, r.certified_epsilon * (1 + 1e-14));
    }
  }
}

TEST_F(Certificates, InterruptedRunsVerify) {
  for (const std::uint32_t stop_after : {0u, 1u, 7u}) {
    std::atomic<bool> stop{stop_after == 0};
    TrainHooks hooks;
    hooks.interrupt = &stop;
    hooks.progress = [&](const Progress& p) { stop = p.round >= stop_after; };
    const RunResult r = Run({}, hooks);
    ASSERT_TRUE(r.interrupted);
    const auto v = VerifyFolder(r.folder);
    ASSERT_TRUE(v.ok()) << v.error().message;
    EXPECT_TRUE(v->holds()) << Findings(v);
    EXPECT_EQ(v->rounds, stop_after);
  }
}

TEST_F(Certificates, AChangedFigureIsNamed) {
  const RunResult fixed = Run({{"algorithm.allocation", "static"}}), dynamic = Run({}),
                  budgets = Run({{"privacy.budgets", "[0.5, 1, 2, 0.5]"}}),
                  paper = Run({{"algorithm.mode", "paper"}}), zero = Run({{"privacy.adjacency", "zero-out"}});
  const double mu = dynamic.mu, epsilon = dynamic.certified_epsilon;
  const struct {
    const char* why;
    const RunResult* run;
    const char* pointer;
    json value;
    const char* figure;
  } kCases[] = {
      {"a smaller ε", &dynamic, "/privacy/certified_epsilon", 0.5, "privacy.certified_epsilon"},
      {"an ε one step smaller", &dynamic, "/privacy/certified_epsilon", NextDown(epsilon),
       "privacy.certified_epsilon"},
      {"a larger ε", &dynamic, "/privacy/certified_epsilon", 1.5, "privacy.certified_epsilon"},
      {"an ε of a release", &dynamic, "/releases/0/epsilon", 0.9, "releases[0].epsilon"},
      {"a smaller μ", &dynamic, "/privacy/mu", mu * (1 - 1e-9), "privacy.mu"},
      {"a smaller μ of the releases", &dynamic, "/releases/0/mu", mu * (1 - 1e-13), "releases[0].mu"},
      {"more noise", &fixed, "/releases/0/sigma/0", 1000.0, "releases[0].mu"},
      {"a little more noise in one round", &dynamic, "/releases/0/sigma/20",
       dynamic.releases[0].sigma[20] * (1 + 1e-10), "releases[0].mu"},
      {"less noise", &dynamic, "/releases/0/sigma/39", 1.0, "releases[0].mu"},
      {"fewer rounds", &fixed, "/rounds/done", 20, "releases[0].rounds"},
      {"fewer rounds of noise", &fixed, "/releases/0/rounds/0", 20, "releases[0].mu"},
      {"more rounds planned", &fixed, "/rounds/planned", 400, "rounds.planned"},
      {"interrupted though it was not", &fixed, "/rounds/skipped", 3, "rounds.planned"},
      {"another δ", &dynamic, "/privacy/delta", 1e-3, "privacy.certified_epsilon"},
      {"a weaker adjacency", &dynamic, "/privacy/adjacency", "zero-out", "releases[0].sensitivity"},
      {"a stronger adjacency", &zero, "/privacy/adjacency", "replace-one", "releases[0].sensitivity"},
      {"the other weak adjacency", &zero, "/privacy/adjacency", "add-remove", "releases[0].sensitivity"},
      {"a smaller sensitivity", &dynamic, "/releases/0/sensitivity", 2.0, "releases[0].sensitivity"},
      {"a smaller clip", &dynamic, "/enforced/clip", 0.5, "enforced.record_bound"},
      {"a smaller bound", &dynamic, "/enforced/record_bound", 0.5, "releases[0].sensitivity"},
      {"a bound that is not there", &dynamic, "/enforced/record_bound", nullptr, "releases[0].sensitivity"},
      {"fewer records", &dynamic, "/releases/0/units", 10, "releases[0].sensitivity"},
      {"another mechanism", &dynamic, "/mechanism/name", "gaussian", "releases[0].mu"},
      {"a mechanism without noise", &dynamic, "/mechanism/name", "expose", "releases[0].mu"},
      {"another dimension", &dynamic, "/model/dimension", 6000, "releases[0].mu"},
      {"one client more", &dynamic, "/clients", 5, "clients"},
      {"a client's ε", &budgets, "/privacy/per_client_epsilon/2", 0.1, "privacy.per_client_epsilon"},
      {"a claim in certified mode", &dynamic, "/privacy/claimed_epsilon", 0.1, "privacy.claimed_epsilon"},
      {"a claim of less", &paper, "/privacy/claimed_epsilon", 0.9, "privacy.claimed_epsilon"},
      {"a claim left out", &paper, "/privacy/claimed_epsilon", nullptr, "privacy.claimed_epsilon"},
      {"a claim by another bound", &paper, "/privacy/claim_bound", 2.0, "privacy.claimed_epsilon"},
      {"another mode", &paper, "/mode", "certified", "privacy.claimed_epsilon"},
      {"a zCDP figure", &dynamic, "/privacy/zcdp_epsilon", 1.0, "privacy.zcdp_epsilon"},
      {"a charge on top taken away", &dynamic, "/releases/0/mu_squared_beyond", 1e-3, "releases[0].mu"},
      {"not private, but finite", &paper, "/enforced/record_bound", nullptr, "releases[0].sensitivity"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    json certificate = json::parse(Read(c.run->folder / "certificate.json"));
    ASSERT_TRUE(Verify(certificate, "certificate.json")->holds());
    const json::json_pointer pointer(c.pointer);
    ASSERT_TRUE(certificate.contains(pointer));
    certificate[pointer] = c.value;
    const auto v = Verify(certificate, "certificate.json");
    EXPECT_TRUE(Names(v, c.figure)) << Findings(v);
  }
}

TEST_F(Certificates, TheFolderFindsWhatWasChangedConsistently) {
  // Half the noise was made than the certificate says, with the ε of the noise it says.
  const RunResult real = Run({{"privacy.epsilon", "4"}}), better = Run({{"privacy.epsilon", "1"}});
  json forged = json::parse(Read(better.folder / "certificate.json"));
  forged["run"] = real.run;
  forged["model"]["sha256"] = real.model_sha256;
  ASSERT_TRUE(Verify(forged, "certificate.json")->holds());
  Write(real.folder / "certificate.json", CertificateJson(forged));
  Write(real.folder / "certificate.txt", CertificateText(forged));
  const auto v = VerifyFolder(real.folder);
  for (const char* figure :
       {"config.sha256", "privacy.mu", "trace.jsonl line 1: sigma", "privacy.certified_epsilon"})
    EXPECT_TRUE(Names(v, figure)) << figure << " is not in\n" << Findings(v);
}

TEST_F(Certificates, AChangedFileOfTheFolderIsNamed) {
  const auto append = [](const char* name, const char* text) {
    return [=](const fs::path& f) { std::ofstream(f / name, std::ios::app | std::ios::binary) << text; };
  };
  const auto sql = [](const char* statement) {
    return [=](const fs::path& f) {
      sqlite3* db = nullptr;
      ASSERT_EQ(sqlite3_open((f / "ledger.db").c_str(), &db), SQLITE_OK);
      EXPECT_EQ(sqlite3_exec(db, statement, nullptr, nullptr, nullptr), SQLITE_OK);
      sqlite3_close(db);
    };
  };
  const auto replace = [](const char* name, const std::string& from, const std::string& to) {
    return [=](const fs::path& f) {
      std::string text = Read(f / name);
      const auto at = text.find(from);
      ASSERT_NE(at, text.npos) << text;
      Write(f / name, text.replace(at, from.size(), to));
    };
  };
  const struct {
    const char* why;
    std::function<void(const fs::path&)> change;
    const char* figure;
  } kCases[] = {
      {"another model", append("model.npy", "x"), "model.sha256"},
      {"no model", [](const fs::path& f) { fs::remove(f / "model.npy"); }, "model.npy"},
      {"a comment in the config", append("config.toml", "# nothing\n"), "config.sha256"},
      {"another δ in the config", replace("config.toml", "delta = 0.0001", "delta = 0.001"), "privacy.delta"},
      {"another budget in the config", replace("config.toml", "epsilon = 1.0", "epsilon = 0.5"),
       "privacy.certified_epsilon"},
      {"another clip in the config", replace("config.toml", "clip = 1.0", "clip = 2.0"), "enforced.clip"},
      {"a config that is none", append("config.toml", "]["), "config.toml"},
      {"another sentence in the text", append("certificate.txt", "and nothing else"), "certificate.txt"},
      {"more was charged", sql("UPDATE accounts SET spent = spent * 1.01"), "privacy.mu"},
      {"less was charged", sql("UPDATE accounts SET spent = spent / 2"), "privacy.mu"},
      {"a ledger left open", sql("UPDATE runs SET state = 'open'"), "run"},
      {"a ledger of another run", sql("UPDATE runs SET adjacency = 'zero-out'"), "privacy.adjacency"},
      {"a ledger without the run", sql("DELETE FROM runs"), "run"},
      {"a ledger that is none",
       [](const fs::path& f) { Write(f / "ledger.db", "no database, but long enough"); }, "ledger.db"},
      {"a trace with less noise", replace("trace.jsonl", "\"sigma\":", "\"sigma\":1"),
       "trace.jsonl line 1: sigma"},
      {"a trace that is none", append("trace.jsonl", "{}\n"), "trace.jsonl line 41"},
      {"a trace that goes on", append("trace.jsonl", "{\"round\":41,\"epsilon\":1.0,\"sigma\":1}\n"),
       "trace.jsonl line 41: round"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const RunResult r = Run({});
    c.change(r.folder);
    const auto v = VerifyFolder(r.folder);
    EXPECT_TRUE(Names(v, c.figure)) << Findings(v);
  }
}

TEST_F(Certificates, WhatIsNoCertificateIsAnErrorInWords) {
  const json good = json::parse(Read(Run({}).folder / "certificate.json"));
  const auto why = [](const std::string& bytes) -> std::string {
    const auto parsed = ParseCertificate(bytes, "c.json");
    if (!parsed.ok()) return parsed.error().message;
    const auto v = Verify(*parsed, "c.json");
    return v.ok() ? "" : v.error().message;
  };
  EXPECT_EQ(why(good.dump()), "");
  // Any field that is read may be missing or of any type.
  std::size_t errors = 0;
  const json flat = good.flatten();
  for (const auto& [pointer, value] : flat.items())
    for (const json& other :
         {json("text"), json(-1), json(nullptr), json(json::array()), json(true), json(1e300)}) {
      json changed = good;
      changed[json::json_pointer(pointer)] = other;
      const std::string message = why(changed.dump());
      if (message.empty()) continue;
      ++errors;
      EXPECT_NE(message.find("c.json: "), message.npos) << message;
      EXPECT_NE(message.find("give a certificate.json"), message.npos) << message;
    }
  EXPECT_GT(errors, 200u);
  for (const char* key : {"run", "mode", "privacy", "enforced", "mechanism", "rounds", "releases", "clients",
                          "model", "config", "data"}) {
    json changed = good;
    changed.erase(key);
    EXPECT_NE(why(changed.dump()).find(std::string(key)), std::string::npos) << key;
  }
  EXPECT_NE(why("{\"a\": 1, \"a\": 2}").find("\"a\" twice"), std::string::npos);
  EXPECT_NE(why("{").find("is not JSON"), std::string::npos);
  EXPECT_NE(why("").find("is not JSON"), std::string::npos);
  EXPECT_NE(why("[1e999]").find("is not JSON"), std::string::npos);
  EXPECT_NE(why("\xff\xfe").find("is not JSON"), std::string::npos);
  EXPECT_NE(why(std::string(100000, '[')).find("is not JSON"), std::string::npos);
  EXPECT_NE(why("[]").find("is not a certificate"), std::string::npos);
}

}  // namespace
}  // namespace tacit
