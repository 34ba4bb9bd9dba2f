#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "algorithms/adaptive_clip.h"
#include "algorithms/clip21.h"
#include "algorithms/ef21.h"
#include "algorithms/fcrn.h"
#include "algorithms/fed_avg.h"
#include "algorithms/fed_exp.h"
#include "algorithms/grad_nfl.h"
#include "algorithms/isrl_dp.h"
#include "algorithms/nfl.h"
#include "algorithms/p_admm.h"
#include "algorithms/primal_dual.h"
#include "algorithms/record_fed_avg.h"
#include "algorithms/scaffold.h"
#include "experiment/site.h"
#include "runtime/mask_round.h"

// Every message of every algorithm, from bytes: what a client answers, what a server broadcasts, a farewell
// and a peer's note. The first byte says which, the low four bits of the second how long its vectors should
// be, the others more of that (`how`); the highest whether the rest is a frame or a payload under a header
// that is right. Each is judged as who gets it judges it, and an answer without a fault is added up.
namespace {

using namespace tacit;
using Wire = std::span<const std::byte>;

std::size_t DimOf(std::uint8_t how) { return how & 15; }

// What is taken is what would be sent.
template <Message M>
Result<M> Open(Wire bytes) {
  auto m = Codec::Decode<M>(bytes);
  if (!m.ok()) {
    TACIT_CHECK(!m.error().message.empty());
    return m;
  }
  const Bytes again = Codec::Encode(*m);
  TACIT_CHECK(WireSize(*m) == bytes.size() && std::ranges::equal(again, bytes));
  return m;
}

// Sums of two parts, as threads make them.
template <class A>
void AddUp(const typename A::Up& up) {
  typename A::Sum all, part;
  all.Reset(), part.Reset();
  all.Add(up), part.Add(up), part.Add(up);
  all.Merge(part);
  if constexpr (requires { all.Form(); }) all.Form();
}

template <class A>
Lengths<typename A::Up> LengthsOf(std::uint8_t how) {
  const std::size_t dim = DimOf(how);
  UpdateNoise noise;
  noise.square = (how & 16) != 0 ? 0.5 : 0.0;
  Lengths<typename A::Up> lengths;
  if constexpr (std::is_same_v<typename A::Up, LocalNoise::Up>)
    lengths = LocalNoise::UpLengths(noise, dim);
  else if constexpr (std::is_same_v<typename A::Up, WeightedNoise::Up>)
    lengths = WeightedNoise::UpLengths(noise, dim);
  else if constexpr (std::is_same_v<typename A::Up, MaskedSums::Up>)
    lengths = MaskedSums::UpLengths(noise, dim);
  else
    lengths.fill(dim);
  if constexpr (std::is_same_v<A, RecordFedAvg>)
    if ((how & 16) != 0) lengths[1] = 0;  // without SCAFFOLD
  return lengths;
}

template <class A>
void Answer(Wire bytes, std::uint8_t how) {
  const std::size_t dim = DimOf(how);
  if constexpr (IsEntrusted<typename A::Up>) {
    auto sent = Codec::DecodeEntrusted(bytes);
    if (!sent.ok()) {
      TACIT_CHECK(!sent.error().message.empty());
      return;
    }
    UpdateNoise noise;
    noise.dim = dim;
    noise.square = (how & 16) != 0 ? 0.5 : 0.0;
    noise.indicator = (how & 32) != 0 ? 0.5 : 0.0;
    typename A::Up up;
    if (!TrustedServer::Accept(noise, *sent, (how & 64) != 0 ? 0.5 : 1.0, up)) return;
    TACIT_CHECK(FaultOf(up, TrustedServer::UpLengths(noise, dim)) == Fault::kNone);
    const Bytes again = Codec::Encode(up.update, ServerTrust::Declared("server"));
    TACIT_CHECK(again.size() == WireSize(up) && Codec::DecodeEntrusted(again).ok());
    AddUp<A>(up);
  } else {
    auto reply = Open<Reply<A>>(bytes);
    if (!reply.ok()) return;
    const Fault fault = FaultOf(reply->up, LengthsOf<A>(how));
    Vec numbers;
    ReleasedNumbers(reply->up, numbers);
    if (fault == Fault::kNone && Within(kLargestSent, reply->up)) AddUp<A>(reply->up);
    Clear(reply->up);
  }
}
// A server of second-order steps, whose clients may say which coordinates their numbers are of.
void AnswerBySecondOrder(Wire bytes, std::uint8_t how) {
  auto reply = Open<Reply<DpFcrn>>(bytes);
  if (!reply.ok()) return;
  DpFcrn::Options options;
  options.design = (how & 16) != 0 ? DpFcrn::Design::kFull : DpFcrn::Design::kSubspace;
  options.coordinates = (how >> 5) & 3;
  options.rounds = {1};
  Problem problem;
  problem.dim = DimOf(how);
  problem.clients = 1;
  problem.start.assign(problem.dim, 0.0);
  const DpFcrn::Server server(problem, options);
  // Of any client: that its seed is its own is one comparison more.
  Public<std::uint64_t> seed = reply->up.mask;
  if (options.own_masks(problem.dim)) reply->up.mask.Mutable() = DpFcrn::MaskSeed(options, 0, 1);
  if (FaultOf(reply->up, server.lengths()) != Fault::kNone || !Within(kLargestSent, reply->up) ||
      !server.CanBeOf(0, reply->up))
    return;
  reply->up.mask = seed;
  AddUp<DpFcrn>(reply->up);
}
void Covered(Wire bytes, std::uint8_t how) {
  auto m = Open<MaskedMessage>(bytes);
  if (!m.ok()) return;
  TACIT_CHECK(m->update.covered());
  if (FaultOf(*m, {DimOf(how)}) == Fault::kNone) AddUp<FedAvg<MaskedSums>>({m->update});
}

template <class A>
void Broadcast(Wire bytes, std::uint8_t how) {
  auto m = Open<typename A::Down>(bytes);
  const std::size_t dim = DimOf(how), place = (how >> 5) & 3;
  const auto read =
      BroadcastShape{dim, (how & 16) != 0 ? dim / 2 : 0}.template Read<typename A::Down>(bytes, place);
  if (!read.ok()) {
    TACIT_CHECK(!read.error().message.empty());
    return;
  }
  TACIT_CHECK(m.ok() && *read->t == place);
}
template <class A>
void Last(Wire bytes, std::uint8_t) {
  auto m = Open<Farewell<A>>(bytes);
  if (m.ok() && Within(kLargestSent, *m->iterate))
    for (const double v : *m->iterate) TACIT_CHECK(std::isfinite(v));
}
template <class A>
void Note(Wire bytes, std::uint8_t how) {
  auto m = Open<typename A::Note>(bytes);
  if (!m.ok()) return;
  if (FaultOf(*m, {DimOf(how)}) != Fault::kNone || !Within(kLargestSent, *m)) return;
  for (const double v : *m->w) TACIT_CHECK(std::isfinite(v));
}

using Judge = void (*)(Wire, std::uint8_t how);
constexpr Judge kJudges[] = {
    &Answer<PrimalDual>,
    &Broadcast<PrimalDual>,
    &Last<PrimalDual>,
    &Answer<FedAvg<LocalNoise>>,
    &Answer<FedAvg<WeightedNoise>>,
    &Answer<FedAvg<LocalUnit>>,
    &Answer<FedAvg<TrustedServer>>,
    &Broadcast<FedAvg<LocalNoise>>,
    &Last<FedAvg<LocalNoise>>,
    &Answer<FedExp<LocalNoise>>,
    &Broadcast<FedExp<LocalNoise>>,
    &Answer<Scaffold<LocalNoise>>,
    &Answer<Scaffold<LocalUnit>>,
    &Answer<Scaffold<TrustedServer>>,
    &Broadcast<Scaffold<LocalNoise>>,
    &Answer<AdaptiveFedAvg<TrustedServer>>,
    &Broadcast<AdaptiveFedAvg<LocalNoise>>,
    &Answer<RecordFedAvg>,
    &Broadcast<RecordFedAvg>,
    &Answer<IsrlDp>,
    &Broadcast<IsrlDp>,
    &AnswerBySecondOrder,
    &Broadcast<DpFcrn>,
    &Answer<MirroredEf21>,
    &Broadcast<MirroredEf21>,
    &Answer<Clip21>,
    &Covered,
    &Note<Nfl>,
    &Note<GradNfl>,
    &Note<PAdmm>,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Wire raw(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  const Judge judge = kJudges[data[0] % std::size(kJudges)];
  if ((data[1] & 128) == 0) {
    judge(raw, data[1]);
    return 0;
  }
  Bytes sealed(kFrameHeader + raw.size());
  const std::uint32_t crc = Crc32(raw);
  const std::uint64_t length = raw.size();
  std::memcpy(sealed.data(), "TCT1", 4);
  std::memcpy(sealed.data() + 4, &crc, 4);
  std::memcpy(sealed.data() + 8, &length, 8);
  if (!raw.empty()) std::memcpy(sealed.data() + kFrameHeader, raw.data(), raw.size());
  judge(sealed, data[1]);
  return 0;
}
