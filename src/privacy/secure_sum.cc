#include "privacy/secure_sum.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "core/round.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

constexpr int kNoiseBits = 20;      // σ/g is at least 2²⁰
constexpr double kTail = 14;        // in standard deviations of all clients' noise
constexpr double kLargest = 0x1p61;  // steps; Make keeps terms below it

std::uint64_t Modulus(unsigned bits) {
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

}  // namespace

void Masked::Apply(std::span<const Mask> masks, bool flipped) {
  const std::size_t width = bits_ / 8, block = 4096;
  std::vector<std::byte> bytes(std::min(block, std::max<std::size_t>(1, value_.size())) * width);
  for (const Mask& mask : masks) {
    KeyStream stream(mask.key);
    const bool minus = mask.minus != flipped;
    for (std::size_t at = 0; at < value_.size(); at += block) {
      const std::size_t n = std::min(block, value_.size() - at);
      stream.Next(std::span(bytes).first(n * width));
      for (std::size_t j = 0; j < n; ++j) {
        std::uint64_t word = 0;
        for (std::size_t k = width; k-- > 0;)
          word = word << 8 | static_cast<std::uint64_t>(bytes[j * width + k]);
        value_[at + j] += minus ? ~word + 1 : word;
      }
    }
  }
  for (std::uint64_t& v : value_) v &= Modulus(bits_);
}

void Masked::Cover(std::span<const Mask> masks) {
  TACIT_CHECK(!masks.empty());
  Apply(masks, false);
  covered_ = true;
}

void Masked::Uncover(std::span<const Mask> masks) { Apply(masks, true); }

void MaskedTotal::Take(const std::vector<std::uint64_t>& v, unsigned bits, std::uint32_t count) {
  if (count == 0) return;
  if (count_ == 0) {
    value_ = v;
    bits_ = bits;
  } else {
    TACIT_CHECK(v.size() == value_.size() && bits == bits_);
    for (std::size_t j = 0; j < v.size(); ++j) value_[j] += v[j];  // modulo 2⁶⁴ and so modulo 2^b
  }
  count_ += count;
}

Status Quorum::Check() const {
  if (minimum > clients)
    return Fail(Code::kInvalidArgument, "privacy.survivors = {}: there are {} clients; lower it", minimum,
                clients);
  if (colluding >= minimum)
    return Fail(
        Code::kInvalidArgument,
        "privacy.colluding = {}: of {} clients in a sum nobody's noise would be left; lower it, or raise "
        "privacy.survivors",
        colluding, minimum);
  if (threshold() > minimum)
    return Fail(
        Code::kInvalidArgument,
        "privacy.survivors = {}: of {} clients, {} of them colluding, more than half of the others must "
        "answer, or two sums could be opened in one round; set it to {} at least{}",
        minimum, clients, colluding, threshold(),
        threshold() > clients ? ", which needs fewer who collude" : "");
  return Ok{};
}

double SecureSum::Steps(NoiseStd share, int exponent) { return std::ldexp(share.value(), -exponent); }

double SecureSum::grid() const { return std::ldexp(1.0, exponent_); }

Result<SecureSum> SecureSum::Make(const Quorum& quorum, NoiseStd share, L2Bound longest) {
  TACIT_OK(quorum.Check());
  if (!(share.value() >= 0x1p-900 && share.value() <= 0x1p900))
    return Fail(Code::kInvalidArgument,
                "noise of std {:.3g} at a client is outside [1e-271, 1e271]; change privacy.clip or "
                "privacy.epsilon, or lower algorithm.rounds",
                share.value());
  int exponent = 0;
  static_cast<void>(std::frexp(share.value(), &exponent));  // σ = m·2^exponent, m in [1/2, 1)
  exponent -= kNoiseBits + 1;
  const double n = quorum.clients, steps = Steps(share, exponent);
  const double term = std::ldexp(longest.value(), -exponent) + 1;
  const double most = (n * term + kTail * std::sqrt(n) * steps) * (1 + 1e-9);
  unsigned bits = 8;
  while (bits <= 64 && !(most < std::ldexp(1.0, static_cast<int>(bits) - 1))) bits += 8;
  if (bits > 64 || !(term < kLargest))
    return Fail(
        Code::kInvalidArgument,
        "a sum of {} clients' updates up to {:.3g} long, beside noise of std {:.3g} at each, does not fit "
        "64-bit integers; lower privacy.clip or privacy.epsilon",
        quorum.clients, longest.value(), share.value());
  return SecureSum(quorum, share, exponent, bits);
}

PrivacyEvent SecureSum::EventFor(L2Bound sensitivity, bool plain, std::size_t dim) const {
  const double moved = plain ? sensitivity.value()
                             : AddUp(sensitivity.value(), MulUp(grid(), SqrtUp(static_cast<double>(dim))));
  return DistributedDiscreteGaussianEvent{.sigma = NoiseStd::Proven(noise_.sigma()),
                                          .clients = quorum_.honest(),
                                          .sensitivity = L2Bound::Proven(std::ldexp(moved, -exponent_)),
                                          .dimension = dim};
}

Status SecureSum::Seal(const Bounded& v, Ledger& ledger, NoiseRng& rng, NoiseBuffer& noise,
                       Masked& out) const {
  TACIT_CHECK(v.limits_.terms == 1 && !v.limits_.unit.person &&
              !v.limits_.minimiser);  // one client's term, whole
  const bool plain = v.limits_.roundings == 0 && v.limits_.bound == v.limits_.length;
  TACIT_OK(ledger.Charge(EventFor(v.Sensitivity(ledger.adjacency()), plain, v.dim())));  // pay,
  noise.lattice.resize(v.dim());
  noise_.Fill(rng, noise.lattice);  // draw,
  out.value_.resize(v.dim());
  out.bits_ = bits_;
  out.covered_ = false;
  const auto whole = [&](std::size_t j) {  // steps, towards 0
    return static_cast<std::int64_t>(std::clamp(std::ldexp(v.value_[j], -exponent_), -kLargest, kLargest));
  };
  for (std::size_t j = 0; j < v.dim(); ++j)  // seal
    out.value_[j] = static_cast<std::uint64_t>(whole(j) + noise.lattice[j]) & Modulus(bits_);
  if (witness_ != nullptr) {
    Vec term(v.dim()), drawn(v.dim());
    for (std::size_t j = 0; j < v.dim(); ++j) {
      term[j] = std::ldexp(static_cast<double>(whole(j)), exponent_);
      drawn[j] = std::ldexp(static_cast<double>(noise.lattice[j]), exponent_);
    }
    witness_->Sealed(term, drawn);
  }
  return Ok{};
}

Status SecureSum::Open(const MaskedTotal& total, Released<Vec>& out) const {
  if (total.count_ < quorum_.minimum)
    return Fail(
        Code::kBudget,
        "a sum of {} clients' updates has less noise than was charged for, which is that of {}; it stays "
        "closed",
        total.count_, quorum_.minimum);
  TACIT_CHECK(total.bits_ == bits_);
  out.value_.resize(total.value_.size());
  const unsigned unused = 64 - bits_;
  for (std::size_t j = 0; j < total.value_.size(); ++j) {
    const auto whole = static_cast<std::int64_t>(total.value_[j] << unused) >> unused;  // with its sign
    out.value_[j] = std::ldexp(static_cast<double>(whole), exponent_);
  }
  if (witness_ != nullptr) witness_->Opened(out.value_);
  return Ok{};
}

}  // namespace tacit
