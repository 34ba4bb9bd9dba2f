#include "net/metrics.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>

namespace tacit {
namespace {

TEST(Metrics, ThePageSaysWhatWasCounted) {
  ServerCounts counts;
  counts.answers = 7;
  const auto page = MetricsPage::Start("127.0.0.1:0", counts);
  ASSERT_TRUE(page.ok()) << page.error().message;
  httplib::Client client("127.0.0.1", (*page)->port());
  const auto health = client.Get("/health");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->body, "serving\n");
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("# TYPE tacit_answers_total counter\ntacit_answers_total 7\n"),
            std::string::npos)
      << metrics->body;
  const auto read = ReadMetrics("127.0.0.1:" + std::to_string((*page)->port()));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->at("answers_total"), 7u);
  EXPECT_EQ(read->at("job_over"), 0u);
  counts.over = true;
  EXPECT_EQ(client.Get("/health")->body, "over\n");
  EXPECT_EQ(client.Get("/")->status, 404);
}

TEST(Metrics, HealthIsAWordAndWhatToDo) {
  ServerCounts counts;
  std::atomic<int> looks = 0;
  const auto page = MetricsPage::Start("127.0.0.1:0", counts, [&] { ++looks; });
  ASSERT_TRUE(page.ok()) << page.error().message;
  httplib::Client client("127.0.0.1", (*page)->port());
  const auto health = [&]() -> std::pair<int, std::string> {
    const auto got = client.Get("/health");
    return got ? std::pair(got->status, got->body) : std::pair(0, std::string());
  };
  const auto metric = [&](const std::string& name) {
    return PrometheusText(counts).find("\ntacit_" + name + "\n");
  };
  EXPECT_EQ(health(), std::pair(200, std::string("serving\n")));
  EXPECT_EQ(looks, 1);
  struct Case {
    std::atomic<bool>* what;
    const char *word, *metric;
  };
  counts.round = 3;
  for (const Case& c : {Case{&counts.overdue, "overdue\nRound 3 ", "round_overdue"},
                        Case{&counts.unkept, "unkept\n", "answers_not_kept"},
                        Case{&counts.unlisted, "unlisted\n", "revocations_unreadable"}}) {
    EXPECT_NE(metric(std::string(c.metric) + " 0"), std::string::npos) << c.metric;
    *c.what = true;
    EXPECT_EQ(health().first, 503) << c.word;
    EXPECT_TRUE(health().second.starts_with(c.word)) << health().second;
    EXPECT_NE(metric(std::string(c.metric) + " 1"), std::string::npos) << c.metric;
  }
  // Who ends is asked for nothing any more.
  counts.draining = true;
  EXPECT_EQ(health(), std::pair(200, std::string("draining\n")));
  counts.over = true;
  EXPECT_EQ(health(), std::pair(200, std::string("over\n")));
}

TEST(Metrics, TheDeadlineIsInSecondsFromNow) {
  using namespace std::chrono;
  ServerCounts counts;
  const auto left = [&] {
    constexpr std::string_view kName = "\ntacit_round_deadline_seconds_left ";
    const std::string text = PrometheusText(counts);
    return std::stoull(text.substr(text.find(kName) + kName.size()));
  };
  EXPECT_EQ(left(), 0u);
  const auto in = [&](seconds s) {
    counts.deadline = duration_cast<nanoseconds>(steady_clock::now().time_since_epoch() + s).count();
  };
  in(-hours(1));
  EXPECT_EQ(left(), 0u);
  in(hours(1000));
  EXPECT_GT(left(), 3'500'000u);
  EXPECT_LE(left(), 3'600'000u);
}

TEST(Metrics, APeerHasAPageToo) {
  PeerCounts counts;
  counts.refused = 3;
  counts.neighbours = 2;
  const auto page = MetricsPage::Start("127.0.0.1:0", counts);
  ASSERT_TRUE(page.ok()) << page.error().message;
  httplib::Client client("127.0.0.1", (*page)->port());
  EXPECT_EQ(client.Get("/health")->body, "serving\n");
  const auto read = ReadMetrics("127.0.0.1:" + std::to_string((*page)->port()));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->at("notes_refused_total"), 3u);
  EXPECT_EQ(read->at("neighbours"), 2u);
  EXPECT_EQ(read->count("clients"), 0u);
  counts.over = true;
  EXPECT_EQ(client.Get("/health")->body, "over\n");
  EXPECT_FALSE(MetricsPage::Start("0.0.0.0:0", counts).ok());
}

TEST(Metrics, ListensOnThisMachineOnly) {
  const ServerCounts counts;
  for (const char* address : {"0.0.0.0:0", "192.0.2.1:9090", "9090", "", "127.0.0.1:", "127.0.0.1:70000"})
    EXPECT_FALSE(MetricsPage::Start(address, counts).ok()) << address;
  for (const char* address : {"192.0.2.1:9090", "9090", "", "127.0.0.1:0", "127.0.0.1:70000"})
    EXPECT_EQ(ReadMetrics(address).error().code, Code::kInvalidArgument) << address;
}

}  // namespace
}  // namespace tacit
