#pragma once

// EF21 with noise: compressed differences of gradients.
//   Diminishing noise maintains differential privacy and enhances convergence: DPd-EF21 and DPd-EF21-2
//   (anonymous submission); EF21: Richtárik, Sokolov, Fatkhullin (NeurIPS 2021).
//
// Three clients, one server (feedback.h). C is a compressor (compress/compressor.h), N noise.
//
//   MirroredEf21   w = ∇̃f_i(x) − h_i;  send C(w);  h_i ← h_i + C(w)       certified: dpd-ef21-2, the default
//     ∇̃f_i is released: for records (1/m)(Σ_l clip_B(∇f_il(x)) + N), for clients clip_B(∇f_i(x)) + N. h_i is
//     a sum of messages, so all else is post-processing, the compressor too. Charged, as ever, is what one
//     record, or client, moves of what was noised: 2B/σ a round. Since the next w contains −N, noise does not
//     add up: the server's g = mean h_i carries that of the latest rounds only.
//     Batches of records are secret samples of b of m, divided by b: one release from one sample, so a round
//     costs what 2B/σ costs on a sample of that rate (record_round.h).
//
//   PrivateEf21    v = clip_{C_t}( C(∇f_i(x) − g_i) );  send v + N;  g_i ← g_i + v       certified: dpd-ef21
//     g_i is private and never leaves. For clients. Lemma: let v_t be a function of a client's data, its
//     state and the past transcript with ‖v_t‖ ≤ C_t whatever the data, the state being a function of data
//     and transcript. Given the transcript, v_t for two data sets of the client are then at most 2C_t apart,
//     so v_t + N(0, σ_t² I) is 2C_t/σ_t-Gaussian-DP for the replacement of the whole client, and adaptive
//     composition adds the squares. Nothing is asked of the state. The clip comes after C, which may lengthen
//     a vector and is discontinuous. The server adds N up for ever: hence radii that fall, and Σσ_t² made
//     least.
//
//   PrintedEf21    as printed: dpd-ef21     D = C(∇f_i − g_i);  send D + N;  g_i ← g_i + D
//                              dpd-ef21-2   send C(∇f_i − g_i + N);  g_i ← g_i + C(∇f_i − g_i)
//     Nothing is bounded, so one record moves a message by any amount: the ledger charges ∞ beside the
//     paper's claim. With `lyapunov` the variance is κV of the private objective, which alone rules out any
//     ε.
//
// Why the paper's theorem cannot hold, and what it claims: docs/algorithms/ef21.md.
#include "algorithms/feedback.h"

namespace tacit {

struct MirroredEf21 : FeedbackMethod {
  class Client : public FeedbackClient {
   public:
    // by_client: what is hidden is the whole client.
    Client(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
           std::shared_ptr<const NoisePlan> sigma, bool by_client)
        : FeedbackClient(std::move(own), problem, mechanism, o, std::move(sigma)),
          by_client_(by_client),
          h_(problem.dim) {}
    Status Round(const Down& in, Up& up, Scratch& s) {
      double divisor = 1;
      if (by_client_) {
        Gradient(in, s);
        TACIT_OK(mechanism_->Release(Bounded::Clip(s.update, o_->clip), Sigma(in), *own_.ledger, *s.rng,
                                     s.noise, s.released));
      } else {
        TACIT_OK(o_->records.sample.kind == SampleKind::kFull
                     ? ReleaseSum(own_, *problem_, *mechanism_, *o_, Point(in), Sigma(in), s)
                     : ReleaseSampled(in, s));
        divisor = std::max(1.0, o_->records.Divisor(own_.records));
      }
      PackDifference(divisor, h_, StreamOf(in), up, s);  // C(w), w = ∇̃f_i(x) − h_i
      return AddDecoded(1.0, *up.message, h_, s.compress.decode);  // h_i ← h_i + C(w)
    }
    auto State() { return std::tie(h_); }

