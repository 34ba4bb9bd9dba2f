#include "board/board.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "board/calculator.h"
#include "board/trace_cache.h"
#include "experiment/json_number.h"
#include "experiment/test_runs.h"
#include "privacy/gdp.h"
#include "view/runs.h"

namespace tacit {
namespace {

using nlohmann::json;

class Boards : public TestRuns {
 protected:
  Boards()
      : TestRuns(R"(
[data]
source = "synthetic-logistic"
rows = 200
features = 5
clients = 4
row_norm = "clip"
[model]
name = "logistic"
[privacy]
epsilon = 2
delta = 1e-4
[algorithm]
name = "primal-dual"
rounds = 6
)") {}
  void TearDown() override {
    if (board_) board_->Stop();
    if (serve_.joinable()) serve_.join();
    TestRuns::TearDown();
  }
  void Train(const char* name) const { Good(Make({{"experiment.name", name}})); }
  void Open(std::optional<std::string> token = std::nullopt) {
    auto board = Board::Open({.roots = {home_ / "runs"}, .port = 0, .token = std::move(token)});
    ASSERT_TRUE(board.ok()) << board.error().message;
    board_ = *std::move(board);
    serve_ = std::thread([this] { board_->Serve(); });
  }
  httplib::Result Get(const std::string& path, const httplib::Headers& headers = {}) const {
    httplib::Client client("127.0.0.1", board_->port());
    return client.Get(path, headers);
  }
  json Ask(const std::string& path) const {
    const auto r = Get(path);
    EXPECT_TRUE(r) << path;
    return r ? json::parse(r->body) : json();
  }

  std::unique_ptr<Board> board_;
  std::thread serve_;
};

TEST_F(Boards, ShowsRunsAndTheirCurves) {
  Train("first");
  Open();
  const json runs = Ask("/api/runs");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["algorithm"], "primal-dual");
  EXPECT_EQ(runs[0]["state"], "finished");
  EXPECT_FALSE(runs[0].contains("folder"));
  const std::string id = runs[0]["id"];
  const std::string asked = httplib::append_query_params("", {{"x", id}}).substr(3);
  const json detail = Ask("/api/run?run=" + asked);
  EXPECT_NE(detail["config"].get<std::string>().find("primal-dual"), std::string::npos);
  EXPECT_NE(detail["certificate"].get<std::string>().find("PRIVACY CERTIFICATE"), std::string::npos);
  const json trace = Ask("/api/trace?run=" + asked + "&x=round&y=epsilon,sigma,nothing");
  EXPECT_EQ(trace["rows"], 6);
  EXPECT_EQ(trace["lines"].size(), 2u);
  EXPECT_EQ(trace["lines"]["epsilon"]["x"], json({1, 2, 3, 4, 5, 6}));
  // A second run is found by its name at once.
  Train("second");
  EXPECT_EQ(Ask("/api/runs").size(), 2u);
  EXPECT_TRUE(Get("/")->body.find("Tacit board") != std::string::npos);
}

// Only runs that are listed are ever opened.
TEST_F(Boards, PathsFromRequestsAreNotFollowed) {
  Train("first");
  std::ofstream(home_ / "config.toml") << "secret = 1\n";
  Open();
  for (const char* id :
       {"..", "0/..", "0/../", "../config.toml", "/etc", "1/first", "", "0/first/../..", "%2e%2e"}) {
    const auto r = Get(std::string("/api/run?run=") + id);
    ASSERT_TRUE(r) << id;
    EXPECT_EQ(r->status, 404) << id;
    EXPECT_EQ(r->body.find("secret"), std::string::npos);
  }
  EXPECT_EQ(Get("/../config.toml")->status, 404);
  EXPECT_EQ(Get("/app.js/../../config.toml")->status, 404);
}

// Whoever may write below the root cannot have other files shown, nor hold the board up.
TEST_F(Boards, LinksAndPipesInARunAreNotRead) {
  namespace fs = std::filesystem;
  Train("first");
  const fs::path first = ListRuns({home_ / "runs"})->front().folder;
  std::ofstream(home_ / "secret") << "secret\n";
  fs::create_directories(home_ / "private");
  std::ofstream(home_ / "private" / "config.toml") << "secret = 1\n[algorithm]\nname = \"secret\"\n";
  const fs::path evil = home_ / "runs" / "evil";
  fs::create_directories(evil);
  fs::copy(first / "config.toml", evil / "config.toml");
  fs::create_symlink(home_ / "secret", evil / "certificate.txt");
  ASSERT_EQ(::mkfifo((evil / "tags").c_str(), 0600), 0);
  fs::create_directory_symlink(home_ / "private", home_ / "runs" / "link");
  Open();
  const auto runs = Get("/api/runs");
  ASSERT_TRUE(runs);
  EXPECT_EQ(runs->body.find("secret"), std::string::npos) << runs->body;
  const json detail = Ask("/api/run?run=0/evil");
  EXPECT_EQ(detail["certificate"], "");
  EXPECT_NE(detail["config"], "");
  EXPECT_EQ(Get("/api/run?run=0/link")->status, 404);
  // Nor if it takes the place of a run that was listed before.
  fs::remove_all(evil);
  fs::create_directory_symlink(home_ / "private", evil);
  EXPECT_EQ(Get("/api/run?run=0/evil")->body.find("secret"), std::string::npos);
}

// Where things lie on this machine is nobody's business.
TEST_F(Boards, ErrorsTellNoPaths) {
  namespace fs = std::filesystem;
  Train("first");
  const fs::path first = ListRuns({home_ / "runs"})->front().folder;
  for (const char* broken : {"result.json", "trace.jsonl"}) {
    const fs::path folder = home_ / "runs" / broken;
    fs::create_directories(folder / broken);
    fs::copy(first / "config.toml", folder / "config.toml");
  }
  Open();
  const auto runs = Get("/api/runs");
  ASSERT_TRUE(runs);
  EXPECT_NE(runs->body.find("result.json: is a link"), std::string::npos) << runs->body;
  EXPECT_EQ(runs->body.find(home_.string()), std::string::npos) << runs->body;
  const auto trace = Get("/api/trace?run=0/trace.jsonl&x=round&y=loss");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->status, 500);
  EXPECT_NE(trace->body.find("trace.jsonl: is a link"), std::string::npos) << trace->body;
  EXPECT_EQ(trace->body.find(home_.string()), std::string::npos) << trace->body;
  fs::remove_all(home_ / "runs");
  std::ofstream(home_ / "runs") << "no folder";
  const auto gone = Get("/api/runs");
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status, 500);
  EXPECT_EQ(gone->body.find(home_.string()), std::string::npos) << gone->body;
}

