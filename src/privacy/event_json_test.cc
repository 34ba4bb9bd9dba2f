#include "privacy/event_json.h"

#include <gtest/gtest.h>

#include "privacy/accountant_cases.h"

namespace tacit {
namespace {

Accountant Parsed(const std::string& text) {
  const auto r = ParseEvents(text, "x.json");
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
  return r.ok() ? r->account : Accountant(Adjacency::kReplaceOne);
}
std::string Error(const std::string& text, std::optional<Adjacency> adjacency = std::nullopt) {
  const auto r = ParseEvents(text, "x.json", adjacency);
  EXPECT_FALSE(r.ok()) << text;
  return r.ok() ? "" : r.error().message;
}
std::string One(const std::string& fields) { return R"({"events": [{)" + fields + "}]}"; }

TEST(EventJson, EveryTypeIsReadAndWrittenBitForBit) {
  for (
      const char* fields :
      {R"("type": "gaussian", "noise_multiplier": 3, "count": 7)",
       R"("type": "gaussian", "mu": 0.3)",
       R"("type": "gaussian", "sigma": 3, "sensitivity": 0.7)",
       R"("type": "joint-gaussian", "mu": 0.1)",
       R"("type": "joint-gaussian", "noise_multiplier": "inf")",
       R"("type": "fixed-size-gaussian", "rate": 0.3, "noise_multiplier": 1.1)",
       R"("type": "poisson-gaussian", "rate": 0.01, "sigma": 2, "sensitivity": 0.3, "count": 1e12)",
       R"("type": "discrete-gaussian", "sigma": 2.5, "sensitivity": 3, "dimension": 2)",
       R"("type": "distributed-discrete-gaussian", "sigma": 2.5, "sensitivity": 3.5, "clients": 100, "dimension": 9)",
       R"("type": "laplace", "epsilon": 0.1)",
       R"("type": "laplace", "scale": 3, "sensitivity": 1)",
       R"("type": "discrete-laplace", "epsilon_per_step": 0.1, "sensitivity": 4)",
       R"("type": "randomised-response", "epsilon": 1.5, "categories": 10)",
       R"("type": "priv-unit", "epsilon": 4, "dimension": 100)",
       R"("type": "priv-unit", "p": 0.75, "q": 0.25)",
       R"("type": "scalar-dp", "epsilon": 2)",
       R"("type": "pure", "epsilon": 0.1, "count": 1000000000000000, "note": "as printed")",
       R"("type": "pure", "epsilon": "inf")",
       R"("type": "approximate", "epsilon": 0.1, "delta": 1e-9)",
       R"("type": "zcdp", "rho": 0.1)",
       R"("type": "renyi", "orders": [2, 4.5, 32], "epsilons": [0.1, 0.3, 2])",
       R"("type": "non-private")"}) {
    SCOPED_TRACE(fields);
    const Accountant read = Parsed(One(fields));
    ASSERT_EQ(read.lines().size(), 1u);
    const std::string text = WriteEvents(read, Of<Delta>(1e-6));
    const auto again = ParseEvents(text, "again.json");
    ASSERT_TRUE(again.ok()) << again.error().message << text;
    EXPECT_EQ(again->delta, Of<Delta>(1e-6));
    EXPECT_EQ(WriteEvents(again->account, again->delta), text);
    EXPECT_EQ(again->account.lines()[0].event.index(), read.lines()[0].event.index());
    EXPECT_EQ(again->account.lines()[0].count, read.lines()[0].count);
  }
}

TEST(EventJson, MeansTheEventsOfTheLibrary) {
  const Accountant read = Parsed(R"({"adjacency": "add-remove", "events": [
    {"type": "poisson-gaussian", "noise_multiplier": 1, "rate": 0.01, "count": 600},
    {"type": "pure", "epsilon": 0.5},
    {"type": "poisson-gaussian", "mu": 1, "rate": 0.01, "count": 400}]})");
  Accountant made(Adjacency::kAddOrRemove);
  ASSERT_TRUE(made.Compose(Poisson(0.01, 1), 1000).ok() && made.Compose(Pure(0.5)).ok());
  EXPECT_EQ(WriteEvents(read), WriteEvents(made));
  EXPECT_EQ(EpsilonOf(read, 1e-5).upper, EpsilonOf(made, 1e-5).upper);
}

