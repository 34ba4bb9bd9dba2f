#include "net/log_event.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

namespace tacit {
namespace {

TEST(LogEvent, EveryEventHasAKindOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < EventKinds().size(); ++i) {
    const EventKind& kind = EventKinds()[i];
    EXPECT_EQ(static_cast<std::size_t>(kind.event), i) << kind.name;
    EXPECT_EQ(&KindOf(kind.event), &kind);
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_NE(kind.when[0], '\0') << kind.name;
    for (const std::string& field : kind.fields)  // which every line has
      EXPECT_TRUE(field != "time" && field != "level" && field != "event" && field != "message") << kind.name;
  }
  EXPECT_EQ(static_cast<std::size_t>(Event::kFailed) + 1, EventKinds().size()) << "kFailed is the last one";
}

TEST(LogEvent, WhatOthersCauseIsLimited) {
  using std::chrono::milliseconds;
  LogLimit limit;
  const LogLimit::Time begin{};
  const auto left_out = [&](const char* key, int at) -> std::optional<std::uint64_t> {
    LogEvent e{Event::kJobRead, "c0 has read the job"};
    if (!limit.Allows(key, e, begin + milliseconds(at))) return std::nullopt;
    if (e.fields.empty()) {
      EXPECT_EQ(e.text, "c0 has read the job");
      return 0;
    }
    EXPECT_STREQ(e.fields[0].name, "left_out");
    return std::get<std::uint64_t>(e.fields[0].value);
  };
  EXPECT_EQ(left_out("a", 0), 0u);
  EXPECT_EQ(left_out("a", 1), std::nullopt);
  EXPECT_EQ(left_out("b", 2), 0u);
  EXPECT_EQ(left_out("a", 999), std::nullopt);
  EXPECT_EQ(left_out("a", 1000), 2u);
  EXPECT_EQ(left_out("a", 1999), std::nullopt);
  EXPECT_EQ(left_out("a", 5000), 1u);
  EXPECT_EQ(left_out("a", 7000), 0u);
}

TEST(LogEvent, IsItsSentenceWhereOneIsAskedFor) {
  std::string heard;
  const EventLog log = [&](const std::string& line) { heard = line; };
  log({Event::kRoundDone, "round 1 of 2 done", {{"round", std::uint64_t{1}}}});
  EXPECT_EQ(heard, "round 1 of 2 done");
}

}  // namespace
}  // namespace tacit
