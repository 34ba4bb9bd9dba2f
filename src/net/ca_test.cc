#include "net/ca.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "experiment/files.h"
#include "net/test_list.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

class CaTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_ca_{}", ::getpid());
    fs::remove_all(home_);
    ASSERT_TRUE(MakeAuthority({.folder = home_ / "ca"}).ok());
  }
  void TearDown() override { fs::remove_all(home_); }
  Result<IssuedFiles> Make(const std::string& name, int days = 30) const {
    return Issue(
        {.authority = home_ / "ca", .folder = home_ / "out", .name = name, .hosts = {}, .days = days});
  }
  Result<IssuedFiles> MakeFor(const fs::path& request, const std::string& name = "") const {
    return Issue(
        {.authority = home_ / "ca", .folder = home_ / "out", .name = name, .request = request, .hosts = {}});
  }
  Status Check(const fs::path& certificate, const fs::path& list) const {
    TACIT_TRY(const std::string pem, ReadWhole(certificate));
    TACIT_TRY(const std::string ca, ReadWhole(home_ / "ca/ca.pem"));
    return Revocations(list, ca).Check(pem);
  }
  fs::path home_;
};

TEST_F(CaTest, IssuesKeysForTheirOwnersAlone) {
  const auto made = Make("north");
  ASSERT_TRUE(made.ok()) << made.error().message;
  for (const fs::path& secret : {made->key, home_ / "ca/ca.key"}) {
    struct stat info{};
    ASSERT_EQ(::stat(secret.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u) << secret;
  }
  const auto id = ReadIdentity(home_ / "ca/ca.pem", made->certificate, made->key);
  ASSERT_TRUE(id.ok()) << id.error().message;
  EXPECT_EQ(id->name, "north");
}

// Whoever has the folder alone issues and revokes nothing.
TEST_F(CaTest, AnAuthoritysKeyMayHaveAPassphrase) {
  const fs::path ca = home_ / "locked";
  ASSERT_TRUE(MakeAuthority({.folder = ca, .passphrase = "open sesame"}).ok());
  const auto pem = ReadWhole(ca / "ca.key");
  ASSERT_TRUE(pem.ok());
  EXPECT_TRUE(pem->starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----")) << "nobody reads it here";
  const NewCertificate north{.authority = ca, .folder = home_ / "out", .name = "north", .hosts = {}};
  std::string asked;
  const auto with = [&](const std::string& passphrase) -> AskPassphrase {
    return [&asked, passphrase](const std::string& key) -> Result<std::string> {
      asked = key;
      return passphrase;
    };
  };
  EXPECT_EQ(Issue(north).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Issue(north, with("shut sesame")).error().code, Code::kInvalidArgument);
  EXPECT_EQ(asked, (ca / "ca.key").string());
  EXPECT_EQ(Issue(north, with(std::string(5000, 'x'))).error().code, Code::kInvalidArgument);
  EXPECT_EQ(
      Issue(north, [](const std::string&) -> Result<std::string> { return Fail(Code::kInterrupted, "no"); })
          .error()
          .code,
      Code::kInterrupted);
  EXPECT_FALSE(fs::exists(home_ / "out"));
  const auto made = Issue(north, with("open sesame"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(ReadIdentity(ca / "ca.pem", made->certificate, made->key).ok());
  EXPECT_EQ(Revoke(ca, "north").error().code, Code::kInvalidArgument);
  const auto revoked = Revoke(ca, "north", with("open sesame"));
  ASSERT_TRUE(revoked.ok()) << revoked.error().message;
  EXPECT_EQ(*revoked, 1u);
}

// A list that was to be replaced is gone by all the same: who is on it stays away.
TEST_F(CaTest, AListKnowsWhenItIsOutdated) {
  const auto made = Make("north");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::string ca = *ReadWhole(home_ / "ca/ca.pem"), pem = *ReadWhole(made->certificate);
  const Revocations fresh(home_ / "ca/crl.pem", ca), none("", ca), missing(home_ / "nowhere.pem", ca);
  EXPECT_FALSE(fresh.Outdated()) << "it was not read yet";
  EXPECT_TRUE(fresh.Readable().ok());
  EXPECT_FALSE(fresh.Outdated());
  EXPECT_TRUE(none.Readable().ok());
  EXPECT_FALSE(none.Outdated());
  EXPECT_EQ(missing.Readable().error().code, Code::kIo);
  EXPECT_FALSE(missing.Outdated());
  ASSERT_TRUE(WriteWhole(home_ / "old.pem", OutdatedList(home_ / "ca")).ok());
  const Revocations old(home_ / "old.pem", ca);
  EXPECT_TRUE(old.Check(pem).ok());
  EXPECT_TRUE(old.Outdated());
  ASSERT_TRUE(WriteWhole(home_ / "old.pem", *ReadWhole(home_ / "ca/crl.pem")).ok());
  EXPECT_TRUE(old.Readable().ok());
  EXPECT_FALSE(old.Outdated());
}

// The authority sees the request alone; the key stays where it was made.
TEST_F(CaTest, CertifiesKeysThatItDoesNotSee) {
  const auto asked = MakeRequest({.folder = home_ / "own", .name = "north"});
  ASSERT_TRUE(asked.ok()) << asked.error().message;
  struct stat info{};
  ASSERT_EQ(::stat(asked->key.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0u);
  const auto made = MakeFor(asked->request);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->name, "north");
  EXPECT_TRUE(made->key.empty());
  EXPECT_FALSE(fs::exists(home_ / "out/north.key"));
  const auto id = ReadIdentity(home_ / "ca/ca.pem", made->certificate, asked->key);
  ASSERT_TRUE(id.ok()) << id.error().message;
  EXPECT_EQ(id->name, "north");
  EXPECT_EQ(*Revoke(home_ / "ca", "north"), 1u);      // it is in the book
  EXPECT_FALSE(MakeRequest({.folder = home_ / "own", .name = "north"}).ok());  // nothing is overwritten
}

TEST_F(CaTest, RefusesRequestsThatAreNone) {
  const auto asked = MakeRequest({.folder = home_ / "own", .name = "north"});
  ASSERT_TRUE(asked.ok());
  EXPECT_FALSE(MakeFor(asked->request, "south").ok());
  EXPECT_FALSE(MakeFor(asked->key).ok());
  EXPECT_FALSE(MakeFor(home_ / "nowhere.csr").ok());
  EXPECT_FALSE(MakeRequest({.folder = home_ / "own", .name = "../up"}).ok());
  // Another name in it, or another key: then the signature is of something else.
  std::string pem = *ReadWhole(asked->request);
  std::size_t refused = 0, tried = 0;
  for (std::size_t i = pem.find('\n') + 1; i + 40 < pem.size(); i += 7) {
    if (std::isalnum(static_cast<unsigned char>(pem[i])) == 0) continue;
    std::string bent = pem;
    bent[i] = bent[i] == 'A' ? 'B' : 'A';
    ASSERT_TRUE(WriteWhole(home_ / "bent.csr", bent).ok());
    ++tried;
    refused += MakeFor(home_ / "bent.csr").ok() ? 0 : 1;
  }
  EXPECT_GT(tried, 20u);
  EXPECT_EQ(refused, tried);
}

TEST_F(CaTest, OverwritesNothing) {
  ASSERT_TRUE(Make("north").ok());
  const auto before = ReadWhole(home_ / "out/north.key");
  EXPECT_FALSE(Make("north").ok());
  EXPECT_FALSE(MakeAuthority({.folder = home_ / "ca"}).ok());
  EXPECT_EQ(*ReadWhole(home_ / "out/north.key"), *before);
}

// TLS would believe two, and revocations are of one.
TEST_F(CaTest, ABundleOfAuthoritiesIsRefused) {
  const auto north = Make("north");
  ASSERT_TRUE(north.ok());
  const auto one = ReadWhole(home_ / "ca/ca.pem");
  ASSERT_TRUE(WriteWhole(home_ / "both.pem", *one + *one).ok());
  const auto both = ReadIdentity(home_ / "both.pem", north->certificate, north->key);
  ASSERT_FALSE(both.ok());
  EXPECT_NE(both.error().message.find("one authority alone"), std::string::npos) << both.error().message;
}

TEST_F(CaTest, RefusesKeysThatOthersMayReadAndThatDoNotFit) {
  const auto north = Make("north"), south = Make("south");
  ASSERT_TRUE(north.ok() && south.ok());
  EXPECT_FALSE(ReadIdentity(home_ / "ca/ca.pem", north->certificate, south->key).ok());
  ASSERT_EQ(::chmod(north->key.c_str(), 0644), 0);
  const auto open = ReadIdentity(home_ / "ca/ca.pem", north->certificate, north->key);
  ASSERT_FALSE(open.ok());
  EXPECT_NE(open.error().message.find("chmod 600"), std::string::npos);
}

TEST_F(CaTest, NamesAreHarmless) {
  for (const char* name : {"", "../up", ".hidden", "a/b", "a b", "-flag", "ä", "a\nb"})
    EXPECT_FALSE(Make(name).ok()) << name;
  EXPECT_FALSE(Make(std::string(65, 'a')).ok());
  EXPECT_FALSE(Issue({.authority = home_ / "ca",
                      .folder = home_ / "out",
                      .name = "server",
                      .party = Party::kServer,
                      .hosts = {}})
                   .ok());
}

// A server is known by its name, so nobody else may have one that TLS takes for it.
TEST_F(CaTest, NoPartyPassesAsAnother) {
  const auto server = [&](const std::string& name, const std::string& host) {
    return Issue({.authority = home_ / "ca",
                  .folder = home_ / "out",
                  .name = name,
                  .party = Party::kServer,
                  .hosts = {host}});
  };
  ASSERT_TRUE(server("coordinator", "127.0.0.1").ok());
  EXPECT_FALSE(server("Coordinator", "127.0.0.1").ok());
  EXPECT_FALSE(Make("COORDINATOR").ok());
  EXPECT_FALSE(server("other", ServerHost("coordinator")).ok());
  EXPECT_FALSE(server("other", PeerHost("north")).ok());
  EXPECT_FALSE(server("other", "coordinator.server.TACIT.Invalid").ok());
  EXPECT_FALSE(server("other", ServerHost("coordinator") + ".").ok());
  EXPECT_TRUE(server("other", "train.example.org").ok());
}

TEST_F(CaTest, RevokesWhatWasIssuedSoFar) {
  const auto north = Make("north"), south = Make("south");
  ASSERT_TRUE(north.ok() && south.ok());
  const fs::path list = home_ / "ca/crl.pem";
  EXPECT_TRUE(Check(north->certificate, list).ok());
  EXPECT_EQ(*Revoke(home_ / "ca", "north"), 1u);
  EXPECT_FALSE(Check(north->certificate, list).ok());
  EXPECT_TRUE(Check(south->certificate, list).ok());
  EXPECT_FALSE(Revoke(home_ / "ca", "north").ok());  // nothing left to revoke
  fs::remove(north->certificate), fs::remove(north->key);
  const auto again = Make("north");
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(Check(again->certificate, list).ok());
  EXPECT_EQ(*Revoke(home_ / "ca", "south"), 1u);  // and the first stays revoked
  EXPECT_TRUE(Check(again->certificate, list).ok());
  EXPECT_FALSE(Check(south->certificate, list).ok());
}

// What is issued by several at once is in the book, and can be revoked, by several at once.
TEST_F(CaTest, ManyAtOnceLoseNothing) {
  constexpr int kThreads = 8, kEach = 4;
  const auto name = [](int t, int k) { return fmt::format("n{}-{}", t, k); };
  const auto all = [&](const auto& act) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int k = 0; k < kEach; ++k) act(name(t, k));
      });
  };
  all([&](const std::string& who) {
    const auto made = Make(who);
    EXPECT_TRUE(made.ok()) << made.error().message;
  });
  all([&](const std::string& who) {
    const auto revoked = Revoke(home_ / "ca", who);
    EXPECT_TRUE(revoked.ok()) << revoked.error().message;
  });
  for (int t = 0; t < kThreads; ++t)
    for (int k = 0; k < kEach; ++k)
      EXPECT_FALSE(Check(home_ / "out" / (name(t, k) + ".pem"), home_ / "ca/crl.pem").ok()) << name(t, k);
}

