#pragma once

// How clients' clipped updates become one released mean. The unit of privacy is a client: all its records.
//
//   LocalNoise      every client adds noise to what it sends; nobody is trusted
//   TrustedServer   clients send clipped updates to a server they trust, which adds noise to the sum, once
//
// Both also estimate (1/M) Σ‖Δ_i‖², the mean squared length of the updates, which adaptive step sizes need:
//   LocalNoise      mean ‖c_i‖² − dσ², from what was released anyway
//   TrustedServer   λΣ‖Δ_i‖² travels as one more coordinate of the sum, with the same noise. With
//                   λ ≤ FreeSquare(C) it costs nothing: see docs/algorithms/fedexp.md.
#include "algorithms/algorithm.h"

namespace tacit {

// Public constants of the clients' releases.
struct UpdateNoise {
  L2Bound clip{1.0};                       // C
  double square = 0;                       // λ; 0: no squared length is asked for
  std::shared_ptr<const NoisePlan> sigma;  // on a client's update, or on the server's sum; one per round
  std::shared_ptr<const Vec> variance;     // LocalNoise: mean over clients of σ², one per round
  const Mechanism* mechanism = nullptr;
  const Claim* claim = nullptr;            // paper mode: what is recorded beside what is charged
};

struct MeanUpdate {
  Released<Vec> value;                     // c̄
  double square = 0;                       // estimate of (1/M) Σ‖Δ_i‖²; may be negative
  double noisy_square = 0;                 // LocalNoise: (1/M) Σ‖c_i‖², noise and all
};

inline void MeanOf(const Vec& total, Vec& mean, const std::size_t& dim, const double& count) {
  mean.resize(dim);
  for (std::size_t j = 0; j < dim; ++j) mean[j] = total[j] / count;
}

struct LocalNoise {
  struct Up {
    Released<Vec> update;
    auto Fields() { return std::tie(update); }
  };
  struct Sum : ReleasedSum {
    double squares = 0;                    // Σ‖c_i‖²
    void Reset() { count = 0, squares = 0; }
    void Add(const Up& up) {
      Take(up.update, 1);
      squares += NormSquared(*up.update);
    }
    void Merge(const Sum& other) {
      Take(other);
      squares += other.squares;
    }
  };

  // Clips s.update and releases it.
  static Status Send(const UpdateNoise& n, std::uint32_t t, Ledger& ledger, Up& up, Scratch& s) {
    const Bounded delta = Bounded::Clip(s.update, n.clip);
    TACIT_OK(n.mechanism->Release(delta, (*n.sigma)[t], ledger, *s.rng, s.noise, up.update));
    if (n.claim != nullptr) ledger.Record(*n.claim);
    return Ok{};
  }
  static Status Mean(const UpdateNoise& n, std::uint32_t t, Sum& sum, LedgerBook&, MeanUpdate& mean,
                     Scratch&) {
    const double count = sum.count, variance = n.mechanism->name() == "expose" ? 0.0 : (*n.variance)[t];
    const std::size_t dim = sum.total->size();
    sum.total.Into<&MeanOf>(mean.value, dim, count);
    mean.noisy_square = sum.squares / count;
    mean.square = mean.noisy_square - static_cast<double>(dim) * variance;
    return Ok{};
  }
  static std::uint32_t Count(const Sum& sum) { return sum.count; }
};

struct TrustedServer {
  struct Up {
    Entrusted update;
    auto Fields() { return std::tie(update); }
  };
  struct Sum {
    EntrustedSum total;
    void Reset() { total.Reset(); }
    void Add(const Up& up) { total.Add(up.update); }
    void Merge(const Sum& other) { total.Merge(other.total); }
  };

  static Status Send(const UpdateNoise& n, std::uint32_t, Ledger&, Up& up, Scratch& s) {
    (n.square > 0 ? Bounded::ClipWithSquare(s.update, n.clip, n.square) : Bounded::Clip(s.update, n.clip))
        .Entrust(up.update);
    return Ok{};
  }
  static Status Mean(const UpdateNoise& n, std::uint32_t t, Sum& sum, LedgerBook& everyone, MeanUpdate& mean,
                     Scratch& s) {
    const Bounded total = sum.total.Total();
    TACIT_OK(n.mechanism->ReleaseForAll(total, (*n.sigma)[t], everyone, *s.rng, s.noise, s.released));
    if (n.claim != nullptr) everyone.Record(*n.claim);
    const double count = sum.total.count();
    const std::size_t dim = total.dim() - (n.square > 0 ? 1 : 0);
    s.released.Into<&MeanOf>(mean.value, dim, count);
    mean.square = n.square > 0 ? s.released->back() / (n.square * count) : 0.0;
    return Ok{};
  }
  static std::uint32_t Count(const Sum& sum) { return sum.total.count(); }
};

}  // namespace tacit
