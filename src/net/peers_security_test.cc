// Who may call a peer and whom it believes; neighbours with a true certificate that say what is not true; and
// what a neighbour, or anybody on the way, sees of rows.
#include "net/peers.h"

#include <cmath>
#include <set>

#include "net/test_peers.h"
#include "net/test_search.h"
#include "net/test_tls.h"
#include "privacy/ledger.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using grpc::StatusCode;
using std::chrono::milliseconds;

// A peer in a thread of its own.
class Running {
 public:
  explicit Running(PeerSettings settings) : settings_(std::move(settings)) {
    settings_.stop = &stop_;
    settings_.counts = &counts;
    settings_.listening = [this](int p) { port_ = p; };
    settings_.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    thread_ = std::jthread([this] {
      done_ = TakePeersPart(settings_);
      ended_ = true;
    });
  }
  ~Running() { stop_ = true; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  int port() {
    while (port_ == 0 && !ended_) std::this_thread::sleep_for(milliseconds(5));
    return port_;
  }
  bool ended() const { return ended_; }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  Result<Joined> Wait() {
    if (thread_.joinable()) thread_.join();
    return *done_;
  }
  Result<Joined> Stop() {
    stop_ = true;
    return Wait();
  }
  PeerCounts counts;

 private:
  PeerSettings settings_;
  std::atomic<bool> stop_ = false, ended_ = false;
  std::atomic<int> port_ = 0;
  std::optional<Result<Joined>> done_;
  std::mutex mutex_;
  std::string log_;
  std::jthread thread_;
};

class PeerSecurity : public Peers {
 protected:
  static void SetUpTestSuite() {
    Peers::SetUpTestSuite();
    Certify("ca", "r1", Party::kPeer);  // to be revoked
    Also("late", Party::kPeer, {}, -1);
    Also("client", Party::kClient);
    Also("server", Party::kServer, {"127.0.0.1"});
  }
  // Another certificate of the same authority for the name p1.
  static void Also(const std::string& folder, Party party, const std::vector<std::string>& hosts = {},
                   int days = 30) {
    const auto made = Issue({.authority = home() / "ca",
                             .folder = home() / folder / "issued",
                             .name = "p1",
                             .party = party,
                             .hosts = hosts,
                             .days = days});
    ASSERT_TRUE(made.ok()) << made.error().message;
    fs::copy_file(home() / "ca/ca.pem", home() / folder / "ca.pem");
  }
  // As it shows itself to those who believe the authority "ca".
  static Identity Showing(const char* name, const char* folder) {
    Identity id = Who(name, folder);
    id.authority = Who("p0").authority;
    return id;
  }

