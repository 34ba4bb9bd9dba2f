#pragma once

// How clients' clipped updates become one released mean. The unit of privacy is a client: all its records.
//
//   LocalNoise      every client adds noise to what it sends; nobody is trusted
//   WeightedNoise   the same with the mean Σ w_i c_i / Σ w_i; public weights are post-processing
//   LocalUnit       every client sends a random direction and a random length (local_randomizer.h), by pure
//                   ε; nobody is trusted
//   MaskedSums      every client adds a share of the noise and masks that cancel in the sum (secure_sum.h):
//                   the server learns the noised sum; nobody is trusted
//   TrustedServer   clients send clipped updates to a server they trust, which adds noise to the sum, once;
//                   with weights each is scaled by its w_i ≤ 1 first, so one still moves the sum by at most
//                   what it does without, and the noise of the mean is σ/Σ w_i
//
// All also estimate (1/M) Σ‖Δ_i‖², the mean squared length of the updates, which adaptive step sizes need:
//   LocalNoise      mean ‖c_i‖² − dσ², from what was released anyway
//   LocalUnit       mean ŝ_i, from the released lengths alone (scalar_dp.h); in the mean not too large
//   TrustedServer   λΣ‖Δ_i‖² travels as one more coordinate of the sum, with the same noise. With
//   and MaskedSums  λ ≤ FreeSquare(C) it costs nothing: see docs/algorithms/fedexp.md.
#include <cmath>
#include <optional>

#include "algorithms/algorithm.h"

namespace tacit {

// Public constants of the clients' releases.
struct UpdateNoise {
  L2Bound clip{1.0};                       // C
  double square = 0;                       // λ; 0: no squared length is asked for
  double indicator = 0;                    // κ; 0: nobody asks whether an update was longer than the clip
  std::shared_ptr<const NoisePlan> sigma;  // on a client's update, or on the server's sum; one per round
  std::shared_ptr<const Vec> variance;  // local noise: (weighted) mean over clients of σ², one per round
  const Mechanism* mechanism = nullptr;
  const LocalRandomizer* randomizer = nullptr;  // LocalUnit, which needs of the above the clip alone
  const SecureSum* secure = nullptr;  // MaskedSums, which has the noise of all rounds
  // TrustedServer with a secret sample of at most `most` clients: what the sum is divided by, a public
  // number, since how many there were is secret: the clients of a round, or their weights, in the mean. 0:
  // everyone takes part.
  double expected = 0;
  std::uint32_t most = 0;  // clients in all
  double everyone = 0;  // Σ of their weights: as many, if all are 1
  bool sampled = false;  // not everyone takes part in a round
  // TrustedServer, at a client with a process of its own: how far it moves the server's sum. It pays for that
  // from its own ledger, before its update leaves.
  std::optional<L2Bound> moves = {};
  // Whether a round in which such weights answered has a release: of a secret sample also where nobody was in
  // it.
  bool HasRelease(double answered) const { return answered > 0 || expected > 0; }
  std::size_t dim = 0;  // of an update
  const Claim* claim = nullptr;  // paper mode: what is recorded beside what is charged
};

struct MeanUpdate {
  Released<Vec> value;  // c̄
  double square = 0;  // estimate of (1/M) Σ‖Δ_i‖²; may be negative
  double inside = 0;  // estimate of the share of updates that the clip left as they were
  double noisy_square = 0;  // with local trust: (1/M) Σ‖c_i‖², noise and all
};

inline void MeanOf(const Vec& total, Vec& mean, const std::size_t& dim, const double& count) {
  mean.resize(dim);
  for (std::size_t j = 0; j < dim; ++j) mean[j] = total[j] / count;
}

// A clipped update as it is released: with its squared length, or with whether it was clipped.
inline Bounded ClippedUpdate(const UpdateNoise& n, Private<Vec>& update) {
  return n.square > 0      ? Bounded::ClipWithSquare(update, n.clip, n.square)
         : n.indicator > 0 ? Bounded::ClipWithIndicator(update, n.clip, n.indicator)
                           : Bounded::Clip(update, n.clip);
}
inline std::size_t UpdateLength(const UpdateNoise& n, std::size_t dim) {  // of what it clips to
  return dim + (n.square > 0 || n.indicator > 0 ? 1 : 0);
}

// From a released sum of such updates, of so many clients, or of clients with such weights together.
inline void MeanOfUpdates(const UpdateNoise& n, const Released<Vec>& sum, double count, MeanUpdate& mean) {
  const bool more = n.square > 0 || n.indicator > 0;
  const std::size_t dim = sum->size() - (more ? 1 : 0);
  sum.Into<&MeanOf>(mean.value, dim, count);
  mean.square = n.square > 0 ? sum->back() / (n.square * count) : 0.0;
  mean.inside = n.indicator > 0 ? 1 + sum->back() / (n.indicator * count) : 0.0;
}

struct LocalNoise {
  struct Up {
    Released<Vec> update;
    auto Fields() { return std::tie(update); }
  };
  struct Sum : ReleasedSum {
    double squares = 0;  // Σ‖c_i‖²
    void Reset() { count = 0, squares = 0; }
    void Add(const Up& up) {
      Take(up.update, 1);
      squares += NormSquared(*up.update);
    }
    void Merge(const Sum& other) {
      Take(other);
      squares += other.squares;
    }
    auto State() { return std::tie(total, count, squares); }
  };

