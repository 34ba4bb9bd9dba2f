#pragma once

// DP-FCRN, private federated cubic-regularised Newton learning, and DP Fed-SGD, what it is compared with.
//   W. Huo, C. Liu, K. Ding, K. H. Johansson, L. Shi: Federated cubic regularized Newton learning with
//   sparsification-amplified differential privacy.
//
//   client i   draws b of its m records in secret, anew in every round, and minimises their second-order
//   model
//              at x with a cubic term (models/cubic.h), by noisy gradient steps or from a noisy model
//   server     x ← Π_X( x + α·mean of what the clients send ),  α in (0, 1]
//
// On a mask that all share k coordinates change in a round, so clients keep x and the server sends k numbers.
// It sends all d where somebody did not answer, for they may have missed a broadcast; who did does not answer
// until then.
//
// Designs, with c a set of k coordinates and [·]_c the values there:
//   kFull      the paper's: the solver works on all d coordinates, and a client sends k of them, of its own
//              random choice, times d/k
//   kSubspace  everybody solves on the same public c, drawn anew in every round: v ∈ R^k,
//              v ← Π(v − η_s(r̃_s + θ(x + v)_c + (M/2)‖v‖v)), r̃_s = (1/b)(Σ_l clip_{R_s}([g_l]_c + [H_l]_cc v)
//              + N(0, σ_s²I)), with R_s = R₁ + R₂‖v_s‖ and σ_s ∝ R_s; the solver's mean of v_0 … v_{τ−1} is
//              sent
//   kOnce      Σ_l clip_{R₁}([g_l]_c) and Σ_l clip_{R₂}([H_l]_cc) (Frobenius norm) are released once, and the
//              cubic model is minimised exactly, at the client or, of the mean over clients, at the server
//   kGradient  DP Fed-SGD: Σ_l clip_{R₁}([g_l]_c) is released, and the server takes a gradient step
//
// Why it is private. A record enters a round through sums of clipped terms alone, and each is released with
// Gaussian noise: two records' terms lie in a ball of radius R_s, so a substitution moves the sum by at most
// 2R_s. In the solver v_s is a function of x, public constants and the releases before it, so given those it
// is the same for neighbours, and so are R_s and σ_s; the ratio 2R_s/σ_s is a constant μ_s of the plan. The
// cubic term and the regulariser have no data in them and are added afterwards. So the τ − 1 releases that
// the answer depends on (v_τ is never sent, and never computed) are √(Σ μ_s²)-GDP for the substitution of a
// sampled record, and what is sent is post-processing. RecordRound pays for that once, as one mechanism on a
// secret sample, and its filter refuses what goes beyond it. Masks are public: functions of a public seed.
// Rounds compose by the accountant; the server's projection is post-processing, and with it x + v stays in
// the box, so that ‖v‖ and R_s are bounded.
//
// Paper mode is kFull with the noise of (7) and the steps of (9), records' terms clipped at G₁ + G₂‖v‖ as
// Assumption 4 has them, and the claim recorded beside what such a round really costs.
#include <algorithm>

#include "algorithms/fed_avg.h"
#include "models/cubic.h"
#include "privacy/record_round.h"

namespace tacit {

struct DpFcrn {
  enum class Design { kFull, kSubspace, kOnce, kGradient };
  struct Options {
    Design design = Design::kSubspace;
    bool at_server = true;  // kOnce: who solves
    std::size_t coordinates = 0;  // k; 0: all
    std::uint32_t steps = 10;  // τ
    GmOptions solver;
    L2Bound clip{1.0};  // R₁
    double clip_hessian = 0.25;  // R₂
    double noise_hessian = 1;  // kOnce: σ of the Hessian over σ of the gradient
    bool scaled = true;  // σ_s grows with R_s; false: the same in all steps, as (7) has it
    RecordSampling sampling;
    double rate = 1;  // α; kGradient: the step size
    double l2 = 0;  // θ
    std::uint64_t seed = 0;  // of the masks
    std::size_t last = 1;  // iterates that the model is the mean of
    std::optional<Claim> claim;  // paper mode
    std::vector<std::uint32_t> rounds;  // those that run, ascending, from 1
    std::vector<std::optional<Mu>> round_mu;  // of each: what its releases cost together; none: nothing known