   private:
    // Σ_l clip_B(∇f_il(x)) over a fresh sample that nobody else knows, with noise. One release a round.
    Status ReleaseSampled(const Down& in, Scratch& s) {
      TACIT_TRY(RecordRound round,
                RecordRound::Open(o_->records, own_.records, *in.t, o_->mu, *own_.ledger, *s.rng));
      const Private<Shard> rows =
          own_.data
              .Map<[](const Shard& all, const std::vector<std::uint32_t>& pick) { return all.Pick(pick); }>(
                  round.sample());
      return mechanism_->Release(Bounded::ClippedSum(rows, *problem_->f, Point(in), o_->clip, s.clip),
                                 Sigma(in), round.account(), *s.rng, s.noise, s.released);
    }
    bool by_client_;
    Vec h_;  // a sum of messages: not private
  };
};
static_assert(Algorithm<MirroredEf21>);

struct PrivateEf21 : FeedbackMethod {
  class Client : public FeedbackClient {
   public:
    Client(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
           std::shared_ptr<const NoisePlan> sigma)
        : FeedbackClient(std::move(own), problem, mechanism, o, std::move(sigma)), g_(Vec(problem.dim)) {}
    Status Round(const Down& in, Up& up, Scratch& s) {
      const double radius = RadiusOf(in);
      Gradient(in, s);
      s.update.Into<&Compressed>(s.packed, g_, o_->compressor, StreamOf(in));
      s.packed.Into<&Take>(s.update, 1 / radius);  // C(∇f_i − g_i)/s_t
      const Bounded v = Bounded::Clip(s.update, o_->clip);  // v/s_t
      TACIT_OK(mechanism_->Release(v, Sigma(in), *own_.ledger, *s.rng, s.noise, s.released));
      s.update.Into<&AddTo>(g_, radius);  // g_i ← g_i + v
      Pack(o_->wire, radius, StreamOf(in), up, s);
      return Ok{};
    }
    auto State() { return std::tie(g_); }

   private:
    Private<Vec> g_;
  };
};
static_assert(Algorithm<PrivateEf21>);

struct PrintedEf21 : FeedbackMethod {
  class Client : public FeedbackClient {
   public:
    // noise_first: DPd-EF21-2. lyapunov: schedule (ii), σ_t² = κV_t with V = f_i(x) + ‖∇f_i(x) − g_i‖², the
    // client's part of V with 0 for the unknown minimum, and κ = σ_0²/V_0.
    Client(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
           std::shared_ptr<const NoisePlan> sigma, bool noise_first, bool lyapunov)
        : FeedbackClient(std::move(own), problem, mechanism, o, std::move(sigma)),
          noise_first_(noise_first),
          lyapunov_(lyapunov),
          g_(Vec(problem.dim)),
          first_(0.0) {}
    Status Round(const Down& in, Up& up, Scratch& s) {
      const double radius = lyapunov_ ? 1 : RadiusOf(in);
      Gradient(in, s);
      s.update.Into<&Compressed>(s.packed, g_, o_->compressor, StreamOf(in));
      Private<double> spread(1.0);
      if (lyapunov_) {
        s.update.Into<&Lyapunov>(spread, g_, own_.data, *problem_->f, Point(in));
        spread.Into<&KeepFirst>(first_);
        spread.Into<&Relative>(spread, first_);
      }
      if (noise_first_)
        s.update.Into<&Differ>(s.update, g_, 1 / radius);  // (∇f_i − g_i)/s_t
      else
        s.packed.Into<&Take>(s.update, 1 / radius);  // D/s_t
      TACIT_OK(mechanism_->ReleaseAsClaimed(Unbounded::Of(s.update, spread), Sigma(in), o_->claim,
                                            *own_.ledger, *s.rng, s.noise, s.released));
      s.packed.Into<[](const PackSpace& from, Vec& g) { Axpy(1.0, from.value, g); }>(g_);  // g_i ← g_i + D
      Pack(noise_first_ ? o_->compressor : o_->wire, radius, StreamOf(in), up, s);
      return Ok{};
    }
    auto State() { return std::tie(g_, first_); }

   private:
    static void Lyapunov(const Vec& gradient, double& v, const Vec& g, const Shard& own, const Objective& f,
                         const View& x) {
      Workspace work;
      v = f.Value(own, x, work) + DistanceSquared(gradient, g);
    }
    static void KeepFirst(const double& v, double& first) {
      if (first == 0) first = v;
    }
    static void Relative(const double& v, double& out, const double& first) {  // √(V_t/V_0)
      out = first > 0 ? std::sqrt(v / first) : 0.0;
    }
    bool noise_first_, lyapunov_;
    Private<Vec> g_;
    Private<double> first_;  // V_0, of the first message that counted
  };
};
static_assert(Algorithm<PrintedEf21>);

}  // namespace tacit
