#include "runtime/mask_round.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/sha256.h"

namespace tacit {
namespace {

constexpr std::size_t kAttempt = 16, kKeys = 2 * sizeof(OpenKey), kMostCertificate = 8192, kDigest = 32;
constexpr std::size_t kPair = 2 * kShareWords;                         // numbers: of s and of b
constexpr std::size_t kSealed = kPair * sizeof(std::uint64_t) + kSealBytes;
using Ids = std::vector<std::uint32_t>;

struct Begin {                       // step 1: a fresh start
  Public<Octets> attempt;
  auto Fields() { return std::tie(attempt); }
};
struct KeysAnswer {
  Public<Octets> keys, certificate, signature;
  auto Fields() { return std::tie(keys, certificate, signature); }
};
struct KeyList {                     // step 2
  Public<Octets> attempt;
  Public<Ids> ids;
  Public<Octets> keys;
  Public<Ids> certificate_lengths;
  Public<Octets> certificates;
  Public<Ids> signature_lengths;
  Public<Octets> signatures;
  auto Fields() {
    return std::tie(attempt, ids, keys, certificate_lengths, certificates, signature_lengths, signatures);
  }
};
struct SharesAnswer {
  Public<Octets> commitment, sealed;  // sealed: for the others, in order
  auto Fields() { return std::tie(commitment, sealed); }
};
struct Letters {                     // step 3, after the broadcast: from the others, in order
  Public<Octets> attempt;
  Public<Ids> ids;
  Public<Octets> sealed;
  auto Fields() { return std::tie(attempt, ids, sealed); }
};
struct Survivors {                   // step 4
  Public<Octets> attempt;
  Public<Ids> ids;
  auto Fields() { return std::tie(attempt, ids); }
};
struct SignatureAnswer {
  Public<Octets> signature;
  auto Fields() { return std::tie(signature); }
};
struct Signed {                      // step 5: who signed
  Public<Octets> attempt;
  Public<Ids> ids, lengths;
  Public<Octets> signatures;
  auto Fields() { return std::tie(attempt, ids, lengths, signatures); }
};
struct OpenAnswer {
  Public<std::vector<std::uint64_t>> values;  // of b or of s, for each who sent shares
  auto Fields() { return std::tie(values); }
};

std::span<const std::byte> Raw(const Octets& v) { return std::as_bytes(std::span(v)); }
Octets Plain(std::span<const std::byte> b) {
  Octets out(b.size());
  std::transform(b.begin(), b.end(), out.begin(), [](std::byte x) { return static_cast<std::uint8_t>(x); });
  return out;
}
Octets Digest(std::span<const std::byte> b) {
  Sha256 hash;
  hash.Add(b);
  return Plain(hash.Finish());
}

class Text {
 public:
  explicit Text(std::string_view purpose) { Add(std::as_bytes(std::span(purpose))), Byte(0); }
  Text& Add(std::span<const std::byte> b) {
    bytes_.insert(bytes_.end(), b.begin(), b.end());
    return *this;
  }
  Text& Add(std::uint32_t v) { return Add(std::as_bytes(std::span(&v, 1))); }
  Text& Add(const Ids& ids) {
    Add(static_cast<std::uint32_t>(ids.size()));
    return Add(std::as_bytes(std::span(ids)));
  }
  operator std::span<const std::byte>() const { return bytes_; }  // NOLINT(google-explicit-constructor)

