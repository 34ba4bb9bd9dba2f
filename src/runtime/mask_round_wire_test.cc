// The bytes of a masked round as docs/deployment.md describes them ("Masked rounds, byte for byte"): texts
// that are signed, commitments, letters, masks, shares, and the questions and answers of all five steps.
// Every constant was printed by mask_round_reference.py, which shares no code with this and gets X25519,
// HKDF, AES-GCM, AES-CTR and Ed25519 from Python's `cryptography` (48.0.0). A change of the wire fails here;
// it needs a new number of the protocol once there is a release.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "core/sha256.h"
#include "runtime/mask_round.h"

namespace tacit {
namespace {

constexpr const char* kPublic[] = {
    "c8feca81be196cdf2cadeabf13c4903d7632dce4955aa68b6e5d9adef54e26168b5a76f92bd45d2fda03985afa219d49ef8a"
    "b1f13999fa1fb66867c22a485470",
    "f0c598791fadf1337568bd13316c2391a020a555688c34ba091dd9f2d0bacc2339123c517a20fca70cd7e00b2cb23fb799ff"
    "4dd9f18f40b0ed5361f2ef95bd74",
    "c84d3370d9c8aaa389f0198ae98abb6e2659d9fb61cefe01b0e47e263aae384774f8618e3c3cf77bed37b54795688703cbe0"
    "9d7dbbf174634f95b6ccfd89fc76",
    "aebbb70885c8c08c5e45b09d97841b5a2fd64cc4c47174430d260d73b34f282a746655c656dbc51442507ba6ff2358fa641e"
    "efde6fc57c16c4aa488437eb615f"};
constexpr const char* kKeysText =
    "7461636974206d61736b733a206b657973002000000030313233343536373839616263646566303132333435363738396162"
    "6364656607000000000102030405060708090a0b0c0d0e0f02000000f0c598791fadf1337568bd13316c2391a020a555688c"
    "34ba091dd9f2d0bacc2339123c517a20fca70cd7e00b2cb23fb799ff4dd9f18f40b0ed5361f2ef95bd74";
constexpr const char* kQuestion1 =
    "54435431c01cdffe18000000000000001000000000000000000102030405060708090a0b0c0d0e0f";
constexpr const char* kQuestion2 =
    "544354317615a9bff8020000000000001000000000000000000102030405060708090a0b0c0d0e0f04000000000000000000"
    "00000200000003000000040000000001000000000000c8feca81be196cdf2cadeabf13c4903d7632dce4955aa68b6e5d9ade"
    "f54e26168b5a76f92bd45d2fda03985afa219d49ef8ab1f13999fa1fb66867c22a485470f0c598791fadf1337568bd13316c"
    "2391a020a555688c34ba091dd9f2d0bacc2339123c517a20fca70cd7e00b2cb23fb799ff4dd9f18f40b0ed5361f2ef95bd74"
    "c84d3370d9c8aaa389f0198ae98abb6e2659d9fb61cefe01b0e47e263aae384774f8618e3c3cf77bed37b54795688703cbe0"
    "9d7dbbf174634f95b6ccfd89fc76aebbb70885c8c08c5e45b09d97841b5a2fd64cc4c47174430d260d73b34f282a746655c6"
    "56dbc51442507ba6ff2358fa641eefde6fc57c16c4aa488437eb615f04000000000000002000000020000000200000002000"
    "00008000000000000000af9b2e5a0286b78e012887fe7a15a2c8421c31356f59816499dd02f76b27ef9f0c5068fa35f63e44"
    "d8f73ccd12a70fb9d97094859cfae2e6eb90d3c726e3632dfaf09bdfb75fb33117d985ea7fc2909375d0d761e0dec0c588d5"
    "c2949a8c5b693c3b290f9f866c466e6f762ec45382e2d92b993075c7c5e1610eafd9dc3e6a8e040000000000000040000000"
    "40000000400000004000000000010000000000009ba28f68ccfe0928be74e41c2fb80e60dd75d6bced44e1116b22cad0e03f"
    "227f256ec574505a330df8af80e9df84c47da7c3cc79be2fabe275c62903f0a16102c26ecd6794d376bec52cf8482d27ea94"
    "fd37ce8f3be21fd7b47faac6fcebcb97cc7e5c053677579744836d983530fa74328f278688e88544d0933860b8c449007b7d"
    "eb7504e364344b38fe8a298b50523eebaf1973341037cde51a76b75ced8e47f1c3a217e01a0d61ea37223b90f03a11716dfb"
    "c8975c9e82cc7bdeaa6b15035a6a667e532315b3218ee9995a29f7a05ab9d4aa6ec9b8d64f473d65506676d962755bc2a4a5"
    "e721e89cb1e632739984a57f2091b00e156138564142ccbdc20a";
constexpr const char* kCommitments[] = {"c0c8726691e164478165e08fef51c097a707bcc6a58f3e4c2fb60709e3f201f6",
                                        "e8daf118229deb7f75dd5cd5354397247d31e5b0d753f2440f4546d89d4ccd02",
                                        "012b1c9acf597ee4cf1f95e29a0faab2d14676316c8adc489b4c24647ce22adb",
                                        "14c5a26aa29894babcd42a664ec19ea1f22ae26184ae8ff6aaecfc0ef0063b84"};
constexpr const char* kLetterTexts[] = {
    "7461636974206d61736b733a2073686172650020000000303132333435363738396162636465663031323334353637383961"
    "626364656607000000000102030405060708090a0b0c0d0e0f0200000000000000",
    "7461636974206d61736b733a2073686172650020000000303132333435363738396162636465663031323334353637383961"
    "626364656607000000000102030405060708090a0b0c0d0e0f0200000003000000",
    "7461636974206d61736b733a2073686172650020000000303132333435363738396162636465663031323334353637383961"
    "626364656607000000000102030405060708090a0b0c0d0e0f0200000004000000"};
constexpr const char* kLetterKeys[] = {"4d1f962913d7078cebaac042b242a740134f752bd66c48352824c4726138dddf",
                                       "09259d8401a39dc06865f47d72717155b8fe215c065da7c4a0179f9680441b30",
                                       "8daaa4a442d7359d7e2b55ed975171fee5931a21210bc48067ad9f33d762f71a"};
constexpr const char* kOwnShares =
    "5243a02d0d30df1e927329021ca0d213b9ef2f96965be113a0646d4d5c9cd61f81df42908e9f881eacab26417383060f461a"
    "f00f9c180e0dd673372a972cbe083ff6d83ed268ba015b1e918d62832c16";
constexpr const char* kAnswer2 =
    "54435431c4a3bbb350010000000000002000000000000000e8daf118229deb7f75dd5cd5354397247d31e5b0d753f2440f45"
    "46d89d4ccd022001000000000000b57e81fbbfe93d28815247932784d7b79841bb304a3d5d94d64f7c0d4d7a249ad936cf67"
    "8e6c5bab1158763b5d4476c8175c1312ba22aec799fd9524f9cc4779e504272307d00d0020bcb2548c63748d33444099eb6c"
    "299e1fc466da4972b2ea6314e22f894f287a68504b2d544df731054465ebfb485c2320268b98a66e1b34150e3ff1545e285f"
    "4a3f69900f1257f357e5a9e524d059be485462bb1c5c23ce8fd3ba0f863f81d5e8ad8c12da1df50ac307e4f1aa70a3a5326c"
    "3c436d91122c7dc250eb792bc887ed84d65e52de251007b21a18da118f7e2705b3246e403db07013c167f609b683cc32dae5"
    "8f81673eaa9c2a5c46c3715f457a2fddf2fdb02989026694a1069ecd09c1b1a5a29c321bd40b0156a003086bf95d5460185e"
    "16aa";
constexpr const char* kQuestion3 =
    "54435431c0802f040400000000000000060000005443543158a4a78e58010000000000001000000000000000000102030405"
    "060708090a0b0c0d0e0f0400000000000000000000000200000003000000040000002001000000000000b5fcd49310bcd1b7"
    "6ad67e24c9a8141f407c97696ac3a40efcb416e650442dd1cd0cdca4318491cadc9eacd9ed403bd8ec071939c3a9b17009fa"
    "9d66d0aa650b1628aa70d04e2a79b9007b325ae64fd388ad0ff3af890a46b7bd471b9930a46d727dc4eea936bc4ed2eef1a2"
    "691bd5f5b99146e40086e20fcf91fec1ecbfc673c88971c1d95c2f1f1094942d5f5d07e484657e25f28ac4e0352eef3db923"
    "07dd6b5e6b27f710cce6529b0f0139e1cac0d3dfdb532497eda0e600ebcee95c0faa9b7ee895caed54beb7bf36126d276d54"
    "a29f485ebc6b0f4981cc4b3048a6824376afecd79a01966fade6805ac6b5f756c8463c1aeb425f86b76fa5073a4172977c73"
    "a7d23d4903832900faf54bd032ff16de6cecf5d5b827cf7d2c3e04b79ab6";
constexpr const char* kSelfMask = "da6b09f84341b8e272193034b73ecfa4";
constexpr const char* kPairMask = "2a9cfdf705b7ee807c5518210fa8731c";
constexpr const char* kAnswers3[] = {
    "54435431bec6e2041b00000000000000180000000500000000000000c536fd957cd588155e4b7696868b28",
    "5443543101afddf61b0000000000000018000000050000000000000015f0d2eab5c19559279a4449a89bb7",
    "54435431ff1e45fa1b00000000000000180000000500000000000000ce1ed3674b5ee5b8b52a1725870cc8"};
constexpr const char* kSurvivorsText =
    "7461636974206d61736b733a207375727669766f727300200000003031323334353637383961626364656630313233343536"
    "37383961626364656607000000000102030405060708090a0b0c0d0e0f39ed684debb59a5582a2f74caf373385c5eeeaece7"
    "efe629e3cab22552620894040000000000000002000000030000000400000003000000000000000200000004000000";
constexpr const char* kQuestion4 =
    "54435431a61e9f932c000000000000001000000000000000000102030405060708090a0b0c0d0e0f03000000000000000000"
    "00000200000004000000";
constexpr const char* kAnswers4[] = {
    "54435431ad2db3d448000000000000004000000000000000edddf5be9696ef3f8eb36cedbea88b57d337880caf3b4d4addd0"
    "2ee70ffeac106b8e2b65885585704ca8472a648cf2a684291792ef553112cd0bd4badfeff50a",
    "544354319421f16f48000000000000004000000000000000c7db098dab63d29a5c43e6dc6b7793b443a42fdc976b533ce04b"
    "170c1c0770e69938280cf29b4eae3c1b5e25528a4edc135f4ee5e020ead793687f09204bdb09",
    "544354310fa82f5948000000000000004000000000000000bb22fc2acb72dc40d42f5ce3c379d7912583dda0d0369430ec00"
    "ab70c62fa0380c5e705f22696697688a22e89ba9ed8b595eb3904b867f70938ad0bd5c509100"};
constexpr const char* kQuestion5 =
    "54435431ee7e3a3108010000000000001000000000000000000102030405060708090a0b0c0d0e0f03000000000000000000"
    "000002000000040000000300000000000000400000004000000040000000c000000000000000edddf5be9696ef3f8eb36ced"
    "bea88b57d337880caf3b4d4addd02ee70ffeac106b8e2b65885585704ca8472a648cf2a684291792ef553112cd0bd4badfef"
    "f50ac7db098dab63d29a5c43e6dc6b7793b443a42fdc976b533ce04b170c1c0770e69938280cf29b4eae3c1b5e25528a4edc"
    "135f4ee5e020ead793687f09204bdb09bb22fc2acb72dc40d42f5ce3c379d7912583dda0d0369430ec00ab70c62fa0380c5e"
    "705f22696697688a22e89ba9ed8b595eb3904b867f70938ad0bd5c509100";
constexpr const char* kAnswers5[] = {
    "544354316eb4947da80000000000000014000000000000009de35913592f5c0184d6f322feda0711166b93d641b021188c7b"
    "fdb58088050e0d788f18fb7c001a0665c70e53ab9f1112b85c0d1c93bb0a957c2e013451a41218b4db4cea3439040122ba68"
    "a761ed04892ea50f169d6a1dff5dcf807614301dfb43793786246710addcc55e1599ac0c6c8e751c18e44a1355bc3b74d5d7"
    "ae1788f2a574b090491da3601754b03481002d3815a381ecf50bb0f59d60f5e6030e",
    "54435431528d2d28a8000000000000001400000000000000e6f18e8a4581f7109676c7b44d3caf13967d55c6767ad40a8af3"
    "830186549a001edb1fb5e58b0113acab26417383060f461af00f9c180e0dd673372a972cbe083ff6d83ed268ba015b1e918d"
    "62832c167a5d145262a57811608eccb09ee5e51ecef5aaa13a536802a8e1b524c350480145a04891d78e6b051891d124b72f"
    "5116a59fa4022e18e61316e13fd0944a800cfb87c681d845c8036308eeff3603110f",
    "54435431e86e18f1a80000000000000014000000000000000ce5b3183e93fa1254b9f12fa32bdd18a617dbc05cfe0503b3d1"
    "e656d8c9a60648129596160c581dcbae6f20dabec01014aea706a301270d91daffc84866690239503b69a9e7f410e3307467"
    "5978f11b4eca4264e286ab1d2e0359eda1e0140c88b61a02892be202bda5987507b5f4043a7e3e565612f00638879e011604"
    "fe0a90d678bb3347c11c08b81fe4b893851c272fc17e041859112100c7f29732250c"};
constexpr const char* kSum =
    "5443543152a7cfd31b000000000000001800000005000000000000006717006a17006d1700701700731700";

constexpr std::uint32_t kRound = 7;
constexpr std::uint32_t kWho = 2;  // the client whose answers are looked at
constexpr std::uint32_t kOthers[] = {0, 3, 4};
constexpr std::uint32_t kCounted[] = {0, 2, 4};
constexpr Quorum kQuorum = {5, 3, 0};  // three of five open; 1 has no keys, 3 sends no input
constexpr std::size_t kLetterSize = 96;

Bytes FromHex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(16 * digit(text[i]) + digit(text[i + 1])));
  return out;
}
Octets Plain(std::span<const std::byte> b) {
  Octets out;
  for (const std::byte x : b) out.push_back(static_cast<std::uint8_t>(x));
  return out;
}
Bytes Join(std::span<const char* const> texts) {
  Bytes out;
  for (const char* text : texts)
    for (const std::byte b : FromHex(text)) out.push_back(b);
  return out;
}
template <class T> T NumberAt(std::span<const std::byte> b, std::size_t at) {
  T v{};
  std::memcpy(&v, b.data() + at, sizeof v);
  return v;
}

