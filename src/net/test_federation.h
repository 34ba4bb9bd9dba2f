#pragma once

// For tests: a server and clients with certificates of one authority, each in a thread, over real channels.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <mutex>
#include <thread>

#include "core/rng.h"
#include "data/npy.h"
#include "experiment/files.h"
#include "net/join.h"
#include "net/peers.h"
#include "net/server.h"
#include "net/test_port.h"

namespace tacit {

inline constexpr std::uint64_t kNoiseSeed = 4711;

inline Policy Everything() {
  return {.max_epsilon = std::numeric_limits<double>::infinity(),
          .max_delta = 1,
          .replayable = true,
          .float_noise = true,
          .paper = true,
          .masked = true,
          .colluding = 0,
          .trusted_servers = {"server"}};
}

class Federation : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    home() = std::filesystem::temp_directory_path() / fmt::format("tacit_federation_{}", ::getpid());
    std::filesystem::remove_all(home());
    std::filesystem::create_directories(home());
    ASSERT_TRUE(MakeAuthority({.folder = home() / "ca"}).ok());
    ASSERT_TRUE(MakeAuthority({.folder = home() / "other"}).ok());
    Certify("ca", "server", Party::kServer);
    for (const char* name : {"c0", "c1", "c2", "stranger", "m0", "m1", "m2", "m3", "m4", "m5"})
      Certify("ca", name, Party::kClient);
    for (const char* name : {"p0", "p1", "p2", "p3", "p4"}) Certify("ca", name, Party::kPeer);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(home()); }
  void SetUp() override {
    here_ = home() / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(here_);
  }

  static std::filesystem::path& home() {
    static std::filesystem::path path;
    return path;
  }
  static void Certify(const char* ca, const std::string& name, Party party, int days = 30) {
    const auto made =
        Issue({.authority = home() / ca,
               .folder = home() / ca / "issued",
               .name = name,
               .party = party,
               .hosts = party == Party::kServer ? std::vector<std::string>{"127.0.0.1", "localhost"}
                                                : std::vector<std::string>{},
               .days = days});
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  static Identity Who(const std::string& name, const char* ca = "ca") {
    const std::filesystem::path at = home() / ca / "issued";
    auto id = ReadIdentity(home() / ca / "ca.pem", at / (name + ".pem"), at / (name + ".key"));
    EXPECT_TRUE(id.ok()) << id.error().message;
    return id.ok() ? *id : Identity{};
  }

  // Rows in one file, and in blocks as even as possible in one file for each client.
  // persons: the file has a header and a column with persons of two rows each.
  std::vector<std::string> WriteRows(std::size_t rows, std::size_t features, std::size_t clients,
                                     bool persons = false) {
    Stream coins({99, Purpose::kData, 0, 0});
    std::ofstream whole(here_ / "all.csv");
    std::string header = "label";
    for (std::size_t j = 0; j < features; ++j) header += fmt::format(",x{}", j);
    if (persons) whole << header << ",person\n";
    std::vector<std::string> files;
    for (std::size_t c = 0; c < clients; ++c) {
      files.push_back((here_ / fmt::format("rows{}.csv", c)).string());
      std::ofstream part(files.back());
      if (persons) part << header << ",person\n";
      for (std::size_t k = 0; k < rows / clients + (c < rows % clients ? 1 : 0); ++k) {
        std::string line = coins() % 2 == 0 ? "-1" : "1";
        for (std::size_t j = 0; j < features; ++j)
          line += fmt::format(",{}", static_cast<double>(coins() % 2001) / 1000 - 1);
        if (persons) line += fmt::format(",p{}", 100 * c + k / 2);
        whole << line << "\n";
        part << line << "\n";
      }
    }
    return files;
  }

  Job MakeJob(const std::string& toml, const std::vector<Assignment>& more = {}) {
    std::vector<Assignment> sets = {{"data.source", (here_ / "all.csv").string()},
                                    {"data.format", "csv"},
                                    {"data.label_column", "0"},
                                    {"privacy.noise", "replayable"},
                                    {"experiment.output", (here_ / "runs").string()},
                                    {"experiment.trace_every", "1"},
                                    {"runtime.threads", "2"},
                                    {"serve.noise_seed", std::to_string(kNoiseSeed)}};
    sets.insert(sets.end(), more.begin(), more.end());
    auto job = ParseJob(toml, "job.toml", sets);
    EXPECT_TRUE(job.ok()) << job.error().message;
    return job.ok() ? *job : Job{};
  }

  // The same job in one process.
  static Result<RunResult> Alone(const Job& job) {
    TrainHooks hooks;
    hooks.noise_seed = kNoiseSeed;
    hooks.write_folder = false;
    return tacit::Train(job.config, hooks);
  }
  struct Ran {
    Result<RunResult> server;
    std::vector<Result<Joined>> clients;
  };
  JoinOptions Joining(const std::string& name, int port, const std::string& data) {
    JoinOptions o;
    o.server = fmt::format("127.0.0.1:{}", port);
    o.identity = Who(name);
    o.data = data;
    o.state = here_ / ("state-" + name);
    o.policy = Everything();
    o.patience = 30;
    return o;
  }
  Result<std::unique_ptr<FederationServer>> Start(const Job& job) {
    return FederationServer::Start(job, kId,
                                   {.address = "127.0.0.1:0",
                                    .identity = Who("server"),
                                    .revocations = home() / "ca" / "crl.pem",
                                    .stop = &failed_,
                                    .log = [this](const std::string& line) {
                                      const std::lock_guard lock(mutex_);
                                      log_ += line + "\n";
                                    }});
  }
  // One that keeps which answers it was sent, and stops when it is told to.
  Result<std::unique_ptr<FederationServer>> StartKeeping(const Job& job,
                                                         const std::atomic<bool>* stop = nullptr,
                                                         double drain = 0) {
    return FederationServer::Start(job, kId,
                                   {.address = "127.0.0.1:0",
                                    .identity = Who("server"),
                                    .revocations = {},
                                    .stop = stop,
                                    .drain = drain,
                                    .answered = here_ / "answered",
                                    .before = {},
                                    .log = {}});
  }
  Ran Train(const Job& job, const std::vector<std::string>& files) {
    auto server = Start(job);
    EXPECT_TRUE(server.ok());
    std::vector<std::optional<Result<Joined>>> joined(files.size());
    std::vector<std::jthread> clients;
    for (std::size_t c = 0; c < files.size(); ++c)
      clients.emplace_back([&, c] {
        joined[c] = Join(Joining(job.clients[c], (*server)->port(), files[c]));
        if (!joined[c]->ok()) failed_ = true;      // and nobody waits for it
      });
    Ran ran{Coordinate(job, **server, here_ / "server"), {}};
    (*server)->Over();
    clients.clear();
    for (auto& one : joined) ran.clients.push_back(std::move(*one));
    return ran;
  }

  // Peers without a server, each in a thread.
  static std::string FreeAddresses(std::size_t count) {  // as serve.addresses
    std::string out;
    for (std::size_t k = 0; k < count; ++k)
      out += fmt::format("{}\"127.0.0.1:{}\"", k == 0 ? "" : ", ", FreePort());
    return "[" + out + "]";
  }
  PeerSettings Settings(const Job& job, std::size_t k, const std::string& data) {
    PeerSettings o;
    o.job = job;
    o.identity = Who(job.clients[k]);
    o.revocations = list_;
    o.data = data;
    o.state = here_ / ("state-" + job.clients[k]);
    o.policy = Everything();
    o.patience = 60;
    o.linger = linger_;
    o.stop = &failed_;
    return o;
  }
  std::vector<Result<Joined>> TrainPeers(const Job& job, const std::vector<std::string>& files) {
    std::vector<std::optional<Result<Joined>>> joined(job.clients.size());
    {
      std::vector<std::jthread> peers;
      for (std::size_t k = 0; k < job.clients.size(); ++k)
        peers.emplace_back([&, k] {
          joined[k] = TakePeersPart(Settings(job, k, files[k]));
          if (!joined[k]->ok()) failed_ = true;
        });
    }
    std::vector<Result<Joined>> out;
    for (auto& one : joined) out.push_back(std::move(*one));
    return out;
  }
  // The mean of those who stayed, as a simulation takes it.
  static Vec MeanOf(const std::vector<Result<Joined>>& joined, const std::vector<std::size_t>& stayed) {
    Vec mean;
    for (const std::size_t k : stayed) {
      const auto model = ReadNpy(joined[k]->folder / "model.npy");
      EXPECT_TRUE(model.ok());
      if (mean.empty()) mean.resize(model->values.size());
      Axpy(1.0, model->values, mean);
    }
    Scale(1 / static_cast<double>(stayed.size()), mean);
    return mean;
  }

  static constexpr const char* kId = "0123456789abcdef0123456789abcdef";
  // Of calls that are made by hand: folders, and the session of a process.
  static constexpr const char* kHome = "11111111111111111111111111111111";
  static constexpr const char* kElsewhere = "22222222222222222222222222222222";
  static std::string SessionFrom(const std::string& folder, char process = 'a') {
    return folder + std::string(kSessionPart, process);
  }
  std::filesystem::path here_;
  std::atomic<bool> failed_ = false;
  double linger_ = 20;
  std::filesystem::path list_;  // crl.pem of peers; empty: none
  std::mutex mutex_;
  std::string log_;
};

}  // namespace tacit