  struct Told {
    StatusCode code;
    v1::NotePart first;
  };
  static Told Ask(const std::shared_ptr<grpc::Channel>& channel, const v1::FetchRequest& question) {
    grpc::ClientContext call;
    call.set_deadline(In(std::chrono::seconds(20)));
    const auto stream = v1::Peers::NewStub(channel)->Fetch(&call, question);
    Told told{StatusCode::OK, {}};
    v1::NotePart part;
    for (bool first = true; stream->Read(&part); first = false)
      if (first) told.first = part;
    told.code = stream->Finish().error_code();
    return told;
  }
  static std::string Here(int port) { return fmt::format("127.0.0.1:{}", port); }
};

TEST_F(PeerSecurity, CallersAreNeighboursWithAPeersCertificate) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed({{"serve.clients", R"(["p0", "p1", "p2", "p3", "r1"])"}});
  const std::string name = NameOfJob(job);
  const fs::path list = home() / "ca/crl.pem";
  list_ = list;
  Running p0(Settings(job, 0, files[0]));
  ASSERT_NE(p0.port(), 0);
  const auto as = [&](const Identity& id) {
    return Ask(ChannelTo(Here(p0.port()), id, "p0"), Question(name, 0)).code;
  };
  const auto by = [&](const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(PeerHost("p0"));
    return Ask(grpc::CreateCustomChannel(Here(p0.port()), credentials, arguments), Question(name, 0)).code;
  };
  EXPECT_EQ(as(Who("p1")), StatusCode::OK);  // the control of all that follow
  EXPECT_EQ(as(Who("p2")), StatusCode::PERMISSION_DENIED);  // in the job, and no neighbour
  EXPECT_EQ(as(Who("p4")), StatusCode::PERMISSION_DENIED);  // not in the job
  EXPECT_EQ(as(Showing("p1", "other")), StatusCode::UNAVAILABLE);  // another authority
  EXPECT_EQ(as(Showing("p1", "late")), StatusCode::UNAVAILABLE);  // expired
  EXPECT_EQ(as(Showing("p1", "client")), StatusCode::UNAUTHENTICATED);  // a client of the same name
  EXPECT_EQ(as(Showing("p1", "server")), StatusCode::UNAVAILABLE);
  EXPECT_EQ(as(Who("server")), StatusCode::UNAVAILABLE);
  grpc::SslCredentialsOptions bare;
  bare.pem_root_certs = Who("p1").authority;
  EXPECT_EQ(by(grpc::SslCredentials(bare)), StatusCode::UNAVAILABLE);  // no certificate
  EXPECT_EQ(by(grpc::InsecureChannelCredentials()), StatusCode::UNAVAILABLE);  // plain text
  EXPECT_EQ(as(Who("r1")), StatusCode::OK);
  ASSERT_TRUE(Revoke(home() / "ca", "r1").ok());  // while the peer runs
  EXPECT_EQ(as(Who("r1")), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(as(Who("p1")), StatusCode::OK);
  EXPECT_EQ(p0.counts.turned_away, 4u);  // what TLS let in
  EXPECT_EQ(p0.counts.sent, 0u);
  const auto done = p0.Stop();
  ASSERT_TRUE(done.ok()) << done.error().message;
  fs::remove(home() / "ca/issued/r1.pem"), fs::remove(home() / "ca/issued/r1.key");
  Certify("ca", "r1", Party::kPeer);  // which is not revoked
}

// As seen by a peer that calls p1: nothing is paid before all neighbours are whom they should be.
TEST_F(PeerSecurity, ThoseWhoAreCalledAreWhomTheJobNames) {
  const auto files = WriteRows(30, 3, kPeers);
  const Identity revoked = Who("r1");
  ASSERT_TRUE(Revoke(home() / "ca", "r1").ok());
  list_ = home() / "ca/crl.pem";
  struct Case {
    const char* why;
    const char* name;  // in the job
    Identity shown;
    std::optional<Code> refused;
  };
  std::size_t run = 0;
  for (const Case& c : {Case{"itself", "p1", Who("p1"), {}},  // the control of all that follow
                        Case{"another peer", "p1", Who("p2"), Code::kIo},
                        Case{"of another authority", "p1", Showing("p1", "other"), Code::kIo},
                        Case{"expired", "p1", Showing("p1", "late"), Code::kIo},
                        Case{"a client's", "p1", Showing("p1", "client"), Code::kIo},
                        Case{"a server's", "p1", Showing("p1", "server"), Code::kIo},
                        Case{"another server's", "p1", Who("server"), Code::kIo},
                        Case{"revoked", "r1", revoked, Code::kMismatch}}) {
    SCOPED_TRACE(c.why);
    const Job job = Addressed({{"serve.clients", fmt::format(R"(["p0", "{}", "p2", "p3", "p4"])", c.name)}});
    const auto friendly = [](const v1::FetchRequest&, Puppet::Writer& out) {
      out.Write(Part(v1::NotePart::DONE));
      return grpc::Status::OK;
    };
    Puppet p4(job.addresses[4], Who("p4"), friendly), p1(job.addresses[1], c.shown, friendly);
    PeerSettings o = Settings(job, 0, files[0]);
    o.state = here_ / fmt::format("state{}", run++);
    o.patience = c.refused ? 0.5 : 60;
    Running p0(o);
    if (!c.refused) {
      EXPECT_TRUE(Soon([&] { return p0.counts.round == 1; }));  // they have met
      const auto stopped = p0.Stop();
      EXPECT_TRUE(stopped.ok()) << stopped.error().message;
      continue;
    }
    const auto done = p0.Wait();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, *c.refused) << done.error().message;
    EXPECT_TRUE(done.error().message.starts_with(c.name)) << done.error().message;
    EXPECT_EQ(p0.counts.round, 0u);
    EXPECT_FALSE(fs::exists(o.state / NameOfJob(job).substr(0, 32) / "checkpoint"));
  }
  fs::remove(home() / "ca/issued/r1.pem"), fs::remove(home() / "ca/issued/r1.key");
  Certify("ca", "r1", Party::kPeer);
}