enum Kind : unsigned { kLetters, kMasks, kSeed, kSigning };
Secret SecretOf(Kind kind, std::uint32_t client) {
  Secret s;
  for (unsigned k = 0; k < Secret::kSize; ++k)
    s.at[k] = static_cast<std::byte>((37 * kind + 11 * client + 7 * k + 1) % 256);
  return s;
}
Secret SecretOf(const char* hex) {
  const Bytes b = FromHex(hex);
  return Secret(std::span<const std::byte, Secret::kSize>(b));
}

// Ed25519, whose signatures are the same every time; the certificate is the public key. Keeps what it was
// asked to sign and to verify.
class FixedNotary final : public Notary {
 public:
  explicit FixedNotary(std::uint32_t own) : own_(own) {}
  std::string job() const override { return "0123456789abcdef0123456789abcdef"; }
  Bytes certificate() const override { return PublicOf(own_); }
  Result<Bytes> Sign(std::span<const std::byte> message) const override {
    signed_texts.push_back(Hex(message));
    const Key key = KeyOf(own_);
    const Context c(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    std::size_t size = 64;
    Bytes out(size);
    EXPECT_EQ(EVP_DigestSignInit(c.get(), nullptr, nullptr, nullptr, key.get()), 1);
    EXPECT_EQ(EVP_DigestSign(c.get(), reinterpret_cast<unsigned char*>(out.data()), &size,
                             reinterpret_cast<const unsigned char*>(message.data()), message.size()),
              1);
    return out;
  }
  Status Verify(std::uint32_t client, std::span<const std::byte> certificate,
                std::span<const std::byte> message, std::span<const std::byte> signature) const override {
    verified_texts.push_back(Hex(message));
    const Key key = KeyOf(client);
    const Context c(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    if (std::ranges::equal(certificate, PublicOf(client)) &&
        EVP_DigestVerifyInit(c.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
        EVP_DigestVerify(c.get(), reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                         reinterpret_cast<const unsigned char*>(message.data()), message.size()) == 1)
      return Ok{};
    return Fail(Code::kInvalidArgument, "another's signature");
  }
  mutable std::vector<std::string> signed_texts, verified_texts;

 private:
  using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
  using Context = std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)>;
  static Key KeyOf(std::uint32_t who) {
    const Secret s = SecretOf(kSigning, who);
    return {EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                         reinterpret_cast<const unsigned char*>(s.at.data()), s.at.size()),
            &EVP_PKEY_free};
  }
  static Bytes PublicOf(std::uint32_t who) {
    Bytes out(32);
    std::size_t size = 32;
    EXPECT_EQ(
        EVP_PKEY_get_raw_public_key(KeyOf(who).get(), reinterpret_cast<unsigned char*>(out.data()), &size),
        1);
    return out;
  }
  std::uint32_t own_;
};

class MaskRoundWire : public testing::Test {
 protected:
  // A client whose file is this.
  Result<Bytes> Answer(std::uint32_t step, const Bytes& question) {
    MaskClient client(kWho, kQuorum, notary_, [this](const Bytes& bytes) -> Status {
      kept_ = bytes;
      return Ok{};
    });
    if (!kept_.empty()) TACIT_OK(client.Restore(kept_));
    return client.Answer(kRound, step, question, [&](std::span<const std::byte> down) -> Result<Masked> {
      EXPECT_EQ(Hex(down), std::string(kQuestion3).substr(0, 40));  // the broadcast alone
      TACIT_TRY(const auto m, Codec::Decode<MaskedMessage>(Update(kWho)));
      return m.update;
    });
  }
  // A masked vector of 5 numbers of 24 bits: 1000·client − 3, and so on by one.
  static Bytes Update(std::uint32_t client) {
    struct Parts {
      Public<std::uint32_t> bits, low, high;  // the count is a u64
      Public<std::uint8_t> b[15];
      auto Fields() {
        return std::tie(bits, low, high, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
                        b[11], b[12], b[13], b[14]);
      }
    } parts;
    parts.bits.Mutable() = 24;
    parts.low.Mutable() = 5;
    for (std::uint32_t j = 0; j < 5; ++j) {
      const std::uint32_t v = 1000 * client + j - 3;
      for (std::uint32_t k = 0; k < 3; ++k)
        parts.b[3 * j + k].Mutable() = static_cast<std::uint8_t>(v >> (8 * k));
    }
    return Codec::Encode(parts);
  }
  // The client's file when it has answered step 1 with these keys.
  static MaskState Keyed() {
    MaskState s;
    s.round.Mutable() = kRound;
    s.step.Mutable() = 1;
    for (std::uint8_t k = 0; k < 16; ++k) s.attempt.Mutable().push_back(k);
    for (const Kind kind : {kLetters, kMasks, kSeed})
      for (const std::byte b : SecretOf(kind, kWho).at)
        s.secrets.Mutable().push_back(static_cast<std::uint8_t>(b));
    s.keys.Mutable() = Plain(FromHex(kPublic[1]));
    return s;
  }
  // Mask key and seed out of what the others can read in an answer to step 2, and the client's own share.
  static std::vector<Secret> SecretsIn(const Bytes& answer, const std::vector<std::uint64_t>& own) {
    std::vector<std::vector<HeldShare>> held(2);
    const auto take = [&](std::uint32_t holder, std::span<const std::uint64_t> numbers) {
      for (std::size_t which = 0; which < 2; ++which) {
        SecretShare share;
        std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(5 * which), 5, share.at.begin());
        held[which].push_back({holder, share});
      }
    };
    const std::size_t first = kFrameHeader + 8 + 32 + 8;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto plain =
          Decrypt(SecretOf(kLetterKeys[i]), std::span(answer).subspan(first + i * kLetterSize, kLetterSize),
                  FromHex(kLetterTexts[i]));
      EXPECT_TRUE(plain.ok()) << i;
      if (!plain.ok()) return {};
      std::vector<std::uint64_t> numbers(10);
      std::memcpy(numbers.data(), plain->data(), 80);
      take(kOthers[i], numbers);
    }
    take(kWho, own);
    std::vector<Secret> out;
    for (const auto& all : held) {
      for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {  // without the own share, and with it
        const auto secret = Combine(std::span(all).subspan(from), kQuorum.threshold());
        EXPECT_TRUE(secret.ok());
        if (secret.ok()) out.push_back(*secret);
      }
    }
    return out;
  }
  static std::vector<std::uint64_t> OwnShares() {
    std::vector<std::uint64_t> own(10);
    std::memcpy(own.data(), FromHex(kOwnShares).data(), 80);
    return own;
  }
  static void AreTheSecrets(const std::vector<Secret>& found) {
    ASSERT_EQ(found.size(), 4u);
    EXPECT_TRUE(found[0] == SecretOf(kMasks, kWho) && found[1] == SecretOf(kMasks, kWho));
    EXPECT_TRUE(found[2] == SecretOf(kSeed, kWho) && found[3] == SecretOf(kSeed, kWho));
  }

  const FixedNotary notary_{kWho};
  Bytes kept_;
};

