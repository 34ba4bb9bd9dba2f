#include "core/option.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tacit {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Fields {
  double epsilon = 1.0, cap = kInfinity;
  std::size_t rounds = 100;
  bool oracle = false;
  std::string name = "x", mode = "certified";
  std::vector<double> budgets;
  std::vector<std::string> drop;
};

Section Declare(Fields& f) {
  Section s("privacy", "help");
  s.Number("epsilon", &f.epsilon, Above(0), "epsilon");
  s.Number("cap", &f.cap, {.lower = 0, .upper = kInfinity, .lower_open = true}, "cap");
  s.Count("rounds", &f.rounds, AtLeast(1), "rounds");
  s.Flag("oracle", &f.oracle, "oracle");
  s.Text("name", &f.name, "name");
  s.Choice("mode", &f.mode, {"certified", "paper"}, "mode");
  s.Numbers("budgets", &f.budgets, Above(0), "budgets");
  s.Texts("drop", &f.drop, "drop");
  return s;
}

TEST(Section, SetsFieldsOfEveryType) {
  Fields f;
  Section s = Declare(f);
  EXPECT_FALSE(s.given("epsilon"));
  ASSERT_TRUE(s.Set("epsilon", Value(2.5)).ok());
  EXPECT_TRUE(s.given("epsilon"));
  EXPECT_EQ(f.epsilon, 2.5);
  ASSERT_TRUE(s.Set("epsilon", Value(std::int64_t{3})).ok());
  EXPECT_EQ(f.epsilon, 3.0);
  ASSERT_TRUE(s.Set("cap", Value(kInfinity)).ok());
  ASSERT_TRUE(s.Set("rounds", Value(std::int64_t{7})).ok());
  EXPECT_EQ(f.rounds, 7u);
  ASSERT_TRUE(s.Set("rounds", Value(1e3)).ok());
  EXPECT_EQ(f.rounds, 1000u);
  ASSERT_TRUE(s.Set("oracle", Value(true)).ok());
  EXPECT_TRUE(f.oracle);
  ASSERT_TRUE(s.Set("name", Value(std::string("abc"))).ok());
  EXPECT_EQ(f.name, "abc");
  EXPECT_FALSE(s.Set("name", Value(std::int64_t{12})).ok());
  EXPECT_EQ(f.name, "abc");
  s.Text("column", &f.name, "column", true);
  ASSERT_TRUE(s.Set("column", Value(std::int64_t{12})).ok());
  EXPECT_EQ(f.name, "12");
  ASSERT_TRUE(s.Set("mode", Value(std::string("paper"))).ok());
  EXPECT_EQ(f.mode, "paper");
  ASSERT_TRUE(s.Set("budgets", Value(std::vector<double>{1, 2})).ok());
  EXPECT_EQ(f.budgets, (std::vector<double>{1, 2}));
  ASSERT_TRUE(s.Set("drop", Value(std::vector<std::string>{"a"})).ok());
  EXPECT_EQ(f.drop, std::vector<std::string>{"a"});
  ASSERT_TRUE(s.Set("drop", Value(std::vector<double>{})).ok());     // [] is a list of either kind
  EXPECT_TRUE(f.drop.empty());
}

TEST(Section, RefusesAndLeavesTheFieldAsItWas) {
  const struct {
    const char* why;
    const char* key;
    Value value;
    const char* message;
  } kCases[] = {
      {"open end", "epsilon", Value(0.0), "privacy.epsilon = 0.0: must be above 0"},
      {"negative", "epsilon", Value(std::int64_t{-1}), "privacy.epsilon = -1.0: must be above 0"},
      {"NaN passes no range", "epsilon", Value(kNan), "privacy.epsilon = nan: must be above 0"},
      {"infinity only where said", "epsilon", Value(kInfinity), "privacy.epsilon = inf: must be above 0"},
      {"NaN where infinity may be", "cap", Value(kNan), "privacy.cap = nan: must be above 0"},
      {"text for a number", "epsilon", Value(std::string("two")),
       "privacy.epsilon = \"two\": is text, must be a number"},
      {"a boolean is no number", "epsilon", Value(true), "privacy.epsilon = true: is a boolean"},
      {"a fraction is no count", "rounds", Value(2.5), "privacy.rounds = 2.5: must be a whole number"},
      {"NaN is no count", "rounds", Value(kNan), "privacy.rounds = nan: must be a whole number"},
      {"infinity is no count", "rounds", Value(kInfinity), "privacy.rounds = inf: must be a whole number"},
      {"negative count", "rounds", Value(std::int64_t{-3}), "privacy.rounds = -3: must be a whole number"},
      {"count out of range", "rounds", Value(std::int64_t{0}), "privacy.rounds = 0: must be at least 1"},
      {"beyond exact doubles", "rounds", Value(std::int64_t{1} << 60), "must be a whole number"},
      {"one is not true", "oracle", Value(std::int64_t{1}), "must be true or false"},
      {"a list is no text", "name", Value(std::vector<double>{1}), "must be text"},
      {"unknown choice, nearest named", "mode", Value(std::string("papr")),
       "privacy.mode = \"papr\": must be one of certified, paper; did you mean paper?"},
      {"a number is no choice", "mode", Value(1.0), "must be one of certified, paper"},
      {"one bad entry", "budgets", Value(std::vector<double>{1, 0}),
       "privacy.budgets contains 0.0: each must be above 0"},
      {"NaN entry", "budgets", Value(std::vector<double>{kNan}), "privacy.budgets contains nan"},
      {"a number is no list", "budgets", Value(1.0), "must be a list of numbers"},
      {"numbers are no texts", "drop", Value(std::vector<double>{1}), "must be a list of texts"},
      {"unknown key, nearest named", "epsilno", Value(1.0),
       "privacy.epsilno: unknown key; did you mean privacy.epsilon?"},
      {"unknown key, nothing near", "zzzzzzzz", Value(1.0), "[privacy] knows epsilon, cap, rounds"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    Fields f;
    Section s = Declare(f);
    const Status status = s.Set(c.key, c.value);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find(c.message), std::string::npos) << status.error().message;
    const Fields fresh;
    EXPECT_EQ(f.epsilon, fresh.epsilon);
    EXPECT_EQ(f.rounds, fresh.rounds);
    EXPECT_EQ(f.mode, fresh.mode);
    EXPECT_EQ(f.budgets, fresh.budgets);
    EXPECT_FALSE(s.given(c.key));
  }
}

