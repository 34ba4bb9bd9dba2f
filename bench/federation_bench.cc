// Many clients at once over mutual TLS on this machine: time and memory per round, and how much of what gRPC
// carries by itself is left.
//
//   federation_bench [CLIENTS [PARAMETERS [ROUNDS [FOLDER]]]]      1000, 100000, 10, /dev/shm
//
// Three runs with the same certificates, bytes and number of calls, each with a server that is a process of
// its own, and clients that are threads of this one:
//   echo    a service that sends and takes the same bytes and does nothing with them
//   server  the server of `tacit serve` (checks, sums, checkpoints); clients send an answer made before
//   join    the same with the code of `tacit join`: gradients, noise, ledgers and checkpoints of all clients,
//   on
//           the same processors
// A line of JSON each. Throughput is bytes of frames both ways by seconds of all rounds.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <federation.grpc.pb.h>
#include <barrier>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <thread>

#include "clock.h"
#include "core/rng.h"
#include "experiment/files.h"
#include "net/join.h"
#include "net/server.h"
#include "wire/frame.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPart = 256 << 10, kRecords = 4, kNonZeros = 20;

struct Shape {
  std::size_t clients = 1000, dim = 100000, rounds = 10;
  fs::path home;
};
std::string NameOf(std::size_t c) { return fmt::format("c{}", c); }

struct Update {  // as dp-fedavg's
  Public<Vec> x;
  auto Fields() { return std::tie(x); }
};

void Prepare(const Shape& s) {
  fs::create_directories(s.home);
  TACIT_CHECK(MakeAuthority({.folder = s.home / "ca"}).ok());
  TACIT_CHECK(Issue({.authority = s.home / "ca",
                     .folder = s.home / "keys",
                     .name = "server",
                     .party = Party::kServer,
                     .hosts = {"127.0.0.1"}})
                  .ok());
  std::string names;
  for (std::size_t c = 0; c < s.clients; ++c) {
    TACIT_CHECK(
        Issue({.authority = s.home / "ca", .folder = s.home / "keys", .name = NameOf(c), .hosts = {}}).ok());
    names += fmt::format("{}\"{}\"", c == 0 ? "" : ", ", NameOf(c));
    Stream coins({1, Purpose::kData, static_cast<std::uint32_t>(c), 0});
    std::ofstream rows(s.home / (NameOf(c) + ".svm"));
    for (std::size_t i = 0; i < kRecords; ++i) {
      rows << (coins() % 2 == 0 ? "+1" : "-1");
      for (std::size_t k = 0; k < kNonZeros; ++k)
        rows << fmt::format(" {}:0.2", 1 + k * (s.dim / kNonZeros) + coins.Below(s.dim / kNonZeros));
      rows << "\n";
    }
  }
  std::ofstream(s.home / "job.toml") << fmt::format(
      "data = {{ source = \"rows.svm\", format = \"libsvm\", rows = {}, features = {}, clients = {}, "
      "row_norm = "
      "\"clip\" }}\n"
      "privacy = {{ epsilon = 2.0, unit = \"client\", noise = \"replayable\" }}\n"
      "algorithm = {{ name = \"dp-fedavg\", rounds = {} }}\n"
      "serve = {{ clients = [{}], deadline = 3600, noise_seed = 1 }}\n",
      kRecords * s.clients, s.dim, s.clients, s.rounds, names);
}
Identity Who(const Shape& s, const std::string& name) {
  auto id = ReadIdentity(s.home / "ca/ca.pem", s.home / "keys" / (name + ".pem"),
                         s.home / "keys" / (name + ".key"));
  TACIT_CHECK(id.ok());
  return *id;
}

// Takes and gives the bytes of a run, and nothing else.
class Echo final : public v1::Federation::Service {
 public:
  explicit Echo(std::size_t bytes) : part_(std::min(kPart, bytes), 'x'), bytes_(bytes) {}

 private:
  grpc::Status Next(grpc::ServerContext*, const v1::NextRequest*,
                    grpc::ServerWriter<v1::WorkPart>* out) override {
    v1::WorkPart part;
    for (std::size_t at = 0; at < bytes_; at += kPart) {
      part.set_data(part_.substr(0, std::min(kPart, bytes_ - at)));
      if (!out->Write(part)) break;
    }
    return grpc::Status::OK;
  }
  grpc::Status Answer(grpc::ServerContext*, grpc::ServerReader<v1::AnswerPart>* in,
                      v1::AnswerReply*) override {
    v1::AnswerPart part;
    while (in->Read(&part)) {
    }
    return grpc::Status::OK;
  }
  std::string part_;
  std::size_t bytes_;
};

