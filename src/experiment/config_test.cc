#include "experiment/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tacit {
namespace {

std::string Why(std::string_view toml, const std::vector<Assignment>& sets = {}) {
  const auto c = ParseConfig(toml, "x.toml", sets);
  return c.ok() ? "" : c.error().message;
}

TEST(ParseConfig, ReadsTablesAndAppliesAssignmentsLast) {
  const auto c = ParseConfig(R"(
[data]
source = "a6a"
clients = 20
drop = ["a", "b"]
[privacy]
epsilon = 2
budgets = [1, 2.5]
[algorithm]
variance_cap = inf
[experiment]
oracle = true
[sweep]
anything = 1
)",
                             "x.toml", {{"privacy.epsilon", "3"}, {"experiment.name", "b"}});
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(c->data.source, "a6a");
  EXPECT_EQ(c->data.clients, 20u);
  EXPECT_EQ(c->data.drop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c->privacy.epsilon, 3.0);
  EXPECT_EQ(c->privacy.budgets, (std::vector<double>{1, 2.5}));
  EXPECT_TRUE(std::isinf(c->algorithm.variance_cap));
  EXPECT_TRUE(c->experiment.oracle);
  EXPECT_EQ(c->experiment.name, "b");
}

TEST(ParseConfig, EveryErrorNamesTheKeyTheValueThePlaceAndTheRemedy) {
  const struct {
    const char* why;
    const char* toml;
    const char* message;
  } kCases[] = {
      {"wrong key", "[privacy]\nepsilno = 1",
       "x.toml:2: privacy.epsilno: unknown key; did you mean privacy.epsilon?"},
      {"wrong table", "[privcy]\nepsilon = 1",
       "x.toml:2: privcy.epsilon: unknown key; did you mean privacy.epsilon?"},
      {"wrong empty table", "\n[privcy]", "x.toml:2: [privcy]: unknown table; did you mean [privacy]?"},
      {"key outside a table", "epsilon = 1", "x.toml:1: epsilon: unknown key; did you mean privacy.epsilon?"},
      {"a table of tables", "[data.more]\nx = 1", "nested tables are not values"},
      {"a budget of zero", "[privacy]\nepsilon = 0",
       "x.toml:2: privacy.epsilon = 0.0: must be in (0, 1e+100]"},
      {"a budget of NaN", "[privacy]\nepsilon = nan", "privacy.epsilon = nan: must be in (0, 1e+100]"},
      {"an infinite budget", "[privacy]\nepsilon = inf", "privacy.epsilon = inf: must be in (0, 1e+100]"},
      {"a budget of zero among several", "[privacy]\nbudgets = [1, 0]",
       "privacy.budgets contains 0.0: each must be in (0, 1e+100]"},
      {"delta of one", "[privacy]\ndelta = 1", "x.toml:2: privacy.delta = 1.0: must be in (0, 1)"},
      {"delta above one", "[privacy]\ndelta = 1.5", "privacy.delta = 1.5: must be in (0, 1)"},
      {"delta of zero", "[privacy]\ndelta = 0", "privacy.delta = 0.0: must be in (0, 1)"},
      {"delta of NaN", "[privacy]\ndelta = nan", "privacy.delta = nan: must be in (0, 1)"},
      {"a clip no square can hold", "[privacy]\nclip = 1e200",
       "privacy.clip = 1e+200: must be in [1e-100, 1e+100]"},
      {"a row bound no square can hold", "[data]\nrow_bound = 1e-200", "data.row_bound = 1e-200: must be in"},
      {"no clients", "[data]\nclients = 0", "data.clients = 0: must be in [1, 268435456]"},
      {"half a client", "[data]\nclients = 2.5", "data.clients = 2.5: must be a whole number"},
      {"no rounds", "[algorithm]\nrounds = 0", "algorithm.rounds = 0: must be in [1, 10000000]"},
      {"unknown choice", "[privacy]\nmechanism = \"lattice\"",
       "must be one of lattice_gaussian, gaussian, discrete_gaussian, priv-unit, expose"},
      {"near choice", "[algorithm]\nmode = \"certifed\"", "did you mean certified?"},
      {"unknown algorithm", "[algorithm]\nname = \"fedavg\"",
       "algorithm.name = \"fedavg\": must be one of primal-dual"},
      {"wrong type", "[experiment]\noracle = \"yes\"",
       "experiment.oracle = \"yes\": is text, must be true or false"},
      {"mixed list", "[privacy]\nbudgets = [1, \"a\"]", "privacy.budgets: a list may not mix"},
      {"a date", "[privacy]\nepsilon = 2020-01-01", "x.toml:2: privacy.epsilon: dates"},
      {"not TOML", "[privacy]\nepsilon = = 1", "x.toml:2: not valid TOML"},
      {"a key twice", "[privacy]\nepsilon = 1\nepsilon = 2", "x.toml:3: not valid TOML"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    EXPECT_NE(Why(c.toml).find(c.message), std::string::npos) << Why(c.toml);
  }
  EXPECT_EQ(Why("", {{"privacy.delta", "1"}}), "--set privacy.delta = 1.0: must be in (0, 1)");
  EXPECT_EQ(Why("", {{"privacy.delt", "1"}}), "--set privacy.delt: unknown key; did you mean privacy.delta?");
}

TEST(ParseAssignment, SplitsAtTheFirstEqualsSign) {
  const auto a = ParseAssignment("data.separator==");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->key, "data.separator");
  EXPECT_EQ(a->value, "=");
  for (const char* bad : {"", "privacy.epsilon", "=3"}) {
    const auto b = ParseAssignment(bad);
    ASSERT_FALSE(b.ok());
    EXPECT_NE(b.error().message.find("must look like table.key=value"), std::string::npos);
  }
}

