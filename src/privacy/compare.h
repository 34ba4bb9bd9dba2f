#pragma once

// The same releases by the composition theorems of the literature, beside the accountant. All are upper
// bounds, and all but the first two go by what one release costs alone.
#include <string>
#include <vector>

#include "privacy/accountant.h"

namespace tacit {

struct Comparison {
  std::string name;        // for JSON: "basic"
  std::string title;       // for people: "basic composition"
  double epsilon = 0;      // ∞ where the theorem gives none
  bool applies = true;     // false: the theorem says nothing of some of the events
};

// For N releases that cost (ε_i, δ_i) each, at the δ asked for:
//   basic      Σ ε_i with Σ δ_i = δ
//   advanced   √(2 ln(1/δ′) Σ ε_i²) + Σ ε_i (e^{ε_i} − 1) with δ′ + Σ δ_i = δ   (Dwork, Rothblum, Vadhan
//   2010) optimal    the smallest ε that holds for every mechanism with these (ε_i, δ_i), same shares
//              (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016)
//   zcdp       ρ + 2√(ρ ln 1/δ), ρ = Σ ρ_i (see ZcdpCost); not for samples and (ε, δ)-DP
//              (Bun, Steinke 2016)
//   rdp        Rényi divergences of all orders, with the best conversion known
//   exact      the accountant, or the least of the others should that be smaller by a hair
// δ_i = 0 for releases that are ε-DP; the others share δ, or half of it, equally.
Result<std::vector<Comparison>> Compare(const Accountant&, Delta, const Bracket& exact);

// Lowers the upper end of an account's ε to what other certified ways give, where that is less: the first
// three theorems above, and, if some events are known by Rényi divergences only (see KnownByRenyi), those
// taken together as one (ε_B, δ_B)-DP release beside the losses of the others, for a few shares δ_B of δ.
Status Tighten(const Accountant&, Delta, Bracket& epsilon);

// Nothing finer than Rényi divergences is known: zCDP, Rényi curves, sums and vectors of discrete Gaussians.
bool KnownByRenyi(const PrivacyEvent&);

}  // namespace tacit