TEST_F(CaTest, AListThatIsGoneOrAnothersLetsNobodyIn) {
  const auto north = Make("north");
  ASSERT_TRUE(north.ok() && MakeAuthority({.folder = home_ / "other"}).ok());
  EXPECT_TRUE(Check(north->certificate, {}).ok());
  ASSERT_TRUE(WriteWhole(home_ / "garbage.pem", "garbage").ok());
  ASSERT_TRUE(WriteWhole(home_ / "empty.pem", "").ok());
  for (const char* list : {"nowhere.pem", "other/crl.pem", "garbage.pem", "empty.pem", "ca"}) {
    const Status s = Check(north->certificate, home_ / list);
    ASSERT_FALSE(s.ok()) << list;
    EXPECT_EQ(s.error().code, Code::kIo) << list;  // which says nothing of the certificate
  }
  ASSERT_TRUE(Revoke(home_ / "ca", "north").ok());
  EXPECT_EQ(Check(north->certificate, home_ / "ca/crl.pem").error().code, Code::kInvalidArgument);
}

TEST_F(CaTest, WhatHasExpiredIsNotValid) {
  const auto old = Make("old", -1);
  ASSERT_TRUE(old.ok()) << old.error().message;
  EXPECT_FALSE(Check(old->certificate, {}).ok());
}