    std::size_t Coordinates(std::size_t dim) const {
      return coordinates == 0 ? dim : std::min(coordinates, dim);
    }
    bool own_masks(std::size_t dim) const { return design == Design::kFull && Coordinates(dim) < dim; }
    bool shared_mask(std::size_t dim) const { return design != Design::kFull && Coordinates(dim) < dim; }
    // What the server sends after a round that everybody answered.
    std::size_t BroadcastLength(std::size_t dim) const { return shared_mask(dim) ? Coordinates(dim) : dim; }
    std::size_t MessageLength(std::size_t dim) const {
      const std::size_t k = Coordinates(dim);
      return design == Design::kOnce && at_server ? k + PackedSize(k) : k;
    }
    // Releases of a round, the two of kOnce apart.
    std::uint32_t Releases() const {
      return design == Design::kGradient || design == Design::kOnce ? 1 : std::max(1u, steps) - 1;
    }
  };

  // k of d coordinates, ascending, any set as likely as any other; empty: all. A function of the seed.
  static void DrawMask(std::uint64_t seed, std::size_t k, std::size_t dim, std::vector<std::uint32_t>& mask) {
    mask.clear();
    if (k >= dim) return;
    Stream coins({seed, Purpose::kCompressor, 0, 0});
    DrawSample({.kind = SampleKind::kFixed, .rate = Probability{1.0}, .size = static_cast<std::uint32_t>(k)},
               static_cast<std::uint32_t>(dim), coins, mask);
  }
  // Of a round, for everybody, or of one client (who ≥ 1) in it.
  static std::uint64_t MaskSeed(const Options& o, std::uint32_t t, std::uint32_t who) {
    return Stream({o.seed, Purpose::kCompressor, who, o.rounds[t]})();
  }

  struct Down {
    Public<std::uint32_t> t;  // index into Options::rounds
    // All of x; or, with a shared mask, its values on the mask of round t − 1, the others being as they were;
    // or nothing: x is the public start.
    Released<Vec> x;
    auto Fields() { return std::tie(t, x); }
  };
  struct Up {
    Public<std::uint64_t> mask;  // seed of the client's own mask, where it has one
    Public<std::uint32_t> dim;  // d, where it has one; 0: the values are on the mask of the round
    Released<Vec> value;
    auto Fields() { return std::tie(mask, dim, value); }
  };

  class Client : public NoisyClient<Options> {
   public:
    using NoisyClient::NoisyClient;

    Status Round(const Down& in, Up& up, Scratch& s) {
      if (!Follow(in)) return Ok{};  // was away, and the server will send all
      const View x = Point(in);
      const std::uint32_t t = *in.t;
      const bool full = o_->design == Design::kFull;
      if (full)
        s.mask.clear();
      else
        DrawMask(MaskSeed(*o_, t, 0), o_->Coordinates(problem_->dim), problem_->dim, s.mask);
      At(x, s.mask, s.point);
      TACIT_TRY(RecordRound round,
                RecordRound::Open(o_->sampling, own_.records, t, o_->round_mu[t], *own_.ledger, *s.rng));
      own_.data.Into<&MakeQuadratics>(s.quadratics, round.sample(), *problem_->f, x, s.mask);
      if (o_->claim) own_.ledger->Record(*o_->claim);
      const double b = o_->sampling.Divisor(own_.records);
      switch (o_->design) {
        case Design::kFull:
        case Design::kSubspace: TACIT_OK(Solve(t, b, round, up, s)); break;
        case Design::kOnce: TACIT_OK(Once(t, b, round, up, s)); break;
        case Design::kGradient:
          TACIT_OK(ReleaseGradient(Zeros(s), o_->clip, (*sigma_)[t], round, s));
          s.released.Into<&Take>(up.value, 1 / b);
      }
      if (o_->own_masks(problem_->dim)) Sparsify(t, up, s);
      return Ok{};
    }

