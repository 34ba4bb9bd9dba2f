#pragma once

// Who takes part in a round, and what it is worth.
//
// A sample amplifies privacy only against those who do not see it: whoever sees which clients answer sees,
// for every client that did, the release as it is without sampling. So amplification is credited here for one
// case alone: a sample that nobody but the trusted aggregator knows, drawn anew for each release, of which a
// noised sum is all that leaves. Proof: docs/algorithms/fedexp.md, Samples of clients. A client that samples
// its own records is such an aggregator of them: record_round.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/rng.h"
#include "privacy/event.h"

namespace tacit {

enum class SampleKind {
  kFull,  // everyone in every round
  kFixed,  // `size` clients, any set of that size as likely as any other
  kPoisson,  // every client with probability `rate`, each for itself
};
inline const char* Name(SampleKind kind) {
  return kind == SampleKind::kFull ? "full" : kind == SampleKind::kFixed ? "fixed" : "poisson";
}

struct Sampling {
  SampleKind kind = SampleKind::kFull;
  Probability rate{1.0};  // kFixed: size over all clients, rounded up
  std::uint32_t size = 0;  // kFixed only
};

// What a noised sum over a secret sample costs, from what it would cost as a sum over everyone. The only
// place where a cost is lowered for sampling. Gaussian releases only; of others nothing is known:
// NonPrivateEvent.
PrivacyEvent OnSecretSample(const Sampling&, const PrivacyEvent&);

// Draws of the sample, exact: a Bernoulli with the very double that is charged as its rate, or a set that is
// uniform over all sets of its size. Ascending client numbers. Takes any generator of 64 uniform bits.
template <class Bits> bool Bernoulli(Probability rate, Bits&& bits);
template <class Bits> std::uint64_t UniformBelow(std::uint64_t n, Bits&& bits);
template <class Bits>
void DrawSample(const Sampling&, std::uint32_t clients, Bits&& bits, std::vector<std::uint32_t>& out);

// Secret samples, each good for one release: a second release from the same sample would show who is in it,
// and two releases from one sample cost more than two releases from two. With replayable noise the sample of
// a round is a function of seed and round (the certificate says that such noise protects from nobody who has
// the seed); otherwise it comes from the operating system's entropy.
class SecretSampler {
 public:
  SecretSampler(Sampling, std::uint32_t clients, std::optional<std::uint64_t> replay_seed);
  const std::vector<std::uint32_t>& Draw(std::uint32_t round);
  bool Use();  // whether a sample was drawn since the last use; takes it
  const Sampling& sampling() const { return sampling_; }
  std::uint32_t clients() const { return clients_; }

 private:
  Sampling sampling_;
  std::uint32_t clients_;
  std::optional<std::uint64_t> replay_seed_;
  NoiseRng rng_;
  std::vector<std::uint32_t> sample_;
  bool fresh_ = false;
};

// ---- Implementation of the draws.

template <class Bits>
bool Bernoulli(Probability rate, Bits&& bits) {
  // U < rate for U uniform on [0, 1), 64 binary digits at a time: a double has finitely many, so this is
  // exact.
  double rest = rate.value();
  if (rest >= 1) return true;
  for (;;) {
    rest = std::ldexp(rest, 64);
    const auto whole = static_cast<std::uint64_t>(rest);
    const std::uint64_t u = bits();
    if (u != whole) return u < whole;
    rest -= static_cast<double>(whole);
    if (rest == 0) return false;
  }
}

template <class Bits>
std::uint64_t UniformBelow(std::uint64_t n, Bits&& bits) {
  const std::uint64_t rest = (~std::uint64_t{0} % n + 1) % n;  // 2^64 mod n: drawn again
  std::uint64_t u = bits();
  while (u > ~std::uint64_t{0} - rest) u = bits();
  return u % n;
}

// Floyd's draw (Bentley, Floyd 1987), one number each: after the step for j every set of its size below j + 1
// is equally likely, since j is in it if it is drawn itself or a member is. Costs wanted², in moves of a few
// bytes.
template <class Bits>
void DrawFew(std::uint32_t wanted, std::uint32_t clients, Bits& bits, std::vector<std::uint32_t>& out) {
  for (std::uint32_t j = clients - wanted; j < clients; ++j) {
    const auto u = static_cast<std::uint32_t>(UniformBelow(std::uint64_t{j} + 1, bits));
    const auto at = std::lower_bound(out.begin(), out.end(), u);
    if (at != out.end() && *at == u)
      out.push_back(j);  // above all others so far
    else
      out.insert(at, u);
  }
}

// Selection by counting (Fan, Muller, Rezucha 1962): the next one is taken with probability wanted/left,
// which makes every set equally likely.
template <class Bits>
void DrawMany(std::uint32_t wanted, std::uint32_t clients, Bits& bits, std::vector<std::uint32_t>& out) {
  for (std::uint32_t i = 0; i < clients && wanted > 0; ++i)
    if (UniformBelow(clients - i, bits) < wanted) {
      out.push_back(i);
      --wanted;
    }
}

template <class Bits>
void DrawSample(const Sampling& s, std::uint32_t clients, Bits&& bits, std::vector<std::uint32_t>& out) {
  out.clear();
  switch (s.kind) {
    case SampleKind::kFull:
      for (std::uint32_t i = 0; i < clients; ++i) out.push_back(i);
      return;
    case SampleKind::kPoisson:
      for (std::uint32_t i = 0; i < clients; ++i)
        if (Bernoulli(s.rate, bits)) out.push_back(i);
      return;
    case SampleKind::kFixed: {
      const std::uint32_t wanted = std::min(s.size, clients);
      if (std::uint64_t{wanted} * wanted <= std::uint64_t{16} * clients)
        DrawFew(wanted, clients, bits, out);
      else
        DrawMany(wanted, clients, bits, out);
      return;
    }
  }
}

}  // namespace tacit
