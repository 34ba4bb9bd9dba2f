#pragma once

// The privacy accountant: composes events and says what they cost together, with error bars.
//
//   Accountant account(Adjacency::kAddOrRemove);
//   TACIT_OK(account.Compose(PoissonGaussianEvent{.rate = …, .mu = …}, 1000));
//   TACIT_TRY(const Bracket epsilon, account.EpsilonAt(delta));      // epsilon.upper is what holds
//
// The parameters of all events must be fixed in advance; the values released, and which of them were used,
// may depend on earlier ones. Parameters that depend on outputs need a filter: see filter.h. The result
// does not depend on the order of the events, bit for bit, nor on how counts are split.
//
// Proofs and the choice between the methods: docs/accounting.md.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.h"
#include "privacy/event.h"

namespace tacit {

// `upper` holds for everything the events describe: never below the truth, rounding included. `lower`: some
// mechanism that fits the description costs at least that. The truth of the worst one lies between.
struct Bracket {
  double lower = 0, upper = 0;
  std::string method;          // how `upper` was found, in words
};

struct AccountOptions {
  // Nodes on the contour, at most; more narrows brackets that are not narrow already.
  std::size_t nodes = std::size_t{1} << 17;
};

class Accountant {
 public:
  explicit Accountant(Adjacency adjacency, AccountOptions options = {})
      : adjacency_(adjacency), options_(options) {}

  // `count` releases of the event. An error, and no change, if the event has no meaning under the adjacency,
  // its numbers are out of range, or more than 10¹⁵ of it come together.
  Status Compose(const PrivacyEvent&, std::uint64_t count = 1);
  // All events of another accountant, which must have the same adjacency.
  Status Compose(const Accountant&);

  // The smallest ε ≥ 0 with δ(ε) ≤ δ; ∞ where there is none.
  Result<Bracket> EpsilonAt(Delta) const;
  // The smallest δ for ε.
  Result<Bracket> DeltaAt(Epsilon) const;
  // At least δ(ε), as a function that is cheap to ask once it is made: for every ε ≥ 0, and hardly above the
  // truth for those near the ε of this δ > 0.
  std::function<double(double)> CurveNear(Delta) const;

  Adjacency adjacency() const { return adjacency_; }
  struct Line {
    PrivacyEvent event;
    std::uint64_t count;
  };
  const std::vector<Line>& lines() const { return lines_; }  // sorted, equal events together
  const AccountOptions& options() const { return options_; }

 private:
  Adjacency adjacency_;
  AccountOptions options_;
  std::vector<Line> lines_;
};

// Whether the accountant counts the two as releases of one kind.
bool SameEvent(const PrivacyEvent&, const PrivacyEvent&);

// The ε that Rényi divergences of the same events give with the best known conversion, at the best real order
// (Canonne, Kamath, Steinke 2020), rounded up: never below EpsilonAt's lower end, and what accountants by
// Rényi divergences can reach at most. For comparison; EpsilonAt is at least as good wherever it has another
// way.
Result<double> RenyiEpsilon(const Accountant&, Delta);

}  // namespace tacit
