// The five steps of a masked round, asked by hand and by a link that loses clients.
#include "runtime/mask_round.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <map>
#include <memory>

#include "privacy/mechanism.h"

namespace tacit {
namespace {

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;

// Ed25519 keys; the certificate is the public key, and all know whose is whose.
class TestNotary final : public Notary {
 public:
  TestNotary(std::uint32_t own, const std::vector<Key>& keys, std::string job)
      : own_(own), keys_(keys), job_(std::move(job)) {}
  std::string job() const override { return job_; }
  Bytes certificate() const override { return Public(own_); }
  Result<Bytes> Sign(std::span<const std::byte> message) const override {
    EVP_MD_CTX* c = EVP_MD_CTX_new();
    std::size_t size = 64;
    Bytes out(size);
    const bool ok =
        EVP_DigestSignInit(c, nullptr, nullptr, nullptr, keys_[own_].get()) == 1 &&
        EVP_DigestSign(c, reinterpret_cast<unsigned char*>(out.data()), &size,
                       reinterpret_cast<const unsigned char*>(message.data()), message.size()) == 1;
    EVP_MD_CTX_free(c);
    EXPECT_TRUE(ok);
    return out;
  }
  Status Verify(std::uint32_t client, std::span<const std::byte> certificate,
                std::span<const std::byte> message, std::span<const std::byte> signature) const override {
    if (client >= keys_.size() || !std::ranges::equal(certificate, Public(client)))
      return Fail(Code::kInvalidArgument, "another's certificate");
    EVP_MD_CTX* c = EVP_MD_CTX_new();
    const bool ok =
        EVP_DigestVerifyInit(c, nullptr, nullptr, nullptr, keys_[client].get()) == 1 &&
        EVP_DigestVerify(c, reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                         reinterpret_cast<const unsigned char*>(message.data()), message.size()) == 1;
    EVP_MD_CTX_free(c);
    return ok ? Status(Ok{}) : Fail(Code::kInvalidArgument, "another's signature");
  }

 private:
  Bytes Public(std::uint32_t who) const {
    Bytes out(32);
    std::size_t size = 32;
    EVP_PKEY_get_raw_public_key(keys_[who].get(), reinterpret_cast<unsigned char*>(out.data()), &size);
    return out;
  }
  std::uint32_t own_;
  const std::vector<Key>& keys_;
  std::string job_;
};

constexpr std::size_t kDim = 40;

struct Down {
  Public<std::uint32_t> t;
  auto Fields() { return std::tie(t); }
};

class MaskRound : public testing::Test, public Link {
 protected:
  void Begin(std::uint32_t clients, std::uint32_t minimum, std::uint32_t colluding = 0) {
    quorum_ = {clients, minimum, colluding};
    sum_.emplace(*SecureSum::Make(quorum_, NoiseStd::Proven(0.5), L2Bound{1.0}));
    keys_.clear();
    notaries_.clear();
    kept_.assign(clients, {});
    for (std::uint32_t i = 0; i < clients; ++i)
      keys_.emplace_back(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free);
    for (std::uint32_t i = 0; i < clients; ++i) notaries_.emplace_back(i, keys_, "a job");
    gone_.clear();
    tamper_ = {};
    heard_.clear();
    errors_.clear();
    noted_.clear();
    attempts_ = 0;
    killed_ = false;
  }

  // What a client seals in a round: the same whenever it is asked.
  Masked Input(std::uint32_t who, std::uint32_t round) const {
    Accountant plan(Adjacency::kReplaceOne);
    EXPECT_TRUE(plan.Compose(sum_->EventFor(L2Bound{2.0}, true, kDim), 1).ok());
    LedgerBook book(1, plan);
    Vec x(kDim);
    for (std::size_t j = 0; j < kDim; ++j) x[j] = 0.01 * static_cast<double>(j) * (who % 2 == 0 ? 1 : -1);
    Private<Vec> v(x);
    NoiseRng rng = NoiseRng::Replayable({3, Purpose::kNoise, who, round});
    NoiseBuffer noise;
    Masked out;
    EXPECT_TRUE(sum_->Seal(Bounded::Clip(v, L2Bound{1.0}), book.account(0), rng, noise, out).ok());
    return out;
  }
  Vec Sum(const std::vector<std::uint32_t>& who, std::uint32_t round) const {
    MaskedTotal total;
    for (const std::uint32_t i : who) total.Add(Input(i, round));
    Released<Vec> out;
    EXPECT_TRUE(sum_->Open(total, out).ok());
    return *out;
  }