// The control is somebody who takes anything: what is refused is refused by the peer, not unsaid by the
// caller.
TEST_F(PeerSecurity, APeerIsNotTalkedDown) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  Running p0(Settings(job, 0, files[0]));
  ASSERT_NE(p0.port(), 0);
  const Identity p1 = Who("p1"), p4 = Who("p4");
  const TakesAnything control(p4);
  struct Case {
    const char* why;
    Offered offered;
    bool allowed;
  };
  for (const Case& c :
       {Case{"TLS 1.3", {.identity = &p1, .lowest = TLS1_3_VERSION}, true},
        Case{"TLS 1.2", {.identity = &p1, .highest = TLS1_2_VERSION}, true},
        Case{"TLS 1.1", {.identity = &p1, .lowest = TLS1_1_VERSION, .highest = TLS1_1_VERSION}, false},
        Case{"TLS 1.0", {.identity = &p1, .lowest = TLS1_VERSION, .highest = TLS1_VERSION}, false},
        Case{"no encryption",
             {.identity = &p1, .highest = TLS1_2_VERSION, .ciphers = "eNULL:@SECLEVEL=0"},
             false},
        Case{"no authentication", {.highest = TLS1_2_VERSION, .ciphers = "aNULL:@SECLEVEL=0"}, false},
        Case{"no certificate", {}, false},
        Case{"another protocol inside", {.identity = &p1, .http2 = false}, false}}) {
    EXPECT_EQ(Shake(p0.port(), c.offered) != 0, c.allowed) << c.why;
    EXPECT_NE(Shake(control.port(), c.offered), 0) << c.why << ", control";
  }
  for (const std::string& hello : {std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(9, '\0'),
                                   std::string("GET /tacit.v1.Peers/Fetch HTTP/1.1\r\nHost: x\r\n\r\n")}) {
    const int fd = Dial(p0.port());
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
    ::shutdown(fd, SHUT_WR);
    std::string said;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
      said.append(buffer, static_cast<std::size_t>(n));
    ::close(fd);
    EXPECT_TRUE(said.empty() || said[0] == 21) << said;  // nothing, or an alert: a record of type 21
  }
}

// And it calls nobody who speaks less than TLS 1.2.
TEST_F(PeerSecurity, NorDoesItTalkToThoseWhoAre) {
  const auto files = WriteRows(30, 3, kPeers);
  std::size_t run = 0;
  for (const int highest : {TLS1_2_VERSION, TLS1_1_VERSION}) {
    const TakesAnything p1(Who("p1"), highest);
    Job job = Addressed();
    job.addresses[1] = Here(p1.port());
    PeerSettings o = Settings(job, 0, files[0]);
    o.state = here_ / fmt::format("state{}", run++);
    Running p0(o);
    EXPECT_TRUE(Soon([&] { return highest == TLS1_2_VERSION ? p1.shaken() > 0 : p1.calls() > 1; }));
    EXPECT_TRUE(p0.Stop().ok());
    EXPECT_EQ(p1.shaken() > 0, highest == TLS1_2_VERSION);
  }
}

// A neighbour with a true certificate: it asks the true one, and says the truth after some lies.
class Rogue : public PeerSecurity {
 protected:
  // What p0 is told instead of the note that it asked for.
  struct Lie {
    const char* why;
    bool refused;  // it is no note; otherwise there is none
    std::function<grpc::Status(std::uint32_t, Puppet::Writer&)> tell;
  };
  std::vector<Lie> Lies() {
    const auto part = [](auto make) {
      return [make](std::uint32_t place, Puppet::Writer& out) {
        out.Write(make(place));
        return grpc::Status::OK;
      };
    };
    const auto note = [part](const std::string& bytes) {
      return part([bytes](std::uint32_t place) { return Part(v1::NotePart::NOTE, place, bytes); });
    };
    const auto status = [](StatusCode code) {
      return [code](std::uint32_t, Puppet::Writer&) { return grpc::Status(code, "because"); };
    };
    const std::string sound = Frame({0.25, -0.5, 0.125});
    std::string flipped = sound, garbage(sound.size(), '\0');
    flipped[20] ^= 4;
    Stream coins({5, Purpose::kTest, 0, 0});
    for (char& c : garbage) c = static_cast<char>(coins());
    return {
        {"garbage", true, note(garbage)},
        {"a bit that is another", true, note(flipped)},
        {"a frame that is cut", true, note(sound.substr(0, 30))},
        {"something after the frame", true, note(sound + "x")},
        {"no number", true, note(Frame({0.25, std::nan(""), 0.125}))},
        {"a number whose square is none", true, note(Frame({1e200, 0, 0}))},
        {"infinity", true, note(Frame({HUGE_VAL, 0, 0}))},
        {"another shape", true, note(Frame({1, 2, 3, 4}))},
        {"no shape", true, note(Frame({}))},
        {"as long as a disk", true, part([](std::uint32_t place) {
           v1::NotePart p = Part(v1::NotePart::NOTE, place);
           p.set_size(std::uint64_t{1} << 40);
           return p;
         })},
        {"longer than it says", true, part([sound](std::uint32_t place) {
           v1::NotePart p = Part(v1::NotePart::NOTE, place, sound);
           p.set_size(8);
           return p;
         })},
        {"many parts", true,
         [sound](std::uint32_t place, Puppet::Writer& out) {
           for (int i = 0; i < 1000 && out.Write(Part(v1::NotePart::NOTE, place, sound)); ++i) {
           }
           return grpc::Status::OK;
         }},
        {"a part of two megabytes", false, note(std::string(2 << 20, 'x'))},
        {"shorter than it says", false, part([sound](std::uint32_t place) {
           v1::NotePart p = Part(v1::NotePart::NOTE, place, sound);
           p.set_size(sound.size() + 1);
           return p;
         })},
        {"the note of the round before", true,
         [this](std::uint32_t place, Puppet::Writer& out) {
           out.Write(Part(v1::NotePart::NOTE, place - 1, last_));
           return grpc::Status::OK;
         }},
        {"a note of the round after", true,
         part([sound](std::uint32_t place) { return Part(v1::NotePart::NOTE, place + 1, sound); })},
        {"silence in another round", true,
         part([](std::uint32_t place) { return Part(v1::NotePart::NOTE, place - 1); })},
        {"that all is over", true, part([](std::uint32_t) { return Part(v1::NotePart::DONE); })},
        {"what is no kind of answer", true, part([sound](std::uint32_t place) {
           // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): proto3's are open
           return Part(static_cast<v1::NotePart::Kind>(77), place, sound);
         })},
        {"nothing at all", false, [](std::uint32_t, Puppet::Writer&) { return grpc::Status::OK; }},
        {"that it is not so far", false, part([](std::uint32_t) { return Part(v1::NotePart::WAIT); })},
        {"nothing, for it is gone", false, status(StatusCode::UNAVAILABLE)},
        {"that something is wrong", false, status(StatusCode::INTERNAL)},
        {"that this peer was put back", false, status(StatusCode::DATA_LOSS)},
        {"that this peer is ahead", false, status(StatusCode::OUT_OF_RANGE)},
        {"that this peer is nobody", false, status(StatusCode::UNAUTHENTICATED)},
        {"that this peer is no neighbour", false, status(StatusCode::PERMISSION_DENIED)},
        {"that this is another job", false, status(StatusCode::FAILED_PRECONDITION)},
    };
  }

