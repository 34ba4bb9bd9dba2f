#pragma once

// Published figures, re-run: an experiment file with a [sweep], and beside it what the paper says of
// the outcome, as statements that can be checked.
//
//   [about]
//   title = "Optimality against the number of rounds"
//   paper = "Author: Title (Venue Year), Fig. 2"
//   [[claim]]
//   text = "the error saturates in T"                     # in our words, with what is asserted
//   published = "levels off after some 3000 rounds"       # what the paper shows or says
//   check = { kind = "ratio_at_most", metric = "optimality", limit = 1.35,
//             numerator = { algorithm.rounds = 5000 }, denominator = { algorithm.rounds = 3000 } }
//
// Kinds (m(p) is the mean of the metric over the seeds at grid point p):
//   below, above                     m(at) < limit, m(at) > limit; without `at`: at every point
//   ratio_at_most, ratio_at_least    m(numerator) / m(denominator) ≤ limit, ≥ limit
//   grows_like                       the least-squares slope of log m against log of the axis `over`, among
//                                    the points that agree with `at`, is within `tolerance` of `exponent`
// With tuned = ["algorithm.local_rate", "privacy.clip"] a method is taken at its best: m(p) is then the best
// mean over the values of those axes (the smallest; for an accuracy the largest).
// A text that ends with a star stands for all that begin so: tuned = ["case"], at = { case = "dp-fedavg*" }.
// A selection names the axes needed to pick one point (for grows_like: one line of points).
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "experiment/sweep.h"

namespace tacit {

using Selection = std::vector<std::pair<std::string, Value>>;

struct PublishedClaim {
  std::string text, published;
  enum class Kind { kBelow, kAbove, kRatioAtMost, kRatioAtLeast, kGrowsLike } kind = Kind::kBelow;
  std::string metric;
  Selection at, numerator, denominator;
  std::string over;
  std::vector<std::string> tuned;      // axes
  double limit = 0, exponent = 1, tolerance = 0.25;
};

struct Figure {
  std::string name;                    // "primal-dual/fig2"
  std::filesystem::path file;
  std::string title, paper;
  std::vector<PublishedClaim> claims;
  std::string against = {};  // the metric that goes to the right in its picture; empty: an axis does, or none
  std::string drawn = {};  // the case that its picture is of; empty: all
};
// An error names the file, the line and what a claim may say.
Result<Figure> LoadFigure(const std::filesystem::path& file, std::string name);

// The folder of experiment files: beside the program (in the clone it was built in, or installed under
// share/tacit), else in the working directory.
Result<std::filesystem::path> ExperimentsFolder();
// <folder>/<paper>/<figure>.toml, sorted by name.
Result<std::vector<Figure>> Figures(const std::filesystem::path& folder);

struct Verdict {
  enum class Kind { kHolds, kFails, kUntested } kind = Kind::kUntested;
  std::string numbers;  // ours, in a sentence; ± one standard deviation over several seeds
  // How far what is compared is from its limit, in standard errors of our means (to first order, where they
  // are divided); none with one seed. Up to kErrors it is within error: other seeds may decide otherwise.
  std::optional<double> errors = std::nullopt;
  // Upper bounds on the certified ε of the points that are compared; a ratio's numerator first.
  std::vector<double> certified = {};

  static constexpr double kErrors = 2;
  bool within_error() const { return errors && *errors <= kErrors; }
};
const char* Name(Verdict::Kind);  // "holds", "does not hold", "not tested"
// Untested: the sweep did not run a point the claim speaks of (interrupted, quick or pinned by --set).
Verdict Check(const PublishedClaim&, const SweepResult&);

// The largest certified ε that a seed at this point can have; NaN: none is known.
double CertifiedAt(const GridPoint&);

// What of the papers is not run again, and why: experiments/not_reproduced.toml.
//   [[missing]]
//   paper = "fedexp"
//   what = "Fig. 9"
//   because = "its data are not public"
struct NotReproduced {
  std::string paper, what, because;
};
Result<std::vector<NotReproduced>> ReadNotReproduced(const std::filesystem::path& file);  // none: no file

}  // namespace tacit