  // Clips s.update and releases it.
  static Status Send(const UpdateNoise& n, std::uint32_t t, const Holding& own, Up& up, Scratch& s) {
    return Send(n, t, *own.ledger, up.update, s);
  }
  static Status Send(const UpdateNoise& n, std::uint32_t t, Ledger& ledger, Released<Vec>& update,
                     Scratch& s) {
    const Bounded delta = ClippedUpdate(n, s.update);
    TACIT_OK(n.mechanism->Release(delta, (*n.sigma)[t], ledger, *s.rng, s.noise, update));
    if (n.claim != nullptr) ledger.Record(*n.claim);
    return Ok{};
  }
  static Status Mean(const UpdateNoise& n, std::uint32_t t, Sum& sum, LedgerBook&, MeanUpdate& mean,
                     Scratch&) {
    return Mean(n, t, sum.total, sum.squares, sum.count, mean);
  }
  // squares: Σ w_i‖c_i‖²; weight: Σ w_i.
  static Status Mean(const UpdateNoise& n, std::uint32_t t, const Released<Vec>& total, double squares,
                     double weight, MeanUpdate& mean) {
    const double variance = n.mechanism->name() == "expose" ? 0.0 : (*n.variance)[t];
    const std::size_t dim = total->size();
    MeanOfUpdates(n, total, weight, mean);
    mean.noisy_square = squares / weight;
    mean.square = mean.noisy_square - static_cast<double>(dim) * variance;
    return Ok{};
  }
  static std::array<std::size_t, 1> UpLengths(const UpdateNoise& n, std::size_t dim) {
    return {UpdateLength(n, dim)};
  }
  static std::uint32_t Count(const Sum& sum) { return sum.count; }
  static double Weight(const Sum& sum) { return sum.count; }
  // The update that was counted, as its client knows it.
  static View Counted(const UpdateNoise&, const Up& up, Scratch&) { return *up.update; }
};

struct WeightedNoise {
  struct Up {
    Public<double> weight;  // w_i
    Released<Vec> update;  // c_i, as without weights
    auto Fields() { return std::tie(weight, update); }
  };
  struct Sum {
    Released<Vec> total;  // Σ w_i c_i, from the first message on
    double weight = 0, squares = 0;  // Σ w_i and Σ w_i‖c_i‖²
    std::uint32_t count = 0;
    void Reset() { weight = squares = 0, count = 0; }
    void Add(const Up& up) {
      Take(up.update, *up.weight, *up.weight * NormSquared(*up.update), *up.weight, 1);
    }
    void Merge(const Sum& other) { Take(other.total, 1, other.squares, other.weight, other.count); }
    auto State() { return std::tie(total, weight, squares, count); }

   private:
    void Take(const Released<Vec>& x, double times, double square, double w, std::uint32_t n) {
      if (n == 0) return;
      x.Into<[](const Vec& from, Vec& to, const double& by, const bool& first) {
        if (first) to.assign(from.size(), -0.0);  // what adds nothing, not even a sign
        Axpy(by, from, to);
      }>(total, times, count == 0);
      squares += square, weight += w, count += n;
    }
  };

