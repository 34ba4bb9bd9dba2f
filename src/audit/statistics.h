#pragma once

// From what an attack got right to a lower bound on ε, with confidence. Pure functions of counts.
//
// Neighbouring data sets D₀ and D₁, an event A that an attacker sees ("the score is above a threshold fixed
// in advance"): FPR = P[A | D₀], FNR = P[not A | D₁].
//   (ε, δ)-DP      1 − FNR ≤ e^ε FPR + δ  and  1 − FPR ≤ e^ε FNR + δ   (Kairouz, Oh, Viswanath 2015)
//   μ-Gaussian-DP  Φ⁻¹(1 − FPR) ≤ Φ⁻¹(FNR) + μ                          (Dong, Roth, Su 2022)
// With upper bounds of FPR and FNR that hold together these turn into lower bounds of ε and μ. The bound of μ
// assumes nothing: it says which μ the release cannot have. To read it as an ε at some δ takes the whole
// trade-off curve to be Gaussian, and whoever shows that number must say so.
#include <cstdint>

#include "core/units.h"

namespace tacit {

// The largest p with P[Bin(n, p) ≤ k] ≥ alpha, and the smallest with P[Bin(n, p) ≥ k] ≥ alpha: one-sided
// bounds at confidence 1 − alpha (Clopper, Pearson 1934). n = 0: nothing is known.
double ClopperPearsonUpper(std::uint64_t k, std::uint64_t n, double alpha);
double ClopperPearsonLower(std::uint64_t k, std::uint64_t n, double alpha);

// How often the score was above the threshold in runs on D₀ and on D₁.
struct Counts {
  std::uint64_t runs0 = 0, above0 = 0, runs1 = 0, above1 = 0;
  void Add(const Counts& c) { runs0 += c.runs0, above0 += c.above0, runs1 += c.runs1, above1 += c.above1; }
  bool operator==(const Counts&) const = default;
};

// What counts prove, wrong with a probability of at most alpha. The threshold must not depend on these runs.
struct LowerBounds {
  double fpr = 1, fnr = 1;  // upper bounds, each at alpha/2
  double epsilon = 0;  // at δ, whatever the mechanism is
  double mu = 0;  // of any Gaussian-DP guarantee that may hold
};
LowerBounds BoundsOf(const Counts&, Delta, double alpha);

// The least ε at δ of a release that is exactly μ-Gaussian-DP; 0 for μ = 0.
double EpsilonIfGaussian(double mu, Delta);

// What was added to releases, in units of what was to be added: independent standard normal numbers, if all
// is as stated. Only the auditor can know them, who has the values without noise.
struct NoiseSums {
  double squares = 0, numbers = 0;  // Σ z², and how many they are
  double products = 0, pairs = 0;  // Σ z z′ over the same coordinate of two releases of a run, and how many
  void Add(const NoiseSums& n) {
    squares += n.squares, numbers += n.numbers, products += n.products, pairs += n.pairs;
  }
  bool operator==(const NoiseSums&) const = default;
};
// P[χ² ≤ squares]: how likely as little noise is, if it is as stated; 1 for none.
double ChanceOfSoLittle(const NoiseSums&);
// How far the products are from 0, in standard deviations (normal in the limit of many runs).
double SharedNoise(const NoiseSums&);

// All in one run (Steinke, Nasr, Jagielski 2023, Theorem 5.2). Each of m units has one of two values by a
// fair coin of its own; the attacker sees what one run releases and guesses r of the m coins, v of them
// right. If the release is (ε, δ)-DP for each unit, then with W ~ Bin(r, e^ε/(1 + e^ε)),
//   P[at least v right] ≤ P[W ≥ v] + 2mδ · max_{1 ≤ i ≤ v} P[v − i ≤ W < v]/i.
// Why: at δ = 0 every guess is right with probability at most e^ε/(1 + e^ε) whatever the other coins are, so
// the number of right ones is dominated by W. With δ the release is near one that is ε-DP but for a number of
// faulty coins whose mean is at most 2mδ in all; i faulty coins turn W ≥ v − i into v right guesses, and the
// worst distribution of that number puts it on one i, by Markov's inequality with probability at most 2mδ/i.
double OneRunProbability(std::uint64_t m, std::uint64_t r, std::uint64_t v, double epsilon, double delta);
// The largest ε (found by bisection from below, so never above it) that the above rejects at alpha; 0: none.
double OneRunEpsilon(std::uint64_t m, std::uint64_t r, std::uint64_t v, Delta, double alpha);

}  // namespace tacit
