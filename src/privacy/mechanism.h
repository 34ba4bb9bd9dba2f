#pragma once

// The doors from private to released. Both are here, both are visible, and both pay first. (A third, for a
// client's whole vector by pure ε, is in local_randomizer.h.)
#include <memory>
#include <string_view>

#include "core/private.h"
#include "core/rng.h"
#include "core/units.h"
#include "privacy/bounded.h"
#include "privacy/event.h"
#include "privacy/ledger.h"

namespace tacit {

// One thread's buffer for noise, drawn before the data is opened.
struct NoiseBuffer {
  std::vector<std::int64_t> lattice;
  Vec real;
};

class LatticeGaussian;

// Thread-safe: mechanisms keep no state.
class Mechanism {
 public:
  Mechanism() = default;
  Mechanism(const Mechanism&) = delete;  // is_lattice_ is of this class and not of one derived from it
  Mechanism& operator=(const Mechanism&) = delete;
  virtual ~Mechanism() = default;
  virtual std::string_view name() const = 0;
  // What the certificate must say of it; empty if nothing.
  virtual std::string_view caveat() const { return ""; }

  // The certified door: pay, draw, open. On refusal nothing is drawn, opened or changed.
  Status Release(const Bounded& v, NoiseStd sigma, Ledger&, NoiseRng&, NoiseBuffer&,
                 Released<Vec>& out) const;
  // The same for a value that nobody needs again: noise is added where it lies, and where it is a sum in a
  // ClipSpace, `out` takes its place instead of a copy.
  Status Release(Bounded&& v, NoiseStd sigma, Ledger& ledger, NoiseRng& rng, NoiseBuffer& noise,
                 Released<Vec>& out) const {
    if (is_lattice_ && v.whole_ != nullptr) [[likely]]
      return ReleaseOnLattice(*v.whole_, v, sigma, ledger, rng, noise, out);
    return ReleaseOnce(v, sigma, ledger, rng, noise, out);
  }

  // The same for a sum over everyone who has an account: all of them pay. Whoever calls this holds
  // contributions that are not noised yet, and is trusted with them.
  Status ReleaseForAll(const Bounded& v, NoiseStd sigma, LedgerBook&, NoiseRng&, NoiseBuffer&,
                       Released<Vec>& out) const;

  // The paper's door: takes a value that nothing bounds, and a claim. Records the claim; charges by
  // the public bound if the value is in fact bounded, and ∞ otherwise.
  Status ReleaseAsClaimed(const Unbounded& v, NoiseStd sigma, const Claim&, Ledger&, NoiseRng&, NoiseBuffer&,
                          Released<Vec>& out) const;

  // What a release costs, from public numbers alone.
  virtual PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const = 0;
  // Whether sums up to max_abs can be represented beside this noise; checked when a run is planned.
  virtual Status CheckRange(double max_abs, NoiseStd sigma) const = 0;
  // Upper bound on what the mechanism adds to μ of a release beyond sensitivity/σ.
  virtual double OverheadMu(std::size_t dim) const = 0;

 private:
  friend class LatticeGaussian;
  explicit Mechanism(bool lattice) : is_lattice_(lattice) {}
  friend class TappedMechanism;  // audit/tap.h: around another mechanism, on an auditor's own rows
  // once: nobody needs v again.
  template <class Payer>
  Status PayDrawOpen(const Bounded&, NoiseStd, Payer&, NoiseRng&, NoiseBuffer&, Released<Vec>& out,
                     bool once = false) const;
  // What Release does for the lattice, where a sum lies in a ClipSpace, with all that public numbers decide
  // worked out before.
  static Status ReleaseOnLattice(Vec& sum, const Bounded&, NoiseStd, Ledger&, NoiseRng&, NoiseBuffer&,
                                 Released<Vec>& out);
  Status ReleaseOnce(const Bounded&, NoiseStd, Ledger&, NoiseRng&, NoiseBuffer&, Released<Vec>& out) const;
  bool is_lattice_ = false;
  // Draw never sees the data; Add is the only place where both meet (but for ReleaseOnLattice, which does
  // what the lattice's own do). value and out may be one vector.
  virtual void Draw(NoiseStd sigma, std::size_t dim, NoiseRng&, NoiseBuffer&) const = 0;
  virtual void Add(NoiseStd sigma, const NoiseBuffer&, View value, Span out) const = 0;
};

// Integers on a public power-of-two grid g ≤ σ·2⁻³⁰: the sum is quantised once and round(N(0,σ²)/g) is
// added per coordinate. Since the sum lies on the grid this is the rounding of sum + N(0, σ²I), so it
// is exactly (Δ + g√d)/σ-Gaussian-DP, with no floating-point caveat.
class LatticeGaussian final : public Mechanism {
 public:
  LatticeGaussian() : Mechanism(true) {}
  std::string_view name() const override { return "lattice_gaussian"; }
  PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const override;
  Status CheckRange(double max_abs, NoiseStd sigma) const override;
  double OverheadMu(std::size_t dim) const override;

 private:
  friend class Mechanism;
  void Draw(NoiseStd, std::size_t dim, NoiseRng&, NoiseBuffer&) const override;
  void Add(NoiseStd, const NoiseBuffer&, View value, Span out) const override;
};

// Doubles plus double-precision Gaussian noise: an explicit choice. Its low bits can leak.
class FloatGaussian final : public Mechanism {
 public:
  std::string_view name() const override { return "gaussian"; }
  std::string_view caveat() const override;
  PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const override;
  Status CheckRange(double, NoiseStd) const override { return Ok{}; }
  double OverheadMu(std::size_t) const override { return 0; }

 private:
  void Draw(NoiseStd, std::size_t dim, NoiseRng&, NoiseBuffer&) const override;
  void Add(NoiseStd, const NoiseBuffer&, View value, Span out) const override;
};

// No noise: the non-private baseline. Costs ∞ and is refused by every finite budget.
class Expose final : public Mechanism {
 public:
  std::string_view name() const override { return "expose"; }
  std::string_view caveat() const override;
  PrivacyEvent EventFor(L2Bound, NoiseStd, std::size_t) const override { return NonPrivateEvent{}; }
  Status CheckRange(double, NoiseStd) const override { return Ok{}; }
  double OverheadMu(std::size_t) const override { return 0; }

 private:
  void Draw(NoiseStd, std::size_t, NoiseRng&, NoiseBuffer&) const override {}
  void Add(NoiseStd, const NoiseBuffer&, View value, Span out) const override;
};

Result<std::unique_ptr<Mechanism>> MakeMechanism(std::string_view name);

}  // namespace tacit