 private:
  void Byte(unsigned char b) { bytes_.push_back(static_cast<std::byte>(b)); }
  Bytes bytes_;
};
// What everything of one attempt is bound to.
Text Of(const Roster& roster, std::string_view purpose, std::uint32_t round, const Octets& attempt) {
  Text t(purpose);
  const std::string job = roster.job();
  t.Add(static_cast<std::uint32_t>(job.size())).Add(std::as_bytes(std::span(job)));
  t.Add(round).Add(Raw(attempt));
  return t;
}
Text KeysText(const Roster& roster, std::uint32_t round, const Octets& attempt, std::uint32_t client,
              std::span<const std::byte> keys) {
  return Of(roster, "tacit masks: keys", round, attempt).Add(client).Add(keys);
}
Text SurvivorsText(const Roster& roster, std::uint32_t round, const Octets& attempt, const Octets& transcript,
                   const Ids& sharing, const Ids& surviving) {
  return Of(roster, "tacit masks: survivors", round, attempt)
      .Add(Raw(transcript))
      .Add(sharing)
      .Add(surviving);
}
Octets Commitment(const Roster& roster, std::uint32_t round, const Octets& attempt, const Secret& seed) {
  return Digest(Of(roster, "tacit masks: seed", round, attempt).Add(seed.at));
}
Secret SelfMask(const Roster& roster, std::uint32_t round, const Octets& attempt, const Secret& seed) {
  return Derive(seed, "tacit self mask", Of(roster, "", round, attempt));
}
Result<Mask> PairMask(const Roster& roster, std::uint32_t round, const Octets& attempt, std::uint32_t own,
                      const Secret& secret, std::uint32_t other, const OpenKey& key) {
  TACIT_TRY(const Secret shared, Agree(secret, key));
  return Mask{Derive(shared, "tacit pair mask",
                     Of(roster, "", round, attempt).Add(std::min(own, other)).Add(std::max(own, other))),
              own > other};
}
Text LetterText(const Roster& roster, std::uint32_t round, const Octets& attempt, std::uint32_t from,
                std::uint32_t to) {
  return Of(roster, "tacit masks: share", round, attempt).Add(from).Add(to);
}
Result<Secret> LetterKey(const Secret& own, const OpenKey& other, std::span<const std::byte> text) {
  TACIT_TRY(const Secret shared, Agree(own, other));
  return Derive(shared, "tacit share", text);
}

OpenKey KeyAt(const Octets& keys, std::size_t who, std::size_t which) {
  OpenKey key;
  std::memcpy(key.data(), keys.data() + who * kKeys + which * sizeof key, sizeof key);
  return key;
}
Secret SecretAt(const Octets& secrets, std::size_t which) {
  return Secret(
      std::span<const std::byte, Secret::kSize>(Raw(secrets).subspan(which * Secret::kSize, Secret::kSize)));
}
SecretShare ShareAt(const std::vector<std::uint64_t>& values, std::size_t at) {
  SecretShare share;
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at * kShareWords), kShareWords, share.at.begin());
  return share;
}

// Ascending ids of clients, this one among them.
bool IsSet(const Ids& ids, std::uint32_t clients) {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end() &&
         (ids.empty() || ids.back() < clients);
}
bool Has(const Ids& ids, std::uint32_t id) { return std::binary_search(ids.begin(), ids.end(), id); }
bool Within(const Ids& part, const Ids& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}
std::size_t PlaceIn(const Ids& ids, std::uint32_t id) {
  return static_cast<std::size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
}
// Texts one after the other; false: the lengths are not theirs.
bool Cut(const Octets& all, const Ids& lengths, std::vector<std::span<const std::byte>>& out) {
  std::size_t at = 0;
  for (const std::uint32_t n : lengths) {
    if (n > all.size() - at) return false;
    out.push_back(Raw(all).subspan(at, n));
    at += n;
  }
  return at == all.size();
}

Error NoQuestion() {
  return Fail(Code::kMalformed,
              "the server's question is none of a masked round; both must run the same version");
}
Error TooFew(const char* what, std::size_t there, std::size_t needed) {
  return Fail(Code::kBudget,
              "the server names {} clients {}, and this job needs {}: with fewer a sum has too "
              "little noise, or none; refused",
              there, what, needed);
}

}  // namespace

Status MaskClient::Restore(std::span<const std::byte> kept) {
  TACIT_TRY(at_, Codec::Decode<MaskState>(kept));
  return Ok{};
}

