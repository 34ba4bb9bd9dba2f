// What others see of a run on the wire, and callers who offer less than they should or claim to be somebody
// else.
#include <grpcpp/grpcpp.h>

#include <federation.grpc.pb.h>
#include <cmath>

#include "net/deadline.h"
#include "net/test_faults.h"
#include "net/test_search.h"
#include "net/test_tls.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

class Traffic : public NetworkFaults {
 protected:
  static constexpr std::size_t kDim = 5, kRecords = 12, kRounds = 4;
  static constexpr double kClip = 0.25, kRate = 0.7, kL2 = 0.1;

  // A run as the wire shows it: one client behind glass, another behind a proxy that keeps the ciphertext.
  struct Watched {
    RunResult alone;  // the same in one process
    std::vector<Vec> models;  // as they were broadcast
    std::vector<Bytes> answers;  // of the client behind glass: those that carry its update
    std::string up, down, cipher;
  };
  void Watch(const std::vector<std::string>& clients, const std::string& privacy,
             const std::vector<std::string>& files, Watched& out, TrainHooks hooks = {}) {
    std::string names;
    for (const std::string& c : clients) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", c);
    const Job job =
        MakeJob(fmt::format("data = {{ rows = {}, features = {}, row_norm = \"clip\" }}\n"
                            "model = {{ l2 = {} }}\n"
                            "privacy = {{ epsilon = 2.0, unit = \"client\", clip = {}{} }}\n"
                            "algorithm = {{ name = \"dp-fedavg\", rounds = {}, allocation = \"static\", "
                            "local_steps = 1, local_rate = {} }}\n"
                            "serve = {{ clients = [{}], deadline = 600 }}\n",
                            kRecords * clients.size(), kDim, kL2, kClip, privacy, kRounds, kRate, names));
    hooks.noise_seed = kNoiseSeed;
    hooks.write_folder = false;
    hooks.threads = 1;
    auto alone = tacit::Train(job.config, hooks);
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    out.alone = *std::move(alone);

    auto server = Start(job);
    ASSERT_TRUE(server.ok()) << server.error().message;
    WatchedLink link(**server);
    const auto carries = [](const Question& q) { return q.step == 0 || q.step == 3; };
    link.before = [&](const Question& q) {
      struct Broadcast {
        Public<std::uint32_t> t;
        Public<Vec> w;
        auto Fields() { return std::tie(t, w); }
      };
      if (!carries(q)) return;
      auto down = Codec::Decode<Broadcast>(q.frame);
      ASSERT_TRUE(down.ok()) << down.error().message;
      out.models.push_back(down->w->empty() ? Vec(kDim) : *down->w);
    };
    link.after = [&](const Question& q, std::vector<Bytes>& answers) {
      if (carries(q) && !q.last) out.answers.push_back(answers[0]);
    };
    Glass glass((*server)->port(), Who("server"), Who(clients[0]));
    FaultProxy wire({.port = (*server)->port(), .capture = true});
    std::vector<std::optional<Result<Joined>>> joined(clients.size());
    std::vector<std::jthread> sites;
    for (std::size_t c = 0; c < clients.size(); ++c)
      sites.emplace_back([&, c] {
        const int port = c == 0 ? glass.port() : c == 1 ? wire.port() : (*server)->port();
        JoinOptions o = Joining(clients[c], port, files[c]);
        o.stop = &failed_;
        joined[c] = Join(o);
        if (!joined[c]->ok()) failed_ = true;
      });
    const auto run = Coordinate(job, link, here_ / "server");
    (*server)->Over(0);
    sites.clear();
    for (const auto& one : joined) ASSERT_TRUE(one->ok()) << one->error().message;
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(run->model_sha256, out.alone.model_sha256);
    ASSERT_EQ(out.models.size(), kRounds + 1);
    ASSERT_EQ(out.answers.size(), kRounds);
    out.up = glass.up(), out.down = glass.down();
    for (const std::string& one : wire.Captured()) out.cipher += one;
    EXPECT_NE(out.up.find("/tacit.v1.Federation/Answer"), std::string::npos) << "the glass is not clear";
    EXPECT_EQ(out.cipher.find("tacit.v1"), std::string::npos);
  }