  using Lying =
      std::map<std::uint32_t, std::vector<Lie>>;  // by place, one after the other, and then the truth
  // All peers, of whom p0 has somebody else at p1's place.
  std::vector<Result<Joined>> TrainWith(const Job& job, const std::vector<std::string>& files, Lying told,
                                        double patience, PeerCounts& counts, std::string& log) {
    const std::string rogue = Here(FreePort());
    last_.clear();
    const auto true_p1 = ChannelTo(job.addresses[1], Who("p0"), "p1");
    Puppet p1(rogue, Who("p1"), [&](const v1::FetchRequest& in, Puppet::Writer& out) {
      if (auto& lies = told[in.place()]; !lies.empty()) {
        const Lie lie = lies.front();
        if (!keeps_lying_) lies.erase(lies.begin());
        return lie.tell(in.place(), out);
      }
      grpc::ClientContext call;
      call.set_deadline(In(std::chrono::seconds(20)));
      const auto stream = v1::Peers::NewStub(true_p1)->Fetch(&call, in);
      std::string note;
      for (v1::NotePart part; stream->Read(&part);) {
        note += part.data();
        if (!out.Write(part)) call.TryCancel();
      }
      if (!note.empty()) last_ = note;
      return stream->Finish();
    });
    return TrainPeersBy([&](std::size_t k) {
      PeerSettings o = Settings(job, k, files[k]);
      if (k != 0) return o;
      o.job.addresses[1] = rogue;
      o.patience = patience;
      o.counts = &counts;
      o.log = [&](const std::string& line) {
        const std::lock_guard lock(mutex_);
        log += line + "\n";
      };
      return o;
    });
  }
  void ExpectPaid(const Job& job, std::uint64_t rounds) {
    for (const std::string& peer : job.clients) {
      const auto ledger =
          SqliteVault::Read(here_ / ("state-" + peer) / NameOfJob(job).substr(0, 32) / "ledger.db");
      ASSERT_TRUE(ledger.ok()) << ledger.error().message;
      EXPECT_EQ(ledger->front().rounds_released, rounds) << peer;
    }
  }
  std::string last_;  // the note that p0 was given before
  bool keeps_lying_ = false;
};