  // A client as a new process finds it.
  MaskClient Client(std::uint32_t i) {
    MaskClient client(i, quorum_, notaries_[i], [this, i](const Bytes& bytes) -> Status {
      kept_[i] = bytes;
      return Ok{};
    });
    EXPECT_TRUE(kept_[i].empty() || client.Restore(kept_[i]).ok());
    return client;
  }
  Result<Bytes> AskOne(std::uint32_t i, std::uint32_t round, std::uint32_t step, const Bytes& question) {
    return Client(i).Answer(round, step, question,
                            [&](std::span<const std::byte>) -> Result<Masked> { return Input(i, round); });
  }

  // The link: clients that are gone from a step on do not answer; everyone else is killed after every answer,
  // and asked twice. Where too few answer the deadline passes, or the server is killed while it waits.
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    ++questions_;
    if (q.step == 1 && ++attempts_ > most_attempts_) return Fail(Code::kInterrupted, "too often");
    answers.assign(q.who.size(), {});
    std::size_t there = 0;
    for (std::size_t k = 0; k < q.who.size(); ++k) {
      const std::uint32_t i = q.who[k];
      if (const auto from = gone_.find(i); from != gone_.end() && q.step >= from->second) continue;
      Bytes question(q.frame.begin(), q.frame.end());
      if (!q.personal.empty()) question.insert(question.end(), q.personal[k].begin(), q.personal[k].end());
      heard_[{i, q.step}] = question;
      auto answer = AskOne(i, q.round, q.step, question);
      if (!answer.ok()) {
        errors_.push_back(answer.error().message);
        continue;
      }
      const auto again = AskOne(i, q.round, q.step, question);
      EXPECT_TRUE(again.ok() && *again == *answer);
      if (tamper_) tamper_(i, q.step, *answer);
      if (!q.check(*answer).ok() || (q.check_from && !q.check_from(i, *answer).ok())) continue;
      answers[k] = *answer;
      ++there;
    }
    if (q.patient && there < q.least && (killed_ || !q.gives_up))
      return Fail(Code::kInterrupted, "{}", killed_ ? "killed" : "waits for ever");
    return Ok{};
  }
  const Roster* roster() const override { return &notaries_.front(); }
  void Note(const std::string& text) override { noted_.push_back(text); }

  // A round, and the opened sum.
  Result<Vec> Round(std::uint32_t round) {
    MaskedLink link(*this, quorum_, sum_->bits(), [this](const Bytes& bytes) -> Status {
      server_ = bytes;
      return Ok{};
    });
    return Round(round, link);
  }
  Result<Vec> Round(std::uint32_t round, MaskedLink& link) {
    std::vector<std::uint32_t> who(quorum_.clients);
    for (std::uint32_t i = 0; i < who.size(); ++i) who[i] = i;
    Down down;
    down.t.Mutable() = round;
    const Bytes frame = Codec::Encode(down);
    std::vector<Bytes> answers;
    TACIT_OK(link.Ask({.round = round,
                       .who = who,
                       .frame = frame,
                       .most_bytes = 1 << 20,
                       .check = [](auto bytes) -> Status {
                         TACIT_TRY(const auto m, Codec::Decode<MaskedMessage>(bytes));
                         if (m.update.dim() == kDim) return Ok{};
                         return Fail(Code::kMalformed, "length");
                       }},
                      answers));
    MaskedTotal total;
    survivors_.clear();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].empty()) continue;
      TACIT_TRY(const auto m, Codec::Decode<MaskedMessage>(answers[i]));
      total.Add(m.update);
      survivors_.push_back(who[i]);
    }
    if (survivors_.empty()) return Fail(Code::kNotFound, "nothing was opened");
    Released<Vec> out;
    TACIT_OK(sum_->Open(total, out));
    return *out;
  }
  bool AnyoneOpened() {
    for (std::uint32_t i = 0; i < quorum_.clients; ++i)
      if (Client(i).step() == 5) return true;
    return false;
  }

  Quorum quorum_;
  std::optional<SecureSum> sum_;
  std::vector<Key> keys_;
  std::vector<TestNotary> notaries_;
  std::vector<Bytes> kept_;  // each client's file
  Bytes server_;  // and the server's
  std::map<std::uint32_t, std::uint32_t> gone_;  // from which step on
  std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes> heard_;
  std::function<void(std::uint32_t, std::uint32_t, Bytes&)> tamper_;
  std::vector<std::string> errors_, noted_;
  std::vector<std::uint32_t> survivors_;
  int attempts_ = 0, most_attempts_ = 1, questions_ = 0;
  bool killed_ = false;
};

