#pragma once

// What an attacker sees of a run, and what it would have been for other data.
//
// Everything that a run sends, stores or broadcasts is a function of public constants and of what leaves
// through the doors of mechanism.h. So the transcript of those releases is the most that anybody can see: who
// sees all messages, or all models, sees a function of it.
//
// An attacker who suspects one of two data sets asks, of every release, what it would have been without noise
// under either. TappedMechanism keeps the transcript of a run. EchoMechanism lets the same run be made again,
// on other data, along a given transcript: in place of each release it hands out the one of the transcript,
// so that the state of clients and server, as far as it follows from releases, is that of the run observed;
// the values that would have been noised are kept. From both follows the likelihood of the transcript under
// either data set, for any algorithm, by the algorithm's own code.
//
// For an auditor's own made-up rows: a transcript holds what mechanisms are there to hide.
#include <cmath>
#include <memory>
#include <vector>

#include "privacy/mechanism.h"
#include "privacy/secure_sum.h"

namespace tacit {

struct Transcript {
  struct Release {
    std::size_t begin, dim;  // in out and mean
    double sigma;  // of the noise, as it was drawn
  };
  std::vector<Release> releases;
  std::vector<std::size_t> rounds;  // how many releases there were at the end of each round
  Vec out;  // what left; of an echo: empty
  Vec mean;  // the same without noise
  Vec opened;  // masked sums: out with the noise of those who collude, which the attacker takes off
  void Clear() { releases.clear(), rounds.clear(), out.clear(), mean.clear(), opened.clear(); }
  void Add(double sigma, View value) {
    releases.push_back({mean.size(), value.size(), sigma});
    // The lattice has an end, 2³⁰ to 2³¹ times σ from 0, to which longer values are projected.
    const double most = 0x1p30 * sigma;
    for (const double v : value) mean.push_back(v > most ? most : v < -most ? -most : v);
  }
  void EndRound() { rounds.push_back(releases.size()); }
  View Out(const Release& r) const { return View(out).subspan(r.begin, r.dim); }
  View Mean(const Release& r) const { return View(mean).subspan(r.begin, r.dim); }
  View Opened(const Release& r) const { return View(opened).subspan(r.begin, r.dim); }
};

// Says of itself and of costs what another does, which must outlive it.
class LikeMechanism : public Mechanism {
 public:
  explicit LikeMechanism(const Mechanism& like) : like_(&like) {}
  std::string_view name() const override { return like_->name(); }
  std::string_view caveat() const override { return like_->caveat(); }
  PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const override {
    return like_->EventFor(sensitivity, sigma, dim);
  }
  Status CheckRange(double max_abs, NoiseStd sigma) const override {
    return like_->CheckRange(max_abs, sigma);
  }
  double OverheadMu(std::size_t dim) const override { return like_->OverheadMu(dim); }

 private:
  const Mechanism* like_;
};

// The mechanism within, and a copy of what it does. Releases go by PayDrawOpen, never by ReleaseOnLattice,
// the shorter way of an untapped lattice: tests hold the two to the same bits and charges. Not thread-safe.
class TappedMechanism final : public LikeMechanism {
 public:
  TappedMechanism(std::unique_ptr<Mechanism> within, Transcript& to)
      : LikeMechanism(*within), within_(std::move(within)), to_(&to) {}

 private:
  void Draw(NoiseStd sigma, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const override {
    within_->Draw(sigma, dim, rng, noise);
  }
  void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
    to_->Add(sigma.value(), value);  // first: out may be the same vector
    within_->Add(sigma, noise, value, out);
    to_->out.insert(to_->out.end(), out.begin(), out.end());
  }
  std::unique_ptr<Mechanism> within_;
  Transcript* to_;
};

// Releases what `along` did. Not thread-safe.
class EchoMechanism final : public LikeMechanism {
 public:
  EchoMechanism(const Mechanism& like, Transcript& to) : LikeMechanism(like), to_(&to) {}
  void Follow(const Transcript& along) { along_ = &along, parted_ = false; }
  // Whether the runs have made different releases, or not the same number of them: then the transcript alone
  // tells the data sets apart.
  bool parted() const { return parted_ || to_->releases.size() != along_->releases.size(); }

 private:
  void Draw(NoiseStd, std::size_t, NoiseRng&, NoiseBuffer&) const override {}
  void Add(NoiseStd sigma, const NoiseBuffer&, View value, Span out) const override {
    const std::size_t k = to_->releases.size();
    to_->Add(sigma.value(), value);
    if (k < along_->releases.size() && along_->releases[k].dim == value.size())
      Copy(along_->Out(along_->releases[k]), out);
    else
      parted_ = true, Copy(value, out);
  }
  Transcript* to_;
  const Transcript* along_ = nullptr;
  mutable bool parted_ = false;
};

// Masked sums as the server sees them that the certificate is about: of the first n clients in a round it
// lacks the noise, n as charged, and it knows all other clients' (those who collude tell; beyond the fewest
// nobody needs to be there). Real runs, and echoes along one. Not thread-safe: clients seal in their order.
class WatchedSum final : public SumWitness {
 public:
  // more: clients that collude beyond those who are said to. noise: what is added over what is stated.
  WatchedSum(const SecureSum& of, Transcript& to, std::uint32_t more, double noise)
      : sum_(std::make_shared<SecureSum>(of)), to_(&to), times_(noise) {
    const double n = of.quorum().honest();
    unknown_ = of.quorum().honest() - more;
    sigma_ = of.share().value() * std::sqrt(n);
    sum_->witness_ = this;
  }
  WatchedSum(const WatchedSum&) = delete;
  WatchedSum& operator=(const WatchedSum&) = delete;

  std::shared_ptr<const SecureSum> sum() const { return sum_; }  // this must outlive it
  void Follow(const Transcript& along) { along_ = &along; }
  bool parted() const { return to_->releases.size() != along_->releases.size(); }
  void Begin() { sealed_ = 0; }

 private:
  void Sealed(View term, View noise) override {
    if (sealed_ == 0) mean_.assign(term.size(), 0.0), known_.assign(term.size(), 0.0);
    Axpy(1, term, mean_);
    if (sealed_++ >= unknown_) Axpy(times_, noise, known_);
  }
  void Opened(Span sum) override {
    const std::size_t k = to_->releases.size();
    to_->Add(sigma_, mean_);
    sealed_ = 0;
    if (along_ != nullptr) {
      if (k < along_->releases.size()) Copy(along_->Opened(along_->releases[k]), sum);
      return;
    }
    if (times_ != 1)
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] = mean_[j] + times_ * (sum[j] - mean_[j]);
    for (std::size_t j = 0; j < sum.size(); ++j) to_->out.push_back(sum[j] - known_[j]);
    to_->opened.insert(to_->opened.end(), sum.begin(), sum.end());
  }
  std::shared_ptr<SecureSum> sum_;
  Transcript* to_;
  const Transcript* along_ = nullptr;
  double times_, sigma_ = 0;
  std::uint32_t unknown_ = 0, sealed_ = 0;
  Vec mean_, known_;  // Σ of the terms so far, and of the noise that the attacker knows
};

}  // namespace tacit