// A server that is a process of its own: says its port, ends when `over` says so, and leaves what it used.
struct Served {
  double seconds = 0;  // of all rounds, from the first question to the end of the last
  double megabytes = 0;  // at most, resident
};
struct Told {
  int port;
  double seconds;
};
void Say(int fd, const Told& t) { TACIT_CHECK(::write(fd, &t, sizeof t) == sizeof t); }
Told Hear(int fd) {
  Told t{};
  TACIT_CHECK(::read(fd, &t, sizeof t) == sizeof t);
  return t;
}

int ServeEcho(const Shape& s, std::size_t bytes, int out, int in) {
  const Identity id = Who(s, "server");
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = id.authority;
  tls.pem_key_cert_pairs.push_back({id.key, id.certificate});
  Echo echo(bytes);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
  builder.RegisterService(&echo);
  const auto server = builder.BuildAndStart();
  Say(out, {port, 0});
  char byte = 0;
  while (::read(in, &byte, 1) > 0) {
  }
  server->Shutdown();
  return 0;
}
int ServeTacit(const Shape& s, const std::string& name, int out) {
  auto job = LoadJob(s.home / "job.toml", {});
  TACIT_CHECK(job.ok());
  auto server = FederationServer::Start(*job, std::string(32, 'a'),
                                        {.address = "127.0.0.1:0",
                                         .identity = Who(s, "server"),
                                         .revocations = s.home / "ca" / "crl.pem",
                                         .answered = s.home / (name + ".answered"),
                                         .log = {}});
  TACIT_CHECK(server.ok());
  Say(out, {(*server)->port(), 0});
  TrainHooks hooks;
  double first = 0, last = 0;
  hooks.progress = [&](const Progress&) {  // of the rounds after the first, in which clients come
    (first == 0 ? first : last) = Now(false);
  };
  const auto run = Coordinate(*job, **server, s.home / name, hooks);
  if (!run.ok()) fmt::print(stderr, "{}\n", run.error().message);
  (*server)->Over(60, true);
  Say(out, {0, last - first});
  return run.ok() ? 0 : 1;
}

template <class Serve, class Clients>
Served Run(Serve serve, Clients clients) {
  int out[2], in[2];
  TACIT_CHECK(::pipe(out) == 0 && ::pipe(in) == 0);
  const pid_t server = ::fork();
  if (server == 0) {
    ::close(in[1]);
    ::_exit(serve(out[1], in[0]));
  }
  ::close(in[0]);
  const Told at = Hear(out[0]);
  // So are the clients, for gRPC does not survive a fork of a process that has used it.
  const pid_t caller = ::fork();
  if (caller == 0) {
    ::close(in[1]);
    clients(at.port, out[1]);
    ::_exit(0);
  }
  const Told told = Hear(out[0]);
  int state = 0;
  ::waitpid(caller, &state, 0);
  TACIT_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  ::close(in[1]);
  rusage used{};
  ::wait4(server, &state, 0, &used);
  for (const int fd : {out[0], out[1]}) ::close(fd);
  return {told.seconds, static_cast<double>(used.ru_maxrss) / 1024};
}