  // What a client knows and nobody else may: rows, gradients of rows and of clients, and updates before they
  // are clipped. Gives the clipped updates, by client and round.
  static std::vector<std::vector<Vec>> Secrets(const std::vector<std::string>& files,
                                               const std::vector<Vec>& models, Search& secret) {
    std::vector<std::vector<Vec>> clipped;
    for (const std::string& file : files) {
      const auto [rows, labels] = RowsOf(file, secret);
      EXPECT_EQ(rows.size(), kRecords);
      clipped.emplace_back();
      for (std::size_t t = 0; t < kRounds; ++t) {
        const Vec& w = models[t];
        Vec mean(kDim);
        for (std::size_t l = 0; l < rows.size(); ++l) {
          const double margin = labels[l] * Dot(rows[l], w);
          secret.Add(margin);
          for (std::size_t j = 0; j < kDim; ++j) {
            const double g = -labels[l] * rows[l][j] / (1 + std::exp(margin));
            secret.Add(g);
            mean[j] += g / static_cast<double>(rows.size());
          }
        }
        Vec update(kDim);
        for (std::size_t j = 0; j < kDim; ++j) update[j] = -kRate * (mean[j] + kL2 * w[j]);
        const double length = Norm(update);
        for (std::size_t j = 0; j < kDim; ++j)
          for (const double v : {mean[j], mean[j] * static_cast<double>(rows.size())})
            secret.Add(v), secret.Add(-v);
        for (std::size_t j = 0; t > 0 && j < kDim; ++j) secret.Add(w[j] + update[j]);
        if (length > kClip)
          for (const double v : update) secret.Add(v), secret.Add(-v);
        Scale(std::min(1.0, kClip / length), update);
        clipped.back().push_back(std::move(update));
      }
    }
    return clipped;
  }
  static void AddAll(const std::vector<std::vector<Vec>>& updates, Search& to) {
    for (const auto& client : updates)
      for (const Vec& update : client)
        for (const double v : update) to.Add(v), to.Add(-v);
  }
};

// Rows, gradients of rows and of clients, and updates before noise, clipped or not: none of it is in what a
// client sends, ciphertext or plain text. The noised update is in the plain text, as it should be.
TEST_F(Traffic, HoldsNothingThatIsNotNoised) {
  const auto files = WriteRows(2 * kRecords, kDim, 2);
  Search secret, released;
  TrainHooks hooks;
  hooks.saw = [&](std::uint32_t, View values) {
    for (const double v : values) released.Add(v);
  };
  Watched run;
  ASSERT_NO_FATAL_FAILURE(Watch({"c0", "c1"}, "", files, run, hooks));
  AddAll(Secrets(files, run.models, secret), secret);

  EXPECT_GE(released.Hits(run.up), released.size() / 2)
      << "what is released must be seen, for the search to count";
  EXPECT_EQ(secret.Hits(run.up), 0u);
  EXPECT_EQ(secret.Hits(run.down), 0u);
  EXPECT_EQ(secret.Hits(run.cipher), 0u);
  EXPECT_EQ(released.Hits(run.cipher), 0u);
  // And what is searched for would be found: the clipped update of a client, at an odd place.
  const double planted = 0.4375 + 1e-3 / 3;
  std::string spoiled = run.up;
  spoiled.insert(run.up.size() / 2 | 1, reinterpret_cast<const char*>(&planted), 8);
  Search with = secret;
  with.Add(planted * (1 + 1e-10));
  EXPECT_EQ(with.Hits(run.up), 0u);
  EXPECT_EQ(with.Hits(spoiled), 1u);
  std::cout << fmt::format("{} values searched in {} bytes of plain text and {} of ciphertext\n",
                           secret.size(), run.up.size() + run.down.size(), run.cipher.size());
}

