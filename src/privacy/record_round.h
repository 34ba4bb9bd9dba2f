#pragma once

// A round of a client on a sample of its own records: several releases from one sample, paid for once.
//
// The client draws b of its m records anew and in secret and makes releases from them, each a sum over the
// sample with Gaussian noise, of which the later ones may depend on the earlier ones. Given the sample, they
// are together μ-GDP for the substitution of a sampled record as long as a Gaussian-DP filter with the budget
// μ² lets them pass: the parameters of a release may follow from what was released before. So a round is one
// mechanism A that is μ-GDP, applied to a secret sample, and its cost is that of a Gaussian with μ on that
// sample (Balle, Barthe, Gaboardi 2018; Dong, Roth, Su 2022): amplification is credited once, for the round.
// To credit it for every release would take a fresh sample for each; with one sample for ten releases at
// q = 1e-3 and μ = 1 each, a hundred such rounds cost 9.64 at δ = 1e-5, and not 0.18.
//
// For samples of a fixed size neighbours differ by the substitution of a record. Poisson samples are charged
// for that adjacency too, where μ must cover a record's term and its absence, as sums clipped at C with
// μ = 2C/σ do.
#include <cstdint>
#include <optional>
#include <vector>

#include "core/private.h"
#include "core/rng.h"
#include "privacy/ledger.h"
#include "privacy/sampling.h"

namespace tacit {

struct RecordSampling {
  Sampling sample;  // of a client's records; rate: at least that of every client, which is what is charged
  std::uint32_t size = 1;  // b: exactly so many, or so many in the mean
  // The next b records in every round, over and over: no sample at all. Whoever knows the order knows who is
  // used when, so nothing is credited, and one pass costs every record one round.
  bool cycle = false;
  std::size_t Most(std::size_t records) const;  // how many a round may use
  double Divisor(std::size_t records) const;  // what its sums are divided by to be means; public
  // Rounds that one record takes part in at most: all, but in a cycle.
  std::uint64_t RoundsOfOne(std::uint64_t rounds, std::size_t records) const;
};

class RecordRound {
 public:
  // Pays for the round with index t (from 0), then draws its sample. mu: of all its releases together; none:
  // nothing is promised, and the ledger is charged with that. records: of the client, public. In a cycle a
  // pass is paid for at its first round.
  static Result<RecordRound> Open(const RecordSampling&, std::size_t records, std::uint32_t t,
                                  std::optional<Mu> mu, Ledger&, NoiseRng&);

  const Private<std::vector<std::uint32_t>>& sample() const { return sample_; }  // ascending
  Ledger& account() { return account_; }  // for the releases of this round; refuses beyond μ²

 private:
  RecordRound(Ledger account, std::vector<std::uint32_t> sample)
      : account_(account), sample_(std::move(sample)) {}
  Ledger account_;
  Private<std::vector<std::uint32_t>> sample_;
};

// What the ledger is charged for a round.
PrivacyEvent RoundEvent(const RecordSampling&, std::optional<Mu> mu);

}  // namespace tacit