TEST(Range, SaysWhatItHolds) {
  EXPECT_TRUE(AtLeast(0).Holds(0));
  EXPECT_FALSE(Above(0).Holds(0));
  EXPECT_TRUE(Above(0).Holds(5e-324));
  EXPECT_TRUE(Between(0, 1).Holds(1));
  EXPECT_FALSE(Range{}.Holds(kInfinity));
  for (const Range& r : {Range{}, AtLeast(0), Above(0), Between(0, 1)}) EXPECT_FALSE(r.Holds(kNan));
  EXPECT_EQ(AtLeast(1).ToText(), "at least 1");
  EXPECT_EQ((Range{.lower = 0, .upper = 1, .lower_open = true, .upper_open = true}.ToText()), "in (0, 1)");
  EXPECT_EQ((Range{.upper = 3}.ToText()), "at most 3");
  EXPECT_EQ(Range{}.ToText(), "finite");
}

TEST(ParseValue, ReadsWhatAPersonTypes) {
  EXPECT_EQ(ParseValue("true"), Value(true));
  EXPECT_EQ(ParseValue(" false "), Value(false));
  EXPECT_EQ(ParseValue("3"), Value(std::int64_t{3}));
  EXPECT_EQ(ParseValue("-3"), Value(std::int64_t{-3}));
  EXPECT_EQ(ParseValue("1e-5"), Value(1e-5));
  EXPECT_EQ(ParseValue("+0.5"), Value(0.5));
  EXPECT_EQ(ParseValue("inf"), Value(kInfinity));
  EXPECT_EQ(ParseValue("-inf"), Value(-kInfinity));
  EXPECT_TRUE(std::isnan(std::get<double>(ParseValue("nan"))));
  EXPECT_EQ(ParseValue("99999999999999999999"), Value(1e20));          // beyond 64 bits: a number still
  EXPECT_EQ(ParseValue("[1, 2.5]"), Value(std::vector<double>{1, 2.5}));
  EXPECT_EQ(ParseValue("[]"), Value(std::vector<double>{}));
  EXPECT_EQ(ParseValue("[1, 2,]"), Value(std::vector<double>{1, 2}));
  EXPECT_EQ(ParseValue("[a, \"b\"]"), Value(std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ParseValue("[\"a,b\", c]"), Value(std::vector<std::string>{"a,b", "c"}));
  EXPECT_EQ(ParseValue("\"3\""), Value(std::string("3")));
  EXPECT_EQ(ParseValue("a6a"), Value(std::string("a6a")));
  EXPECT_EQ(ParseValue(""), Value(std::string()));
  EXPECT_EQ(ParseValue("3 4"), Value(std::string("3 4")));
  EXPECT_EQ(ParseValue("+-3"), Value(std::string("+-3")));
}

TEST(ToText, ReadsBackAsTheSameValue) {
  const Value kValues[] = {
      Value(true),
      Value(std::int64_t{-7}),
      Value(0.1),
      Value(1e300),
      Value(5e-324),
      Value(3.0),
      Value(kInfinity),
      Value(std::string("plain")),
      Value(std::vector<double>{1, 0.1, 1e-9}),
      Value(std::vector<std::string>{"a", "b c"}),
  };
  for (const Value& v : kValues) EXPECT_EQ(ParseValue(ToText(v)), v) << ToText(v);
}

TEST(ToText, IsValidTomlWhateverTheText) {
  EXPECT_EQ(ToText(Value(std::string("a\"b\\c"))), R"("a\"b\\c")");
  EXPECT_EQ(ToText(Value(std::string("a\nb\x01"))), R"("a\u000Ab\u0001")");    // no raw control characters
}

TEST(Nearest, FindsSlipsAndNotStrangers) {
  const std::vector<std::string> kKeys = {"epsilon", "delta", "clip", "mechanism"};
  EXPECT_EQ(Nearest("epsilno", kKeys), "epsilon");
  EXPECT_EQ(Nearest("Delta", kKeys), "delta");
  EXPECT_EQ(Nearest("clp", kKeys), "clip");
  EXPECT_EQ(Nearest("mechansim", kKeys), "mechanism");
  EXPECT_EQ(Nearest("temperature", kKeys), "");
  EXPECT_EQ(Nearest("", {}), "");
}

}  // namespace
}  // namespace tacit