// Under masks a client has a share of the noise only, so that not even its noised integers may be seen: nor
// these, nor the update on its grid, nor the noise alone, are in what it sends, with TLS taken off.
TEST_F(Traffic, UnderMasksHoldsNoIntegersOfOneClient) {
  const std::vector<std::string> names = {"m0", "m1", "m2", "m3", "m4", "m5"};
  const auto files = WriteRows(names.size() * kRecords, kDim, names.size());
  Watched run;
  ASSERT_NO_FATAL_FAILURE(
      Watch(names, ", trust = \"masked\", mechanism = \"discrete_gaussian\"", files, run));
  Search secret;
  const auto updates = Secrets(files, run.models, secret);
  AddAll(updates, secret);

  const SecureSum& sum = *run.alone.plan.secure;
  ASSERT_EQ(sum.bits(), 32u);
  const DiscreteGaussian law(std::ldexp(sum.share().value(), -sum.grid_exponent()));
  using Integers = std::vector<std::uint32_t>;
  const auto of = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };  // modulo 2^b
  std::vector<Integers> hidden;
  for (std::size_t t = 0; t < kRounds; ++t) {
    Vec moved(kDim);
    for (std::uint32_t c = 0; c < names.size(); ++c) {
      std::vector<std::int64_t> noise(kDim);
      auto rng = NoiseRng::Replayable({kNoiseSeed, Purpose::kNoise, c, static_cast<std::uint32_t>(t + 1)});
      law.Fill(rng, noise);
      Integers term, share, alone;
      for (std::size_t j = 0; j < kDim; ++j) {
        const auto v = static_cast<std::int64_t>(std::ldexp(updates[c][t][j], -sum.grid_exponent()));
        term.push_back(of(v)), alone.push_back(of(noise[j])), share.push_back(of(v + noise[j]));
        moved[j] += sum.grid() * static_cast<double>(v + noise[j]) / static_cast<double>(names.size());
      }
      for (auto& one : {term, share, alone}) hidden.push_back(one);
    }
    // These are what the server opened the sum of, up to a step of the grid a client.
    for (std::size_t j = 0; j < kDim; ++j)
      EXPECT_NEAR(run.models[t + 1][j] - run.models[t][j], moved[j], 2 * sum.grid());
  }
  // Two neighbours of the same vector, each up to two steps: 2⁻⁵⁹ at a place by chance.
  const auto seen = [&](std::string_view bytes) {
    std::size_t hits = 0;
    for (std::size_t at = 0; at + 8 <= bytes.size(); ++at) {
      std::uint32_t pair[2];
      std::memcpy(pair, bytes.data() + at, 8);
      for (const Integers& one : hidden)
        for (std::size_t j = 0; j + 1 < kDim; ++j)
          hits += pair[0] - one[j] + 2 <= 4 && pair[1] - one[j + 1] + 2 <= 4 ? 1 : 0;
    }
    return hits;
  };
  for (const Bytes& sent : run.answers)
    EXPECT_NE(run.up.find({reinterpret_cast<const char*>(sent.data()), sent.size()}), std::string::npos)
        << "what is sent must be seen, for the search to count";
  for (const std::string* text : {&run.up, &run.down, &run.cipher}) {
    EXPECT_EQ(seen(*text), 0u);
    EXPECT_EQ(secret.Hits(*text), 0u);
  }
  std::string spoiled = run.up;
  spoiled.insert(run.up.size() / 2 | 1, reinterpret_cast<const char*>(hidden[1].data()), 4 * kDim);
  EXPECT_EQ(seen(spoiled), kDim - 1);
  std::cout << fmt::format(
      "{} vectors and {} values searched in {} bytes of plain text and {} of ciphertext\n", hidden.size(),
      secret.size(), run.up.size() + run.down.size(), run.cipher.size());
}

// A server that is trusted sees clipped updates, once TLS is taken off, and nothing else that is private; the
// wire sees nothing.
TEST_F(Traffic, ToATrustedServerHoldsClippedUpdatesWithinTlsAlone) {
  const auto files = WriteRows(2 * kRecords, kDim, 2);
  Watched run;
  ASSERT_NO_FATAL_FAILURE(Watch({"c0", "c1"}, ", trust = \"central\"", files, run));
  Search secret, entrusted;
  AddAll(Secrets(files, run.models, secret), entrusted);
  EXPECT_GE(entrusted.Hits(run.up), kRounds * kDim);
  EXPECT_EQ(secret.Hits(run.up), 0u);
  for (Search* one : {&secret, &entrusted}) {
    EXPECT_EQ(one->Hits(run.down), 0u);
    EXPECT_EQ(one->Hits(run.cipher), 0u);
  }
}

