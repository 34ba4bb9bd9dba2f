#pragma once

// What methods with error feedback share: clients send what their gradients differ by from what they have
// sent before, and the server adds it up.
//
//   server     g ← g + (β̂/n) Σ_i message_i;  x ← prox_{γ_t ψ}( x − γ_t (g + θx) )
//
// n counts all clients: one that is not in a round changes nothing, and its part of g stays. x, g and what
// follows from them are functions of messages, hence of releases. The methods are in ef21.h and clip21.h.
//
// Radii. Where a method clips to a radius C_t = s_t C that falls from round to round, its client divides by
// s_t, clips to C, releases, and multiplies the release by s_t, which is post-processing. So what is clipped,
// noised and charged has the public bound C in every round, whatever s_t is: planned in advance, or a
// function of the iterates that everybody sees. μ of the round is 2C/σ for the σ that is drawn, and the noise
// on the message is s_t σ.
#include <algorithm>
#include <cmath>

#include "algorithms/algorithm.h"
#include "compress/compressor.h"
#include "privacy/record_round.h"

namespace tacit {

struct FeedbackOptions {
  Vec gamma;  // γ_t of the rounds that run
  Vec radius;  // s_t of the rounds that run
  double l2 = 0;  // θ
  L2Bound clip{1.0};  // C
  double momentum = 1;  // β, of a client's gradients; 1: none
  double mixing = 1;  // β̂
  std::size_t batch = 0;  // records of a gradient, drawn anew; 0: all
  // Records as the unit: a gradient is of a secret sample of so many, and paid for as such (record_round.h).
  RecordSampling records;  // kFull: all records
  std::optional<Mu> mu;  // of a release on a sample; none: nothing is promised
  std::uint64_t seed = 0;  // public: of compressors, and of batches where clients are the unit
  Compressor compressor;
  Compressor wire;  // of messages that are not compressed: their numbers alone are rounded
  // A radius that follows the iterates: S₀ = C, S_{t+1} = √(1 − α) S_t + L‖x^{t+1} − x^t‖, and
  // min(s_t, S_t/C) instead of s_t. Privacy does not need L to be right. 0: s_t as planned.
  double follow = 0;  // L
  double alpha = 1;
  bool certified = true;
  Claim claim{"", Epsilon{0.0}, Delta{0.0}};
  std::vector<std::uint32_t> rounds;  // those that run, ascending, from 1
};

struct FeedbackDown {
  Public<std::uint32_t> t;  // index into FeedbackOptions::rounds
  Released<Vec> x;  // empty in the first round: the public start
  Released<double> radius;  // the s_t in force; 0: as planned
  auto Fields() { return std::tie(t, x, radius); }
};

struct FeedbackUp {
  Released<Encoded> message;
  auto Fields() { return std::tie(message); }
};

// Σ_i message_i of the clients that answered. The first few messages wait as they are, for most are short
// where the sum is long; the total is theirs too once Form() was called.
struct FeedbackSum {
  Released<Vec> total;
  std::uint32_t count = 0;
  void Reset() { count = 0, waiting_ = 0, formed_ = false; }
  void Add(const FeedbackUp& up) {
    ++count;
    Take(up.message);
  }
  void Merge(const FeedbackSum& other) {
    if (other.count == 0) return;
    count += other.count;
    if (other.formed_) {
      Form();
      other.total.Into<[](const Vec& from, Vec& to, const bool& first) {
        if (first)
          to = from;
        else
          Axpy(1.0, from, to);
      }>(total, !formed_);
      formed_ = true;
    }
    for (std::size_t i = 0; i < other.waiting_; ++i) Take(other.wait_[i]);
  }
  void Form() {
    for (std::size_t i = 0; i < waiting_; ++i) AddMessage(wait_[i]);
    waiting_ = 0;
  }
  auto State() {
    wait_.resize(waiting_);
    return std::tie(total, count, wait_, waiting_, formed_);
  }