Result<Bytes> MaskClient::Answer(std::uint32_t round, std::uint32_t step, std::span<const std::byte> question,
                                 const Input& input) {
  const Octets digest = Digest(question);
  const bool same_round = round == *at_.round && round != 0;
  if (round < *at_.round || round == 0 || step < 1 || step > kMaskSteps)
    return Fail(Code::kBudget, "the server asks for step {} of round {}, and round {} is the last that began",
                step, round, *at_.round);
  const auto copy = [](const Octets& of) { return Bytes(Raw(of).begin(), Raw(of).end()); };
  MaskState next;
  if (same_round && step == *at_.step && digest == *at_.question) {
    if (step != 3) return copy(*at_.reply);
    next = at_;
  } else if (same_round && *at_.step == 5 && step == 4 && digest == *at_.set) {
    return copy(*at_.signature);  // a server that was restarted asks for it again
  } else if (same_round && *at_.step == 5 && step == 5) {
    // By other signatures perhaps, as others were there; it is the same set, so these are the same shares.
    TACIT_OK(Agreed(at_, question));
    return copy(*at_.reply);
  } else if (step == 1) {
    // A second start of a round is for clients that were lost; once a set is signed there is none.
    if (same_round && *at_.step >= 4)
      return Fail(
          Code::kBudget,
          "the server begins round {} again, and this client has signed who is counted in it; another "
          "sum of the same updates would show the difference; refused",
          round);
    TACIT_TRY(const Begin begin, Codec::Decode<Begin>(question));
    if (begin.attempt->size() != kAttempt || (same_round && *begin.attempt == *at_.attempt))
      return NoQuestion();
    next.attempt = begin.attempt;
  } else if (!same_round || step != *at_.step + 1) {
    return Fail(
        Code::kBudget,
        "the server asks for step {} of round {}, and this client {}; it is answered once, and in order",
        step, round,
        same_round ? fmt::format("has answered step {}", *at_.step) : std::string("did not take part in it"));
  } else {
    next = at_;
  }
  next.round.Mutable() = round;
  next.step.Mutable() = step;
  next.question.Mutable() = digest;
  next.reply.Mutable().clear();
  Bytes reply;
  if (step == 5) TACIT_OK(Agreed(next, question));
  if (step == 3) {
    TACIT_TRY(reply, Cover(next, question, input));
  } else {
    TACIT_TRY(next.reply.Mutable(), step == 1   ? Keys(next, question)
                                    : step == 2 ? Shares(next, question)
                                    : step == 4 ? Sign(next, question)
                                                : Open(next));
    reply = copy(*next.reply);
  }
  if (step == 4) next.set = next.question, next.signature = next.reply;
  Bytes kept = Codec::Encode(next);
  const Status durable = keep_(kept);
  Wipe(kept);
  if (!durable.ok()) return durable.error();
  at_ = std::move(next);
  return reply;
}

Result<Octets> MaskClient::Keys(MaskState& s, std::span<const std::byte>) const {
  const KeyPair letters = KeyPair::Make(), masks = KeyPair::Make();
  const Secret seed = Secret::Random();
  Octets& secrets = s.secrets.Mutable();
  secrets.clear();
  secrets.reserve(3 * Secret::kSize);
  for (const Secret* one : {&letters.secret, &masks.secret, &seed})
    for (const std::byte b : one->at) secrets.push_back(static_cast<std::uint8_t>(b));
  KeysAnswer a;
  a.keys.Mutable() = Plain(letters.open);
  for (const std::byte b : masks.open) a.keys.Mutable().push_back(static_cast<std::uint8_t>(b));
  TACIT_TRY(const Bytes signature, notary_.Sign(KeysText(notary_, *s.round, *s.attempt, id_, Raw(*a.keys))));
  a.signature.Mutable() = Plain(signature);
  a.certificate.Mutable() = Plain(notary_.certificate());
  s.keys = a.keys;  // its own, until all are known
  return Plain(Codec::Encode(a));
}

Result<Octets> MaskClient::Shares(MaskState& s, std::span<const std::byte> question) const {
  TACIT_TRY(const KeyList list, Codec::Decode<KeyList>(question));
  const Ids& ids = *list.ids;
  std::vector<std::span<const std::byte>> certificates, signatures;
  if (*list.attempt != *s.attempt || !IsSet(ids, quorum_.clients) || !Has(ids, id_) ||
      list.keys->size() != ids.size() * kKeys || list.certificate_lengths->size() != ids.size() ||
      list.signature_lengths->size() != ids.size() ||
      std::any_of(list.certificate_lengths->begin(), list.certificate_lengths->end(),
                  [](std::uint32_t n) { return n > kMostCertificate; }) ||
      !Cut(*list.certificates, *list.certificate_lengths, certificates) ||
      !Cut(*list.signatures, *list.signature_lengths, signatures))
    return NoQuestion();
  if (ids.size() < quorum_.minimum) return TooFew("with keys", ids.size(), quorum_.minimum);
  const std::size_t own = PlaceIn(ids, id_);
  if (!std::equal(s.keys->begin(), s.keys->end(),
                  list.keys->begin() + static_cast<std::ptrdiff_t>(own * kKeys)))
    return Fail(Code::kMismatch, "the server names other keys for this client than it made; refused");
  std::set<OpenKey> seen;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (const std::size_t which : {std::size_t{0}, std::size_t{1}})
      if (!seen.insert(KeyAt(*list.keys, i, which)).second)
        return Fail(Code::kMismatch, "the server names one key twice; refused");
    if (const Status ok = notary_.Verify(
            ids[i], certificates[i],
            KeysText(notary_, *s.round, *s.attempt, ids[i], Raw(*list.keys).subspan(i * kKeys, kKeys)),
            signatures[i]);
        !ok.ok())
      return Fail(Code::kMismatch,
                  "the keys that the server names for client {} are not its own ({}); refused", ids[i],
                  ok.error().message);
  }
  const Secret letters = SecretAt(*s.secrets, 0), masks = SecretAt(*s.secrets, 1),
               seed = SecretAt(*s.secrets, 2);
  const auto of_masks = Split(masks, quorum_.threshold(), ids),
             of_seed = Split(seed, quorum_.threshold(), ids);
  SharesAnswer a;
  a.commitment.Mutable() = Commitment(notary_, *s.round, *s.attempt, seed);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::array<std::uint64_t, kPair> pair;
    std::copy(of_masks[i].at.begin(), of_masks[i].at.end(), pair.begin());
    std::copy(of_seed[i].at.begin(), of_seed[i].at.end(), pair.begin() + kShareWords);
    if (i == own) {
      s.own.Mutable().assign(pair.begin(), pair.end());
      Wipe(std::as_writable_bytes(std::span(pair)));
      continue;
    }
    const Text text = LetterText(notary_, *s.round, *s.attempt, id_, ids[i]);
    TACIT_TRY(const Secret key, LetterKey(letters, KeyAt(*list.keys, i, 0), text));
    const Octets sealed = Plain(Encrypt(key, std::as_bytes(std::span(pair)), text));
    Wipe(std::as_writable_bytes(std::span(pair)));
    a.sealed.Mutable().insert(a.sealed.Mutable().end(), sealed.begin(), sealed.end());
  }
  s.keyed = list.ids;
  s.keys = list.keys;
  s.lengths = list.certificate_lengths;
  s.certificates = list.certificates;
  s.transcript.Mutable() = Digest(question);
  return Plain(Codec::Encode(a));
}

