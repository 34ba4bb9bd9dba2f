#pragma once

// How clients that do not know each other agree on masks that cancel, and open one sum and no other:
// Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning (CCS 2017), with the
// parts against servers that do not keep to the protocol. A round has five steps; in each, the server asks
// and clients answer.
//
//   1 keys       a new pair to write to the client by (c), a new pair for masks (s), signed
//   2 shares     of s and of a seed b, t of which open it, one for each other client, to be read by it alone
//   3 input      the sealed update + PRG(b_i) + Σ_{j>i} PRG(s_ij) − Σ_{j<i} PRG(s_ij), over who sent shares
//   4 survivors  the set of those whose input is counted, signed
//   5 open       for every survivor the share of b, for everybody else the share of s; never both
//
// What a client holds to, whatever the server says: keys are those of certificates of this job's clients;
// sets have at least m clients, itself among them, and each is part of the one before; a step is answered
// once, and asked again it gets the same bytes; it signs one set of survivors in a round and opens for that
// set alone, after t clients have signed the same. As 2t > N + c, two sets cannot both be signed by t clients
// of whom at most c do not keep to this, so at most one sum of a round opens, and it has the noise of at
// least m − c clients whom the server does not know it of. All of it is durable before an answer leaves.
//
// Nothing here sees a file or a socket. The proof is in docs/masked_sums.md.
#include <set>

#include "privacy/secure_sum.h"
#include "privacy/shamir.h"
#include "runtime/link.h"

namespace tacit {

inline constexpr std::uint32_t kMaskSteps = 5;

// Whose key is whose, by certificates that name clients.
class Roster {
 public:
  virtual ~Roster() = default;
  virtual std::string job() const = 0;  // id of the run: what is signed for one is void for another
  virtual Status Verify(std::uint32_t client, std::span<const std::byte> certificate,
                        std::span<const std::byte> message, std::span<const std::byte> signature) const = 0;
};
// The same for one of them, who can sign.
class Notary : public Roster {
 public:
  virtual Bytes certificate() const = 0;
  virtual Result<Bytes> Sign(std::span<const std::byte> message) const = 0;
};

// A message that is one masked vector, as those of all algorithms with masked sums are.
struct MaskedMessage {
  Masked update;
  auto Fields() { return std::tie(update); }
};

using Octets = std::vector<std::uint8_t>;
// What it takes to know a round again. It holds keys, so the file is its owner's alone.
struct MaskState {
  MaskState() = default;
  MaskState(const MaskState&) = default;
  MaskState(MaskState&& from) noexcept { Swap(from); }
  MaskState& operator=(MaskState from);  // what was here is wiped with it
  void Swap(MaskState&) noexcept;
  ~MaskState() {
    Wipe(std::as_writable_bytes(std::span(secrets.Mutable())));
    Wipe(std::as_writable_bytes(std::span(own.Mutable())));
    Wipe(std::as_writable_bytes(std::span(shares.Mutable())));
  }

  Public<std::uint32_t> round, step;  // the last that was answered
  Public<Octets> attempt, question, reply;  // question: SHA-256; reply: not of step 3
  Public<Octets> set, signature;  // question and reply of step 4
  Public<Octets> secrets;  // of c and s, and the seed b
  Public<std::vector<std::uint32_t>> keyed, sharing, surviving;  // who: of steps 2, 3 and 4
  Public<Octets> keys;  // c and s of `keyed`
  Public<std::vector<std::uint32_t>> lengths;  // of their certificates
  Public<Octets> certificates, transcript;
  Public<std::vector<std::uint64_t>> own, shares;  // this client's of its own secrets; those of `sharing`
  auto Fields() {
    return std::tie(round, step, attempt, question, reply, set, signature, secrets, keyed, sharing, surviving,
                    keys, lengths, certificates, transcript, own, shares);
  }
};
inline MaskState& MaskState::operator=(MaskState from) {
  Swap(from);
  return *this;
}
inline void MaskState::Swap(MaskState& other) noexcept {
  auto here = Fields(), there = other.Fields();
  here.swap(there);
}

class MaskClient {
 public:
  using Keep = std::function<Status(const Bytes&)>;  // durable when it returns
  // The client's sealed update of the round, the same however often it is asked for.
  using Input = std::function<Result<Masked>(std::span<const std::byte> down)>;
  MaskClient(std::uint32_t id, const Quorum& quorum, const Notary& notary, Keep keep)
      : id_(id), quorum_(quorum), notary_(notary), keep_(std::move(keep)) {}
  Status Restore(std::span<const std::byte> kept);