TEST_F(Boards, AnotherHostsNameIsRefused) {
  Open();
  EXPECT_EQ(Get("/api/runs", {{"Host", fmt::format("evil.example:{}", board_->port())}})->status, 403);
  EXPECT_EQ(Get("/api/runs", {{"Host", fmt::format("127.evil.example:{}", board_->port())}})->status, 403);
  EXPECT_EQ(Get("/api/runs", {{"Host", fmt::format("127.0.0.1.evil.example:{}", board_->port())}})->status,
            403);
  EXPECT_EQ(Get("/api/runs", {{"Host", fmt::format("localhost:{}", board_->port())}})->status, 200);
  EXPECT_EQ(Get("/api/runs", {{"Host", fmt::format("[::1]:{}", board_->port())}})->status, 200);
}

TEST_F(Boards, ATokenOpensAndNothingElseDoes) {
  const std::string token = *NewToken();
  Open(token);
  EXPECT_EQ(Get("/")->status, 401);
  EXPECT_EQ(Get("/?token=" + std::string(32, '0'))->status, 401);
  for (const char* path : {"/api/runs", "/api/events", "/api/calculate", "/app.js"})
    EXPECT_EQ(Get(path)->status, 401) << path;
  EXPECT_EQ(Get("/api/runs?token=" + token)->status, 401);      // only the page takes it from its address
  EXPECT_EQ(Get("/api/runs", {{"Cookie", fmt::format("tacit_board_{}={}", board_->port(), token.substr(1))}})
                ->status,
            401);
  const auto entered = Get("/?token=" + token);
  EXPECT_EQ(entered->status, 303);
  const std::string cookie = entered->get_header_value("Set-Cookie");
  EXPECT_NE(cookie.find("HttpOnly"), std::string::npos);
  EXPECT_NE(cookie.find("SameSite=Strict"), std::string::npos);
  EXPECT_EQ(Get("/api/runs", {{"Cookie", "other=1; " + cookie.substr(0, cookie.find(';'))}})->status, 200);
  httplib::Client client("127.0.0.1", board_->port());
  EXPECT_EQ(client.Post("/login", httplib::Params{{"token", "wrong"}})->status, 401);
  EXPECT_EQ(client.Post("/login", httplib::Params{{"token", token}})->status, 303);
}