    void Finish(const Down& in) { Follow(in); }
    auto State() { return std::tie(next_, x_); }

   private:
    // Brings x up to date; false: a broadcast in between was missed.
    bool Follow(const Down& in) {
      const std::size_t d = problem_->dim;
      if (!o_->shared_mask(d)) return true;
      if (in.x->empty()) {
        x_ = problem_->start;
      } else if (in.x->size() == d) {
        x_ = *in.x;
      } else {
        if (next_ != *in.t || x_.size() != d || in.x->size() != o_->Coordinates(d)) return false;
        std::vector<std::uint32_t> mask;
        DrawMask(MaskSeed(*o_, *in.t - 1, 0), o_->Coordinates(d), d, mask);
        for (std::size_t j = 0; j < mask.size(); ++j) x_[mask[j]] = (*in.x)[j];
      }
      next_ = *in.t + 1;
      return true;
    }
    View Point(const Down& in) const {
      if (o_->shared_mask(problem_->dim)) return x_;
      return in.x->empty() ? View(problem_->start) : View(*in.x);
    }
    static void At(View x, const std::vector<std::uint32_t>& mask, Vec& point) {
      point.resize(mask.empty() ? x.size() : mask.size());
      for (std::size_t j = 0; j < point.size(); ++j) point[j] = x[mask.empty() ? j : mask[j]];
    }
    static View Zeros(Scratch& s) {
      s.zeros.assign(s.point.size(), 0.0);
      return s.zeros;
    }
    static void Take(const Vec& from, Vec& to, const double& times) {
      to = from;
      Scale(times, to);
    }
    std::size_t Most() const { return o_->sampling.Most(own_.records); }

    Status ReleaseGradient(View v, L2Bound clip, NoiseStd sigma, RecordRound& round, Scratch& s) const {
      const Bounded sum = Bounded::ClippedGradients(s.quadratics, Most(), v, clip, s.clip);
      return mechanism_->Release(sum, sigma, round.account(), *s.rng, s.noise, s.released);
    }

    // τ − 1 noisy steps; what is sent is the mean of θ_0 … θ_{τ−1}, less x.
    Status Solve(std::uint32_t t, double b, RecordRound& round, Up& up, Scratch& s) const {
      const NoiseStd first = (*sigma_)[t];
      const double r1 = o_->clip.value();
      s.released.Into<[](const Vec&, GmState& state, const std::size_t& k) { state.Start(k); }>(
          s.solver, s.point.size());
      for (std::uint32_t step = 0; step + 1 < o_->steps; ++step) {
        const double factor = 1 + o_->clip_hessian / r1 * Norm(s.solver->v);  // R_s/R₁
        const NoiseStd sigma = o_->scaled ? NoiseStd::Proven(MulUp(first.value(), factor)) : first;
        // Not above the R_s that this noise is for.
        const L2Bound radius = L2Bound::Proven(o_->scaled ? r1 * factor * (1 - 0x1p-50) : r1 * factor);
        TACIT_OK(ReleaseGradient(s.solver->v, radius, sigma, round, s));
        s.released
            .Into<[](const Vec& sum, GmState& state, const Vec& x, const GmOptions& o, const double& n) {
              Vec mean = sum;
              Scale(1 / n, mean);
              GmStep(mean, x, o, state);
            }>(s.solver, s.point, o_->solver, b);
      }
      s.solver.Into<[](const GmState& state, Vec& to) { to = state.mean; }>(up.value);
      return Ok{};
    }