// Every set of clients lost at every step, of 5 with at least 3: the exact sum of those whose input was
// there, or nothing.
TEST_F(MaskRound, EveryLossDownToTheThresholdGivesTheExactSumAndBelowItNothing) {
  for (std::uint32_t step = 1; step <= kMaskSteps; ++step)
    for (unsigned set = 0; set < 32; ++set) {
      Begin(5, 3);
      std::vector<std::uint32_t> counted;
      std::size_t left = 0;
      for (std::uint32_t i = 0; i < 5; ++i) {
        const bool lost = (set >> i & 1) != 0;
        if (lost) gone_[i] = step;
        left += lost ? 0 : 1;
        if (!lost || step > 3) counted.push_back(i);
      }
      const auto sum = Round(1);
      ASSERT_EQ(sum.ok(), left >= 3) << "step " << step << " set " << set;
      if (!sum.ok()) {
        EXPECT_EQ(sum.error().code, step < 4 ? Code::kInterrupted : Code::kNotFound) << sum.error().message;
        EXPECT_TRUE(step == 5 || !AnyoneOpened());
        continue;
      }
      EXPECT_EQ(survivors_, counted);
      EXPECT_EQ(*sum, Sum(counted, 1));
      EXPECT_TRUE(errors_.empty()) << errors_.front();
    }
}

TEST_F(MaskRound, RoundsFollowEachOther) {
  Begin(4, 3, 1);
  most_attempts_ = 100;
  for (std::uint32_t round = 1; round <= 3; ++round) {
    gone_.clear();
    if (round == 2) gone_[1] = 3;
    const auto sum = Round(round);
    ASSERT_TRUE(sum.ok()) << sum.error().message;
    EXPECT_EQ(*sum,
              Sum(round == 2 ? std::vector<std::uint32_t>{0, 2, 3} : std::vector<std::uint32_t>{0, 1, 2, 3},
                  round));
  }
  // A round that is past is not answered, and one that a client was not in is not opened.
  EXPECT_EQ(AskOne(0, 2, 5, heard_[{0, 5}]).error().code, Code::kBudget);
  EXPECT_EQ(AskOne(0, 4, 5, heard_[{0, 5}]).error().code, Code::kBudget);
  EXPECT_EQ(AskOne(0, 4, 3, heard_[{0, 3}]).error().code, Code::kBudget);
}

TEST_F(MaskRound, WithTooFewTheRoundBeginsAgainAndTheUpdatesStayTheSame) {
  Begin(5, 4);
  most_attempts_ = 2;
  gone_ = {{0, 3}, {1, 3}};
  int rounds = 0;
  tamper_ = [&](std::uint32_t, std::uint32_t step, Bytes&) {
    if (step == 1 && ++rounds == 6) gone_.clear();  // back in the second attempt
  };
  const auto sum = Round(1);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(attempts_, 2);
  EXPECT_EQ(*sum, Sum({0, 1, 2, 3, 4}, 1));
}