TEST_F(MaskRoundWire, Step1SignsNewKeys) {
  const auto answer = Answer(1, FromHex(kQuestion1));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  ASSERT_EQ(answer->size(), kFrameHeader + (8 + 64) + (8 + 32) + (8 + 64));
  EXPECT_EQ(Hex(std::span(*answer).first(4)), "54435431");
  EXPECT_EQ(NumberAt<std::uint32_t>(*answer, 4), Crc32(std::span(*answer).subspan(16)));
  EXPECT_EQ(NumberAt<std::uint64_t>(*answer, 8), answer->size() - 16);
  EXPECT_EQ(NumberAt<std::uint64_t>(*answer, 16), 64u);
  EXPECT_EQ(NumberAt<std::uint64_t>(*answer, 88), 32u);
  EXPECT_EQ(Hex(std::span(*answer).subspan(96, 32)), Hex(notary_.certificate()));
  EXPECT_EQ(NumberAt<std::uint64_t>(*answer, 128), 64u);
  const std::string text = std::string(kKeysText).substr(0, std::string(kKeysText).size() - 128);
  EXPECT_EQ(notary_.signed_texts.at(0), text + Hex(std::span(*answer).subspan(24, 64)));
  EXPECT_EQ(Hex(*notary_.Sign(FromHex(notary_.signed_texts[0]))), Hex(std::span(*answer).subspan(136)));
}