    Status Once(std::uint32_t t, double b, RecordRound& round, Up& up, Scratch& s) const {
      const NoiseStd sigma = (*sigma_)[t];
      TACIT_OK(ReleaseGradient(Zeros(s), o_->clip, sigma, round, s));
      s.released.Into<&Take>(up.value, 1 / b);
      const Bounded h =
          Bounded::ClippedHessians(s.quadratics, Most(), L2Bound::Proven(o_->clip_hessian), s.clip);
      TACIT_OK(mechanism_->Release(h, NoiseStd::Proven(MulUp(sigma.value(), o_->noise_hessian)),
                                   round.account(), *s.rng, s.noise, s.released));
      s.released.Into<[](const Vec& from, Vec& to, const double& n) {
        for (const double entry : from) to.push_back(entry / n);
      }>(up.value, b);
      if (!o_->at_server)
        up.value.Into<[](const Vec& model, Vec& v, const Vec& x, const Options& o) {
          v = Minimise(model, x, o);
        }>(s.released, s.point, *o_);
      if (!o_->at_server) s.released.Into<&Take>(up.value, 1.0);
      return Ok{};
    }

    // k random coordinates of the answer, times d/k.
    void Sparsify(std::uint32_t t, Up& up, Scratch& s) const {
      const std::size_t d = problem_->dim, k = o_->Coordinates(d);
      up.mask.Mutable() = MaskSeed(*o_, t, own_.id + 1);
      up.dim.Mutable() = static_cast<std::uint32_t>(d);
      DrawMask(*up.mask, k, d, s.mask);
      up.value.Into<[](const Vec& all, Vec& some, const std::vector<std::uint32_t>& mask) {
        some.resize(mask.size());
        const double times = static_cast<double>(all.size()) / static_cast<double>(mask.size());
        for (std::size_t j = 0; j < mask.size(); ++j) some[j] = times * all[mask[j]];
      }>(s.released, s.mask);
      s.released.Into<&Take>(up.value, 1.0);
    }

    std::uint32_t next_ = 0;  // the broadcast that may say what changed only
    Vec x_;  // with a shared mask
  };

  // The exact minimiser of the cubic model with gradient and packed Hessian as they were released, the
  // regulariser added.
  static Vec Minimise(View model, View x, const Options& o) {
    const std::size_t k = x.size();
    Vec g(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(k)), h(k * k);
    Unpack(model.subspan(k), k, 1.0, h);
    for (std::size_t j = 0; j < k; ++j) {
      g[j] += o.l2 * x[j];
      h[j * k + j] += o.l2;
    }
    return SolveCubic(g, h, o.solver.cubic).v;
  }

  static constexpr std::size_t kMostCoordinates = std::size_t{1} << 28;

  struct Sum : ReleasedSum {
    // What cannot be added to the others is left out. A mask of a client's own has fewer than d coordinates.
    void Add(const Up& up) {
      const std::size_t length = *up.dim == 0 ? up.value->size() : *up.dim;
      if ((count > 0 && total->size() != length) || (*up.dim != 0 && length <= up.value->size()) ||
          length > kMostCoordinates)
        return;
      if (*up.dim == 0) return Take(up.value, 1);
      std::vector<std::uint32_t> mask;
      DrawMask(*up.mask, up.value->size(), *up.dim, mask);
      up.value.Into<[](const Vec& some, Vec& all, const std::vector<std::uint32_t>& at,
                       const std::uint32_t& dim, const bool& first) {
        if (first) all.assign(dim, 0.0);
        for (std::size_t j = 0; j < some.size(); ++j) all[at[j]] += some[j];
      }>(total, mask, *up.dim, count == 0);
      ++count;
    }
    void Merge(const Sum& other) { Take(other); }
  };