std::unique_ptr<v1::Federation::Stub> Call(const Shape& s, std::size_t c, int port) {
  const Identity id = Who(s, NameOf(c));
  grpc::ChannelArguments apart;
  apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::Federation::NewStub(
      grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port),
                                grpc::SslCredentials({id.authority, id.key, id.certificate}), apart));
}
// A client without a computation: takes what there is and sends an answer that it has. ROUND and WAIT are
// what the server says; an echo says neither, and is asked so often.
void Light(const Shape& s, std::size_t c, int port, const std::string& frame, std::barrier<>* start,
           std::size_t times) {
  const auto stub = Call(s, c, port);
  for (std::size_t k = 0, gates = 0;;) {
    if (start != nullptr && k == gates && gates < 2)  // the first round is for connections
      ++gates, start->arrive_and_wait();
    grpc::ClientContext next;
    v1::NextRequest request;
    request.set_job(std::string(32, 'a'));
    next.AddMetadata(kSessionKey, fmt::format("{:064x}", c));
    const auto stream = stub->Next(&next, request);
    v1::WorkPart work, part;
    for (bool first = true; stream->Read(&part); first = false)
      if (first) work = part;
    if (const grpc::Status done = stream->Finish(); !done.ok()) {
      fmt::print(stderr, "{}: {}\n", NameOf(c), done.error_message());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (start == nullptr && work.kind() == v1::WorkPart::OVER) return;
    if (start == nullptr && work.kind() == v1::WorkPart::WAIT) continue;
    static const std::string kEmpty = [] {
      struct Nothing {
        auto Fields() { return std::tie(); }
      } nothing;
      const auto bytes = Codec::Encode(nothing);
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }();
    const std::string& bytes = work.kind() == v1::WorkPart::LAST ? kEmpty : frame;
    grpc::ClientContext call;
    v1::AnswerReply reply;
    call.AddMetadata(kSessionKey, fmt::format("{:064x}", c));
    const auto up = stub->Answer(&call, &reply);
    if (start == nullptr) up->WaitForInitialMetadata();  // as clients do, who send nothing before
    v1::AnswerPart answer;
    answer.set_job(std::string(32, 'a'));
    answer.set_round(work.round());
    answer.set_last(work.kind() == v1::WorkPart::LAST);
    answer.set_question(work.question());
    answer.set_size(bytes.size());
    for (std::size_t at = 0; at == 0 || at < bytes.size(); at += kPart) {
      answer.set_data(bytes.substr(at, kPart));
      if (!up->Write(answer)) break;
      answer.Clear();
    }
    up->WritesDone();
    (void)up->Finish();
    if (++k == times) return;
  }
}

int Main(const Shape& s) {
  Prepare(s);
  Update zero;
  zero.x.Mutable().assign(s.dim, 0.0);
  const auto encoded = Codec::Encode(zero);
  const std::string frame(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  const std::size_t timed = s.rounds - 1;
  const auto tell = [&](const char* name, const Served& r, double echo) {
    const double bytes = 2.0 * static_cast<double>(frame.size() * s.clients * timed);
    fmt::print(
        "{{\"run\": \"{}\", \"clients\": {}, \"parameters\": {}, \"rounds\": {}, \"seconds_per_round\": "
        "{:.3f}, "
        "\"megabytes_per_second\": {:.1f}, \"ratio_to_echo\": {:.3f}, \"server_megabytes\": {:.0f}}}\n",
        name, s.clients, s.dim, s.rounds, r.seconds / static_cast<double>(timed), bytes / r.seconds / 1e6,
        echo / r.seconds, r.megabytes);
    std::fflush(stdout);
  };
  const Served echo = Run([&](int out, int in) { return ServeEcho(s, frame.size(), out, in); },
                          [&](int port, int out) {
                            std::barrier all(static_cast<std::ptrdiff_t>(s.clients + 1));
                            std::vector<std::jthread> threads;
                            for (std::size_t c = 0; c < s.clients; ++c)
                              threads.emplace_back([&, c] { Light(s, c, port, frame, &all, s.rounds); });
                            all.arrive_and_wait(), all.arrive_and_wait();
                            const double begin = Now(false);
                            threads.clear();
                            Say(out, {0, Now(false) - begin});
                          });
  tell("echo", echo, echo.seconds);
  const Served server =
      Run([&](int out, int) { return ServeTacit(s, "server", out); },
          [&](int port, int) {
            std::vector<std::jthread> threads;
            for (std::size_t c = 0; c < s.clients; ++c)
              threads.emplace_back([&, c] { Light(s, c, port, frame, nullptr, ~std::size_t{0}); });
          });
  tell("server", server, echo.seconds);
  const Served join = Run([&](int out, int) { return ServeTacit(s, "join", out); },
                          [&](int port, int) {
                            std::vector<std::jthread> threads;
                            for (std::size_t c = 0; c < s.clients; ++c)
                              threads.emplace_back([&, c] {
                                JoinOptions o;
                                o.server = fmt::format("127.0.0.1:{}", port);
                                o.identity = Who(s, NameOf(c));
                                o.data = (s.home / (NameOf(c) + ".svm")).string();
                                o.state = s.home / ("state-" + NameOf(c));
                                o.policy = {.max_epsilon = 10, .replayable = true};
                                const auto joined = Join(o);
                                if (!joined.ok()) fmt::print(stderr, "{}\n", joined.error().message);
                              });
                          });
  tell("join", join, echo.seconds);
  return 0;
}

}  // namespace
}  // namespace tacit

int main(int argc, char** argv) {
  tacit::Shape s;
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? static_cast<std::size_t>(std::strtoull(argv[i], nullptr, 10)) : otherwise;
  };
  s.clients = number(1, s.clients), s.dim = number(2, s.dim), s.rounds = number(3, s.rounds);
  s.home = std::filesystem::path(argc > 4 ? argv[4] : "/dev/shm") /
           fmt::format("tacit_federation_bench_{}", ::getpid());
  const int code = tacit::Main(s);
  std::filesystem::remove_all(s.home);
  return code;
}