class Callers : public NetworkFaults {
 protected:
  void SetUp() override {
    Federation::SetUp();
    job_ = MakeJob(
        "data = { rows = 12, features = 3, row_norm = \"clip\" }\nmodel = { l2 = 0.1 }\n"
        "privacy = { epsilon = 2.0 }\nalgorithm = { name = \"primal-dual\", rounds = 6 }\n"
        "serve = { clients = [\"c0\", \"c1\"], deadline = 60 }\n");
    auto started = FederationServer::Start(job_, kId,
                                           {.address = "127.0.0.1:0",
                                            .identity = Who("server"),
                                            .revocations = home() / "ca" / "crl.pem",
                                            .upload = 0.3,
                                            .log = {}});
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = *std::move(started);
  }
  std::unique_ptr<v1::Federation::Stub> Stub(const Identity& id) const {
    grpc::ChannelArguments apart;
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::Federation::NewStub(
        grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", server_->port()),
                                  grpc::SslCredentials({id.authority, id.key, id.certificate}), apart));
  }
  grpc::StatusCode Enrol(const Identity& id) const {
    grpc::ClientContext call;
    call.set_deadline(In(std::chrono::seconds(20)));
    v1::EnrolRequest request;
    request.set_protocol(kProtocol);
    v1::EnrolReply reply;
    return Stub(id)->Enrol(&call, request, &reply).error_code();
  }
  // A certificate with these common names for the key of `like`, signed by this key in the name of `issuer`.
  static std::string Forge(const std::vector<std::string>& names, const Identity& like,
                           const std::string& issuer, const std::string& key) {
    const auto own = pem::ParseKey(like.key), signer = pem::ParseKey(key);
    const auto above = pem::ParseCertificate(issuer);
    const pem::Certificate509 x(X509_new());
    X509_set_version(x.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x.get()), 4711);
    X509_gmtime_adj(X509_getm_notBefore(x.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(x.get()), 86400);
    X509_set_pubkey(x.get(), own.get());
    for (const std::string& n : names)
      X509_NAME_add_entry_by_NID(X509_get_subject_name(x.get()), NID_commonName, MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(n.data()), static_cast<int>(n.size()),
                                 -1, 0);
    X509_set_issuer_name(x.get(), X509_get_subject_name(above.get()));
    EXPECT_GT(X509_sign(x.get(), signer.get(), EVP_sha256()), 0);
    const pem::Memory out(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(out.get(), x.get());
    char* data = nullptr;
    const long size = BIO_get_mem_data(out.get(), &data);
    return {data, static_cast<std::size_t>(size)};
  }
  Job job_;
  std::unique_ptr<FederationServer> server_;
};

