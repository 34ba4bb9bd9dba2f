#include "view/trace.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "view/downsample.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

class TraceTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_trace_{}", ::getpid());
    fs::create_directories(home_);
  }
  void TearDown() override { fs::remove_all(home_); }
  void Write(const std::string& text, std::ios::openmode mode = std::ios::trunc) {
    std::ofstream(home_ / "trace.jsonl", std::ios::binary | mode) << text;
  }
  fs::path home_;
};

TEST_F(TraceTest, LinesBecomeColumns) {
  Write(
      "{\"answered\":10,\"metrics\":{\"loss\":0.5},\"round\":1,\"epsilon\":\"inf\",\"x\":\"text\",\"l\":[1,"
      "\"a\",[]]}\n"
      "{\"metrics\":{\"accuracy\":1e-3,\"loss\":-2.5e2},\"missed\":{\"absent\":3},\"round\":2,\"n\":null}\n");
  const auto t = ReadTrace(home_);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->rows(), 2u);
  EXPECT_EQ(*t->column("round"), (std::vector<double>{1, 2}));
  EXPECT_EQ(*t->column("loss"), (std::vector<double>{0.5, -250}));
  EXPECT_TRUE(std::isnan(t->column("accuracy")->at(0)));
  EXPECT_EQ(t->column("accuracy")->at(1), 1e-3);
  EXPECT_EQ(t->column("missed.absent")->at(1), 3);
  EXPECT_TRUE(std::isinf(t->column("epsilon")->at(0)));
  EXPECT_TRUE(std::isnan(t->column("answered")->at(1)));
  EXPECT_EQ(t->column("x"), nullptr);
  EXPECT_EQ(t->column("l"), nullptr);
}

TEST_F(TraceTest, GoesOnWhereItEnded) {
  EXPECT_EQ(ReadTrace(home_)->rows(), 0u);      // no file yet
  Write("{\"round\":1}\n{\"rou");
  auto t = ReadTrace(home_);
  EXPECT_EQ(t->rows(), 1u);
  EXPECT_EQ(t->next_offset, 12u);
  Write("nd\":2}\n", std::ios::app);
  t = ReadTrace(home_, *t);
  EXPECT_EQ(*t->column("round"), std::vector<double>{2});
  EXPECT_FALSE(t->from_start);
  Write("{\"round\":5}\n");                      // cut back
  t = ReadTrace(home_, *t);
  EXPECT_TRUE(t->from_start);
  EXPECT_EQ(*t->column("round"), std::vector<double>{5});
}

TEST_F(TraceTest, AFileThatWasCutBackAndGrewPastItsOldEndIsReadAgain) {
  Write("{\"round\":1,\"loss\":4}\n{\"round\":2,\"loss\":3}\n");
  const auto before = ReadTrace(home_);
  Write("{\"round\":1,\"loss\":4}\n{\"round\":2,\"loss\":2}\n{\"round\":3,\"loss\":1}\n");
  const auto t = ReadTrace(home_, *before);
  EXPECT_TRUE(t->from_start);
  EXPECT_EQ(*t->column("loss"), (std::vector<double>{4, 2, 1}));
  const auto same = ReadTrace(home_, *t);        // nothing new, twice
  EXPECT_EQ(same->rows(), 0u);
  EXPECT_FALSE(same->from_start);
  EXPECT_EQ(ReadTrace(home_, *same)->rows(), 0u);
}

TEST_F(TraceTest, LinesThatAreNoneArePassedOver) {
  for (const char* bad :
       {"", "{", "{\"a\":}", "{\"a\":1", "[1]", "{\"a\":1}x", "{\"a\":tru}", "{\"a\":[1,}", "{\"a\":[",
        "{\"a\":\"", "{\"a\":\"\\", "{\"a\" 1}", "{{{{{{{{{{{{", "{\"a\":[[[[[[[[[[[[[[[[", "\xff\xfe"}) {
    Write(std::string(bad) + "\n{\"a\":2}\n");
    const auto t = ReadTrace(home_);
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->rows(), 1u) << bad;
    EXPECT_EQ(ReadLastOfTrace(home_)->column("a")->back(), 2) << bad;
  }
}