// OpenSSL would ask at the terminal, or take it from the standard input, and whoever shows a certificate says
// whether it is encrypted.
TEST_F(CaTest, NobodyIsAskedForAPassphrase) {
  ASSERT_TRUE(Make("c0").ok() && MakeRequest({.folder = home_ / "req", .name = "north"}).ok());
  ASSERT_TRUE(Revoke(home_ / "ca", "c0").ok());
  const auto encrypted = [](const fs::path& file) {
    std::string text = *ReadWhole(file, 1 << 20);
    const std::size_t body = text.find('\n') + 1;
    return text.insert(body,
                       "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF\n\n");
  };
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "secret\n", 7), 7);
  const int before = ::dup(STDIN_FILENO);
  ASSERT_EQ(::dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  const std::string certificate = encrypted(home_ / "out/c0.pem");
  EXPECT_EQ(NameIn(certificate), "");
  EXPECT_FALSE(Revocations({}, "").Check(certificate).ok());
  EXPECT_FALSE(NameInRequest(encrypted(home_ / "req/north.csr"), "north.csr").ok());
  const Revocations listed("crl.pem", *ReadWhole(home_ / "ca/ca.pem", 1 << 20));
  EXPECT_EQ(
      listed.CheckBy(encrypted(home_ / "ca/crl.pem"), *ReadWhole(home_ / "out/c0.pem", 1 << 20)).error().code,
      Code::kIo);
  int left = 0;
  EXPECT_EQ(::ioctl(STDIN_FILENO, FIONREAD, &left), 0);
  EXPECT_EQ(left, 7);
  ::dup2(before, STDIN_FILENO);
  for (const int fd : {before, ends[0], ends[1]}) ::close(fd);
}

}  // namespace
}  // namespace tacit