// The control is a server that takes anything: what is refused is refused by the server, not unsaid by the
// caller.
TEST_F(Callers, CannotTalkTheServerDown) {
  const Identity c0 = Who("c0"), other = Who("server");
  int anything = 0;
  const int listener = ListenAnywhere(anything);
  std::jthread easy([&] {
    TlsContext c = ServerContextOf(other, TLS1_VERSION);
    SSL_CTX_set_cipher_list(c.get(), "ALL:eNULL:aNULL@SECLEVEL=0");
    for (int fd; (fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      const Tls tls(SSL_new(c.get()));
      SSL_set_fd(tls.get(), fd);
      if (SSL_accept(tls.get()) == 1) SSL_write(tls.get(), "hello", 5);
      ::close(fd);
      ERR_clear_error();
    }
  });
  struct Case {
    const char* why;
    Offered offered;
    bool allowed, control;  // by the server; by one that takes anything
  };
  for (const Case& c :
       {Case{"TLS 1.3", {.identity = &c0, .lowest = TLS1_3_VERSION}, true, true},
        Case{"TLS 1.2", {.identity = &c0, .highest = TLS1_2_VERSION}, true, true},
        Case{"TLS 1.1", {.identity = &c0, .lowest = TLS1_1_VERSION, .highest = TLS1_1_VERSION}, false, true},
        Case{"TLS 1.0", {.identity = &c0, .lowest = TLS1_VERSION, .highest = TLS1_VERSION}, false, true},
        Case{"no encryption",
             {.identity = &c0, .highest = TLS1_2_VERSION, .ciphers = "eNULL:@SECLEVEL=0"},
             false,
             true},
        Case{"no authentication", {.highest = TLS1_2_VERSION, .ciphers = "aNULL:@SECLEVEL=0"}, false, true},
        Case{"no certificate", {}, false, true},
        Case{"no certificate, TLS 1.2", {.highest = TLS1_2_VERSION}, false, true},
        Case{"another protocol inside", {.identity = &c0, .http2 = false}, false, true}}) {
    EXPECT_EQ(Shake(server_->port(), c.offered) != 0, c.allowed) << c.why;
    EXPECT_EQ(Shake(anything, c.offered) != 0, c.control) << c.why << ", control";
  }
  ::shutdown(listener, SHUT_RDWR);
  easy.join();
  ::close(listener);
}

TEST_F(Callers, InPlainTextAreNotAnswered) {
  for (const std::string& hello :
       {std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(9, '\0'),
        std::string("GET /tacit.v1.Federation/Enrol HTTP/1.1\r\nHost: x\r\n\r\n")}) {
    const int fd = Dial(server_->port());
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
    ::shutdown(fd, SHUT_WR);
    std::string said;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
      said.append(buffer, static_cast<std::size_t>(n));
    ::close(fd);
    // Nothing, or an alert: a record of type 21.
    EXPECT_TRUE(said.empty() || said[0] == 21) << said;
  }
}

TEST_F(Callers, AreWhomTheAuthoritySaysAndNobodyElse) {
  const Identity c1 = Who("c1");
  const auto key = ReadWhole(home() / "ca/ca.key");
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(Enrol(c1), grpc::StatusCode::OK);
  Identity forged = c1;
  // A client is no authority, whatever it signs.
  forged.certificate = Forge({"c0"}, c1, c1.certificate, c1.key) + c1.certificate;
  EXPECT_EQ(Enrol(forged), grpc::StatusCode::UNAVAILABLE);
  // Names that are nearly a client's, vouched for by the authority: nobody's.
  for (const std::string& name : {std::string("c0\0", 3), std::string("c0\0c1", 5), std::string("C0"),
                                  std::string("c0 "), std::string("c0.peer.tacit.invalid")}) {
    forged.certificate = Forge({name}, c1, c1.authority, *key);
    const auto code = Enrol(forged);
    EXPECT_TRUE(code == grpc::StatusCode::PERMISSION_DENIED || code == grpc::StatusCode::UNAVAILABLE ||
                code == grpc::StatusCode::UNAUTHENTICATED)
        << name << ": " << code;
  }
  forged.certificate = Forge({"c0", "c1"}, c1, c1.authority, *key);  // two names are none
  EXPECT_EQ(Enrol(forged), grpc::StatusCode::UNAUTHENTICATED);
  forged.certificate = Forge({}, c1, c1.authority, *key);
  EXPECT_EQ(Enrol(forged), grpc::StatusCode::UNAUTHENTICATED);
}

// Uploads of a client that begin and do not end are few, and end.
TEST_F(Callers, CannotHoldUploadsOpen) {
  const std::vector<std::uint32_t> who = {0, 1};
  std::atomic<bool> asked = false;
  std::vector<Bytes> answers;
  std::jthread asking([&] {
    EXPECT_TRUE(server_
                    ->Ask({.round = 1,
                           .who = who,
                           .frame = {},
                           .most_bytes = 4096,
                           .check = [](auto) -> Status { return Ok{}; }},
                          answers)
                    .ok());
    asked = true;
  });
  const auto stub = Stub(Who("c0"));
  grpc::ClientContext looking;
  v1::NextRequest next;
  next.set_job(kId);
  looking.AddMetadata(kSessionKey, SessionFrom(kHome));
  v1::WorkPart seen;
  const auto work = stub->Next(&looking, next);
  ASSERT_TRUE(work->Read(&seen));
  v1::AnswerPart part;
  part.set_job(kId);
  part.set_round(1);
  part.set_question(seen.question());
  part.set_size(4);
  part.set_data("ab");
  constexpr std::size_t kCalls = 8;
  const auto stubs = [&] {
    std::vector<std::unique_ptr<v1::Federation::Stub>> out;
    for (std::size_t k = 0; k < kCalls; ++k) out.push_back(Stub(Who("c0")));
    return out;
  }();
  std::vector<grpc::ClientContext> calls(kCalls);
  std::vector<v1::AnswerReply> replies(kCalls);
  std::vector<std::unique_ptr<grpc::ClientWriter<v1::AnswerPart>>> open;
  for (std::size_t k = 0; k < kCalls; ++k) {
    calls[k].AddMetadata(kSessionKey, SessionFrom(kHome));
    open.push_back(stubs[k]->Answer(&calls[k], &replies[k]));
    open.back()->Write(part);
  }
  std::map<grpc::StatusCode, std::size_t> ends;
  for (auto& one : open) ++ends[one->Finish().error_code()];  // ends, though nothing more is written
  EXPECT_EQ(ends[grpc::StatusCode::CANCELLED], 2u);
  EXPECT_EQ(ends[grpc::StatusCode::UNAVAILABLE], kCalls - 2);
  EXPECT_FALSE(asked);
  for (const char* name : {"c0", "c1"}) {  // and the round is as it was
    grpc::ClientContext call;
    v1::AnswerReply reply;
    const auto own = Stub(Who(name));
    call.AddMetadata(kSessionKey, SessionFrom(kHome));
    const auto stream = own->Answer(&call, &reply);
    part.set_data("abcd");
    stream->Write(part);
    stream->WritesDone();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::OK) << name;
  }
}

}  // namespace
}  // namespace tacit