Result<Bytes> MaskClient::Cover(MaskState& s, std::span<const std::byte> question, const Input& input) const {
  // The broadcast's frame, and after it the frame of letters to this client.
  std::uint64_t length = 0;
  if (question.size() < 2 * kFrameHeader) return NoQuestion();
  std::memcpy(&length, question.data() + 8, sizeof length);
  if (length > question.size() - kFrameHeader) return NoQuestion();
  const auto down = question.first(kFrameHeader + static_cast<std::size_t>(length));
  TACIT_TRY(const Letters letters, Codec::Decode<Letters>(question.subspan(down.size())));
  const Ids& ids = *letters.ids;
  if (*letters.attempt != *s.attempt || !IsSet(ids, quorum_.clients) || !Has(ids, id_) ||
      !Within(ids, *s.keyed) || letters.sealed->size() != (ids.size() - 1) * kSealed)
    return NoQuestion();
  if (ids.size() < quorum_.minimum) return TooFew("with shares", ids.size(), quorum_.minimum);
  const Secret secret = SecretAt(*s.secrets, 0), masks = SecretAt(*s.secrets, 1);
  std::vector<std::uint64_t> shares;
  shares.reserve(ids.size() * kPair);  // never in two places
  std::vector<Mask> cover = {{SelfMask(notary_, *s.round, *s.attempt, SecretAt(*s.secrets, 2)), false}};
  std::size_t at = 0;
  for (const std::uint32_t other : ids) {
    if (other == id_) {
      shares.insert(shares.end(), s.own->begin(), s.own->end());
      continue;
    }
    const std::size_t place = PlaceIn(*s.keyed, other);
    const Text text = LetterText(notary_, *s.round, *s.attempt, other, id_);
    TACIT_TRY(const Secret key, LetterKey(secret, KeyAt(*s.keys, place, 0), text));
    auto plain = Decrypt(key, Raw(*letters.sealed).subspan(kSealed * at++, kSealed), text);
    if (!plain.ok())
      return Fail(
          Code::kMalformed,
          "the shares of client {} were changed on the way, or are another's; this client leaves the round",
          other);
    const std::size_t before = shares.size();
    shares.resize(before + kPair);
    std::memcpy(shares.data() + before, plain->data(), kPair * sizeof(std::uint64_t));
    Wipe(*plain);
    TACIT_TRY(const Mask mask,
              PairMask(notary_, *s.round, *s.attempt, id_, masks, other, KeyAt(*s.keys, place, 1)));
    cover.push_back(mask);
  }
  MaskedMessage m;
  TACIT_TRY(m.update, input(down));
  m.update.Cover(cover);
  s.sharing = letters.ids;
  s.shares.Mutable().swap(shares);
  Wipe(std::as_writable_bytes(std::span(shares)));  // of an earlier answer to the same
  return Codec::Encode(m);
}