 private:
  static constexpr std::size_t kMost = 16;  // that wait: memory does not grow with the cohort
  void Take(const Released<Encoded>& message) {
    if (formed_ || waiting_ == kMost) {
      Form();
      return AddMessage(message);
    }
    if (wait_.size() == waiting_) wait_.emplace_back();
    wait_[waiting_++] = message;
  }
  void AddMessage(const Released<Encoded>& message) {
    message.Into<[](const Encoded& from, Vec& to, const bool& first, DecodeSpace* const& space) {
      if (first) to.assign(EncodedLength(from), 0.0);
      TACIT_CHECK(AddDecoded(1.0, from, to, *space).ok());  // the runtime has turned others away
    }>(total, !formed_, &space_);
    formed_ = true;
  }
  std::vector<Released<Encoded>> wait_;  // in the order of the clients, before all that total has
  std::size_t waiting_ = 0;
  bool formed_ = false;  // total counts
  DecodeSpace space_;
};

class FeedbackServer {
 public:
  FeedbackServer(const Problem& problem, const FeedbackOptions& o)
      : problem_(&problem), o_(&o), x_(problem.start), g_(problem.dim), reach_(o.clip.value()) {}
  bool Start(FeedbackDown& down) {
    down = FeedbackDown{};
    return t_ < o_->rounds.size();
  }
  Result<bool> Round(FeedbackSum& sum, FeedbackDown& down, Scratch&) {
    sum.Form();
    answered_ = sum.count;
    step_ = 0;
    if (answered_ > 0) {
      step_ = o_->gamma[t_];
      Axpy(o_->mixing / static_cast<double>(problem_->clients), *sum.total, g_);
      sum.total.Into<&Next>(down.x, x_, g_, step_, o_->l2, *problem_->g);
      reach_ = std::sqrt(1 - o_->alpha) * reach_;
      if (o_->follow > 0) reach_ += o_->follow * std::sqrt(DistanceSquared(*down.x, x_));
      x_ = *down.x;
    }
    down.t.Mutable() = ++t_;
    if (t_ >= o_->rounds.size()) return false;
    if (o_->follow > 0)
      sum.total.Into<[](const Vec&, double& to, const double& s) { to = s; }>(down.radius, Radius());
    return true;
  }
  std::uint32_t round() const { return t_ < o_->rounds.size() ? o_->rounds[t_] : o_->rounds.back(); }
  std::array<std::size_t, 1> lengths() const { return {problem_->dim}; }
  View model() const { return x_; }
  View gradient() const { return g_; }
  double step_size() const { return step_; }
  std::uint32_t answered() const { return answered_; }
  auto State() { return std::tie(t_, x_, g_, reach_); }

 private:
  static void Next(const Vec&, Vec& next, const Vec& x, const Vec& g, const double& gamma, const double& l2,
                   const Regularizer& penalty) {
    next.resize(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) next[j] = x[j] - gamma * (g[j] + l2 * x[j]);
    penalty.Prox(gamma, next);
  }
  // Never 0, which means as planned, and never so small that values divided by it are beyond all numbers.
  double Radius() const {
    const double planned = o_->radius[t_], found = reach_ / o_->clip.value();
    return std::clamp(found < planned ? found : planned, 0x1p-200, planned);
  }
  const Problem* problem_;
  const FeedbackOptions* o_;
  Vec x_, g_;
  double reach_;  // S_t
  std::uint32_t t_ = 0, answered_ = 0;
  double step_ = 0;
};

// Which records a gradient is over: public.
struct BatchDraw {
  std::uint64_t seed = 0;
  std::uint32_t client = 0, round = 0;
  std::size_t batch = 0;
};

class FeedbackClient : public NoisyClient<FeedbackOptions> {
 public:
  using NoisyClient::NoisyClient;
  // The server's g is the sum of what was counted, and so must be what a client has.
  static constexpr bool kGoesBack = true;
  void Finish(const FeedbackDown&) {}

 protected:
  View Point(const FeedbackDown& in) const { return in.x->empty() ? View(problem_->start) : View(*in.x); }
  double RadiusOf(const FeedbackDown& in) const { return *in.radius > 0 ? *in.radius : o_->radius[*in.t]; }
  NoiseStd Sigma(const FeedbackDown& in) const { return (*sigma_)[*in.t]; }
  std::uint64_t StreamOf(const FeedbackDown& in) const {
    return CompressStream(o_->seed, own_.id, o_->rounds[*in.t]);
  }