TEST_F(MaskRoundWire, Step2ChecksAllKeysAndSealsShares) {
  for (const std::uint32_t who : {0u, 2u, 3u, 4u}) {
    const std::size_t place = who == 0 ? 0 : who - 1;
    EXPECT_EQ(Hex(PublicOf(SecretOf(kLetters, who))) + Hex(PublicOf(SecretOf(kMasks, who))), kPublic[place]);
  }
  MaskState state = Keyed();
  kept_ = Codec::Encode(state);
  const auto answer = Answer(2, FromHex(kQuestion2));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  ASSERT_EQ(notary_.verified_texts.size(), 4u);
  EXPECT_EQ(notary_.verified_texts[1], kKeysText);
  // The letters are of polynomials that nobody else knows; all else is fixed.
  const Bytes other = FromHex(kAnswer2);
  const std::size_t letters = kFrameHeader + 8 + 32 + 8;
  ASSERT_EQ(answer->size(), other.size());
  EXPECT_EQ(Hex(std::span(*answer).subspan(8, letters - 8)), Hex(std::span(other).subspan(8, letters - 8)));
  EXPECT_EQ(Hex(std::span(*answer).subspan(kFrameHeader + 8, 32)), kCommitments[1]);
  const auto kept = Codec::Decode<MaskState>(kept_);
  ASSERT_TRUE(kept.ok());
  AreTheSecrets(SecretsIn(*answer, *kept->own));
  AreTheSecrets(SecretsIn(other, OwnShares()));
}