// A server that has one sum of a round gets no other, and never both shares of anybody.
TEST_F(MaskRound, OneSumOfARoundIsOpenedAndNeverBothShares) {
  Begin(5, 3);
  gone_ = {{4, 3}};
  ASSERT_TRUE(Round(1).ok());
  const auto before = kept_;
  struct Named {
    Public<Octets> attempt;
    Public<std::vector<std::uint32_t>> ids;
    auto Fields() { return std::tie(attempt, ids); }
  };
  auto named = *Codec::Decode<Named>(heard_[{0, 4}]);
  named.ids.Mutable() = {0, 1, 2};
  const Bytes other = Codec::Encode(named);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(AskOne(i, 1, 4, other).error().code, Code::kBudget);  // another set
    EXPECT_TRUE(AskOne(i, 1, 4, heard_[{i, 4}]).ok());  // the same set
    EXPECT_EQ(AskOne(i, 1, 5, other).error().code, Code::kMalformed);  // another opening
    EXPECT_EQ(AskOne(i, 1, 2, heard_[{i, 2}]).error().code, Code::kBudget);  // a step back
    EXPECT_EQ(AskOne(i, 1, 3, heard_[{i, 3}]).error().code, Code::kBudget);
    EXPECT_TRUE(AskOne(i, 1, 5, heard_[{i, 5}]).ok());  // the same again
  }
  // Another attempt of the same round, once a set is signed.
  struct Start {
    Public<Octets> attempt;
    auto Fields() { return std::tie(attempt); }
  } start;
  start.attempt.Mutable() = Octets(16, 7);
  EXPECT_EQ(AskOne(0, 1, 1, Codec::Encode(start)).error().code, Code::kBudget);
  EXPECT_EQ(kept_, before);
  EXPECT_TRUE(AskOne(0, 2, 1, Codec::Encode(start)).ok());
}

// Before anybody opens, t clients must have signed the set that a client has.
TEST_F(MaskRound, ASetThatOthersDidNotSignIsNotOpened) {
  Begin(5, 3);
  gone_ = {{0, 5}, {1, 5}, {2, 5}, {3, 5}, {4, 5}};
  killed_ = true;
  ASSERT_FALSE(Round(1).ok());
  struct Signed {
    Public<Octets> attempt;
    Public<std::vector<std::uint32_t>> ids, lengths;
    Public<Octets> signatures;
    auto Fields() { return std::tie(attempt, ids, lengths, signatures); }
  };
  // Built from what each has answered in step 4.
  struct One {
    Public<Octets> signature;
    auto Fields() { return std::tie(signature); }
  };
  struct Named {
    Public<Octets> attempt;
    Public<std::vector<std::uint32_t>> ids;
    auto Fields() { return std::tie(attempt, ids); }
  };
  const auto named = *Codec::Decode<Named>(heard_[{0, 4}]);
  const auto made = [&](const std::vector<std::uint32_t>& ids, bool forged) {
    Signed s;
    s.attempt = named.attempt;
    for (const std::uint32_t i : ids) {
      const auto one = *Codec::Decode<One>(*AskOne(i, 1, 4, heard_[{i, 4}]));
      s.ids.Mutable().push_back(i);
      s.lengths.Mutable().push_back(64);
      s.signatures.Mutable().insert(s.signatures.Mutable().end(), one.signature->begin(),
                                    one.signature->end());
    }
    if (forged) s.signatures.Mutable()[70] ^= 1;
    return Codec::Encode(s);
  };
  EXPECT_EQ(AskOne(0, 1, 5, made({0, 1}, false)).error().code, Code::kBudget);  // fewer than t
  EXPECT_EQ(AskOne(0, 1, 5, made({0, 1, 2}, true)).error().code, Code::kMismatch);
  EXPECT_TRUE(AskOne(0, 1, 5, made({0, 1, 2}, false)).ok());
}