Result<Octets> MaskClient::Sign(MaskState& s, std::span<const std::byte> question) const {
  TACIT_TRY(const Survivors set, Codec::Decode<Survivors>(question));
  if (*set.attempt != *s.attempt || !IsSet(*set.ids, quorum_.clients) || !Has(*set.ids, id_) ||
      !Within(*set.ids, *s.sharing))
    return NoQuestion();
  if (set.ids->size() < quorum_.minimum) return TooFew("in a sum", set.ids->size(), quorum_.minimum);
  s.surviving = set.ids;
  SignatureAnswer a;
  const Text text = SurvivorsText(notary_, *s.round, *s.attempt, *s.transcript, *s.sharing, *s.surviving);
  TACIT_TRY(const Bytes signature, notary_.Sign(text));
  std::vector<std::span<const std::byte>> certificates;
  if (!Cut(*s.certificates, *s.lengths, certificates)) return NoQuestion();
  if (!notary_.Verify(id_, certificates[PlaceIn(*s.keyed, id_)], text, signature).ok())
    return Fail(Code::kMismatch,
                "this client's certificate was renewed within the round; it takes part again from the next");
  a.signature.Mutable() = Plain(signature);
  return Plain(Codec::Encode(a));
}

Status MaskClient::Agreed(const MaskState& s, std::span<const std::byte> question) const {
  TACIT_TRY(const Signed all, Codec::Decode<Signed>(question));
  const Ids& ids = *all.ids;
  std::vector<std::span<const std::byte>> signatures, certificates;
  if (*all.attempt != *s.attempt || !IsSet(ids, quorum_.clients) || !Within(ids, *s.surviving) ||
      all.lengths->size() != ids.size() || !Cut(*all.signatures, *all.lengths, signatures) ||
      !Cut(*s.certificates, *s.lengths, certificates))
    return NoQuestion();
  if (ids.size() < quorum_.threshold()) return TooFew("who signed", ids.size(), quorum_.threshold());
  const Text text = SurvivorsText(notary_, *s.round, *s.attempt, *s.transcript, *s.sharing, *s.surviving);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (const Status ok =
            notary_.Verify(ids[i], certificates[PlaceIn(*s.keyed, ids[i])], text, signatures[i]);
        !ok.ok())
      return Fail(Code::kMismatch,
                  "client {} has not signed the set of clients that this one has ({}); nothing is opened",
                  ids[i], ok.error().message);
  return Ok{};
}

Result<Octets> MaskClient::Open(MaskState& s) const {
  OpenAnswer a;
  for (std::size_t i = 0; i < s.sharing->size(); ++i) {
    const SecretShare share = ShareAt(*s.shares, 2 * i + (Has(*s.surviving, (*s.sharing)[i]) ? 1 : 0));
    a.values.Mutable().insert(a.values.Mutable().end(), share.at.begin(), share.at.end());
  }
  // What is not opened is not needed any more.
  std::fill(s.secrets.Mutable().begin(), s.secrets.Mutable().end(), std::uint8_t{0});
  std::fill(s.shares.Mutable().begin(), s.shares.Mutable().end(), std::uint64_t{0});
  std::fill(s.own.Mutable().begin(), s.own.Mutable().end(), std::uint64_t{0});
  return Plain(Codec::Encode(a));
}

Status MaskedLink::Restore(std::span<const std::byte> kept) {
  TACIT_TRY(kept_, Codec::Decode<State>(kept));
  return Ok{};
}

Status MaskedLink::Ask(const Question& q, std::vector<Bytes>& answers) {
  if (q.last) return inner_.Ask(q, answers);
  if (inner_.roster() == nullptr)
    return Fail(Code::kUnsupported,
                "masked sums need clients with certificates, which this link does not know");
  State at = std::move(kept_);
  kept_ = {};
  answers.assign(q.who.size(), {});
  if (*at.round == q.round && at.attempt->empty()) {
    Note(fmt::format("round {}: was abandoned before the restart, and stays so", q.round));
    return Ok{};
  }
  if (*at.round != q.round) {
    for (bool enough = false; !enough;) {
      at = {};
      at.round.Mutable() = q.round;
      TACIT_TRY(enough, Gather(q, at));
      if (!enough)
        Note(fmt::format("round {}: fewer than {} clients are left in it; it begins again with new keys",
                         q.round, quorum_.minimum));
    }
    TACIT_OK(keep_(Codec::Encode(at)));
  }
  TACIT_TRY(const auto masks, Reveal(q, at));
  if (!masks) {
    // Durable before anybody hears of another round: a server that is restarted does not take up what its log
    // says was given up, and the updates, masked as they are, are gone from its disk.
    at = {};
    at.round.Mutable() = q.round;
    return keep_(Codec::Encode(at));
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < at.surviving->size(); ++i) {
    const auto whole = Raw(*at.answers).subspan(begin, static_cast<std::size_t>((*at.sizes)[i]));
    begin += whole.size();
    const auto place = std::find(q.who.begin(), q.who.end(), (*at.surviving)[i]);
    if (place == q.who.end()) return NoQuestion();
    Bytes& answer = answers[static_cast<std::size_t>(place - q.who.begin())];
    answer.assign(whole.begin(), whole.end());
    if (i != 0) continue;
    TACIT_TRY(MaskedMessage first, Codec::Decode<MaskedMessage>(answer));
    first.update.Uncover(*masks);  // of all
    answer = Codec::Encode(first);
  }
  return Ok{};
}

