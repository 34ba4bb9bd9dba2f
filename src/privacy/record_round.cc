#include "privacy/record_round.h"

#include <algorithm>
#include <numeric>

#include "core/round.h"

namespace tacit {

std::size_t RecordSampling::Most(std::size_t records) const {
  return cycle || sample.kind == SampleKind::kFixed ? std::min<std::size_t>(size, records) : records;
}

double RecordSampling::Divisor(std::size_t records) const {
  const auto m = static_cast<double>(std::max<std::size_t>(1, records));
  return !cycle && sample.kind == SampleKind::kFull ? m : std::min(m, static_cast<double>(size));
}

std::uint64_t RecordSampling::RoundsOfOne(std::uint64_t rounds, std::size_t records) const {
  if (!cycle) return rounds;
  const std::uint64_t pass = std::max<std::size_t>(1, records / std::max<std::uint32_t>(1, size));
  return (rounds + pass - 1) / pass;
}

PrivacyEvent RoundEvent(const RecordSampling& s, std::optional<Mu> mu) {
  if (!mu) return NonPrivateEvent{};
  if (!(mu->value() > 0)) return PureEvent{Epsilon{0.0}};  // a round without a release
  // Releases v_s + N(0, σ_s²I) one after the other are v + N(0, I) with v = (v_1/σ_1, v_2/σ_2, …).
  const GaussianEvent all{*mu, L2Bound::Proven(mu->value()), NoiseStd{1.0}};
  return s.cycle ? PrivacyEvent(all) : OnSecretSample(s.sample, all);
}

Result<RecordRound> RecordRound::Open(const RecordSampling& s, std::size_t records, std::uint32_t t,
                                      std::optional<Mu> mu, Ledger& ledger, NoiseRng& rng) {
  const auto m = static_cast<std::uint32_t>(records);
  if (!s.cycle && s.sample.kind == SampleKind::kFixed && m > 0 &&
      DivUp(std::min(s.size, m), m) > s.sample.rate.value())
    return Fail(Code::kInvalidArgument,
                "a sample of {} records is planned for at a rate of {:g}, and this client's rate would be "
                "higher; plan with the fewest records of a client",
                s.size, s.sample.rate.value());
  // Whole blocks only, so that a pass uses every record once at most.
  const std::uint32_t pass = std::max(1u, m / std::max(1u, s.size));
  if (!s.cycle || t % pass == 0) TACIT_OK(ledger.Charge(RoundEvent(s, mu)));
  std::vector<std::uint32_t> sample;
  if (s.cycle) {
    const std::uint32_t first = t % pass * s.size;
    sample.resize(std::min<std::size_t>(s.size, m));
    std::iota(sample.begin(), sample.end(), first);
  } else {
    Sampling own = s.sample;
    own.size = s.size;
    if (own.kind == SampleKind::kPoisson)      // not above the rate that was charged
      own.rate = Probability::Proven(std::min(
          {1.0, s.sample.rate.value(), static_cast<double>(s.size) / static_cast<double>(std::max(1u, m))}));
    DrawSample(own, m, [&rng] { return rng.Bits(); }, sample);
  }
  const MuSquared budget = mu ? Squared(*mu) : MuSquared::Proven(kInf);
  return RecordRound(Ledger(budget, ledger.adjacency()), std::move(sample));
}

}  // namespace tacit