TEST_F(MaskRound, AServerCannotMakeUpClientsOrChangeTheirKeys) {
  Begin(4, 3);
  gone_ = {{0, 2}, {1, 2}, {2, 2}, {3, 2}};
  ASSERT_FALSE(Round(1).ok());
  // Another authority's clients: keys that nobody of this job signed.
  std::vector<Key> strangers;
  for (int i = 0; i < 4; ++i)
    strangers.emplace_back(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free);
  std::vector<TestNotary> forged;
  for (std::uint32_t i = 0; i < 4; ++i) forged.emplace_back(i, strangers, "a job");
  gone_.clear();
  attempts_ = 0;
  bool swapped = false;
  tamper_ = [&](std::uint32_t i, std::uint32_t step, Bytes& answer) {
    if (step != 1 || i != 2) return;
    MaskClient stranger(2, quorum_, forged[2], [](const Bytes&) -> Status { return Ok{}; });
    answer = *stranger.Answer(1, 1, heard_[{2, 1}], {});
    swapped = true;
  };
  const auto sum = Round(1);  // an honest server finds it too, and leaves the client out
  ASSERT_TRUE(swapped);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(survivors_, (std::vector<std::uint32_t>{0, 1, 3}));

  // And a client finds it where the server does not say: any byte of what is named for another is signed.
  attempts_ = 0;
  Bytes first;
  tamper_ = [&](std::uint32_t i, std::uint32_t step, Bytes&) {
    if (step == 1 && i == 0) first = kept_[0];
  };
  ASSERT_TRUE(Round(2).ok());
  const Bytes honest = heard_[{0, 2}];
  struct List {
    Public<Octets> attempt;
    Public<std::vector<std::uint32_t>> ids;
    Public<Octets> keys;
    Public<std::vector<std::uint32_t>> certificate_lengths;
    Public<Octets> certificates;
    Public<std::vector<std::uint32_t>> signature_lengths;
    Public<Octets> signatures;
    auto Fields() {
      return std::tie(attempt, ids, keys, certificate_lengths, certificates, signature_lengths, signatures);
    }
  };
  for (const std::size_t at : {std::size_t{64 + 3}, std::size_t{64 + 40}, std::size_t{3}}) {
    auto list = *Codec::Decode<List>(honest);
    list.keys.Mutable()[at] ^= 1;  // of another client, or its own
    kept_[0] = first;
    EXPECT_EQ(AskOne(0, 2, 2, Codec::Encode(list)).error().code, Code::kMismatch);
  }
  auto twice = *Codec::Decode<List>(honest);
  std::copy_n(twice.keys->begin() + 64, 64, twice.keys.Mutable().begin() + 128);
  kept_[0] = first;
  EXPECT_EQ(AskOne(0, 2, 2, Codec::Encode(twice)).error().code, Code::kMismatch);
  kept_[0] = first;
  EXPECT_TRUE(AskOne(0, 2, 2, honest).ok());
}

TEST_F(MaskRound, AServerThatNamesTooFewIsRefused) {
  Begin(5, 4);
  gone_ = {{0, 4}};
  ASSERT_TRUE(Round(1).ok());
  Begin(5, 4);
  gone_ = {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 4}};
  ASSERT_FALSE(Round(1).ok());
  struct Named {
    Public<Octets> attempt;
    Public<std::vector<std::uint32_t>> ids;
    auto Fields() { return std::tie(attempt, ids); }
  };
  // Nobody was asked to sign; the attempt is in the letters of step 3, after the broadcast.
  const Bytes& third = heard_[{0, 3}];
  const std::size_t down = kFrameHeader + sizeof(std::uint32_t);
  struct Letters {
    Public<Octets> attempt;
    Public<std::vector<std::uint32_t>> ids;
    Public<Octets> sealed;
    auto Fields() { return std::tie(attempt, ids, sealed); }
  };
  const auto letters = *Codec::Decode<Letters>(std::span(third).subspan(down));
  Named named;
  named.attempt = letters.attempt;
  for (const std::vector<std::uint32_t>& ids : std::vector<std::vector<std::uint32_t>>{{0, 1, 2}, {0}, {}}) {
    named.ids.Mutable() = ids;
    EXPECT_FALSE(AskOne(0, 1, 4, Codec::Encode(named)).ok());
  }
  named.ids.Mutable() = {1, 2, 3, 4};  // without itself
  EXPECT_FALSE(AskOne(0, 1, 4, Codec::Encode(named)).ok());
  named.ids.Mutable() = {0, 1, 2, 3, 9};  // with one that is none
  EXPECT_FALSE(AskOne(0, 1, 4, Codec::Encode(named)).ok());
  named.ids.Mutable() = {0, 1, 2, 3};
  EXPECT_TRUE(AskOne(0, 1, 4, Codec::Encode(named)).ok());
}