// Whatever a neighbour says before it says the truth, everybody's model is what it would have been.
TEST_F(Rogue, WhatIsNoNoteChangesNothing) {
  const fs::path base = here_;
  const auto files = WriteRows(30, 3, kPeers);
  std::optional<RunResult> alone;
  std::vector<Vec> models[2];
  for (const bool lying : {false, true}) {
    here_ = base / (lying ? "lies" : "truth");
    fs::create_directories(here_);
    const Job job = Addressed({{"data.source", (base / "all.csv").string()}});
    if (!alone) alone = Alone(job);
    Lying told;
    std::size_t all = 0, refused = 0;
    std::set<std::uint32_t> places;
    if (lying) {
      const auto lies = Lies();
      for (std::size_t i = 0; i < lies.size(); ++i) {  // from the second round on: it has said something then
        const auto place = static_cast<std::uint32_t>(2 + i % (kPeerRounds - 1));
        told[place].push_back(lies[i]);
        if (lies[i].refused) ++refused, places.insert(place);
        ++all;
      }
      for (const std::size_t i : {0, 4, 8}) told[1].push_back(lies[i]), ++refused, ++all;
      told[0].push_back(lies[0]), ++refused, ++all;
      places.insert(0), places.insert(1);
    }
    PeerCounts counts;
    std::string log;
    const auto joined = TrainWith(job, files, told, 120, counts, log);
    for (const auto& one : joined) ASSERT_TRUE(one.ok()) << one.error().message << "\n" << log;
    EXPECT_EQ(MeanOf(joined, {0, 1, 2, 3, 4}), alone->model);
    for (std::size_t k = 0; k < kPeers; ++k) models[lying ? 1 : 0].push_back(MeanOf(joined, {k}));
    ExpectPaid(job, kPeerRounds);
    EXPECT_EQ(counts.refused, refused) << log;
    EXPECT_EQ(counts.received, 2 * kPeerRounds);
    EXPECT_TRUE(counts.over);
    // Said once a round, however often.
    std::size_t said = 0;
    for (std::size_t at = 0; (at = log.find("refused p1", at)) != log.npos; ++at) ++said;
    EXPECT_EQ(said, places.size()) << log;
    if (lying)
      std::cout << fmt::format("survived: {} lies of a neighbour, {} of them notes that are none\n", all,
                               refused);
  }
  EXPECT_EQ(models[0], models[1]);
}

// Who never says the truth is named when patience ends; nothing is released for it, and the run goes on with
// who does.
TEST_F(Rogue, WhoOnlyLiesIsNamedInTheEnd) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  const RunResult alone = Alone(job);
  linger_ = 5;
  PeerCounts counts, later;
  std::string log;
  keeps_lying_ = true;
  const auto failed = TrainWith(job, files, {{3, {Lies()[4]}}}, 1, counts, log);
  ASSERT_FALSE(failed[0].ok());
  EXPECT_EQ(failed[0].error().code, Code::kMalformed);
  EXPECT_TRUE(failed[0].error().message.starts_with("p1 at ")) << failed[0].error().message;
  EXPECT_NE(failed[0].error().message.find("round 3"), std::string::npos) << failed[0].error().message;
  EXPECT_GE(counts.refused, 2u);
  EXPECT_LE(counts.refused, 7u);  // pauses of 50, 100, … milliseconds are longer than a second together
  for (std::size_t k = 1; k < kPeers; ++k) {
    ASSERT_TRUE(failed[k].ok()) << failed[k].error().message;  // told to stop by the test
    EXPECT_FALSE(failed[k]->over);
  }
  failed_ = false;
  keeps_lying_ = false;
  const auto joined = TrainWith(job, files, {}, 60, later, log);
  for (const auto& one : joined) ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(MeanOf(joined, {0, 1, 2, 3, 4}), alone.model);
  ExpectPaid(job, kPeerRounds);
}

// One who says at once that it is not so far is asked again after a pause.
TEST_F(Rogue, IsNotAskedWithoutAPause) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  PeerCounts counts;
  std::string log;
  std::size_t calls = 0;
  keeps_lying_ = true;
  const auto failed = TrainWith(job, files,
                                {{2,
                                  {{"not so far", false,
                                    [&](std::uint32_t, Puppet::Writer& out) {
                                      ++calls;
                                      out.Write(Part(v1::NotePart::WAIT));
                                      return grpc::Status::OK;
                                    }}}}},
                                1, counts, log);
  ASSERT_FALSE(failed[0].ok());
  EXPECT_NE(failed[0].error().message.find("it is behind"), std::string::npos) << failed[0].error().message;
  EXPECT_GE(calls, 2u);
  EXPECT_LE(calls, 7u);
}

// A neighbour's word that this peer is behind counts at the start, when its state may be one that was put
// back.
TEST_F(Rogue, IsBelievedAtTheStart) {
  const auto files = WriteRows(30, 3, kPeers);
  for (const StatusCode code : {StatusCode::DATA_LOSS, StatusCode::UNAUTHENTICATED,
                                StatusCode::PERMISSION_DENIED, StatusCode::FAILED_PRECONDITION}) {
    const Job job = Addressed();
    const auto friendly = [](const v1::FetchRequest&, Puppet::Writer& out) {
      out.Write(Part(v1::NotePart::DONE));
      return grpc::Status::OK;
    };
    Puppet p4(job.addresses[4], Who("p4"), friendly);
    Puppet p1(job.addresses[1], Who("p1"),
              [code](const v1::FetchRequest&, Puppet::Writer&) { return grpc::Status(code, "because"); });
    const auto done = Running(Settings(job, 0, files[0])).Wait();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, Code::kMismatch);
    EXPECT_FALSE(fs::exists(here_ / "state-p0" / NameOfJob(job).substr(0, 32) / "checkpoint"));
  }
}