TEST(LoadConfig, AMissingFileIsNamedWithARemedy) {
  for (const char* file : {"/nowhere/x.toml", "/tmp"}) {
    const auto c = LoadConfig(file, {});
    ASSERT_FALSE(c.ok());
    EXPECT_EQ(c.error().code, Code::kNotFound);
    EXPECT_NE(c.error().message.find(std::string(file) + ": cannot be read; give the path"),
              std::string::npos);
  }
  EXPECT_TRUE(LoadConfig("", {}).ok());
}

TEST(ToToml, RoundTrips) {
  const std::vector<std::vector<Assignment>> kSets = {
      {},
      {{"privacy.epsilon", "0.1"}, {"privacy.budgets", "[0.1, 1e-9, 3]"}, {"algorithm.variance_cap", "12.5"}},
      {{"data.drop", "[\"a,b\", \"c\"]"},
       {"data.label_bound", "2"},
       {"experiment.name", "with \"quotes\" \\ and"},
       {"experiment.seed", "9007199254740991"}},
  };
  for (const auto& sets : kSets) {
    const auto first = ParseConfig("", "", sets);
    ASSERT_TRUE(first.ok()) << first.error().message;
    const std::string text = ToToml(*first);
    const auto again = ParseConfig(text, "again", {});
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(ToToml(*again), text);
  }
  Config odd;
  odd.data.separator = "\t";
  odd.experiment.name = "line\nbreak \x7f é";
  const auto again = ParseConfig(ToToml(odd), "odd", {});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->experiment.name, odd.experiment.name);
  EXPECT_EQ(again->data.separator, "\t");
}

TEST(Options, EveryKeyIsDocumentedWithARange) {
  Config c;
  const std::string reference = OptionsReference();
  for (const Section& s : Describe(c)) {
    EXPECT_FALSE(s.help().empty());
    for (const Option& o : s.options()) {
      EXPECT_FALSE(o.help.empty()) << s.name() << '.' << o.key;
      EXPECT_NE(reference.find("| `" + o.key + "` |"), std::string::npos);
    }
  }
}

TEST(Options, EveryDefaultIsWithinItsOwnRange) {
  Config c;
  for (Section& s : Describe(c))
    for (const Option& o : s.options()) EXPECT_TRUE(o.set(o.get(), o.key).ok()) << s.name() << '.' << o.key;
}

}  // namespace
}  // namespace tacit