TEST_F(MaskRound, LettersThatWereChangedAreFound) {
  Begin(4, 3);
  tamper_ = [](std::uint32_t i, std::uint32_t step, Bytes& answer) {
    if (i != 1 || step != 2) return;
    struct Shares {
      Public<Octets> commitment, sealed;
      auto Fields() { return std::tie(commitment, sealed); }
    };
    auto m = *Codec::Decode<Shares>(answer);
    m.sealed.Mutable()[5] ^= 1;  // the one for client 0
    answer = Codec::Encode(m);
  };
  const auto sum = Round(1);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(survivors_, (std::vector<std::uint32_t>{1, 2, 3}));  // 0 has left the round
  EXPECT_EQ(*sum, Sum({1, 2, 3}, 1));
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_NE(errors_[0].find("shares of client 1"), std::string::npos) << errors_[0];
}

TEST_F(MaskRound, AWrongShareIsLeftOutAndTooManyAreFound) {
  const auto wrong = [](std::set<std::uint32_t> who) {
    return [who](std::uint32_t i, std::uint32_t step, Bytes& answer) {
      if (who.count(i) == 0 || step != 5) return;
      struct Values {
        Public<std::vector<std::uint64_t>> values;
        auto Fields() { return std::tie(values); }
      };
      auto m = *Codec::Decode<Values>(answer);
      for (std::uint64_t& v : m.values.Mutable()) v ^= 2;
      answer = Codec::Encode(m);
    };
  };
  Begin(5, 3);
  gone_ = {{4, 3}};
  tamper_ = wrong({1});
  const auto sum = Round(1);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(*sum, Sum({0, 1, 2, 3}, 1));
  Begin(5, 3);
  tamper_ = wrong({0, 1, 2});
  const auto none = Round(1);
  ASSERT_FALSE(none.ok());  // the round ends as if nobody had answered, and the next one goes well
  EXPECT_EQ(none.error().code, Code::kNotFound);
  ASSERT_FALSE(noted_.empty());
  EXPECT_NE(noted_.back().find("do not fit"), std::string::npos) << noted_.back();
  tamper_ = {};
  most_attempts_ = 2;
  const auto next = Round(2);
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ(*next, Sum({0, 1, 2, 3, 4}, 2));
}

// Junk in place of a signature does not count among those that are needed.
TEST_F(MaskRound, ASignatureThatIsNoneIsNotCounted) {
  Begin(5, 3);
  tamper_ = [](std::uint32_t i, std::uint32_t step, Bytes& answer) {
    if (i < 2 && step == 4) answer[answer.size() - 1] ^= std::byte{1};
  };
  const auto sum = Round(1);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(*sum, Sum({0, 1, 2, 3, 4}, 1));
}

// Killed after the survivors were named, the server goes on with that set; the clients sign no other.
TEST_F(MaskRound, AServerThatIsRestartedOpensTheSameSum) {
  Begin(5, 3);
  gone_ = {{4, 3}, {0, 5}, {1, 5}, {2, 5}, {3, 5}};
  killed_ = true;
  ASSERT_FALSE(Round(1).ok());
  gone_.clear();
  attempts_ = 0;
  most_attempts_ = 0;  // it does not begin again
  MaskedLink link(*this, quorum_, sum_->bits(), [](const Bytes&) -> Status { return Ok{}; });
  ASSERT_TRUE(link.Restore(server_).ok());
  const auto sum = Round(1, link);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(*sum, Sum({0, 1, 2, 3}, 1));
  // One that lost its file finds clients that have signed.
  most_attempts_ = 1;
  EXPECT_FALSE(Round(1).ok());
  ASSERT_FALSE(errors_.empty());
  EXPECT_NE(errors_.back().find("signed"), std::string::npos) << errors_.back();
}

