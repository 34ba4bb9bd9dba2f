// What `tacit serve` and `tacit join` do as commands: folders, limits, and what they say when something is
// wrong.
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "federation_processes.h"
#include "net/log_event.h"
#include "net/server.h"

namespace tacit {
namespace {

class Commands : public ProcessFederation {
 public:
  explicit Commands(const std::string& serve = "deadline = 30")
      : ProcessFederation(
            std::filesystem::temp_directory_path() /
                fmt::format("tacit_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                            ::getpid()),
            "local", serve) {}
  ~Commands() {
    for (const pid_t p : running_) ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
  }

  // A server whose folder says where it is, with few files allowed to begin with.
  void TwoServersOfAFolder() {
    const pid_t first = Start(home_, kServer, FreePort());
    running_.push_back(first);
    const std::string address = Address();
    ASSERT_FALSE(address.empty()) << Said(kServer);
    const pid_t second = Start(home_, kServer, FreePort());
    EXPECT_EQ(Ends(second), static_cast<int>(Code::kIo)) << Said(kServer);
    EXPECT_NE(Said(kServer).find("another process"), std::string::npos) << Said(kServer);
    EXPECT_EQ(Address(), address);
  }
  // Two that begin a run at once: one of them does, by the name that the folder has.
  void TwoServersAtOnce() {
    std::vector<pid_t> both;
    std::vector<int> ports;
    for (int i = 0; i < 2; ++i) {
      ports.push_back(FreePort());
      both.push_back(Start(home_, kServer, ports.back()));
    }
    pid_t ended = -1;
    int state = 0;
    while (ended != both[0] && ended != both[1]) {
      for (const pid_t one : both)
        if (ended < 0 && ::waitpid(one, &state, WNOHANG) == one) ended = one;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(WEXITSTATUS(state), static_cast<int>(Code::kIo)) << Said(kServer);
    const std::size_t other = ended == both[0] ? 1 : 0;
    running_.push_back(both[other]);
    EXPECT_EQ(Ends(Start(home_, 0, ports[other], {}, {"--review"})), 0) << Said(0);
    const std::string id = ReadWhole(StateOf(home_, kServer) / "job.id").operator*();
    EXPECT_NE(Said(0).find("Job " + id.substr(0, kSessionPart)), std::string::npos) << Said(0) << id;
  }
  void FilesAreAsManyAsAllowed() {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = 64;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const pid_t server = Start(home_, kServer, FreePort());
    running_.push_back(server);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_FALSE(Address().empty()) << Said(kServer);
    rlimit its{};
    ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, nullptr, &its), 0);
    EXPECT_EQ(its.rlim_cur, its.rlim_max);
  }
  // Connections without a certificate take all files that the server may have, in mid-run, and go again.
  void FilesRunOut() {
    const int port = FreePort();
    const pid_t server = Start(home_, kServer, port, {}, {"--crl", (home_ / "ca/crl.pem").string()});
    running_.push_back(server);
    ASSERT_FALSE(Address().empty()) << Said(kServer);
    const rlimit few{200, 200};
    ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, &few, nullptr), 0);
    std::vector<pid_t> clients(kClients, -1);
    const auto says = [&](std::size_t who, const char* what) {
      for (int i = 0; i < 6000 && Said(who).find(what) == std::string::npos; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return Said(who).find(what) != std::string::npos;
    };
    clients[2] = Start(home_, 2, port);
    EXPECT_TRUE(says(2, "joined")) << Said(2);
    ::kill(clients[2], SIGSTOP);  // connected, and the others wait for it
    for (const std::size_t who : {0, 1}) {
      clients[who] = Start(home_, who, port);
      EXPECT_TRUE(says(who, "answered\n")) << Said(who);
    }
    std::vector<int> bare;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 300; ++i) {
      bare.push_back(::socket(AF_INET, SOCK_STREAM, 0));
      ASSERT_EQ(::connect(bare.back(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(clients[2], SIGCONT);
    EXPECT_TRUE(says(2, "Too many open files")) << Said(2);
    for (const int fd : bare) ::close(fd);
    for (std::size_t who = 0; who < kClients; ++who) EXPECT_EQ(Ends(clients[who]), 0) << Said(who);
  }
  void AReviewOfNobody() {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Ends(Start(home_, 0, FreePort(), {}, {"--review"})), static_cast<int>(Code::kIo));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
    EXPECT_NE(Said(0).find("trying again"), std::string::npos) << Said(0);
    EXPECT_NE(Said(0).find("cannot be reached"), std::string::npos) << Said(0);
  }
  // Somebody takes the connection and says nothing.
  void AReviewOfTheSilent() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0), port = FreePort();
    ASSERT_GE(listener, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(::listen(listener, 16), 0);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Ends(Start(home_, 0, port, {}, {"--review"})), static_cast<int>(Code::kIo));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
    ::close(listener);
    EXPECT_NE(Said(0).find("cannot be reached"), std::string::npos) << Said(0);
  }
  // SIGTERM, as of a service's manager: the round is given its time, a second one is not waited for.
  void Terminated() {
    for (const bool twice : {false, true}) {
      const std::filesystem::path at = home_ / (twice ? "twice" : "once");
      std::filesystem::create_directories(at);
      const int port = FreePort();
      const pid_t server = Start(at, kServer, port, {}, {"--drain", twice ? "1000" : "0.5"});
      const auto said = [&](const std::string& name) {
        const auto log = ReadWhole(at / (name + ".log"));
        return log.ok() ? *log : "";
      };
      const pid_t client = Start(at, 0, port);
      for (int i = 0; i < 6000 && said("c0").find("joined") == std::string::npos; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ::kill(server, SIGTERM);
      if (twice) {
        for (int i = 0; i < 6000 && said("server").find("stopping") == std::string::npos; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ::kill(server, SIGTERM);
      }
      EXPECT_EQ(Ends(server), twice ? -1 : 130) << said("server");
      EXPECT_NE(said("server").find("stopping when round 1 is over"), std::string::npos) << said("server");
      ::kill(client, SIGTERM);
      EXPECT_EQ(Ends(client), 130) << said("c0");
    }
  }
  // A run that was stopped has a result, and is not finished for that, though its checkpoint be gone.
  void StoppedIsNotFinished() {
    const int port = FreePort();
    const pid_t server = Start(home_, kServer, port, {}, {"--drain", "0"});
    std::vector<pid_t> clients;
    for (std::size_t c = 0; c < kClients; ++c) clients.push_back(Start(home_, c, port));
    const auto says = [&](std::size_t who, const char* what) {
      for (int i = 0; i < 6000 && Said(who).find(what) == std::string::npos; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    says(0, "round 2: answered");
    ::kill(clients[0], SIGTERM);
    EXPECT_EQ(Ends(clients[0]), 130) << Said(0);  // and the others wait for it
    ::kill(server, SIGTERM);
    EXPECT_EQ(Ends(server), 130) << Said(kServer);
    for (std::size_t c = 1; c < kClients; ++c) {
      ::kill(clients[c], SIGTERM);
      EXPECT_EQ(Ends(clients[c]), 130) << Said(c);
    }
    const std::filesystem::path folder = StateOf(home_, kServer);
    ASSERT_TRUE(std::filesystem::exists(folder / "result.json"));
    ASSERT_TRUE(std::filesystem::remove(folder / "checkpoint"));
    EXPECT_EQ(Ends(Start(home_, kServer, FreePort())), static_cast<int>(Code::kInvalidArgument))
        << Said(kServer);
    EXPECT_EQ(Said(kServer).find("the run is finished;"), std::string::npos) << Said(kServer);
  }
  void AListThatIsNone() {
    for (const std::size_t who : {std::size_t{0}, kServer}) {
      EXPECT_EQ(Ends(Start(home_, who, FreePort(), {}, {"--crl", (home_ / "nowhere.pem").string()})),
                static_cast<int>(Code::kIo));
      EXPECT_NE(Said(who).find("--crl"), std::string::npos) << Said(who);
    }
  }
  // Times are numbers: what casts to no whole one is refused on the command line.
  void TimesAreNumbers() {
    for (const char* none : {"nan", "-nan", "inf", "-1", "1e300", "soon"}) {
      for (const std::size_t who : {std::size_t{0}, kServer})
        EXPECT_EQ(Ends(Start(home_, who, FreePort(), {}, {who == 0 ? "--patience" : "--drain", none})),
                  static_cast<int>(Code::kInvalidArgument))
            << none;
      EXPECT_NE(Said(0).find("--patience"), std::string::npos) << Said(0);
    }
    EXPECT_EQ(Ends(Spawn({Program(), "peer", (home_ / "job.toml").string(), "--linger", "nan"},
                         home_ / "peer.log")),
              static_cast<int>(Code::kInvalidArgument));
  }
  void AReviewNamesEverybody() {
    const int port = FreePort();
    running_.push_back(Start(home_, kServer, port));
    ASSERT_FALSE(Address().empty()) << Said(kServer);
    EXPECT_EQ(Ends(Start(home_, 1, port, {}, {"--review"})), 0) << Said(1);
    EXPECT_NE(Said(1).find("one of 3: c0, c1, c2"), std::string::npos) << Said(1);
    // The job's text is in the server's folder as clients see it.
    const std::string digest = Sha256::Hex(ReadWhole(StateOf(home_, kServer) / "job.toml").operator*());
    EXPECT_NE(Said(1).find("--job " + digest), std::string::npos) << Said(1);
    EXPECT_EQ(Ends(Start(home_, 1, port, {}, {"--review", "--job", digest.substr(0, 16)})), 0) << Said(1);
    // Proxies for the web are not asked for a server: there is none where these are.
    const std::string nobody = fmt::format("http://127.0.0.1:{}", FreePort());
    EXPECT_EQ(
        Ends(Start(home_, 1, port, {{"http_proxy", nobody}, {"https_proxy", nobody}, {"grpc_proxy", nobody}},
                   {"--review", "--patience", "0"})),
        0)
        << Said(1);
    for (const char* flag : {"--review", "--json"})
      EXPECT_EQ(Ends(Start(home_, 1, port, {}, {flag, "--job", std::string(64, '0')})),
                static_cast<int>(Code::kBudget));
    EXPECT_EQ(Ends(Start(home_, 1, port, {}, {"--job", "0"})), static_cast<int>(Code::kInvalidArgument));
    EXPECT_NE(Said(kServer).find("no --crl"), std::string::npos) << Said(kServer);
  }

  // With --json every line on stderr is an event of the list, with fields of its kind and nothing else.
  void LogsAreEvents() {
    apart_ = true;
    const int port = FreePort();
    const pid_t server = Start(home_, kServer, port, {}, {"--json", "--metrics", "127.0.0.1:0"});
    running_.push_back(server);
    ASSERT_FALSE(Address().empty()) << Said(kServer);
    Certify("stranger", {});
    const std::string keys = (home_ / "keys/stranger").string();
    std::vector<std::string> words = {Program(),
                                      "join",
                                      "--server",
                                      fmt::format("127.0.0.1:{}", port),
                                      "--data",
                                      (home_ / "all.csv").string(),
                                      "--max-epsilon",
                                      "2",
                                      "--state",
                                      (home_ / "other").string(),
                                      "--json",
                                      "--ca",
                                      (home_ / "ca/ca.pem").string(),
                                      "--cert",
                                      keys + ".pem",
                                      "--key",
                                      keys + ".key"};
    EXPECT_EQ(Ends(Spawn(words, home_ / "stranger.log", {}, home_ / "stranger.err")),
              static_cast<int>(Code::kInvalidArgument));
    EXPECT_EQ(Ends(Start(home_, 0, port, {}, {"--json", "--review"})), 0);
    std::vector<pid_t> clients;
    for (std::size_t who = 0; who < kClients; ++who)
      clients.push_back(Start(home_, who, port, {}, {"--json"}));
    for (const pid_t one : clients) EXPECT_EQ(Ends(one), 0);
    EXPECT_EQ(Ends(server), 0);
    EXPECT_EQ(EventsIn("server"),
              (std::set<std::string>{"no_revocations", "metrics_page", "listening", "job_read",
                                     "client_joined", "caller_refused", "round_done"}));
    for (const char* client : {"c0", "c1", "c2"})
      EXPECT_EQ(EventsIn(client), (std::set<std::string>{"no_revocations", "joined", "round_answered"}));
    EXPECT_EQ(EventsIn("stranger"), (std::set<std::string>{"no_revocations", "failed"}));
  }
  // Where nothing can be written of what happens, it happens all the same.
  void NobodyKeepsTheLogs() {
    const int port = FreePort();
    const auto full = [&](std::size_t who, const std::vector<std::string>& words) {
      std::vector<std::string> all = {"/bin/sh", "-c", "exec \"$@\" 2> /dev/full", "sh"};
      all.insert(all.end(), words.begin(), words.end());
      return Spawn(all, home_ / (NameOf(who) + ".log"));
    };
    std::vector<pid_t> all;
    for (std::size_t who = 0; who <= kClients; ++who) all.push_back(full(who, Words(home_, who, port)));
    for (const pid_t one : all) EXPECT_EQ(Ends(one), 0);
    CheckEnd(home_, Alone().operator*());
    EXPECT_EQ(Ends(full(0, {Program(), "join", "--server", "nowhere"})), 2);
  }
  // What a server says to whoever keeps it running, from the round that nobody answers on to its end.
  void Health() {
    const int port = FreePort(), page = FreePort();
    const std::filesystem::path list = home_ / "list.pem";
    const std::string good = ReadWhole(home_ / "ca/crl.pem").operator*();
    ASSERT_TRUE(WriteWhole(list, good).ok());
    const std::string at = fmt::format("127.0.0.1:{}", page);
    const pid_t server =
        Start(home_, kServer, port, {}, {"--metrics", at, "--crl", list.string(), "--drain", "1000"});
    running_.push_back(server);
    ASSERT_FALSE(Address().empty()) << Said(kServer);
    EXPECT_TRUE(Becomes(page, "503", "overdue\nRound 1 "));
    nlohmann::json status = nlohmann::json::parse(Status(at, {"--json"}), nullptr, false);
    ASSERT_TRUE(status.is_object());
    EXPECT_EQ(status["round"], 1);
    EXPECT_EQ(status["rounds"], kRounds);
    EXPECT_EQ(status["clients"], kClients);
    EXPECT_EQ(status["clients_seen"], 0);
    EXPECT_EQ(status["overdue"], true);
    EXPECT_EQ(status["deadline_seconds_left"], 0);
    EXPECT_EQ(status["over"], false);
    EXPECT_EQ(status["revocations_unreadable"], false);
    EXPECT_NE(Status(at).find("round        1 of 60; its deadline has passed"), std::string::npos);
    ASSERT_TRUE(WriteWhole(list, "garbage").ok());
    EXPECT_TRUE(Becomes(page, "503", "unlisted\n"));
    EXPECT_NE(Status(at).find("nobody is let in"), std::string::npos);
    ASSERT_TRUE(WriteWhole(list, good).ok());
    EXPECT_TRUE(Becomes(page, "503", "overdue\n"));
    ::kill(server, SIGTERM);
    EXPECT_TRUE(Becomes(page, "200", "draining\n"));
    EXPECT_NE(Status(at).find("; the server is about to stop"), std::string::npos);
    ::kill(server, SIGTERM);
    EXPECT_EQ(Ends(server), -1);
    std::string nobody = Status(at);
    EXPECT_NE(nobody.find("does not answer"), std::string::npos) << nobody;
  }

 private:
  // What `tacit status` prints of the server at this address.
  std::string Status(const std::string& at, const std::vector<std::string>& more = {}) const {
    const std::filesystem::path out = home_ / "status";
    std::filesystem::remove(out);
    std::vector<std::string> words = {Program(), "status", "--server", at};
    words.insert(words.end(), more.begin(), more.end());
    Ends(Spawn(words, out));
    return ReadWhole(out).operator*();
  }
  // Whether /health comes to this code and a body that begins so.
  static bool Becomes(int port, const std::string& code, const std::string& body) {
    for (int i = 0; i < 3000; ++i) {
      const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_port = htons(static_cast<std::uint16_t>(port));
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      std::string text;
      const std::string ask = "GET /health HTTP/1.0\r\n\r\n";
      if (one >= 0 && ::connect(one, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 &&
          ::write(one, ask.data(), ask.size()) == static_cast<ssize_t>(ask.size()))
        for (char c = 0; ::read(one, &c, 1) == 1;) text += c;
      ::close(one);
      const std::size_t head = text.find("\r\n\r\n");
      if (head != text.npos && text.substr(0, 12).ends_with(" " + code) &&
          std::string_view(text).substr(head + 4).starts_with(body))
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  // Names of the events in a file of them, each of which is as the list says.
  std::set<std::string> EventsIn(const std::string& name) const {
    std::set<std::string> seen;
    std::istringstream lines(ReadWhole(home_ / (name + ".err")).operator*());
    for (std::string text; std::getline(lines, text);) {
      const auto line = nlohmann::json::parse(text, nullptr, false);
      if (!line.is_object() || !line.contains("event")) {
        ADD_FAILURE() << name << ": no event: " << text;
        continue;
      }
      const std::string event = line["event"].get<std::string>();
      seen.insert(event);
      const auto kind = std::find_if(EventKinds().begin(), EventKinds().end(),
                                     [&](const EventKind& k) { return k.name == event; });
      if (kind == EventKinds().end()) {
        ADD_FAILURE() << name << ": not in the list: " << text;
        continue;
      }
      EXPECT_EQ(line["level"], Name(kind->level)) << text;
      EXPECT_EQ(line["time"].get<std::string>().size(), 20u) << text;
      EXPECT_FALSE(line["message"].get<std::string>().empty()) << text;
      for (const auto& [key, value] : line.items())
        EXPECT_TRUE(key == "time" || key == "level" || key == "event" || key == "message" ||
                    std::find(kind->fields.begin(), kind->fields.end(), key) != kind->fields.end())
            << text;
    }
    return seen;
  }
  std::string Address() const {
    for (int i = 0; i < 3000; ++i) {
      if (const auto text = ReadWhole(StateOf(home_, kServer) / "address"); text.ok()) return *text;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return "";
  }
  std::string Said(std::size_t who) const {
    const auto log = ReadWhole(home_ / (NameOf(who) + ".log"));
    return log.ok() ? *log : "";
  }
  // The exit code of a process that ends within a minute; -1: it does not.
  static int Ends(pid_t pid) {
    int state = 0;
    for (int i = 0; i < 6000; ++i) {
      if (::waitpid(pid, &state, WNOHANG) == pid) return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    return -1;
  }
  std::vector<pid_t> running_;
};

TEST(FederationCommands, ASecondServerOfAFolderLeavesTheAddressOfTheFirst) {
  Commands().TwoServersOfAFolder();
}
TEST(FederationCommands, OfTwoServersThatBeginARunOneDoes) { Commands().TwoServersAtOnce(); }
TEST(FederationCommands, AServerMayOpenAsManyFilesAsTheSystemAllows) { Commands().FilesAreAsManyAsAllowed(); }
TEST(FederationCommands, ConnectionsWithoutACertificateEndNobody) { Commands().FilesRunOut(); }
TEST(FederationCommands, AReviewWithoutAServerSaysSoSoon) { Commands().AReviewOfNobody(); }
TEST(FederationCommands, NorDoesOneOfSomebodyWhoIsSilentTakeLong) { Commands().AReviewOfTheSilent(); }
TEST(FederationCommands, AListThatCannotBeReadIsSaidAtOnce) { Commands().AListThatIsNone(); }
TEST(FederationCommands, AServiceThatIsTerminatedGivesTheRoundItsTime) { Commands().Terminated(); }
TEST(FederationCommands, AStoppedRunIsNotAFinishedOne) { Commands().StoppedIsNotFinished(); }
TEST(FederationCommands, TimesAreNumbers) { Commands().TimesAreNumbers(); }
TEST(FederationCommands, AReviewNamesEverybody) { Commands().AReviewNamesEverybody(); }
TEST(FederationCommands, AServerSaysHowItIs) { Commands("deadline = 0.1").Health(); }
TEST(FederationCommands, ALogThatCannotBeWrittenEndsNobody) { Commands().NobodyKeepsTheLogs(); }
TEST(FederationCommands, EveryLineOfAStructuredLogIsAnEventOfTheList) { Commands().LogsAreEvents(); }

}  // namespace
}  // namespace tacit
