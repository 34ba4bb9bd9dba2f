#include "experiment/signature.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "experiment/verify.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Signatures : public testing::Test {
 protected:
  Signatures() {
    std::string name = (fs::temp_directory_path() / "tacit-sign-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    certificate_ = Write("certificate.json", "{\"any\": \"bytes\"}\n");
  }
  ~Signatures() override { fs::remove_all(folder_); }
  fs::path Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::string Fault(const PublicKey& key) const {
    const auto bytes = ReadWhole(certificate_, "a certificate");
    return SignatureFault(certificate_, *bytes, key, "public.pem").value_or("");
  }
  static PrivateKey Key() { return *PrivateKey::New(); }
  static Result<std::string> NeverAsked(const std::string& name) {
    ADD_FAILURE() << "asked for a passphrase of " << name;
    return std::string();
  }
  fs::path folder_, certificate_;
};

// RFC 8032, section 7.1, test 2: the key in PKCS #8 and the signature of the byte 0x72.
TEST_F(Signatures, AreThoseOfRfc8032) {
  const std::string pem =
      "-----BEGIN PRIVATE KEY-----\n"
      "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
      "-----END PRIVATE KEY-----\n";
  const auto key = PrivateKey::Parse(pem, "rfc.pem", &NeverAsked);
  ASSERT_TRUE(key.ok()) << key.error().message;
  const std::string signature = key->Sign("r");
  std::string hex;
  for (const char c : signature) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  EXPECT_EQ(hex,
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
  EXPECT_TRUE(key->public_key().Signed("r", signature));
  EXPECT_FALSE(key->public_key().Signed("s", signature));
  EXPECT_FALSE(key->public_key().Signed("r", signature.substr(1)));
}

TEST_F(Signatures, UnsignedWrongKeyAndChangedAreDifferentSentences) {
  const PrivateKey mine = Key(), other = Key();
  EXPECT_NE(Fault(mine.public_key()).find("is not signed"), std::string::npos);
  ASSERT_TRUE(SignFile(certificate_, mine).ok());
  EXPECT_EQ(Fault(mine.public_key()), "");
  EXPECT_NE(Fault(other.public_key()).find("is signed by " + mine.public_key().fingerprint()),
            std::string::npos);
  Write("certificate.json", "{\"other\": \"bytes\"}\n");
  EXPECT_NE(Fault(mine.public_key()).find("was changed after"), std::string::npos);
  ASSERT_TRUE(SignFile(certificate_, mine).ok());
  EXPECT_EQ(Fault(mine.public_key()), "");
}

TEST_F(Signatures, ASignatureThatLiesAboutItsKeyIsFoundOut) {
  const PrivateKey mine = Key(), other = Key();
  json j = json::parse(SignatureJson("{\"any\": \"bytes\"}\n", "certificate.json", other));
  j["key"] = mine.public_key().fingerprint();
  Write("certificate.json.sig", j.dump());
  EXPECT_NE(Fault(mine.public_key()), "");
}

TEST_F(Signatures, DamagedSignaturesAreSentences) {
  const std::string good = SignatureJson("x", "certificate.json", Key());
  ASSERT_TRUE(ParseSignature(good, "a.sig").ok());
  const json base = json::parse(good);
  std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is not JSON"},
      {"[]", "is not a signature"},
      {std::string(1 << 17, 'x'), "131072 bytes"},
  };
  for (const char* key : {"algorithm", "file", "sha256", "key", "signature"}) {
    json j = base;
    j[key] = 3;
    cases.emplace_back(j.dump(), std::string(key) + " must be text");
    j.erase(key);
    cases.emplace_back(j.dump(), std::string(key) + " is missing");
  }
  json j = base;
  j["algorithm"] = "none";
  cases.emplace_back(j.dump(), "\"none\": must be Ed25519");
  j = base;
  j["signature"] = "AAAA";
  cases.emplace_back(j.dump(), "4 characters");
  j["signature"] = std::string(88, '!');
  cases.emplace_back(j.dump(), "is not base64");
  j["signature"] = std::string(88, 'A');  // 66 bytes
  cases.emplace_back(j.dump(), "is not base64 of 64 bytes");
  for (const auto& [text, part] : cases) {
    const auto s = ParseSignature(text, "a.sig");
    ASSERT_FALSE(s.ok()) << text;
    EXPECT_NE(s.error().message.find(part), std::string::npos) << s.error().message;
    EXPECT_NE(s.error().message.find("sign again"), std::string::npos) << s.error().message;
  }
}

