#include "net/log_event.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(LogEvent, IsItsSentenceWhereOneIsAskedFor) {
  std::string heard;
  const EventLog log = [&](const std::string& line) { heard = line; };
  log({Event::kRoundDone, "round 1 of 2 done", {{"round", std::uint64_t{1}}}});
  EXPECT_EQ(heard, "round 1 of 2 done");
}

}  // namespace
}  // namespace tacit