// Killed while shares come in: some clients have opened. It asks for signatures and shares again, gets the
// same bytes from them, and may have other signers than before.
TEST_F(MaskRound, AServerThatIsRestartedWhileClientsOpenGetsTheSameBytes) {
  Begin(5, 3);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes> said;
  tamper_ = [&](std::uint32_t i, std::uint32_t step, Bytes& answer) { said[{i, step}] = answer; };
  gone_ = {{2, 5}, {3, 5}, {4, 5}};
  killed_ = true;
  ASSERT_FALSE(Round(1).ok());
  ASSERT_TRUE(AnyoneOpened());
  const auto before = said;
  const Bytes first = heard_[{0, 5}];
  gone_ = {{1, 4}};
  attempts_ = 0;
  most_attempts_ = 0;
  MaskedLink link(*this, quorum_, sum_->bits(), [](const Bytes&) -> Status { return Ok{}; });
  ASSERT_TRUE(link.Restore(server_).ok());
  const auto sum = Round(1, link);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(*sum, Sum({0, 1, 2, 3, 4}, 1));
  EXPECT_TRUE(errors_.empty()) << errors_.front();
  EXPECT_NE((heard_[{0, 5}]), first);  // other signatures
  for (const auto& [what, bytes] : before) EXPECT_EQ(said[what], bytes) << what.first << " " << what.second;
}

// Of six clients, four of whom open a sum, four are counted and one of these is lost for good before it
// signs, or before it opens. The round ends without an answer and nothing of it is opened; it stays so if the
// server is killed then; the next one has whoever is there, from whatever step of the round before.
TEST_F(MaskRound, ARoundThatTooFewSignOrOpenIsAbandonedAndTheNextOneIsOpened) {
  for (const std::uint32_t step : {4u, 5u}) {
    SCOPED_TRACE(step);
    Begin(6, 4);
    most_attempts_ = 10;
    gone_ = {{0, step}, {4, 3}, {5, 2}};
    const auto none = Round(1);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, Code::kNotFound) << none.error().message;
    EXPECT_EQ(attempts_, 1);
    EXPECT_EQ(AnyoneOpened(), step == 5);
    ASSERT_FALSE(noted_.empty());
    EXPECT_NE(noted_.back().find(step == 4 ? "3 of 4 clients have signed"
                                           : "3 of 4 clients who signed have opened"),
              std::string::npos)
        << noted_.back();
    EXPECT_NE(noted_.back().find("abandoned"), std::string::npos) << noted_.back();
    const auto first = heard_;

    // Killed before the round was kept: all are back, and nobody is asked again.
    gone_.clear();
    const int before = questions_;
    MaskedLink again(*this, quorum_, sum_->bits(), [](const Bytes&) -> Status { return Ok{}; });
    ASSERT_TRUE(again.Restore(server_).ok());
    EXPECT_EQ(Round(1, again).error().code, Code::kNotFound);
    EXPECT_EQ(questions_, before);

    // The next round, by a server that was killed after the round was kept.
    gone_ = {{0, 1}};
    MaskedLink next(*this, quorum_, sum_->bits(), [](const Bytes&) -> Status { return Ok{}; });
    ASSERT_TRUE(next.Restore(server_).ok());
    const auto second = Round(2, next);
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_EQ(*second, Sum({1, 2, 3, 4, 5}, 2));
    // Of the round before nothing is answered any more by those who went on, also not what would complete it.
    for (std::uint32_t i = 1; i < 6; ++i)
      for (std::uint32_t s = 1; s <= kMaskSteps; ++s)
        if (const auto asked = first.find({i, s}); asked != first.end()) {
          EXPECT_EQ(AskOne(i, 1, s, asked->second).error().code, Code::kBudget);
        }

    gone_.clear();  // and the lost one comes back
    const auto third = Round(3);
    ASSERT_TRUE(third.ok()) << third.error().message;
    EXPECT_EQ(*third, Sum({0, 1, 2, 3, 4, 5}, 3));
    EXPECT_TRUE(errors_.empty()) << errors_.front();
  }
}

}  // namespace
}  // namespace tacit