TEST_F(MaskRoundWire, Steps3To5HaveTheseBytes) {
  MaskState state = Keyed();
  kept_ = Codec::Encode(state);
  ASSERT_TRUE(Answer(2, FromHex(kQuestion2)).ok());
  auto shared = *Codec::Decode<MaskState>(kept_);
  shared.own.Mutable() = OwnShares();
  kept_ = Codec::Encode(shared);
  for (const auto& [step, question, expected] :
       std::vector<std::tuple<std::uint32_t, const char*, const char*>>{
           {3, kQuestion3, kAnswers3[1]}, {4, kQuestion4, kAnswers4[1]}, {5, kQuestion5, kAnswers5[1]}})
    for (int again = 0; again < 2; ++again) {
      const auto answer = Answer(step, FromHex(question));
      ASSERT_TRUE(answer.ok()) << step << ": " << answer.error().message;
      EXPECT_EQ(Hex(*answer), expected) << step;
    }
  ASSERT_FALSE(notary_.signed_texts.empty());
  EXPECT_EQ(notary_.signed_texts.back(), kSurvivorsText);
  EXPECT_EQ(notary_.verified_texts.back(), kSurvivorsText);
}

// The first bytes of masks, by what they are derived from.
TEST_F(MaskRoundWire, MasksAreStreamsOfDerivedKeys) {
  const std::size_t purpose = std::string_view("tacit masks: keys").size(), context = 1 + 4 + 32 + 4 + 16;
  const Bytes text = FromHex(std::string(kKeysText).substr(2 * purpose, 2 * context));
  std::vector<std::byte> out(16);
  KeyStream(Derive(SecretOf(kSeed, kWho), "tacit self mask", text)).Next(out);
  EXPECT_EQ(Hex(out), kSelfMask);
  Bytes both = text;
  for (const int b : {2, 0, 0, 0, 3, 0, 0, 0}) both.push_back(static_cast<std::byte>(b));
  const auto shared = Agree(SecretOf(kMasks, kWho), PublicOf(SecretOf(kMasks, 3)));
  ASSERT_TRUE(shared.ok());
  KeyStream(Derive(*shared, "tacit pair mask", both)).Next(out);
  EXPECT_EQ(Hex(out), kPairMask);
}

