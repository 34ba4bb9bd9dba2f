#pragma once

// The inverses of the accountant: the noise, the number of rounds, the sampling rate or the ε of one release
// that an (ε, δ) allows, and the factor by which all noise of a list of events must grow to meet it.
//
//   TACIT_TRY(const Calibration c, CalibrateNoise({.rate = 0.01, .rounds = 1000, .adjacency = …}, epsilon,
//   delta)); c.value                                  // the noise multiplier
//
// What is found errs to the safe side: with it, the upper end of the account's bracket is at most ε; with
// 1e-9 relatively less noise (or more rate, one more round) it is above ε. Both were evaluated, so this holds
// also where the upper end is not monotone: where brackets are wide, where ScalarDP takes one more level,
// where a discrete Gaussian outgrows its lattice. There another value further away may keep the budget as
// well.
#include <cstdint>
#include <functional>
#include <optional>

#include "privacy/accountant.h"

namespace tacit {

struct Calibration {
  double value = 0;
  Bracket epsilon;  // of the account with it; epsilon.upper is at most what was asked for
  bool at_end = false;  // all of the range keeps the budget: the value is the end of the range
  int evaluations = 0;  // of accounts, by the search
};

// Accounts by one number x > 0 in which ε falls (noise) or grows (rounds, rate, ε of one release).
struct Family {
  std::function<Result<Accountant>(double)> account;  // an error: x is out of the mechanism's range
  bool falls = true;
  double low = 1e-6, high = 1e18;
  double guess = 1;
  bool whole = false;  // x is a whole number
  double first_step = 0.1;  // relative distance from the guess that is tried next; small if the guess is good
};
// The x next to the edge of the budget, on the safe side. kBudget if all x are over it.
Result<Calibration> Calibrate(const Family&, Epsilon, Delta);

// ---- Equal releases.

enum class ReleaseKind {
  kGaussian,  // sampled if there is a rate
  kDiscreteGaussian,
  kLaplace,
  kDiscreteLaplace,
  kPure,
  kRandomizedResponse,
  kPrivUnit,  // with ScalarDP for the length
  kScalarDp,
};
const char* Name(ReleaseKind);  // as on the command line: "discrete-gaussian"
Result<ReleaseKind> ParseReleaseKind(std::string_view name);
const std::vector<std::string>& ReleaseKindNames();

struct ReleasePlan {
  ReleaseKind mechanism = ReleaseKind::kGaussian;
  Adjacency adjacency = Adjacency::kReplaceOne;
  // σ over the sensitivity for Gaussians, σ in lattice steps for discrete Gaussians, ε of one release for all
  // other mechanisms.
  double noise = 1;
  double rounds = 1;  // whole, up to 10¹⁵
  std::optional<double> rate = std::nullopt;  // Gaussians on a secret sample
  bool fixed_size = false;  // of fixed size; else Poisson
  std::uint32_t sensitivity = 1;  // in lattice steps; discrete mechanisms
  std::uint64_t dimension = 1;  // discrete Gaussian, PrivUnit
  std::uint64_t categories = 2;  // randomised response
  double scalar_share = 1.0 / 3;  // of ε of one release, for the length; PrivUnit
};
bool NoiseFalls(ReleaseKind);  // whether ε falls with ReleasePlan::noise
Result<Accountant> AccountOf(const ReleasePlan&);

// The field named is what is found; its value given is not read.
Result<Calibration> CalibrateNoise(const ReleasePlan&, Epsilon, Delta);
Result<Calibration> CalibrateRounds(const ReleasePlan&, Epsilon, Delta);
Result<Calibration> CalibrateRate(const ReleasePlan&, Epsilon, Delta);

// ---- Any events.

// Every additive noise (Gaussian, sampled, discrete, Laplace) times `factor`; what has no noise to scale
// (ε-DP, (ε, δ)-DP, zCDP, randomised response, PrivUnit, ScalarDP) stays as it is. Rounded to the safe side.
Result<Accountant> WithNoiseScaled(const Accountant&, double factor);
std::size_t UnscaledKinds(const Accountant&);  // lines that stay as they are
// All events `times` over.
Result<Accountant> Repeated(const Accountant&, double times);

Result<Calibration> CalibrateScale(const Accountant&, Epsilon, Delta);
Result<Calibration> CalibrateRepeats(const Accountant&, Epsilon, Delta);

}  // namespace tacit