TEST_F(Boards, BeyondThisMachineATokenIsNeeded) {
  const auto open = [](const char* host, std::optional<std::string> token) {
    const auto b = Board::Open({.host = host, .port = 0, .token = std::move(token)});
    return b.ok() ? "" : b.error().message;
  };
  EXPECT_FALSE(IsLoopback("127.evil.example"));
  EXPECT_TRUE(IsLoopback("127.1.2.3"));
  EXPECT_NE(open("0.0.0.0", std::nullopt).find("needs a token"), std::string::npos);
  EXPECT_NE(open("0.0.0.0", "short").find("at least 16"), std::string::npos);
  EXPECT_NE(open("0.0.0.0", "0123456789abcde;").find("letters"), std::string::npos);
  EXPECT_EQ(open("0.0.0.0", "0123456789abcdef"), "");
}

TEST_F(Boards, TheStreamTellsWhatIsNew) {
  Open();
  std::string seen;
  bool trained = false;
  httplib::Client client("127.0.0.1", board_->port());
  client.Get("/api/events", [&](const char* data, std::size_t n) {
    seen.append(data, n);
    if (!trained && seen.find("event: all\ndata: []\n\n") != std::string::npos) {
      trained = true;
      Train("first");
    }
    return seen.find("\"state\":\"finished\"") == std::string::npos;  // enough
  });
  EXPECT_TRUE(trained);
  EXPECT_NE(seen.find("\"name\":\"first"), std::string::npos);
}

