#include "privacy/sampling.h"

#include <utility>
#include <variant>

namespace tacit {

PrivacyEvent OnSecretSample(const Sampling& s, const PrivacyEvent& event) {
  if (s.kind == SampleKind::kFull) return event;
  const auto sampled = [&](Mu mu) -> PrivacyEvent {
    if (s.kind == SampleKind::kPoisson) return PoissonGaussianEvent{.rate = s.rate, .mu = mu};
    return FixedSizeGaussianEvent{.rate = s.rate, .mu = mu};
  };
  if (const auto* g = std::get_if<GaussianEvent>(&event)) return sampled(g->mu);
  return NonPrivateEvent{};
}

SecretSampler::SecretSampler(Sampling sampling, std::uint32_t clients,
                             std::optional<std::uint64_t> replay_seed)
    : sampling_(sampling),
      clients_(clients),
      replay_seed_(replay_seed),
      rng_(replay_seed ? NoiseRng::Replayable({*replay_seed, Purpose::kCohort, 0, 0})
                       : NoiseRng::FromEntropy()) {}

const std::vector<std::uint32_t>& SecretSampler::Draw(std::uint32_t round) {
  if (replay_seed_) rng_.Rekey({*replay_seed_, Purpose::kCohort, 0, round});
  DrawSample(sampling_, clients_, [this] { return rng_.Bits(); }, sample_);
  fresh_ = true;
  return sample_;
}

bool SecretSampler::Use() { return std::exchange(fresh_, false); }

}  // namespace tacit
