#pragma once

// What networks and absent clients do to a run, in a short test and a long one: see network_faults_test.cc.
#include <iostream>
#include <set>

#include "net/test_federation.h"
#include "net/test_proxy.h"
#include "privacy/data_ledger.h"
#include "privacy/ledger.h"

namespace tacit {

// The link of a server, with somebody who is told before a question is asked and may take answers away.
class WatchedLink final : public Link {
 public:
  std::function<void(const Question&)> before;
  std::function<void(const Question&, std::vector<Bytes>&)> after;
  explicit WatchedLink(Link& inner) : inner_(inner) {}
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    if (before) before(q);
    TACIT_OK(inner_.Ask(q, answers));
    if (after) after(q, answers);
    return Ok{};
  }
  const Roster* roster() const override { return inner_.roster(); }
  std::string server() const override { return inner_.server(); }
  void Note(const std::string& text) override { inner_.Note(text); }

 private:
  Link& inner_;
};

class NetworkFaults : public Federation {
 protected:
  static constexpr std::size_t kMany = 10, kAway = 3;  // 30 %
  static void SetUpTestSuite() {
    Federation::SetUpTestSuite();
    for (std::size_t c = 0; c < kMany; ++c) Certify("ca", fmt::format("d{}", c), Party::kClient);
  }

  // A client has paid for so many rounds, durably, in both of its ledgers.
  void CheckPaid(const std::string& client, std::uint64_t least, std::uint64_t most, double epsilon) {
    const std::filesystem::path state = here_ / ("state-" + client);
    const auto own = SqliteVault::Read(state / kId / "ledger.db");
    ASSERT_TRUE(own.ok()) << own.error().message;
    EXPECT_GE(own->front().rounds_released, least) << client;
    EXPECT_LE(own->front().rounds_released, most) << client;
    const auto all = DataLedger::Read(state / "ledger.db");
    ASSERT_TRUE(all.ok()) << all.error().message;
    ASSERT_EQ(all->size(), 1u);
    ASSERT_EQ(all->front().runs.size(), 1u);
    EXPECT_EQ(all->front().runs[0].state, "settled");
    if (least == most) {
      EXPECT_GE(Totals(all->front())[0].EpsilonAt(1e-5), epsilon * (1 - 1e-9)) << client;
    }
    EXPECT_LE(Totals(all->front())[0].EpsilonAt(1e-5), epsilon * (1 + 1e-12)) << client;
  }

  // A run whose bytes go through a proxy with so many faults: the model is that of one process, and everybody
  // has paid for every round once.
  void Disturb(bool masked, std::size_t rounds, std::size_t faults, std::uint64_t seed) {
    const std::size_t n = masked ? 6 : 3;
    const auto files = WriteRows(24, 3, n);
    std::string names;
    for (std::size_t c = 0; c < n; ++c)
      names += fmt::format("{}\"{}{}\"", c == 0 ? "" : ", ", masked ? "m" : "c", c);
    const Job job = MakeJob(fmt::format(
        "data = {{ rows = 24, features = 3, row_norm = \"clip\" }}\n"
        "model = {{ l2 = 0.1 }}\n"
        "privacy = {{ epsilon = 2.0{} }}\n"
        "algorithm = {{ {}, rounds = {} }}\n"
        "serve = {{ clients = [{}], deadline = 600 }}\n",
        masked ? ", unit = \"client\", trust = \"masked\", mechanism = \"discrete_gaussian\"" : "",
        masked ? "name = \"dp-scaffold\", allocation = \"static\"" : "name = \"primal-dual\"", rounds,
        names));
    const auto alone = Alone(job);
    ASSERT_TRUE(alone.ok()) << alone.error().message;

    auto server = Start(job);
    ASSERT_TRUE(server.ok()) << server.error().message;
    FaultProxy proxy({.port = (*server)->port(), .seed = seed, .most = faults, .apart = 6000});
    std::vector<std::optional<Result<Joined>>> joined(n);
    std::vector<std::jthread> clients;
    for (std::size_t c = 0; c < n; ++c)
      clients.emplace_back([&, c] {
        JoinOptions o = Joining(job.clients[c], proxy.port(), files[c]);
        o.patience = 600;
        o.stop = &failed_;
        joined[c] = Join(o);
        if (!joined[c]->ok()) failed_ = true;
      });
    const auto run = Coordinate(job, **server, here_ / "server");
    if (!run.ok()) failed_ = true;
    (*server)->Over(0);  // whoever has not heard of it may ask until all have
    clients.clear();
    ASSERT_TRUE(run.ok()) << run.error().message << "\n" << log_;
    EXPECT_EQ(run->model_sha256, alone->model_sha256);
    EXPECT_EQ(run->answers.absent, 0u);
    for (std::size_t c = 0; c < n; ++c) {
      ASSERT_TRUE(joined[c]->ok()) << joined[c]->error().message;
      EXPECT_TRUE((**joined[c]).over);
      CheckPaid(job.clients[c], rounds, rounds, alone->certified_epsilon);
    }
    std::string text;
    for (int k = 0; k < FaultProxy::kKinds; ++k) {
      const auto kind = static_cast<FaultProxy::Kind>(k);
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", proxy.count(kind), FaultProxy::kNames[kind]);
      EXPECT_GT(proxy.count(kind), 0u) << FaultProxy::kNames[kind];
    }
    std::cout << fmt::format("survived{}: {}; {} connections in {} rounds of {} clients\n",
                             masked ? ", masked sums" : "", text, proxy.connections(), rounds, n);
  }