// Wherever it stands, so that a trace that is read while it grows is the one that is read at the end.
TEST_F(TraceTest, ALineWithoutAFigureIsNoRow) {
  for (const char* none : {"{}", "{\"a\":null}", "{\"a\":\"text\",\"b\":[1]}", "{\"metrics\":{}}"}) {
    const std::string line = std::string(none) + "\n";
    const Trace t = ParseTrace(line + "{\"a\":1}\n" + line + "{\"a\":2}\n");
    EXPECT_EQ(t.rows(), 2u) << none;
    Trace grown = ParseTrace("{\"a\":1}\n");
    Append(grown, ParseTrace(line + "{\"a\":2}\n"));
    EXPECT_EQ(grown.columns, t.columns) << none;
  }
}

TEST_F(TraceTest, ALastLineIsFoundHoweverLongTheTraceIs) {
  std::string text;
  for (int i = 0; i < 40000; ++i)
    text += fmt::format("{{\"metrics\":{{\"loss\":{}}},\"round\":{}}}\n", i * 0.5, i);
  Write(text + "{\"round\":");
  const auto last = ReadLastOfTrace(home_);
  ASSERT_EQ(last->rows(), 1u);
  EXPECT_EQ(last->column("round")->back(), 39999);
  EXPECT_EQ(last->next_offset, text.size());
  const auto all = ReadTrace(home_);
  ASSERT_EQ(all->rows(), 40000u);
  for (std::size_t i = 0; i < 40000; ++i) ASSERT_EQ((*all->column("loss"))[i], static_cast<double>(i) * 0.5);
  Write(std::string(20000, ' ') + "{\"round\":3}\n");
  EXPECT_EQ(ReadLastOfTrace(home_)->column("round")->back(), 3);
  Write("{\"round\":3}");                          // not yet whole
  EXPECT_EQ(ReadLastOfTrace(home_)->rows(), 0u);
}

TEST_F(TraceTest, IsAFileAndItsLinesHaveAnEnd) {
  Write("{\"round\":1}\n");
  fs::rename(home_ / "trace.jsonl", home_ / "secret");
  fs::create_symlink(home_ / "secret", home_ / "trace.jsonl");
  EXPECT_EQ(ReadTrace(home_).error().code, Code::kMalformed);
  EXPECT_EQ(ReadLastOfTrace(home_).error().code, Code::kMalformed);
  fs::remove(home_ / "trace.jsonl");
  ASSERT_EQ(::mkfifo((home_ / "trace.jsonl").c_str(), 0600), 0);
  EXPECT_FALSE(ReadTrace(home_).ok());
  EXPECT_FALSE(ReadLastOfTrace(home_).ok());
  fs::remove(home_ / "trace.jsonl");
  Write("{\"round\":1}\n");
  fs::resize_file(home_ / "trace.jsonl", std::uintmax_t{1} << 40);  // zeros that take no place
  EXPECT_EQ(ReadTrace(home_).error().code, Code::kMalformed);
  EXPECT_EQ(ReadLastOfTrace(home_).error().code, Code::kMalformed);
}

TEST(Downsample, KeepsExtremesAndEnds) {
  std::vector<double> x, y, ox, oy;
  for (int i = 0; i < 100000; ++i) x.push_back(i), y.push_back(std::sin(i * 0.01));
  y[31415] = 50;
  y[27182] = -50;
  y[99] = NAN;
  y[100] = INFINITY;
  Downsample(x, y, 500, ox, oy);
  EXPECT_LE(ox.size(), 500u);
  EXPECT_GT(ox.size(), 400u);
  EXPECT_EQ(ox.front(), 0);
  EXPECT_EQ(ox.back(), 99999);
  EXPECT_EQ(*std::max_element(oy.begin(), oy.end()), 50);
  EXPECT_EQ(*std::min_element(oy.begin(), oy.end()), -50);
  EXPECT_TRUE(std::is_sorted(ox.begin(), ox.end()));
  for (std::size_t k = 0; k < ox.size(); ++k) ASSERT_EQ(oy[k], y[static_cast<std::size_t>(ox[k])]);
}

TEST(Downsample, IsExactForFewPoints) {
  std::vector<double> ox, oy;
  Downsample({1, 2, 3}, {4, NAN, 6}, 3, ox, oy);
  EXPECT_EQ(ox, (std::vector<double>{1, 3}));
  EXPECT_EQ(oy, (std::vector<double>{4, 6}));
  Downsample({}, {}, 10, ox, oy);
  EXPECT_TRUE(ox.empty());
  Downsample({1, 2, 3, 4, 5, 6}, {0, 5, 1, 1, -5, 0}, 0, ox, oy);
  EXPECT_EQ(oy, (std::vector<double>{0, 5, -5, 0}));
}

}  // namespace
}  // namespace tacit
