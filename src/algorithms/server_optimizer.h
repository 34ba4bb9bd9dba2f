#pragma once

// What a server may do with a released mean before it moves the model: momentum, or Adam. Functions of
// releases, so free of charge, and the same for every unit and trust.
//   T.-M. H. Hsu, H. Qi, M. Brown: Measuring the effects of non-identical data distribution for federated
//   visual classification (2019), FedAvgM; S. Reddi et al.: Adaptive federated optimization (ICLR 2021),
//   Algorithm 2, FedAdam.
//
//   plain      w ← w + η c̄
//   momentum   m ← βm + c̄;  w ← w + η m
//   adam       m ← βm + (1 − β)c̄,  v ← β₂v + (1 − β₂)c̄²;  w ← w + η m/(√v + τ), per coordinate; v = τ² at
//   first
#include <cmath>
#include <cstdint>
#include <tuple>

#include "core/vec.h"

namespace tacit {

struct ServerOptimizer {  // public constants
  enum class Kind : std::uint8_t { kPlain, kMomentum, kAdam };
  Kind kind = Kind::kPlain;
  double momentum = 0.9;  // β
  double second = 0.99;  // β₂
  double floor = 1e-3;  // τ
};

// The direction of a step.
class ServerDirection {
 public:
  explicit ServerDirection(const ServerOptimizer& o) : o_(o) {}
  bool plain() const { return o_.kind == ServerOptimizer::Kind::kPlain; }

  // update/divisor is c̄.
  View operator()(View update, double divisor) {
    const bool adam = o_.kind == ServerOptimizer::Kind::kAdam;
    m_.resize(update.size());
    if (adam && v_.empty()) v_.assign(update.size(), o_.floor * o_.floor);
    out_.resize(update.size());
    for (std::size_t j = 0; j < update.size(); ++j) {
      const double c = update[j] / divisor;
      m_[j] = o_.momentum * m_[j] + (adam ? 1 - o_.momentum : 1.0) * c;
      if (adam) v_[j] = o_.second * v_[j] + (1 - o_.second) * c * c;
      out_[j] = adam ? m_[j] / (std::sqrt(v_[j]) + o_.floor) : m_[j];
    }
    return out_;
  }
  auto State() { return std::tie(m_, v_); }

 private:
  ServerOptimizer o_;
  Vec m_, v_, out_;
};

}  // namespace tacit