  // In every round other 30 % of the clients are gone: cut off before they are asked, or with an answer that
  // they have computed and paid for and that does not come through. The model is that of a run in which
  // everybody answers and the server loses the same answers. Of masked sums these are the updates under masks
  // (step 3), and the masks of who shared a secret and is gone are opened by the others.
  void Drop(std::size_t rounds, std::uint64_t seed, const std::string& algorithm = "dp-fedavg",
            bool masked = false) {
    const auto files = WriteRows(60, 3, kMany);
    std::string names;
    for (std::size_t c = 0; c < kMany; ++c) names += fmt::format("{}\"d{}\"", c == 0 ? "" : ", ", c);
    const std::string toml = fmt::format(
        "data = {{ rows = 60, features = 3, row_norm = \"clip\" }}\n"
        "model = {{ l2 = 0.1 }}\n"
        "privacy = {{ epsilon = 2.0, unit = \"client\"{} }}\n"
        "algorithm = {{ name = \"{}\", rounds = {}{} }}\n"
        "serve = {{ clients = [{}] }}\n",
        masked ? ", trust = \"masked\", mechanism = \"discrete_gaussian\", colluding = 1" : "", algorithm,
        rounds, masked ? ", allocation = \"static\"" : "", names);
    // Who is gone in a round, and whether after having answered.
    const auto gone = [seed](std::uint32_t round) {
      Stream coins({seed, Purpose::kTest, 0, round});
      std::map<std::uint32_t, bool> who;
      while (who.size() < kAway)
        who.emplace(static_cast<std::uint32_t>(coins.Below(kMany)), coins() % 2 == 0);
      return who;
    };
    std::string models[2];
    std::size_t cuts = 0, lost = 0;
    const std::filesystem::path base = here_;
    for (const bool real : {false, true}) {
      // Where nobody is gone nobody is left out by a deadline either. The fewest of a masked sum are in its
      // plan.
      const Job job =
          MakeJob(toml, {{"data.source", (base / "all.csv").string()},
                         {"serve.deadline", !real    ? "600"
                                            : masked ? "1"
                                                     : "0.5"},
                         {"serve.minimum", real || masked ? std::to_string(kMany - kAway) : "0"}});
      here_ = base / (real ? "real" : "told");  // state of its own; the rows are where they were
      std::filesystem::create_directories(here_);
      auto server = Start(job);
      ASSERT_TRUE(server.ok()) << server.error().message;
      std::vector<std::unique_ptr<FaultProxy>> proxies;
      for (std::size_t c = 0; real && c < kMany; ++c)
        proxies.push_back(std::make_unique<FaultProxy>(FaultProxy::Options{.port = (*server)->port()}));
      WatchedLink link(**server);
      std::uint32_t round = 0;
      link.before = [&](const Question& q) {
        // A masked round that has too few begins again, and who was gone in it stays so.
        const bool fresh = q.round != round || q.last, due = q.step == 0 || q.step == 3;
        round = q.round;
        if (!real || !(fresh || due)) return;
        const auto who = q.last ? std::map<std::uint32_t, bool>{} : gone(q.round);
        for (std::uint32_t c = 0; c < kMany; ++c) {
          const auto found = who.find(c);
          const bool cut = found != who.end() && !found->second, hold = found != who.end() && found->second;
          if (fresh) proxies[c]->Cut(cut), cuts += cut ? 1 : 0;
          if (fresh || due) proxies[c]->Hold(hold && due);
          if (fresh) lost += hold ? 1 : 0;
        }
      };
      link.after = [&](const Question& q, std::vector<Bytes>& answers) {
        if (q.last || real || (masked && q.step != 3)) return;
        const auto who = gone(q.round);
        for (std::size_t i = 0; i < q.who.size(); ++i)
          if (who.count(q.who[i]) != 0) answers[i].clear();
      };
      std::vector<std::optional<Result<Joined>>> joined(kMany);
      std::vector<std::jthread> clients;
      for (std::size_t c = 0; c < kMany; ++c)
        clients.emplace_back([&, c] {
          JoinOptions o = Joining(job.clients[c], real ? proxies[c]->port() : (*server)->port(), files[c]);
          o.patience = 600;
          o.stop = &failed_;
          joined[c] = Join(o);
          if (!joined[c]->ok()) failed_ = true;
        });
      const auto run = Coordinate(job, link, here_ / "server");
      if (!run.ok()) failed_ = true;
      (*server)->Over(0);
      clients.clear();
      ASSERT_TRUE(run.ok()) << run.error().message << "\n" << log_;
      models[real ? 1 : 0] = run->model_sha256;
      EXPECT_EQ(run->rounds_done, rounds);
      EXPECT_EQ(run->answers.absent, kAway * rounds);
      EXPECT_EQ(run->answers.taken, (kMany - kAway) * rounds);
      for (std::uint32_t c = 0; c < kMany; ++c) {
        ASSERT_TRUE(joined[c]->ok()) << joined[c]->error().message;
        EXPECT_TRUE((**joined[c]).over);
        std::size_t counted = rounds;
        for (std::uint32_t r = 1; r <= rounds; ++r) counted -= gone(r).count(c);
        // Paid for whatever was counted, and for what was computed and lost.
        CheckPaid(job.clients[c], real ? counted : rounds, rounds, run->certified_epsilon);
      }
    }
    EXPECT_EQ(models[0], models[1]);
    EXPECT_EQ(cuts + lost, kAway * rounds);
    std::cout << fmt::format(
        "survived{}: {} clients cut off before a round, {} answers lost, of {} clients in {} rounds\n",
        masked ? ", masked sums" : "", cuts, lost, kMany, rounds);
  }
};

}  // namespace tacit