  class Server {
   public:
    Server(const Problem& problem, const Options& o)
        : problem_(&problem), o_(&o), last_(o.last, problem.start) {}
    bool Start(Down& down) {
      down = Down{};
      return t_ < o_->rounds.size();
    }
    Result<bool> Round(Sum& sum, Down& down, Scratch& s) {
      const std::size_t wanted =
          o_->own_masks(problem_->dim) ? problem_->dim : o_->MessageLength(problem_->dim);
      answered_ = sum.count > 0 && sum.total->size() == wanted ? sum.count : 0;
      if (o_->design == Design::kFull)
        s.mask.clear();
      else
        DrawMask(MaskSeed(*o_, t_, 0), o_->Coordinates(problem_->dim), problem_->dim, s.mask);
      bool some = answered_ == problem_->clients && !s.mask.empty();
      if (answered_ > 0) {
        sum.total.Into<&Move>(s.released, X(), s.mask, static_cast<double>(answered_), *o_, *problem_->g);
        some = some && SameElsewhere(X(), *s.released, s.mask);
        s.released.Into<[](const Vec& from, Vec& to) { to = from; }>(x_);
      }
      x_.Into<[](const Vec& all, Vec& to, const std::vector<std::uint32_t>& mask, const bool& only) {
        to.resize(only ? mask.size() : all.size());
        for (std::size_t j = 0; j < to.size(); ++j) to[j] = all[only ? mask[j] : j];
      }>(down.x, s.mask, some);
      last_.Add(X());
      down.t.Mutable() = ++t_;
      return t_ < o_->rounds.size();
    }
    std::uint32_t round() const { return t_ < o_->rounds.size() ? o_->rounds[t_] : o_->rounds.back(); }
    std::array<std::size_t, 3> lengths() const { return {0, 0, o_->MessageLength(problem_->dim)}; }
    // Whether a message of the right length can be this client's: where masks are its own, of the seed and
    // the length that everybody knows.
    bool CanBeOf(std::uint32_t client, const Up& up) const {
      const bool own = o_->own_masks(problem_->dim);
      return *up.dim == (own ? problem_->dim : 0) && (!own || *up.mask == MaskSeed(*o_, t_, client + 1));
    }
    View model() const { return last_.mean(); }
    std::uint32_t answered() const { return answered_; }
    double step_size() const { return o_->rate; }  // α of every round
    auto State() { return std::tuple_cat(std::tie(t_, x_), last_.State()); }

   private:
    const Vec& X() const { return x_->empty() ? problem_->start : *x_; }
    // Whether two points differ on the mask (ascending) alone: a projection could have moved others.
    static bool SameElsewhere(View a, View b, const std::vector<std::uint32_t>& mask) {
      for (std::size_t j = 0, at = 0; j < a.size(); ++j) {
        if (at < mask.size() && mask[at] == j)
          ++at;
        else if (a[j] != b[j])
          return false;
      }
      return true;
    }
    // x ← Π_X(x + α·step), on the coordinates of the round.
    static void Move(const Vec& total, Vec& next, const Vec& x, const std::vector<std::uint32_t>& mask,
                     const double& n, const Options& o, const Regularizer& g) {
      const std::size_t k = mask.empty() ? x.size() : mask.size();
      const auto at = [&](std::size_t j) { return mask.empty() ? j : static_cast<std::size_t>(mask[j]); };
      Vec step = total;
      Scale(1 / n, step);
      if (o.design == Design::kOnce && o.at_server) {
        Vec point(k);
        for (std::size_t j = 0; j < k; ++j) point[j] = x[at(j)];
        step = Minimise(step, point, o);
      }
      next = x;
      for (std::size_t j = 0; j < k; ++j) {
        const double by = o.design == Design::kGradient ? -(step[j] + o.l2 * x[at(j)]) : step[j];
        next[at(j)] += o.rate * by;
      }
      g.Prox(1.0, next);
    }

    const Problem* problem_;
    const Options* o_;
    Released<Vec> x_;  // empty: the start
    LastIterates last_;
    std::uint32_t t_ = 0, answered_ = 0;
  };
};
static_assert(Algorithm<DpFcrn>);

}  // namespace tacit