Result<bool> MaskedLink::Gather(const Question& q, State& s) {
  const Roster& roster = *inner_.roster();
  std::vector<Bytes> answers;
  const auto taken = [&](const Ids& asked) {
    Ids there;
    for (std::size_t i = 0; i < asked.size(); ++i)
      if (!answers[i].empty()) there.push_back(asked[i]);
    return there;
  };
  // Signed by whom they are of, and keys with which there is a secret to share.
  const auto own_keys = [&](std::uint32_t id, std::span<const std::byte> bytes) -> Status {
    TACIT_TRY(const KeysAnswer a, Codec::Decode<KeysAnswer>(bytes));
    TACIT_OK(roster.Verify(id, Raw(*a.certificate), KeysText(roster, q.round, *s.attempt, id, Raw(*a.keys)),
                           Raw(*a.signature)));
    for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
      TACIT_TRY([[maybe_unused]] const Secret some, Agree(Secret::Random(), KeyAt(*a.keys, 0, which)));
    }
    return Ok{};
  };
  Ids asked;
  for (const std::uint32_t id : q.who)
    if (out_.count(id) == 0) asked.push_back(id);
  if (asked.size() < quorum_.minimum)
    return Fail(Code::kMalformed, "round {}: {} clients are left whose keys are their own, and {} are needed",
                q.round, asked.size(), quorum_.minimum);
  {
    Octets attempt(kAttempt);
    RandomBytes(std::as_writable_bytes(std::span(attempt)));
    s.attempt.Mutable() = attempt;
    Begin begin;
    begin.attempt = s.attempt;
    const Bytes frame = Codec::Encode(begin);
    TACIT_OK(inner_.Ask({.round = q.round,
                         .who = asked,
                         .frame = frame,
                         .most_bytes = 2 * kMostCertificate,
                         .step = 1,
                         .least = quorum_.minimum,
                         .check = [](auto bytes) -> Status {
                           TACIT_TRY(const auto a, Codec::Decode<KeysAnswer>(bytes));
                           if (a.keys->size() == kKeys && a.certificate->size() <= kMostCertificate)
                             return Ok{};
                           return Fail(Code::kMalformed, "not a pair of keys");
                         },
                         .check_from = own_keys},
                        answers));
  }
  KeyList list;
  list.attempt = s.attempt;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (answers[i].empty()) continue;
    TACIT_TRY(const KeysAnswer a, Codec::Decode<KeysAnswer>(answers[i]));
    if (const Status ok = own_keys(asked[i], answers[i]); !ok.ok()) {
      Note(fmt::format("round {}: the keys of client {} are not its own: {}", q.round, asked[i],
                       ok.error().message));
      out_.insert(asked[i]);
      continue;
    }
    list.ids.Mutable().push_back(asked[i]);
    const auto add = [](Octets& all, const Octets& one) { all.insert(all.end(), one.begin(), one.end()); };
    add(list.keys.Mutable(), *a.keys);
    add(list.certificates.Mutable(), *a.certificate);
    add(list.signatures.Mutable(), *a.signature);
    list.certificate_lengths.Mutable().push_back(static_cast<std::uint32_t>(a.certificate->size()));
    list.signature_lengths.Mutable().push_back(static_cast<std::uint32_t>(a.signature->size()));
  }
  s.keyed = list.ids;
  if (s.keyed->size() < quorum_.minimum) return false;
  s.keys = list.keys;
  s.lengths = list.certificate_lengths;
  s.certificates = list.certificates;
  const std::size_t letters = (s.keyed->size() - 1) * kSealed;
  {
    const Bytes frame = Codec::Encode(list);
    s.transcript.Mutable() = Digest(frame);
    TACIT_OK(inner_.Ask({.round = q.round,
                         .who = *s.keyed,
                         .frame = frame,
                         .most_bytes = letters + 256,
                         .step = 2,
                         .least = quorum_.minimum,
                         .patient = false,
                         .check = [letters](auto bytes) -> Status {
                           TACIT_TRY(const auto a, Codec::Decode<SharesAnswer>(bytes));
                           if (a.commitment->size() == kDigest && a.sealed->size() == letters) return Ok{};
                           return Fail(Code::kMalformed, "not a share for each of the others");
                         }},
                        answers));
  }
  s.sharing.Mutable() = taken(*s.keyed);
  if (s.sharing->size() < quorum_.minimum) return false;
  const Ids& sharing = *s.sharing;
  std::vector<Letters> mail(sharing.size());
  for (Letters& one : mail) one.attempt = s.attempt, one.ids = s.sharing;
  for (std::size_t i = 0; i < s.keyed->size(); ++i) {
    if (answers[i].empty()) continue;
    TACIT_TRY(const SharesAnswer a, Codec::Decode<SharesAnswer>(answers[i]));
    s.commitments.Mutable().insert(s.commitments.Mutable().end(), a.commitment->begin(), a.commitment->end());
    std::size_t at = 0;
    for (std::size_t to = 0; to < s.keyed->size(); ++to) {
      if (to == i) continue;
      const auto begin = a.sealed->begin() + static_cast<std::ptrdiff_t>(kSealed * at++);
      if (!Has(sharing, (*s.keyed)[to])) continue;
      Octets& sealed = mail[PlaceIn(sharing, (*s.keyed)[to])].sealed.Mutable();
      sealed.insert(sealed.end(), begin, begin + static_cast<std::ptrdiff_t>(kSealed));
    }
  }
  std::vector<Bytes> personal;
  for (Letters& one : mail) personal.push_back(Codec::Encode(one));
  const auto fits = [&](std::span<const std::byte> bytes) -> Status {
    TACIT_OK(q.check(bytes));
    TACIT_TRY(const auto m, Codec::Decode<MaskedMessage>(bytes));
    if (m.update.bits() == bits_ && m.update.dim() != 0) return Ok{};
    return Fail(Code::kMalformed, "not numbers of {} bits", bits_);
  };
  TACIT_OK(inner_.Ask({.round = q.round,
                       .who = sharing,
                       .frame = q.frame,
                       .most_bytes = q.most_bytes,
                       .step = 3,
                       .personal = personal,
                       .least = quorum_.minimum,
                       .patient = false,
                       .check = fits},
                      answers));
  s.surviving.Mutable() = taken(sharing);
  if (s.surviving->size() < quorum_.minimum) return false;
  for (const Bytes& one : answers) {
    if (one.empty()) continue;
    s.sizes.Mutable().push_back(one.size());
    const Octets octets = Plain(one);
    s.answers.Mutable().insert(s.answers.Mutable().end(), octets.begin(), octets.end());
  }
  return true;
}