// Who asks for rounds that are far ahead is refused, and nothing else happens.
TEST_F(PeerSecurity, NobodyIsStoppedByWhoIsAhead) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  const RunResult alone = Alone(job);
  const std::string name = NameOfJob(job);
  std::vector<Result<Joined>> joined;
  std::atomic<bool> over = false;
  std::size_t refused = 0;
  PeerCounts counts;
  {
    std::jthread ahead([&] {
      const auto channel = ChannelTo(job.addresses[0], Who("p1"), "p0");
      while (!over) {
        for (const std::uint32_t place : {11u, 12u}) {
          if (counts.round + 3 >= place) return;
          refused += Ask(channel, Question(name, place)).code == StatusCode::OUT_OF_RANGE;
        }
      }
    });
    joined = TrainPeersBy([&](std::size_t k) {
      EXPECT_TRUE(k == 0 || Soon([&] { return counts.turned_away >= 4; }));  // p0 is alone at first
      PeerSettings o = Settings(job, k, files[k]);
      if (k == 0) o.counts = &counts;
      return o;
    });
    over = true;
  }
  for (const auto& one : joined) ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_GE(refused, 4u);
  EXPECT_EQ(MeanOf(joined, {0, 1, 2, 3, 4}), alone.model);
}

// Three peers, of whom p2 is made by hand and has notes up to some round.
class PutBack : public PeerSecurity {
 protected:
  void SetUp() override {
    PeerSecurity::SetUp();
    files_ = WriteRows(30, 3, 3);
    job_ = MakeJob(kJob, {{"serve.clients", R"(["p0", "p1", "p2"])"}, {"serve.addresses", FreeAddresses(3)}});
    name_ = NameOfJob(job_);
    p2_ = std::make_unique<Puppet>(
        job_.addresses[2], Who("p2"), [this](const v1::FetchRequest& in, Puppet::Writer& out) {
          const bool note = in.place() > 0 && in.place() <= kPeerRounds;
          if (note && in.place() > limit_) {
            std::this_thread::sleep_for(milliseconds(20));
            out.Write(Part(v1::NotePart::WAIT));
          } else {
            out.Write(note ? Part(v1::NotePart::NOTE, in.place(), Frame({0.1, 0.2, 0.3}))
                           : Part(v1::NotePart::DONE));
          }
          return grpc::Status::OK;
        });
    Begin(0), Begin(1);
  }
  void TearDown() override {
    for (auto& one : peers_) one.reset();
    p2_.reset();
  }
  void Begin(std::size_t k) { peers_[k] = std::make_unique<Running>(Settings(job_, k, files_[k])); }
  void Again(std::size_t k) {
    const auto stopped = peers_[k]->Stop();
    ASSERT_TRUE(stopped.ok()) << stopped.error().message;
    Begin(k);
  }
  // Both have made this round, have heard each other's note of it, and wait for p2.
  void WaitAt(std::uint32_t place) {
    limit_ = place - 1;
    const auto at = [&](std::size_t k) {
      const PeerCounts& c = peers_[k]->counts;
      return c.round == place && c.heard == 1;
    };
    ASSERT_TRUE(Soon([&] { return at(0) && at(1); })) << peers_[0]->log() << "\n" << peers_[1]->log();
  }
  fs::path State(std::size_t k) const { return here_ / fmt::format("state-p{}", k); }
  fs::path Folder(std::size_t k) const { return State(k) / name_.substr(0, 32); }
  // p0 from another state: it finds out, and gives p2 nothing of this round.
  void ExpectFoundOut(std::uint32_t place) {
    Begin(0);
    ASSERT_NE(peers_[0]->port(), 0);
    const auto channel = ChannelTo(job_.addresses[0], Who("p2"), "p0");
    while (!peers_[0]->ended()) {
      const Told told = Ask(channel, Question(name_, place));
      EXPECT_FALSE(told.code == StatusCode::OK && told.first.kind() == v1::NotePart::NOTE)
          << "a second note of round " << place;
      std::this_thread::sleep_for(milliseconds(5));
    }
    const auto done = peers_[0]->Wait();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, Code::kMismatch) << done.error().message;
    EXPECT_NE(done.error().message.find("p1: "), std::string::npos) << done.error().message;
    EXPECT_NE(done.error().message.find("put back"), std::string::npos) << done.error().message;
  }
  // And with its own state it comes to the end.
  void ExpectTheEnd() {
    Begin(0);
    limit_ = kPeerRounds;
    for (const std::size_t k : {0, 1})
      ASSERT_TRUE(Soon([&] {
        return peers_[k]->counts.received == 2 * kPeerRounds || peers_[k]->ended() ||
               peers_[k]->log().find("round 12 of 12") != std::string::npos;
      }));
    for (const std::size_t k : {0, 1})
      EXPECT_EQ(
          Ask(ChannelTo(job_.addresses[k], Who("p2"), job_.clients[k]), Question(name_, kPeerRounds + 1))
              .code,
          StatusCode::OK);
    for (const std::size_t k : {0, 1}) {
      const auto done = peers_[k]->Wait();
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_TRUE(done->over);
      EXPECT_EQ(done->result.rounds, kPeerRounds);
      EXPECT_FALSE(fs::exists(Folder(k) / "heard"));
    }
  }
  std::vector<std::string> files_;
  Job job_;
  std::string name_;
  std::atomic<std::uint32_t> limit_ = 0;
  std::unique_ptr<Puppet> p2_;
  std::unique_ptr<Running> peers_[2];
};