TEST_F(Boards, ManyOpenPagesLeaveRoomForOthers) {
  Open();
  std::atomic<bool> enough = false;
  std::atomic<int> open = 0;
  std::vector<std::thread> pages;
  for (int k = 0; k < 32; ++k)
    pages.emplace_back([&] {
      httplib::Client client("127.0.0.1", board_->port());
      client.set_read_timeout(60);
      bool first = true;
      client.Get("/api/events", [&](const char*, std::size_t) {
        if (std::exchange(first, false)) ++open;
        while (!enough) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return false;
      });
    });
  while (open < 32) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto full = Get("/api/events");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->status, 503);
  EXPECT_TRUE(full->has_header("Retry-After"));
  EXPECT_EQ(Get("/api/runs")->status, 200);
  enough = true;
  for (std::thread& page : pages) page.join();
  // Their places come back, without any news.
  int status = 503;
  while (status == 503) {
    httplib::Client client("127.0.0.1", board_->port());
    client.Get(
        "/api/events", httplib::Headers(),
        [&](const httplib::Response& r) {
          status = r.status;
          return status == 503;
        },
        [](const char*, std::size_t) { return true; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(status, 200);
}

TEST_F(Boards, NoMoreThanTwoCalculationsAtATime) {
  Open();
  std::atomic<int> answered = 0, refused = 0;
  std::vector<std::thread> pages;
  for (int k = 0; k < 3; ++k)  // each of seconds
    pages.emplace_back([&] {
      httplib::Client client("127.0.0.1", board_->port());
      client.set_read_timeout(600);
      const auto r =
          client.Get("/api/calculate?find=noise&sampling=fixed&rounds=1e7&rate=0.001&delta=1e-30&epsilon=1");
      if (r && r->status == 200) ++answered;
      if (r && r->status == 503 && r->has_header("Retry-After")) ++refused;
    });
  for (std::thread& page : pages) page.join();
  EXPECT_EQ(answered, 2);
  EXPECT_EQ(refused, 1);
}

TEST_F(Boards, OtherSitesPagesCannotMakeItWork) {
  Open();
  for (const char* path : {"/api/runs", "/api/calculate", "/api/events", "/api/run?run=0/a"})
    for (const char* site : {"cross-site", "same-site"})
      EXPECT_EQ(Get(path, {{"Sec-Fetch-Site", site}})->status, 403) << path;
  EXPECT_EQ(Get("/api/runs", {{"Sec-Fetch-Site", "same-origin"}})->status, 200);
  EXPECT_EQ(Get("/api/runs", {{"Sec-Fetch-Site", "none"}})->status, 200);  // typed by a person
  EXPECT_EQ(Get("/", {{"Sec-Fetch-Site", "cross-site"}})->status, 200);    // a link that leads here
}

TEST(BoardUrl, CanBeOpenedFromElsewhere) {
  for (const char* all : {"0.0.0.0", "::"}) {
    const auto board = Board::Open({.host = all, .port = 0, .token = "0123456789abcdef"});
    if (!board.ok() && std::string_view(all) == "::") continue;  // a machine without IPv6
    ASSERT_TRUE(board.ok()) << board.error().message;
    EXPECT_EQ((*board)->url().find("0.0.0.0"), std::string::npos) << (*board)->url();
    EXPECT_EQ((*board)->url().find("::"), std::string::npos) << (*board)->url();
  }
}

TEST(BoardTraces, GrowingTracesAreReadOn) {
  Trace a{.names = {"round", "loss"}, .columns = {{1, 2}, {0.5, 0.4}}, .next_offset = 10};
  const Trace more{
      .names = {"accuracy", "round"}, .columns = {{0.9}, {3}}, .next_offset = 20, .from_start = false};
  Append(a, more);
  EXPECT_EQ(a.names, (std::vector<std::string>{"round", "loss", "accuracy"}));
  EXPECT_EQ(*a.column("round"), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ((*a.column("loss"))[1], 0.4);
  EXPECT_TRUE(std::isnan((*a.column("loss"))[2]));
  EXPECT_TRUE(std::isnan((*a.column("accuracy"))[0]));
  EXPECT_EQ((*a.column("accuracy"))[2], 0.9);
  EXPECT_EQ(a.next_offset, 20u);
}

TEST(BoardCalculator, AsksTheAccountant) {
  std::map<std::string, std::string> given;
  const auto ask = [&] {
    return Calculate([&](const char* name) { return given.contains(name) ? given[name] : std::string(); });
  };
  given = {{"find", "epsilon"},
           {"sampling", "none"},
           {"rounds", "100"},
           {"delta", "1e-5"},
           {"noise_multiplier", "10"}};
  auto r = ask();
  ASSERT_TRUE(r.ok()) << r.error().message;
  // 100 releases at μ = 1/10 are one at μ = 1.
  EXPECT_NEAR((*r)["epsilon"].get<double>(), GdpEpsilon(Mu::Proven(1), Delta::Proven(1e-5)).upper, 1e-12);
  EXPECT_EQ((*r)["command"], "tacit account gaussian --noise-multiplier 10 --rounds 100 --delta 1e-05");
  given["delta"] = "1e-31";
  EXPECT_NE(ask().error().message.find("at least 1e-30"), std::string::npos) << ask().error().message;
  given["delta"] = "1e-30";
  given["rounds"] = "2e7";
  EXPECT_NE(ask().error().message.find("up to 1e+07"), std::string::npos) << ask().error().message;
  given["rounds"] = "1e7";
  EXPECT_TRUE(ask().ok());
  given = {{"find", "noise"}, {"sampling", "poisson"}, {"rounds", "1000"},
           {"delta", "1e-5"}, {"rate", "0.01"},        {"epsilon", "1"}};
  r = ask();
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_LE((*r)["epsilon"].get<double>(), 1.0);
  EXPECT_GT((*r)["epsilon"].get<double>(), 1.0 - 1e-6);
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"find", "x"},
                                                                                    {"sampling", ""},
                                                                                    {"rounds", "0"},
                                                                                    {"rounds", "1.5"},
                                                                                    {"rounds", "1e18"},
                                                                                    {"delta", "nan"},
                                                                                    {"delta", "2"},
                                                                                    {"delta", "9e-31"},
                                                                                    {"rounds", "10000001"},
                                                                                    {"rate", "-1"},
                                                                                    {"rate", "1e-3x"},
                                                                                    {"epsilon", "inf"},
                                                                                    {"epsilon", ""}}) {
    auto wrong = given;
    std::swap(wrong, given);
    given[name] = value;
    EXPECT_FALSE(ask().ok()) << name << " = " << value;
    std::swap(wrong, given);
  }
}

}  // namespace
}  // namespace tacit