// The server's side of steps 4 and 5, from the file it keeps after step 3.
class MaskServerWire : public MaskRoundWire, public Link {
 protected:
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    asked_.push_back(Hex(q.frame));
    answers.clear();
    for (std::size_t i = 0; i < 3; ++i) {
      answers.push_back(FromHex(q.step == 4 ? kAnswers4[i] : kAnswers5[i]));
      EXPECT_TRUE(q.check(answers[i]).ok());
      EXPECT_TRUE(!q.check_from || q.check_from(kCounted[i], answers[i]).ok());
    }
    EXPECT_EQ(std::vector(q.who.begin(), q.who.end()), (std::vector<std::uint32_t>{0, 2, 4}));
    return Ok{};
  }
  const Roster* roster() const override { return &notary_; }
  std::vector<std::string> asked_;
};

TEST_F(MaskServerWire, TheSumIsOpenedFromTheseBytes) {
  struct File {
    Public<std::uint32_t> round;
    Public<Octets> attempt, keys, certificates, commitments, transcript;
    Public<std::vector<std::uint32_t>> keyed, sharing, surviving, lengths;
    Public<std::vector<std::uint64_t>> sizes;
    Public<Octets> answers;
    auto Fields() {
      return std::tie(round, attempt, keys, certificates, commitments, transcript, keyed, sharing, surviving,
                      lengths, sizes, answers);
    }
  } file;
  file.round.Mutable() = kRound;
  file.attempt.Mutable() = *Keyed().attempt;
  file.keys.Mutable() = Plain(Join(kPublic));
  for (const std::uint32_t who : {0u, 2u, 3u, 4u}) {
    const Octets certificate = Plain(FixedNotary(who).certificate());
    file.certificates.Mutable().insert(file.certificates.Mutable().end(), certificate.begin(),
                                       certificate.end());
  }
  file.commitments.Mutable() = Plain(Join(kCommitments));
  const Bytes question2 = FromHex(kQuestion2);
  Sha256 hash;
  hash.Add(std::span<const std::byte>(question2));
  file.transcript.Mutable() = Plain(hash.Finish());
  file.keyed.Mutable() = file.sharing.Mutable() = {0, 2, 3, 4};
  file.surviving.Mutable() = {0, 2, 4};
  file.lengths.Mutable() = {32, 32, 32, 32};
  file.sizes.Mutable() = {43, 43, 43};
  file.answers.Mutable() = Plain(Join(kAnswers3));
  MaskedLink link(*this, kQuorum, 24, [](const Bytes&) -> Status { return Ok{}; });
  ASSERT_TRUE(link.Restore(Codec::Encode(file)).ok());
  const std::vector<std::uint32_t> who = {0, 1, 2, 3, 4};
  std::vector<Bytes> answers;
  const Status done = link.Ask({.round = kRound,
                                .who = who,
                                .frame = {},
                                .most_bytes = 4096,
                                .check = [](auto) -> Status { return Ok{}; }},
                               answers);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(asked_, (std::vector<std::string>{kQuestion4, kQuestion5}));
  // What it hands on adds up to the updates' sum.
  const Bytes expected = FromHex(kSum);
  for (std::size_t j = 0; j < 5; ++j) {
    std::uint32_t sum = 0;
    const auto add = [&](const Bytes& frame) {
      std::uint32_t v = 0;
      std::memcpy(&v, frame.data() + kFrameHeader + 12 + 3 * j, 3);
      return v;
    };
    for (const std::uint32_t i : kCounted) sum += add(answers[i]);
    EXPECT_EQ(sum % (1 << 24), add(expected)) << j;
  }
  EXPECT_TRUE(answers[1].empty() && answers[3].empty());
}

}  // namespace
}  // namespace tacit