  static Status Send(const UpdateNoise& n, std::uint32_t t, const Holding& own, Up& up, Scratch& s) {
    up.weight.Mutable() = own.weight;
    return LocalNoise::Send(n, t, *own.ledger, up.update, s);
  }
  static Status Mean(const UpdateNoise& n, std::uint32_t t, Sum& sum, LedgerBook&, MeanUpdate& mean,
                     Scratch&) {
    return LocalNoise::Mean(n, t, sum.total, sum.squares, sum.weight, mean);
  }
  static std::array<std::size_t, 2> UpLengths(const UpdateNoise& n, std::size_t dim) {
    return {0, UpdateLength(n, dim)};
  }
  static std::uint32_t Count(const Sum& sum) { return sum.count; }
  static double Weight(const Sum& sum) { return sum.weight; }
  static View Counted(const UpdateNoise&, const Up& up, Scratch&) { return *up.update; }
};

// c_i = r̂_i V_i/m with r̂_i = a(Ĵ_i − b). As this is affine in the level Ĵ_i, the server adds up Ĵ_i V_i and
// V_i and multiplies once: (1/M) Σ c_i = (a/m)·(1/M)(Σ Ĵ_i V_i − b Σ V_i).
struct LocalUnit {
  struct Up {
    Released<std::uint32_t> level;  // Ĵ_i
    Released<GridVec> direction;  // V_i·2^kGridBits
    auto Fields() { return std::tie(level, direction); }
  };
  struct Sum {
    Released<Vec> weighted, plain;  // Σ Ĵ_i V_i and Σ V_i, on the grid; from the first message on
    double levels = 0, squares = 0;  // Σ Ĵ_i and Σ Ĵ_i²
    std::uint32_t count = 0;
    void Reset() { levels = squares = 0, count = 0; }
    void Add(const Up& up) {
      const double level = *up.level;
      const bool first = count == 0;
      up.direction.Into<&Gather<GridVec>>(weighted, level, first);
      up.direction.Into<&Gather<GridVec>>(plain, 1.0, first);
      levels += level, squares += level * level, ++count;
    }
    void Merge(const Sum& other) {
      if (other.count == 0) return;
      const bool first = count == 0;
      other.weighted.Into<&Gather<Vec>>(weighted, 1.0, first);
      other.plain.Into<&Gather<Vec>>(plain, 1.0, first);
      levels += other.levels, squares += other.squares, count += other.count;
    }
    auto State() { return std::tie(weighted, plain, levels, squares, count); }

   private:
    template <class From>
    static void Gather(const From& from, Vec& to, const double& weight, const bool& first) {
      if (first) to.assign(from.size(), 0.0);
      for (std::size_t j = 0; j < to.size(); ++j) to[j] += weight * static_cast<double>(from[j]);
    }
  };

  static Status Send(const UpdateNoise& n, std::uint32_t, const Holding& own, Up& up, Scratch& s) {
    const Bounded delta = Bounded::Clip(s.update, n.clip);
    TACIT_OK(n.randomizer->Release(delta, *own.ledger, *s.rng, s.unit, up.level, up.direction));
    if (n.claim != nullptr) own.ledger->Record(*n.claim);
    return Ok{};
  }
  static Status Mean(const UpdateNoise& n, std::uint32_t, Sum& sum, LedgerBook&, MeanUpdate& mean, Scratch&) {
    const ScalarDp& length = n.randomizer->length();
    const double count = sum.count, a = length.a(), b = length.b(), m = n.randomizer->direction().m();
    const double unit = std::ldexp(a / (m * count), -PrivUnit::kGridBits);
    sum.weighted
        .Into<[](const Vec& weighted, Vec& to, const Vec& plain, const double& by, const double& times) {
          to.resize(weighted.size());
          for (std::size_t j = 0; j < to.size(); ++j) to[j] = times * (weighted[j] - by * plain[j]);
        }>(mean.value, *sum.plain, b, unit);
    mean.square = length.MeanSquareEstimate(sum.squares / count);
    mean.noisy_square = (a / m) * (a / m) * ((sum.squares - 2 * b * sum.levels) / count + b * b);
    return Ok{};
  }
  static std::array<std::size_t, 2> UpLengths(const UpdateNoise&, std::size_t dim) { return {0, dim}; }
  static std::uint32_t Count(const Sum& sum) { return sum.count; }
  static double Weight(const Sum& sum) { return sum.count; }
  static View Counted(const UpdateNoise& n, const Up& up, Scratch& s) {
    n.randomizer->Estimate(up.level, up.direction, s.released);
    return *s.released;
  }
};

struct MaskedSums {
  struct Up {
    Masked update;
    auto Fields() { return std::tie(update); }
  };
  struct Sum {
    MaskedTotal total;
    void Reset() { total.Reset(); }
    void Add(const Up& up) { total.Add(up.update); }
    void Merge(const Sum& other) { total.Merge(other.total); }
    auto State() { return std::tie(total); }
  };
  // Clips s.update and seals it; the clipped update stays there.
  static Status Send(const UpdateNoise& n, std::uint32_t, const Holding& own, Up& up, Scratch& s) {
    return n.secure->Seal(ClippedUpdate(n, s.update), *own.ledger, *s.rng, s.noise, up.update);
  }
  static Status Mean(const UpdateNoise& n, std::uint32_t, Sum& sum, LedgerBook&, MeanUpdate& mean,
                     Scratch& s) {
    TACIT_OK(n.secure->Open(sum.total, s.released));
    MeanOfUpdates(n, s.released, sum.total.count(), mean);
    return Ok{};
  }
  static std::array<std::size_t, 1> UpLengths(const UpdateNoise& n, std::size_t dim) {
    return {UpdateLength(n, dim)};
  }
  static std::uint32_t Count(const Sum& sum) { return sum.total.count(); }
  static double Weight(const Sum& sum) { return sum.total.count(); }
  static const Private<Vec>& Counted(const UpdateNoise&, const Up&, Scratch& s) { return s.update; }
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
    auto State() { return std::tie(total); }
  };