TEST(EventJson, TheUsualAdjacency) {
  const std::string poisson = R"({"type": "poisson-gaussian", "mu": 1, "rate": 0.1})";
  const std::string pure = R"({"type": "pure", "epsilon": 1})";
  const auto events = [](const std::string& list) { return R"({"events": [)" + list + "]}"; };
  EXPECT_EQ(Parsed(events(poisson)).adjacency(), Adjacency::kAddOrRemove);
  EXPECT_EQ(Parsed(events(pure)).adjacency(), Adjacency::kReplaceOne);
  EXPECT_NE(Error(events(poisson + "," + pure)).find("name the \"adjacency\""), std::string::npos);
  const auto asked = ParseEvents(events(poisson + "," + pure), "x.json", Adjacency::kZeroOut);
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(asked->account.adjacency(), Adjacency::kZeroOut);
  EXPECT_NE(Error(R"({"adjacency": "add-remove", "events": [{"type": "pure", "epsilon": 1}]})",
                  Adjacency::kReplaceOne)
                .find("add-remove"),
            std::string::npos);
}

TEST(EventJson, WhatIsWrongIsSaid) {
  struct Case {
    std::string text;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"", "is not JSON"},
      {"{", "is not JSON"},
      {"[]", "the list \"events\""},
      {R"({"events": {}})", "the list \"events\""},
      {R"({"events": []})", "is empty"},
      {R"({"events": [3]})", "event 1: an event is an object"},
      {R"({"events": [{"type": 3}]})", "an event is an object"},
      {R"({"events": [{"type": "pure", "epsilon": 1}], "epsilon": 3})", "unknown key \"epsilon\""},
      {R"({"events": [{"type": "pure", "epsilon": 1}], "delta": 1})", "delta = 1"},
      {R"({"events": [{"type": "pure", "epsilon": 1}], "delta": "x"})", "must be a number"},
      {R"({"adjacency": "near", "events": [{"type": "pure", "epsilon": 1}]})", "adjacency = \"near\""},
      {R"({"adjacency": 1, "events": [{"type": "pure", "epsilon": 1}]})", "\"adjacency\" must be"},
      {One(R"("type": "gausian", "mu": 1)"), "known are gaussian, joint-gaussian"},
      {One(R"("type": "gaussian", "mu": 1, "sgima": 2)"), "no key \"sgima\"; known are noise_multiplier, mu"},
      {One(R"("type": "gaussian")"), "needs one of"},
      {One(R"("type": "gaussian", "mu": 1, "noise_multiplier": 1)"), "needs one of"},
      {One(R"("type": "gaussian", "sigma": 1)"), "\"sensitivity\""},
      {One(R"("type": "gaussian", "mu": 0.1, "sigma": 1, "sensitivity": 1)"),
       "is less than sensitivity/sigma"},
      {One(R"("type": "gaussian", "noise_multiplier": 0)"), "must be positive"},
      {One(R"("type": "gaussian", "noise_multiplier": NaN)"), "is not JSON"},
      {One(R"("type": "gaussian", "noise_multiplier": "nan")"), "must be a number"},
      {One(R"("type": "gaussian", "noise_multiplier": 1e999)"), "is not JSON"},
      {One(R"("type": "gaussian", "mu": -1)"), "mu = -1"},
      {One(R"("type": "pure", "epsilon": -1)"), "epsilon = -1"},
      {One(R"("type": "pure", "epsilon": 1, "count": 0)"), "\"count\" = 0"},
      {One(R"("type": "pure", "epsilon": 1, "count": -3)"), "\"count\" = -3"},
      {One(R"("type": "pure", "epsilon": 1, "count": 1.5)"), "\"count\" = 1.5"},
      {One(R"("type": "pure", "epsilon": 1, "count": 1e16)"), "\"count\" = 1e+16"},
      {One(R"("type": "pure", "epsilon": 1, "count": "inf")"), "\"count\" = inf"},
      {One(R"("type": "pure", "epsilon": 1, "epsilon": 2)"), "\"epsilon\" twice"},
      {One(R"("type": "pure", "epsilon": [[[[[[[[[[[[[[1]]]]]]]]]]]]]])"), "nested too deeply"},
      {One(R"("type": "poisson-gaussian", "mu": 1, "rate": 0)"), "samples nobody"},
      {One(R"("type": "poisson-gaussian", "mu": 1, "rate": 1.5)"), "probability = 1.5"},
      {One(R"("type": "laplace", "epsilon": 1, "scale": 1)"), "either \"epsilon\""},
      {One(R"("type": "randomised-response", "epsilon": 1, "categories": 1)"), "\"categories\" = 1"},
      {One(R"("type": "priv-unit", "epsilon": 1)"), "\"dimension\""},
      {One(R"("type": "priv-unit", "epsilon": 1000, "dimension": 10)"), "(0, 100]"},
      {One(R"("type": "priv-unit", "p": 0.1, "q": 0.9)"), "event 1: PrivUnit"},
      {One(R"("type": "discrete-gaussian", "sigma": 1e-5)"), "event 1: discrete Gaussian"},
      {One(R"("type": "discrete-gaussian", "sigma": 1, "sensitivity": 0.5)"), "\"sensitivity\" = 0.5"},
      {One(R"("type": "renyi", "orders": [2]))"), "is not JSON"},
      {One(R"("type": "renyi", "orders": [2])"), "the list of numbers \"epsilons\""},
      {One(R"("type": "renyi", "orders": [2], "epsilons": [1, 2])"), "1 \"orders\" and 2 \"epsilons\""},
      {One(R"("type": "renyi", "orders": ["a"], "epsilons": [1])"), "must be a list of numbers"},
      {One(R"("type": "renyi", "orders": [2], "epsilons": [-1])"), "epsilon = -1"},
      {One(R"("type": "renyi", "orders": [0.5], "epsilons": [1])"), "event 1: "},
      {One(R"("type": "distributed-discrete-gaussian", "sigma": 1, "sensitivity": 1)"), "\"clients\""},
      {R"({"events": [{"type": "pure", "epsilon": 1, "count": 1e15}, {"type": "pure", "epsilon": 1}]})",
       "event 2: "},
      {R"({"adjacency": "add-remove", "events": [{"type": "fixed-size-gaussian", "mu": 1, "rate": 0.1}]})",
       "replace-one"},
      {R"({"adjacency": "add-remove", "events": [{"type": "pure", "epsilon": 1, "adjacency": "zero-out"}]})",
       "another adjacency"}};
  for (const Case& c : cases) {
    const std::string message = Error(c.text);
    EXPECT_NE(message.find(c.says), std::string::npos) << c.text << "\n" << message;
    EXPECT_EQ(message.find("x.json: "), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(EventJson, LargeFilesAreRefusedOrRead) {
  std::string many = R"({"events": [)";
  for (int i = 0; i < 10001; ++i)
    many += fmt::format(R"({}{{"type": "pure", "epsilon": {}}})", i == 0 ? "" : ",", 1 + i);
  EXPECT_NE(Error(many + "]}").find("more than 10000 different releases"), std::string::npos);
  EXPECT_NE(Error(std::string((std::size_t{64} << 20) + 1, ' ')).find("64 MiB"), std::string::npos);
  EXPECT_NE(Error(std::string(1000000, '[')).find("nested too deeply"), std::string::npos);
  std::string equal = R"({"events": [{"type": "pure", "epsilon": 1})";
  for (int i = 1; i < 100000; ++i) equal += R"(,{"type": "pure", "epsilon": 1})";
  EXPECT_EQ(Parsed(equal + "]}").lines()[0].count, 100000u);
}

}  // namespace
}  // namespace tacit
