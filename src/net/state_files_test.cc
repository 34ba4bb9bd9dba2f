#include "net/state_files.h"

#include <gtest/gtest.h>

namespace tacit {
namespace {

constexpr const char *kHome = "11111111111111111111111111111111",
                     *kOther = "22222222222222222222222222222222";

TEST(StateFiles, TheLastRoundAndTheLastFolderOfAClientCount) {
  Job job;
  job.clients = {"c0", "c1"};
  job.config.algorithm.rounds = 9;
  std::vector<std::uint32_t> round = {4, 0};
  std::vector<std::string> folder = {kHome, ""};
  const std::string text =
      AnsweredLine(3, "c0", kOther) + AnsweredLine(0, "c1", "") + AnsweredLine(9, "c1", kHome);
  EXPECT_TRUE(TakeAnswered(text + "5 c0 1", job, round, folder));  // the last line was cut
  EXPECT_EQ(round, (std::vector<std::uint32_t>{4, 9}));
  EXPECT_EQ(folder, (std::vector<std::string>{kOther, kHome}));
  for (const std::string& bad :
       {"10 c0 " + std::string(kHome), std::string("1 c0 -"), std::string("1 c0"),
        "1 c2 " + std::string(kHome), "-4294967295 c0 " + std::string(kHome),
        "1 c0 " + std::string(kHome) + " more", "1  c0 " + std::string(kHome), "x c0 " + std::string(kHome),
        "1 c0 " + std::string(32, 'g'), std::string()}) {
    auto rounds = round;
    auto folders = folder;
    EXPECT_FALSE(TakeAnswered(AnsweredLine(5, "c0", kHome) + bad + "\n", job, rounds, folders)) << bad;
    EXPECT_EQ(rounds, round) << bad;  // not even the line before
    EXPECT_EQ(folders, folder) << bad;
  }
}

TEST(StateFiles, APlaceIsANameAndANumber) {
  const auto place = ParsePlace(PlaceLine({kHome, 7}));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->name, kHome);
  EXPECT_EQ(place->starts, 7u);
  for (const std::string& bad :
       {std::string(), std::string(kHome), std::string(kHome) + " -1", "7 " + std::string(kHome),
        std::string(kHome) + " 7 8", std::string(kHome) + " 4294967296",
        std::string(kHome) + " 4294967295"})  // one more is 0, and older than all
    EXPECT_FALSE(ParsePlace(bad + "\n")) << bad;
}

}  // namespace
}  // namespace tacit