  // Whether nothing but the clipped update is asked for. Then it may come by its factors, in s.factored.
  static bool Plain(const UpdateNoise& n, const Holding& own) {
    return n.square == 0 && n.indicator == 0 && own.weight == 1;
  }
  static Status SendFactored(const UpdateNoise& n, std::uint32_t t, const Holding& own, Up& up, Scratch& s) {
    TACIT_OK(Pay(n, t, own));
    Bounded::ClipAndEntrust(s.factored, n.clip, up.update);
    return Ok{};
  }
  // Takes s.update; Counted gives it back.
  static Status Send(const UpdateNoise& n, std::uint32_t t, const Holding& own, Up& up, Scratch& s) {
    TACIT_OK(Pay(n, t, own));
    if (Plain(n, own))
      Bounded::ClipAndEntrust(s.update, n.clip, up.update);
    else
      ClippedUpdate(n, s.update).Entrust(up.update, own.weight);
    return Ok{};
  }
  // For the release that the server will make of the sum. In one process the server pays for all (Mean).
  static Status Pay(const UpdateNoise& n, std::uint32_t t, const Holding& own) {
    if (!n.moves) return Ok{};
    TACIT_OK(own.ledger->Charge(n.mechanism->EventFor(*n.moves, (*n.sigma)[t], UpdateLength(n, n.dim))));
    if (n.claim != nullptr) own.ledger->Record(*n.claim);
    return Ok{};
  }
  // At the server: what a client elsewhere sent, if a client can send it.
  static bool Accept(const UpdateNoise& n, Private<Vec>& value, double weight, Up& up) {
    Private<Vec> zero{Vec(n.dim)};
    return ClippedUpdate(n, zero).Accept(value, weight, up.update);
  }
  static Bounded Total(const UpdateNoise& n, Sum& sum) {
    if (n.expected == 0) return sum.total.Total();
    Private<Vec> zero{Vec(n.dim)};
    Entrusted nothing;
    ClippedUpdate(n, zero).Entrust(nothing);
    return sum.total.Total(n.most, nothing);
  }
  static Status Mean(const UpdateNoise& n, std::uint32_t t, Sum& sum, LedgerBook& everyone, MeanUpdate& mean,
                     Scratch& s) {
    const Bounded total = Total(n, sum);
    TACIT_OK(n.mechanism->ReleaseForAll(total, (*n.sigma)[t], everyone, *s.rng, s.noise, s.released));
    if (n.claim != nullptr) everyone.Record(*n.claim);
    MeanOfUpdates(n, s.released, n.expected > 0 ? n.expected : sum.total.weight(), mean);
    return Ok{};
  }
  static std::array<std::size_t, 1> UpLengths(const UpdateNoise& n, std::size_t dim) {
    return {UpdateLength(n, dim)};
  }
  static std::uint32_t Count(const Sum& sum) { return sum.total.count(); }
  static double Weight(const Sum& sum) { return sum.total.weight(); }
  static const Private<Vec>& Counted(const UpdateNoise&, const Up& up, Scratch& s) {
    Bounded::Recall(up.update, s.update);
    return s.update;
  }
};

}  // namespace tacit
