#pragma once

// One client of a run whose server is elsewhere. It computes from its own copy of the plan, pays from its own
// ledgers, and an answer is durable before anybody gets it: after a crash at any instant the same bytes are
// sent again, and no round is computed, paid or noised twice.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "experiment/own_rounds.h"
#include "runtime/link.h"
#include "runtime/mask_round.h"
#include "wire/bearable.h"

namespace tacit {

// Durable, and for its owner alone.
Status KeepSecret(const std::filesystem::path& file, const Bytes& bytes);

// How long the vectors of a broadcast are: a client's code may index by it.
struct BroadcastShape {
  std::size_t dim = 0;  // where there is one
  std::size_t other = 0;  // another length that it may have; 0: none

  // A broadcast of this place in the schedule, decoded.
  template <class Down>
  Result<Down> Read(std::span<const std::byte> bytes, std::size_t place) const {
    TACIT_TRY(Down down, Codec::Decode<Down>(bytes));
    const bool fits = std::apply([&](const auto&... f) { return (Fits(f) && ...); }, down.Fields());
    if (!fits || *down.t != place || !Within(kLargestBroadcast, down))
      return Fail(Code::kMalformed,
                  "the server's broadcast is not one of this job; both must run the same version");
    return down;
  }

 private:
  template <class T> bool Fits(const Public<T>&) const { return true; }
  template <class T> bool Fits(const Released<T>&) const { return true; }
  bool Fits(const Released<Vec>& v) const {
    return v->empty() || v->size() == dim || (other != 0 && v->size() == other);
  }
};

class Site : public OwnRounds {
 public:
  // Goes on where the folder's checkpoint stands, if it has one.
  Status Begin();
  // The answer to a broadcast. A round that was answered is answered with the same bytes; a round before
  // that, or the same round with another broadcast, is refused: it would be a second release. counted: the
  // last round in which the server has counted an answer of this client's. Where the last answer was not, a
  // client that sends what its answers lack is again as it was before it; what was paid stays paid. A server
  // that lies about it harms the model: states follow from data and messages in any case.
  Result<Bytes> Answer(std::uint32_t round, std::span<const std::byte> down, std::uint32_t counted);
  // The same for a step of a round under masks (runtime/mask_round.h), where the job has such rounds; step 0
  // is a round that is one.
  Result<Bytes> Answer(std::uint32_t round, std::uint32_t step, std::span<const std::byte> question,
                       std::uint32_t counted);
  // What is left to say after the last round; nothing private, and it costs nothing.
  Result<Bytes> Leave(std::span<const std::byte> down);

  std::uint32_t round() const { return answered_.round; }  // the last that was answered; 0: none
  std::size_t most_bytes() const;  // of a broadcast

 protected:
  explicit Site(Session&);
  virtual Result<Bytes> Compute(std::uint32_t place, std::span<const std::byte> down) = 0;
  virtual void GoBack() = 0;  // to the state before the last answer, if the method does so
  virtual Result<Bytes> Depart(std::span<const std::byte> down) = 0;
  virtual Status Save(const Standing&) = 0;
  virtual Result<Standing> Load(std::size_t planned) = 0;  // kNotFound: there is none
  virtual const Masked* kept() const { return nullptr; }  // what was sealed in the last round; null: no masks

  // A broadcast of this place in the schedule, decoded.
  template <class Down>
  Result<Down> Read(std::span<const std::byte> bytes, std::size_t place) const {
    return shape_.Read<Down>(bytes, place);
  }

 private:
  struct Stored {  // what Standing::held is made of
    std::uint32_t round = 0;
    Sha256::Digest down = {};
    Bytes reply;
  };
  static std::string Pack(const Stored&);
  static Result<Stored> Unpack(const std::string&);
  Status BeginMasks();

  BroadcastShape shape_;
  Stored answered_;
  std::unique_ptr<MaskClient> masks_;  // null: no masks
};

template <Coordinated A>
class SiteOf final : public Site {
 public:
  SiteOf(Session& s, typename A::Client& client) : Site(s), client_(client) {
    rng_ = noise_.replay_seed ? NoiseRng::Replayable({*noise_.replay_seed, Purpose::kNoise, s.site, 0})
                              : NoiseRng::FromEntropy();
    scratch_.rng = &*rng_;
  }

 private:
  Result<Bytes> Compute(std::uint32_t place, std::span<const std::byte> bytes) override {
    TACIT_TRY(const auto down, Read<typename A::Down>(bytes, place));
    if (noise_.replay_seed)
      rng_->Rekey({*noise_.replay_seed, Purpose::kNoise, s_.site, s_.plan.schedule[place].round});
    Reply<A> reply;
    before_.Keep(client_);
    TACIT_OK(client_.Round(down, reply.up, scratch_));
    if constexpr (IsMasked<typename A::Up>) {  // leaves under masks alone
      kept_ = std::move(reply.up.update);
      return Bytes();
    }
    if constexpr (IsEntrusted<typename A::Up>) {
      TACIT_CHECK(s_.server_trust);
      return Codec::Encode(reply.up.update, *s_.server_trust);
    } else {
      SetIterate(reply);
      return Codec::Encode(reply);
    }
  }
  void GoBack() override { before_.Return(client_); }
  Result<Bytes> Depart(std::span<const std::byte> bytes) override {
    TACIT_TRY(const auto down, Read<typename A::Down>(bytes, s_.plan.schedule.size()));
    if constexpr (Algorithm<A>) client_.Finish(down);
    Farewell<A> last;
    SetIterate(last);
    return Codec::Encode(last);
  }
  template <class M>
  void SetIterate(M& m) {
    if constexpr (!HasModel<typename A::Server>)
      m.iterate.Mutable().assign(client_.iterate().begin(), client_.iterate().end());
  }
  Status Save(const Standing& at) override {
    return Checkpoint::SaveClient(File(), ConfigDigest(s_.config), at, client_, before_,
                                  IsMasked<typename A::Up> ? &kept_ : nullptr);
  }
  Result<Standing> Load(std::size_t planned) override {
    return Checkpoint::LoadClient(File(), ConfigDigest(s_.config), planned, client_, before_,
                                  IsMasked<typename A::Up> ? &kept_ : nullptr);
  }
  const Masked* kept() const override { return IsMasked<typename A::Up> ? &kept_ : nullptr; }

  typename A::Client& client_;
  Checkpoint::Past<typename A::Client> before_;  // the last answer
  Masked kept_;
  std::optional<NoiseRng> rng_;
  Scratch scratch_;
};

}  // namespace tacit
