#pragma once

// Clip21 with noise: error feedback whose compressor is a clip.
//   S. Khirirat, E. Gorbunov, S. Horváth, R. Islamov, F. Karray, P. Richtárik: Clip21: error feedback for
//   gradient clipping (2023): DP-Clip21.
//   R. Islamov, S. Horváth, A. Lucchi, P. Richtárik, E. Gorbunov: Double momentum and error feedback for
//   clipping with fast rates and differential privacy (2025): Clip21-SGD2M.
//
//   client i   v_i ← (1 − β) v_i + β ∇f_i(x);  e = clip_τ(v_i − g_i);  send e + N(0, σ²I);
//              g_i ← g_i + β̂ e  ("noiseless" state), or g_i ← g_i + β̂ (e + N)  ("mirrored" state)
//   server     g ← g + (β̂/n) Σ_i messages;  x ← x − γ g
//
// DP-Clip21 has β = β̂ = 1. For clients: e is in a ball of radius τ whatever data and state are, so a release
// is 2τ/σ-Gaussian-DP by the lemma in ef21.h, with noiseless and with mirrored state alike; v_i and a
// noiseless g_i are private and never leave. With noiseless state, the published form, the server's g keeps
// the noise of all rounds; with mirrored state the next difference takes it back.
#include "algorithms/feedback.h"

namespace tacit {

struct Clip21 : FeedbackMethod {  // clip: τ, times radius
  class Client : public FeedbackClient {
   public:
    Client(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
           std::shared_ptr<const NoisePlan> sigma, bool mirrored)
        : FeedbackClient(std::move(own), problem, mechanism, o, std::move(sigma)),
          mirrored_(mirrored),
          v_(Vec(o.momentum < 1 ? problem.dim : 0)),
          g_(Vec(problem.dim)) {}
    Status Round(const Down& in, Up& up, Scratch& s) {
      Gradient(in, s);
      if (o_->momentum < 1) {
        s.update.Into<[](const Vec& gradient, Vec& v, const double& beta) {
          for (std::size_t j = 0; j < v.size(); ++j) {
            const double next = (1 - beta) * v[j] + beta * gradient[j];
            v[j] = std::isfinite(next) ? next : 0.0;  // or the client would send noise for ever
          }
        }>(v_, o_->momentum);
        v_.Into<[](const Vec& v, Vec& to) { to = v; }>(s.update);
      }
      const double radius = RadiusOf(in);
      s.update.Into<&Differ>(s.update, g_, 1 / radius);
      const Bounded e = Bounded::Clip(s.update, o_->clip);  // e/s_t
      TACIT_OK(mechanism_->Release(e, Sigma(in), *own_.ledger, *s.rng, s.noise, s.released));
      if (!o_->certified) own_.ledger->Record(o_->claim);
      Pack(o_->wire, radius, StreamOf(in), up, s);
      if (mirrored_)
        s.update.Into<[](const Vec&, Vec& g, const Encoded& sent, const double& times) {
          DecodeSpace space;
          TACIT_CHECK(AddDecoded(times, sent, g, space).ok());
        }>(g_, *up.message, o_->mixing);
      else
        s.update.Into<&AddTo>(g_, o_->mixing * radius);
      return Ok{};
    }
    auto State() { return std::tie(v_, g_); }

   private:
    bool mirrored_;
    Private<Vec> v_, g_;
  };
};
static_assert(Algorithm<Clip21>);

}  // namespace tacit
