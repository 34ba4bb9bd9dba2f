#pragma once

// What the papers say their runs cost, beside what can be proved of them. Each function evaluates the
// paper's own formula at given parameters and the certified value of the same noise; the sentence says why
// they differ. Everything else about a paper's calibration is in its algorithm.
//
// "Certified" grants what the paper assumes of its data where a program could enforce it (a clip); where
// nothing of the kind would help, or the run as printed does not do it, the value is ∞.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "privacy/accountant.h"

namespace tacit {

struct PaperClaim {
  std::string paper;                 // the short name: primal-dual, ef21, nfl, fedexp, fcrn, isrl-dp
  std::string setting;               // which run of the paper
  std::string source;                // where the paper says it
  std::string formula;               // as printed there
  double claimed = 0;                // ε by that formula
  std::optional<double> published;   // the figure printed, if one is; rounded up by the authors
  double claimed_delta = 0;
  std::string scope;                 // what `claimed` covers: the run, one round, 49 of 50 rounds
  Bracket certified;                 // ε of the whole run at `delta`
  double delta = 0;
  std::string why;                   // one sentence
  std::string reference;             // what that sentence rests on
};

// primal-dual, (13): ε = ρ + 2√(ρ ln 1/δ), solved for ρ; the noise is that of μ² = 2ρ.
extern const char* const kPrimalDualClaimSource;
Result<PaperClaim> PrimalDualClaim(Epsilon, Delta, bool gradients_bounded);

// isrl-dp (Lowy, Razaviyayn 2023), a baseline of the others: σ² = 256 L²R ln(2.5R/δ) ln(2/δ)/(m²ε²) on the
// mean of m gradients of length ≤ L, over R rounds. It is the classic Gaussian of (ε₀, δ/(2R)) in each round
// and advanced composition, ε₀ = ε/(2√(2R ln(2/δ))), which makes 64, and a factor 2 on σ that bounds what
// sampling a part of the records could cost. The noise of a run is that of
//   μ = 2L√R/(mσ) = ε/(8√(ln(2.5R/δ) ln(2/δ))).
extern const char* const kIsrlDpClaimSource;
Mu IsrlDpMu(Epsilon, Delta, std::uint64_t rounds);
Result<PaperClaim> IsrlDpClaim(Epsilon, Delta, std::uint64_t rounds, bool gradients_bounded);

// ef21, Theorem 1 and Lemma 4: ρ = ε²/(4 ln 1/δ) is said to suffice.
enum class Ef21Schedule { kGeometric, kLyapunov };
Result<PaperClaim> Ef21Claim(Epsilon, Delta, Ef21Schedule);
// An (ε, δ)-DP run that ends near the minimiser of its own data fails, on one of two neighbours with distinct
// minimisers, with at least this probability: 1 − p ≤ e^ε p + δ.
double LeastFailureOfConvergence(Epsilon, Delta);

// nfl, Corollary: ρ = φ₁ (1 − τ^T)/(τ^{T−1} − τ^T), which is Σ_{n<T} φ₁ τ^{−n}.
enum class NflData {
  kClipped,  // subgradients bounded by c₁, all parameters public
  kUnboundedLoss,  // squared loss without clipping: elastic net, ridge
  kPenaltyFromData,  // λ₁ = 0.001‖Xᵀy‖∞
};
Result<PaperClaim> NflClaim(Rho first_round, double tau, std::uint64_t rounds, Delta, NflData);
double NflRho(Rho first_round, double tau, std::uint64_t rounds);  // rounded up

// fedexp with local Gaussian noise, Proposition 4.1: one round of noise multiplier σ/(2C).
Result<PaperClaim> FedExpLocalClaim(double sigma_over_clip, std::uint64_t rounds, Delta);

// fedexp with PrivUnit(ε₀, ε₁) and ScalarDP(ε₂), Lemma D.1. The cap has the measure q at which
// (1 − q)/q = e^{ε₁}, or with a dimension the one of the paper's rule γ = tanh(ε₁/2)√(π/(2(d − 1))).
struct PrivUnitSplit {
  Epsilon probability, cap, scalar;
};
Result<PaperClaim> FedExpPrivUnitClaim(PrivUnitSplit, std::uint64_t rounds, Delta,
                                       std::optional<std::uint64_t> dimension);

// fedexp with central noise, Proposition 4.2: σ = r C/√M and σ_ξ = dσ²/M, the two releases charged apart.
struct FedExpCentral {
  double noise_ratio = 5;  // r
  std::uint64_t clients = 1000;
  std::optional<std::uint64_t> dimension;  // none: DP-FedAvg, which releases no step size
  std::uint64_t rounds = 50, counted = 49;  // run, and those the published figure fits
};
Result<PaperClaim> FedExpCentralClaim(const FedExpCentral&, Delta);

// fcrn, Theorem 1 with the noise of (7): μ² of a round is ε²m²/(20 T ln(1.25/δ₀)), for any τ and k, granting
// the sensitivity 2√(k/d)(G₁ + G₂D); one of m records is sampled a round.
struct Fcrn {
  std::uint64_t records = 10000, rounds = 40000, steps = 10;  // m, T, τ
  double delta0 = 0.01;
};
Result<PaperClaim> FcrnClaim(Epsilon, const Fcrn&, Delta);
Mu FcrnRoundMu(Epsilon, const Fcrn&);  // rounded up
double FcrnDelta(Epsilon, const Fcrn&);  // the theorem's "certain δ": 1 − (1 − ε/√5)(1 − δ₀/m)^{τT}

// All of them at the papers' settings; `paper` empty or one of PaperNames().
const std::vector<std::string>& PaperNames();
Result<std::vector<PaperClaim>> ClaimsOf(std::string_view paper);

}  // namespace tacit