// One round back, while one neighbour has heard that round and waits for another, which has not.
TEST_F(PutBack, ByOneRoundIsFoundOutBeforeANoteIsMade) {
  WaitAt(7);
  ASSERT_TRUE(peers_[0]->Stop().ok());
  fs::copy(State(0), here_ / "copy", fs::copy_options::recursive);
  Begin(0);  // with all it had: nothing is wrong
  WaitAt(8);
  ASSERT_TRUE(peers_[0]->Stop().ok());
  fs::rename(State(0), here_ / "newest");
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again ? "the neighbour was started again" : "the neighbour is the same process");
    if (again) {  // it has written down what it has heard beyond its checkpoint
      const auto kept = [&] {
        const auto text = ReadWhole(Folder(1) / "heard");
        return text.ok() && text->find("p0 8\n") != text->npos;
      };
      ASSERT_TRUE(Soon(kept));
      Again(1);
    }
    fs::remove_all(State(0));
    fs::copy(here_ / "copy", State(0), fs::copy_options::recursive);
    ExpectFoundOut(8);
    const auto ledger = SqliteVault::Read(Folder(0) / "ledger.db");
    ASSERT_TRUE(ledger.ok());
    EXPECT_EQ(ledger->front().rounds_released, 7u);
  }
  fs::remove_all(State(0));
  fs::rename(here_ / "newest", State(0));
  ExpectTheEnd();
}

// With an empty folder, before the first note.
TEST_F(PutBack, ToNothingIsFoundOutBeforeANoteIsMade) {
  WaitAt(4);
  ASSERT_TRUE(peers_[0]->Stop().ok());
  fs::rename(State(0), here_ / "newest");
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again ? "the neighbour was started again" : "the neighbour is the same process");
    if (again) Again(1);
    ExpectFoundOut(1);
    EXPECT_FALSE(fs::exists(Folder(0) / "checkpoint"));
    fs::remove_all(State(0));
  }
  fs::rename(here_ / "newest", State(0));
  ExpectTheEnd();
}