TEST_F(Signatures, KeysAreWrittenOnceAndForTheirOwnerOnly) {
  const PrivateKey key = Key();
  const auto files = WriteKeys(folder_ / "me", key, std::nullopt);
  ASSERT_TRUE(files.ok()) << files.error().message;
  struct stat about = {};
  ASSERT_EQ(::stat(files->secret.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  const auto again = PrivateKey::Read(files->secret, &NeverAsked);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->public_key().fingerprint(), key.public_key().fingerprint());
  const auto shared = PublicKey::Parse(*ReadWhole(files->shared, "a key"), "me.pub.pem");
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->fingerprint(), key.public_key().fingerprint());
  EXPECT_EQ(shared->fingerprint().size(), 7u + 64u);

  const auto twice = WriteKeys(folder_ / "me", Key(), std::nullopt);
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().message.find("not overwritten"), std::string::npos);
  Write("you.pub.pem", "x");
  EXPECT_FALSE(WriteKeys(folder_ / "you", Key(), std::nullopt).ok());
  EXPECT_FALSE(fs::exists(folder_ / "you.pem"));  // half a pair is none

  ASSERT_EQ(::chmod(files->secret.c_str(), 0640), 0);
  const auto open = PrivateKey::Read(files->secret, &NeverAsked);
  ASSERT_FALSE(open.ok());
  EXPECT_NE(open.error().message.find("mode 640"), std::string::npos) << open.error().message;
}

TEST_F(Signatures, APassphraseIsAskedForAndNeeded) {
  const PrivateKey key = Key();
  const auto with = [](const char* answer) {
    return [answer](const std::string&) -> Result<std::string> { return std::string(answer); };
  };
  const std::string pem = key.Pem("correct horse");
  EXPECT_NE(pem.find("ENCRYPTED PRIVATE KEY"), std::string::npos);
  const auto right = PrivateKey::Parse(pem, "k.pem", with("correct horse"));
  ASSERT_TRUE(right.ok()) << right.error().message;
  EXPECT_EQ(right->public_key().fingerprint(), key.public_key().fingerprint());
  const auto wrong = PrivateKey::Parse(pem, "k.pem", with("battery staple"));
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("does not open it"), std::string::npos);
  const auto none = PrivateKey::Parse(pem, "k.pem", [](const std::string&) -> Result<std::string> {
    return Fail(Code::kInvalidArgument, "no terminal");
  });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "no terminal");
  const std::string overlong(5000, 'x');
  EXPECT_FALSE(PrivateKey::Parse(pem, "k.pem", with(overlong.c_str())).ok());
}

TEST_F(Signatures, WhatIsNoKeyIsASentence) {
  const PrivateKey key = Key();
  const auto said = [](const auto& result, const char* part) {
    EXPECT_FALSE(result.ok());
    if (result.ok()) return;
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  };
  const std::string rsa =
      "-----BEGIN PUBLIC KEY-----\n"
      "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n"
      "6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n"
      "-----END PUBLIC KEY-----\n";  // P-256, from RFC 6979
  said(PublicKey::Parse("", "k"), "is not a public key");
  said(PublicKey::Parse(key.Pem(std::nullopt), "k"), "is a private key");
  said(PublicKey::Parse(rsa, "k"), "certificates are signed with Ed25519");
  said(PublicKey::Parse(std::string(1 << 17, '-'), "k"), "is not a public key");
  said(PrivateKey::Parse("nonsense", "k", &NeverAsked), "is not a private key");
  said(PrivateKey::Parse(key.public_key().Pem(), "k", &NeverAsked), "is a public key");
  said(PrivateKey::Read(folder_ / "none.pem", &NeverAsked), "no such file");
  said(PrivateKey::Read(folder_, &NeverAsked), "is a folder");
}

}  // namespace
}  // namespace tacit