  Result<Bytes> Answer(std::uint32_t round, std::uint32_t step, std::span<const std::byte> question,
                       const Input& input);
  std::uint32_t round() const { return *at_.round; }
  std::uint32_t step() const { return *at_.step; }

 private:
  Result<Octets> Keys(MaskState&, std::span<const std::byte>) const;
  Result<Octets> Shares(MaskState&, std::span<const std::byte>) const;
  Result<Bytes> Cover(MaskState&, std::span<const std::byte>, const Input&) const;
  Result<Octets> Sign(MaskState&, std::span<const std::byte>) const;
  Status Agreed(const MaskState&, std::span<const std::byte>) const;  // by t clients, on the set of survivors
  Result<Octets> Open(MaskState&) const;

  std::uint32_t id_;
  Quorum quorum_;
  const Notary& notary_;
  Keep keep_;
  MaskState at_;
};

// The server's side, around a link that reaches the clients: asks the five steps, and hands on answers whose
// sum is that of the survivors' updates, without masks. Each of them alone is still masked. Who is gone
// before step 4 is left out; with too few the round begins again with new keys. From step 4 on it needs t
// answers, since no other set can be signed, and waits for them once as long again as for others
// (Question::gives_up). A round that cannot be opened, by what clients have sent or because too few have, is
// abandoned: it ends as if nobody had answered. What was sealed in it stays paid, and the next round begins
// with whoever is there, from whatever step they were in. That costs no client more than an opened round: of
// a round that is abandoned less is known than of one that is not, and a client that has gone on to the next
// round answers nothing of this one any more. A server that is restarted goes on with the set it asked to
// sign, and asks from step 4 on again; a round that was abandoned stays so.
class MaskedLink final : public Link {
 public:
  MaskedLink(Link& inner, const Quorum& quorum, unsigned bits, MaskClient::Keep keep)
      : inner_(inner), quorum_(quorum), bits_(bits), keep_(std::move(keep)) {}
  Status Restore(std::span<const std::byte> kept);
  Status Ask(const Question&, std::vector<Bytes>& answers) override;
  const Roster* roster() const override { return inner_.roster(); }
  void Note(const std::string& text) override { inner_.Note(text); }

 private:
  // A round up to the set of survivors; the server may lose it, and the round with it. Without an attempt:
  // one that was abandoned.
  struct State {
    Public<std::uint32_t> round;
    Public<Octets> attempt, keys, certificates, commitments, transcript;
    Public<std::vector<std::uint32_t>> keyed, sharing, surviving, lengths;
    Public<std::vector<std::uint64_t>> sizes;  // of the survivors' answers
    Public<Octets> answers;
    auto Fields() {
      return std::tie(round, attempt, keys, certificates, commitments, transcript, keyed, sharing, surviving,
                      lengths, sizes, answers);
    }
  };
  Result<bool> Gather(const Question&, State&);  // false: too few
  Result<std::optional<std::vector<Mask>>> Reveal(const Question&, State&);  // none: it cannot be opened
  Link& inner_;
  Quorum quorum_;
  unsigned bits_;
  MaskClient::Keep keep_;
  State kept_;
  std::set<std::uint32_t> out_;  // whose keys or shares were not theirs
};

}  // namespace tacit