  // ∇f_i(x), over all records or a batch of them, into s.update: private, and not clipped.
  void Gradient(const FeedbackDown& in, Scratch& s) const {
    const BatchDraw draw{o_->seed, own_.id, o_->rounds[*in.t], o_->batch};
    own_.data.Into<&MeanGradient>(s.local, *problem_->f, Point(in), draw);
    s.local.Into<[](const LocalSpace& from, Vec& to) { to = from.gradient; }>(s.update);
  }
  // up.message = C(times · s.released): post-processing.
  static void Pack(const Compressor& compressor, double times, std::uint64_t stream, FeedbackUp& up,
                   Scratch& s) {
    s.released.Into<[](const Vec& from, Encoded& to, const Compressor& c, const double& by,
                       const std::uint64_t& of, CompressSpace* const& space, Vec* const& scaled) {
      if (by == 1) return c.Compress(from, of, to, *space);
      *scaled = from;
      Scale(by, *scaled);
      c.Compress(*scaled, of, to, *space);
    }>(up.message, compressor, times, stream, &s.compress, &s.scaled);
  }
  // up.message = C(s.released/divisor − from): post-processing too, and the difference is not formed.
  void PackDifference(double divisor, const Vec& from, std::uint64_t stream, FeedbackUp& up, Scratch& s) {
    s.released.Into<[](const Vec& a, Encoded& to, const Vec& b, const double& m, const Compressor& c,
                       const std::uint64_t& of, double* const& guess, CompressSpace* const& space) {
      c.Compress(Difference{a, b, m}, of, *guess, to, *space);
    }>(up.message, from, divisor, o_->compressor, stream, &threshold_, &s.compress);
  }

  static void MeanGradient(const Shard& own, LocalSpace& s, const Objective& f, const View& x,
                           const BatchDraw& draw) {
    s.gradient.assign(x.size(), 0.0);
    const std::size_t m = own.size(), b = draw.batch == 0 || draw.batch >= m ? m : draw.batch;
    if (m == 0) return;
    Shard rows = own;
    if (b < m) {
      Stream coins({draw.seed, Purpose::kMinibatch, draw.client, draw.round});
      DrawSample({.kind = SampleKind::kFixed, .size = static_cast<std::uint32_t>(b)},
                 static_cast<std::uint32_t>(m), coins, s.blocks);
      rows = own.Pick(s.blocks);
    }
    s.norm.resize(b);
    s.weight.resize(b);
    f.RecordNorms(rows, x, s.work, s.norm);
    // A record that cannot be measured contributes nothing, or it would spoil the client's whole gradient.
    for (std::size_t l = 0; l < b; ++l) s.weight[l] = s.norm[l] < kInf ? 1.0 / static_cast<double>(b) : 0.0;
    f.WeightedSum(rows, x, s.work, s.weight, s.gradient);
    own.Done(0, m);
  }

  // Parts of private rounds. a ← (a − b)·by.
  static void Differ(const Vec& a, Vec& out, const Vec& b, const double& by) {
    out.resize(a.size());
    for (std::size_t j = 0; j < a.size(); ++j) out[j] = (a[j] - b[j]) * by;
  }
  static void AddTo(const Vec& v, Vec& state, const double& times) { Axpy(times, v, state); }
  // C(∇f_i − g_i)
  static void Compressed(const Vec& gradient, PackSpace& s, const Vec& g, const Compressor& c,
                         const std::uint64_t& stream) {
    Differ(gradient, s.value, g, 1);
    c.Apply(s.value, stream, s.value, s.space);
  }
  static void Take(const PackSpace& from, Vec& to, const double& by) {
    to = from.value;
    Scale(by, to);
  }

 private:
  double threshold_ = 0;  // of the last message; no state: a guess that saves time
};

// What the methods are made of, but for their clients.
struct FeedbackMethod {
  using Options = FeedbackOptions;
  using Down = FeedbackDown;
  using Up = FeedbackUp;
  using Sum = FeedbackSum;
  using Server = FeedbackServer;
};

}  // namespace tacit