Result<std::optional<std::vector<Mask>>> MaskedLink::Reveal(const Question& q, State& s) {
  const Roster& roster = *inner_.roster();
  const Ids &keyed = *s.keyed, &sharing = *s.sharing, &surviving = *s.surviving;
  const std::uint32_t t = quorum_.threshold();
  std::vector<std::span<const std::byte>> certificates;
  if (s.keys->size() != keyed.size() * kKeys || !Within(sharing, keyed) || !Within(surviving, sharing) ||
      s.commitments->size() != sharing.size() * kDigest || s.sizes->size() != surviving.size() ||
      std::accumulate(s.sizes->begin(), s.sizes->end(), std::uint64_t{0}) != s.answers->size() ||
      !Cut(*s.certificates, *s.lengths, certificates) || certificates.size() != keyed.size())
    return Fail(Code::kMalformed,
                "the file of the masked round does not hold one; remove it, and the round with it");
  std::vector<Bytes> answers;
  Survivors set;
  set.attempt = s.attempt;
  set.ids = s.surviving;
  Bytes frame = Codec::Encode(set);
  const Text text = SurvivorsText(roster, q.round, *s.attempt, *s.transcript, sharing, surviving);
  const auto signed_by = [&](std::uint32_t id, std::span<const std::byte> bytes) -> Status {
    TACIT_TRY(const SignatureAnswer a, Codec::Decode<SignatureAnswer>(bytes));
    return roster.Verify(id, certificates[PlaceIn(keyed, id)], text, Raw(*a.signature));
  };
  TACIT_OK(inner_.Ask({.round = q.round,
                       .who = surviving,
                       .frame = frame,
                       .most_bytes = 4096,
                       .step = 4,
                       .least = t,
                       .gives_up = true,
                       .check = [](auto bytes) -> Status {
                         TACIT_TRY([[maybe_unused]] const auto a, Codec::Decode<SignatureAnswer>(bytes));
                         return Ok{};
                       },
                       .check_from = signed_by},
                      answers));
  Signed all;
  all.attempt = s.attempt;
  for (std::size_t i = 0; i < surviving.size(); ++i) {
    if (answers[i].empty()) continue;
    TACIT_TRY(const SignatureAnswer a, Codec::Decode<SignatureAnswer>(answers[i]));
    if (!signed_by(surviving[i], answers[i]).ok()) {
      Note(fmt::format("round {}: client {} did not sign what it was asked to", q.round, surviving[i]));
      continue;
    }
    all.ids.Mutable().push_back(surviving[i]);
    all.lengths.Mutable().push_back(static_cast<std::uint32_t>(a.signature->size()));
    all.signatures.Mutable().insert(all.signatures.Mutable().end(), a.signature->begin(), a.signature->end());
  }
  // No other set of this round can be signed, and clients go from any step to the first of the next round: so
  // that one who is lost for good ends this round, not the run.
  const auto abandoned = [&](const std::string& why) {
    Note(
        fmt::format("round {}: {}; the sum stays closed and the round is abandoned: nobody is counted in it, "
                    "and what was sealed stays paid",
                    q.round, why));
    return std::optional<std::vector<Mask>>();
  };
  if (all.ids->size() < t)
    return abandoned(fmt::format("{} of {} clients have signed who is counted, and {} must", all.ids->size(),
                                 surviving.size(), t));
  const std::size_t words = sharing.size() * kShareWords;
  frame = Codec::Encode(all);
  TACIT_OK(inner_.Ask({.round = q.round,
                       .who = *all.ids,
                       .frame = frame,
                       .most_bytes = 256 + words * sizeof(std::uint64_t),
                       .step = 5,
                       .least = t,
                       .enough = true,
                       .gives_up = true,
                       .check = [words](auto bytes) -> Status {
                         TACIT_TRY(const auto a, Codec::Decode<OpenAnswer>(bytes));
                         if (a.values->size() == words) return Ok{};
                         return Fail(Code::kMalformed, "not a share of each secret");
                       }},
                      answers));
  const auto opened =
      std::count_if(answers.begin(), answers.end(), [](const Bytes& a) { return !a.empty(); });
  if (opened < static_cast<std::ptrdiff_t>(t))
    return abandoned(
        fmt::format("{} of {} clients who signed have opened, and {} must", opened, all.ids->size(), t));
  std::vector<std::vector<HeldShare>> held(sharing.size());
  for (std::size_t i = 0; i < all.ids->size(); ++i) {
    if (answers[i].empty()) continue;
    TACIT_TRY(const OpenAnswer a, Codec::Decode<OpenAnswer>(answers[i]));
    for (std::size_t v = 0; v < sharing.size(); ++v)
      held[v].push_back({(*all.ids)[i], ShareAt(*a.values, v)});
  }
  std::vector<Mask> masks;
  for (std::size_t v = 0; v < sharing.size(); ++v) {
    const std::uint32_t who = sharing[v];
    const bool counted = Has(surviving, who);
    const auto right = [&](const Secret& secret) {
      if (!counted) return PublicOf(secret) == KeyAt(*s.keys, PlaceIn(keyed, who), 1);
      const auto begin = s.commitments->begin() + static_cast<std::ptrdiff_t>(v * kDigest);
      const Octets own = Commitment(roster, q.round, *s.attempt, secret);
      return std::equal(own.begin(), own.end(), begin);
    };
    // All, then all but one: a single wrong share is found and left out.
    std::optional<Secret> found;
    for (std::size_t without = 0; !found && without <= held[v].size(); ++without) {
      std::vector<HeldShare> some = held[v];
      if (without > 0) some.erase(some.begin() + static_cast<std::ptrdiff_t>(without - 1));
      if (const auto secret = Combine(some, t); secret.ok() && right(*secret)) found = *secret;
    }
    if (!found) return abandoned(fmt::format("the shares of client {} do not fit together", who));
    if (counted) {
      masks.push_back({SelfMask(roster, q.round, *s.attempt, *found), false});
      continue;
    }
    for (const std::uint32_t other : surviving) {  // as `other` added it
      TACIT_TRY(Mask mask, PairMask(roster, q.round, *s.attempt, who, *found, other,
                                    KeyAt(*s.keys, PlaceIn(keyed, other), 1)));
      mask.minus = other > who;
      masks.push_back(mask);
    }
  }
  return std::optional(std::move(masks));
}

}  // namespace tacit