// Rows, gradients and steps before noise: none of it is in what a peer says, with TLS taken off. Its notes
// are.
class PeerTraffic : public PeerSecurity {
 protected:
  static constexpr std::size_t kRecords = 6, kDim = 3;
  static constexpr double kEta = 0.3, kL2 = 0.1;
  struct Seen {
    std::string down, up, cipher;  // what p0 says to p1, what p1 asks, and p0's words as ciphertext
    std::vector<std::vector<Vec>> notes;  // of p0, p1 and p4, by round
  };
  // The notes in what a peer has said: a frame is a header of 16 bytes, a count, and numbers.
  static std::vector<Vec> NotesIn(const std::string& said) {
    std::vector<Vec> out;
    for (std::size_t at = 0; (at = said.find("TCT1", at)) != said.npos; ++at) {
      constexpr std::size_t kHead = 16 + 8;
      if (at + kHead + 8 * kDim > said.size()) break;
      Vec note(kDim);
      std::memcpy(note.data(), said.data() + at + kHead, 8 * kDim);
      if (out.empty() || out.back() != note) out.push_back(note);
    }
    return out;
  }
  void Watch(const Job& job, const std::vector<std::string>& files, Seen& seen) {
    const auto port = [&](std::size_t k) {
      return std::stoi(job.addresses[k].substr(job.addresses[k].rfind(':') + 1));
    };
    const Glass to_p0(port(0), Who("p0"), Who("p1")), to_p1(port(1), Who("p1"), Who("p0")),
        to_p4(port(4), Who("p4"), Who("p0"));
    const FaultProxy wire({.port = port(0), .capture = true});
    const RunResult alone = Alone(job);
    const auto joined = TrainPeersBy([&](std::size_t k) {
      PeerSettings o = Settings(job, k, files[k]);
      if (k == 0) o.job.addresses[1] = Here(to_p1.port()), o.job.addresses[4] = Here(to_p4.port());
      if (k == 1) o.job.addresses[0] = Here(to_p0.port());
      if (k == 4) o.job.addresses[0] = Here(wire.port());
      o.listen = job.addresses[k];
      return o;
    });
    for (const auto& one : joined) ASSERT_TRUE(one.ok()) << one.error().message;
    EXPECT_EQ(MeanOf(joined, {0, 1, 2, 3, 4}), alone.model);
    seen.down = to_p0.down(), seen.up = to_p0.up();
    for (const std::string& one : wire.Captured()) seen.cipher += one;
    EXPECT_NE(seen.up.find("/tacit.v1.Peers/Fetch"), std::string::npos) << "the glass is not clear";
    EXPECT_EQ(seen.cipher.find("tacit.v1"), std::string::npos);
    for (const std::string& said : {seen.down, to_p1.down(), to_p4.down()}) {
      seen.notes.push_back(NotesIn(said));
      ASSERT_EQ(seen.notes.back().size(), kPeerRounds);
    }
  }
  // What p0 knows and nobody else may, and its steps as they are before noise.
  static std::vector<Vec> Secrets(const std::string& file, const Seen& seen, Search& secret) {
    const auto [rows, labels] = RowsOf(file, secret);
    EXPECT_EQ(rows.size(), kRecords);
    std::vector<Vec> steps;
    std::vector<Vec> last(3, Vec(kDim));  // of p0, p1 and p4; all begin at 0
    for (std::size_t t = 0; t < kPeerRounds; ++t) {
      const Vec& w = last[0];
      Vec sum(kDim), step(kDim);
      for (std::size_t l = 0; l < rows.size(); ++l) {
        const double margin = labels[l] * Dot(rows[l], w);
        secret.Add(margin);
        for (std::size_t j = 0; j < kDim; ++j) {
          const double g = -labels[l] * rows[l][j] / (1 + std::exp(margin));
          secret.Add(g), secret.Add(-g);
          sum[j] += g;
        }
      }
      for (std::size_t j = 0; j < kDim; ++j) {
        const double mean = sum[j] / static_cast<double>(kRecords);
        step[j] = (last[0][j] + last[1][j] + last[2][j]) / 3 - kEta * (mean + kL2 * w[j]);
        for (const double v : {sum[j], mean, kEta * mean, step[j]}) secret.Add(v), secret.Add(-v);
      }
      steps.push_back(step);
      for (std::size_t i = 0; i < 3; ++i) last[i] = seen.notes[i][t];
    }
    return steps;
  }
  Job WithBudget(const char* epsilon) {
    return Addressed({{"algorithm.name", "zcdp-grad-nfl"},
                      {"algorithm.eta", fmt::format("{}", kEta)},
                      {"algorithm.eta_rule", "fixed"},
                      {"privacy.epsilon", epsilon}});
  }
};

TEST_F(PeerTraffic, HoldsNothingThatIsNotNoised) {
  const fs::path base = here_;
  const auto files = WriteRows(kRecords * kPeers, kDim, kPeers);
  {  // The control: with a budget that needs nearly no noise the steps as they are worked out here are the
     // notes.
    Seen loud;
    ASSERT_NO_FATAL_FAILURE(Watch(WithBudget("1e6"), files, loud));
    Search secret;
    const auto steps = Secrets(files[0], loud, secret);
    for (std::size_t t = 0; t < kPeerRounds; ++t)
      for (std::size_t j = 0; j < kDim; ++j) EXPECT_NEAR(steps[t][j], loud.notes[0][t][j], 0.01) << t;
  }
  here_ = base / "watched";
  fs::create_directories(here_);
  Job job = WithBudget("2");
  job.config.data.source = (base / "all.csv").string();
  Seen seen;
  ASSERT_NO_FATAL_FAILURE(Watch(job, files, seen));
  Search secret, released;
  const auto steps = Secrets(files[0], seen, secret);
  double moved = 0;
  for (std::size_t t = 0; t < kPeerRounds; ++t)
    for (std::size_t j = 0; j < kDim; ++j) {
      released.Add(seen.notes[0][t][j]);
      moved = std::max(moved, std::fabs(seen.notes[0][t][j] - steps[t][j]));
    }
  EXPECT_GT(moved, 0.01) << "noise is to be seen";
  EXPECT_GE(released.Hits(seen.down), kPeerRounds * kDim);
  EXPECT_EQ(released.Hits(seen.cipher), 0u);
  for (const std::string* text : {&seen.down, &seen.up, &seen.cipher}) EXPECT_EQ(secret.Hits(*text), 0u);
  // And what is searched for would be found: a step before noise, at an odd place.
  std::string spoiled = seen.down;
  spoiled.insert(seen.down.size() / 2 | 1, reinterpret_cast<const char*>(steps[3].data()), 8 * kDim);
  EXPECT_EQ(secret.Hits(spoiled), kDim);
  std::cout << fmt::format("{} values searched in {} bytes of plain text and {} of ciphertext\n",
                           secret.size(), seen.up.size() + seen.down.size(), seen.cipher.size());
}

}  // namespace
}  // namespace tacit
