#include "net/metrics.h"

#include <gtest/gtest.h>
#include <httplib.h>

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
