#pragma once

// What an algorithm is: two state machines and the messages between them. It knows no threads,
// sockets, files or clocks; a runtime moves the messages.
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "compress/compressor.h"
#include "core/private.h"
#include "core/result.h"
#include "models/objective.h"
#include "models/regularizer.h"
#include "privacy/local_randomizer.h"
#include "privacy/mechanism.h"
#include "privacy/schedule.h"
#include "wire/message.h"

namespace tacit {

// The public problem: what is minimised, apart from the data.
struct Problem {
  const Objective* f = nullptr;
  const Regularizer* g = nullptr;
  double l2 = 0;
  std::size_t dim = 0;
  std::uint32_t clients = 0;
  Vec start = {};                   // where every client begins, public; empty: at 0
};

// What a client owns.
struct Holding {
  std::uint32_t id = 0;
  std::size_t records = 0;          // what its sum is divided by: public
  Private<Shard> data;
  Ledger* ledger = nullptr;
  double weight = 1;                // in a mean over clients: public, in [0, 1]
};

// σ of the noise on what a client releases, one per round that runs; clients with equal budgets share one.
using NoisePlan = std::vector<NoiseStd>;

// One thread's space for local training: private values, so it lives in a Private.
struct LocalSpace {
  Vec y, gradient, norm, weight;
  bool factored = false;  // the steps were made without y (Objective::StepsByFactors)
  std::vector<std::uint32_t> blocks;
  Workspace work;
};

// One thread's space for compressing private values.
struct PackSpace {
  Vec value;
  CompressSpace space;
};

// What a runtime lends to whichever client it is serving, and to the server: one per thread, reused.
struct Scratch {
  ClipSpace clip;
  Private<LocalSpace> local;
  Private<Vec> update;
  Private<FactoredVec> factored;  // an update that is only added to a sum
  NoiseBuffer noise;
  PrivUnitSpace unit;
  Released<Vec> released;
  // Of second-order methods: models of the sampled records, where their solver stands, and public vectors.
  Private<Quadratics> quadratics;
  Released<GmState> solver;
  std::vector<std::uint32_t> mask;
  Vec point, zeros;
  Private<PackSpace> packed;
  CompressSpace compress;           // of what was released
  Vec scaled;                       // that, too
  // What StepSize::InverseAt said last: of step c in round n.
  double step = 0, inverse_step = 0;
  std::uint32_t step_round = 0;
  NoiseRng* rng = nullptr;          // already the stream of this client (or of the server) and round
};

// What a client is made of that noises what it sends.
template <class Options>
class NoisyClient {
 public:
  NoisyClient(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
              std::shared_ptr<const NoisePlan> sigma)
      : own_(std::move(own)), problem_(&problem), mechanism_(&mechanism), o_(&o), sigma_(std::move(sigma)) {}

 protected:
  Holding own_;
  const Problem* problem_;
  const Mechanism* mechanism_;
  const Options* o_;
  std::shared_ptr<const NoisePlan> sigma_;
};

// ReleaseSum in paper mode. On its own: what certified mode comes by stays short.
template <class Options>
__attribute__((noinline)) Status ReleaseSumAsClaimed(const Holding& own, const Problem& problem,
                                                     const Mechanism& mechanism, const Options& o, View x,
                                                     NoiseStd sigma, Scratch& s) {
  return mechanism.ReleaseAsClaimed(Unbounded::Sum(own.data, *problem.f, x, s.clip), sigma, o.claim,
                                    *own.ledger, *s.rng, s.noise, s.released);
}

// Σ_l clip_C(∇f_l(x)) over a client's records, with noise on the sum; in paper mode Σ_l ∇f_l(x), under the
// paper's claim. Into s.released. Options: clip, certified, claim.
template <class Options>
Status ReleaseSum(const Holding& own, const Problem& problem, const Mechanism& mechanism, const Options& o,
                  View x, NoiseStd sigma, Scratch& s) {
  if (!o.certified) return ReleaseSumAsClaimed(own, problem, mechanism, o, x, sigma, s);
  return mechanism.Release(Bounded::ClippedSum(own.data, *problem.f, x, o.clip, s.clip), sigma, *own.ledger,
                           *s.rng, s.noise, s.released);
}

// A sum of released vectors: what most algorithms make of their messages. `total` counts from the first one
// on, so that memory is reused from round to round.
struct ReleasedSum {
  Released<Vec> total;
  std::uint32_t count = 0;
  void Reset() { count = 0; }
  void Take(const Released<Vec>& x, std::uint32_t n) {
    if (n == 0) return;
    if (count == 0)
      x.Into<[](const Vec& from, Vec& to) { to = from; }>(total);
    else
      x.Into<[](const Vec& from, Vec& to) { Axpy(1.0, from, to); }>(total);
    count += n;
  }
  void Take(const ReleasedSum& other) { Take(other.total, other.count); }
  auto State() { return std::tie(total, count); }
};

// What a run depends on from one round to the next, as a tie of members: numbers, vectors of numbers, and
// Public, Released or Private of these. A run that was stopped goes on from it bit for bit, so all that
// changes after construction must be in it.
namespace internal {
template <class T> inline constexpr bool kIsState = kIsPayload<T>;
template <class T> inline constexpr bool kIsState<Public<T>> = kIsPayload<T>;
template <class T> inline constexpr bool kIsState<Released<T>> = kIsPayload<T>;
template <class T> inline constexpr bool kIsState<Private<T>> = kIsPayload<T>;
template <class Tuple> inline constexpr bool kAllState = false;
template <class... F> inline constexpr bool kAllState<std::tuple<F&...>> = (kIsState<F> && ...);
}  // namespace internal
template <class T>
concept Resumable = requires(T t) { t.State(); } && internal::kAllState<decltype(std::declval<T&>().State())>;

// A client that sends what its answers so far lack: where an answer was lost on the way, it must forget it
// (experiment/site.h).
template <class C>
concept GoesBack = requires { requires C::kGoesBack; };

// What every server-coordinated algorithm has. Per round:
//   every client   Round(down, up, scratch)     computes, pays, releases into `up`, which is empty before;
//                  left empty: the client does not answer
//   the runtime    turns away what is not of server.lengths() or not finite
//   the runtime    sum.Add(up) in client order, in chunks that depend on the cohort alone, and
//                  sum.Merge(chunk) in chunk order: memory does not grow with the cohort, and the
//                  result does not depend on threads or arrival
//   the server     Round(sum, down, scratch)    writes the next `down`; false: training is over. The sum
//                  may be of fewer clients than were asked, or of nobody: then there is no step
// Whoever has released has paid, whether or not the message is taken. An error that Round returns (a budget
// that refuses, a ledger that cannot be written) ends the run.
template <class A>
concept Coordinated = Message<typename A::Down> && Message<typename A::Up> && Resumable<typename A::Server> &&
                      requires(typename A::Server server, typename A::Client client, typename A::Sum& sum,
                               const typename A::Sum total, typename A::Down down, const typename A::Down& in,
                               typename A::Up up, Scratch& scratch) {
                        { server.Start(down) } -> std::same_as<bool>;
                        { client.Round(in, up, scratch) } -> std::same_as<Status>;
                        { server.lengths() } -> std::same_as<Lengths<typename A::Up>>;
                        { sum.Reset() };
                        { sum.Add(up) };
                        { sum.Merge(total) };
                        { server.Round(sum, down, scratch) } -> std::same_as<Result<bool>>;
                        {
                          server.round()
                        } -> std::same_as<std::uint32_t>;      // the round `down` belongs to, from 1
                      };

// Where the trained model is: with the server, or with the clients, whose mean it then is. Either way it is a
// function of what was released.
template <class S>
concept HasModel = requires(const S server) {
  { server.model() } -> std::same_as<View>;
};
template <class C>
concept HasIterate = requires(const C client) {
  { client.iterate() } -> std::same_as<View>;
};

// An algorithm whose clients remember: they live as long as the run, and once after the last round every one
// has Finish(down).
template <class A>
concept Algorithm = Coordinated<A> && Resumable<typename A::Client> &&
                    (HasModel<typename A::Server> || HasIterate<typename A::Client>) &&
                    requires(typename A::Client client, const typename A::Down& in) {
                      { client.Finish(in) };
                    };

// An algorithm whose clients keep nothing between rounds, so Round is const: a client is made when it is its
// turn and forgotten after, and a million of them need no more memory than one.
template <class A>
concept Stateless = Coordinated<A> && HasModel<typename A::Server> &&
                    requires(const typename A::Client client, const typename A::Down& in, typename A::Up up,
                             Scratch& scratch) {
                      { client.Round(in, up, scratch) } -> std::same_as<Status>;
                    };

// Who takes part in a round. Begin is called once a round, by one thread; Id by several at once. Nobody takes
// part twice in one round; there may be nobody at all.
class Participants {
 public:
  virtual ~Participants() = default;
  virtual std::size_t Begin(std::uint32_t round) = 0;  // how many
  virtual std::uint32_t Id(std::size_t i) const = 0;  // which client is the i-th of them, ascending
};
class Everyone final : public Participants {
 public:
  explicit Everyone(std::size_t clients) : clients_(clients) {}
  std::size_t Begin(std::uint32_t) override { return clients_; }
  std::uint32_t Id(std::size_t i) const override { return static_cast<std::uint32_t>(i); }

 private:
  std::size_t clients_;
};
// A sample that nobody learns but a trusted server; the ledger that pays for its sum knows the same sampler.
class SecretParticipants final : public Participants {
 public:
  explicit SecretParticipants(SecretSampler& sampler) : sampler_(sampler) {}
  std::size_t Begin(std::uint32_t round) override { return (sample_ = &sampler_.Draw(round))->size(); }
  std::uint32_t Id(std::size_t i) const override { return (*sample_)[i]; }

 private:
  SecretSampler& sampler_;
  const std::vector<std::uint32_t>* sample_ = nullptr;
};

// A sample that everybody may know: a function of seed and round. A client that has had `turns` rounds stays
// away. count: rounds of every client so far, for who wants to look.
class PublicParticipants final : public Participants {
 public:
  PublicParticipants(Sampling sampling, std::uint64_t seed, std::vector<std::uint32_t> rounds,
                     std::uint32_t turns, std::vector<std::uint32_t>& count)
      : sampling_(sampling), seed_(seed), rounds_(std::move(rounds)), turns_(turns), count_(count) {}
  // A run that goes on begins in the middle: who had a turn before follows from the rounds before.
  std::size_t Begin(std::uint32_t round) override {
    while (next_ < rounds_.size() && rounds_[next_] <= round) {
      Stream coins({seed_, Purpose::kCohort, 0, rounds_[next_++]});
      DrawSample(sampling_, static_cast<std::uint32_t>(count_.size()), coins, sample_);
      std::erase_if(sample_, [&](std::uint32_t i) { return count_[i] >= turns_; });
      for (const std::uint32_t i : sample_) ++count_[i];
    }
    return sample_.size();
  }
  std::uint32_t Id(std::size_t i) const override { return sample_[i]; }

 private:
  Sampling sampling_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> rounds_;  // those that run, ascending
  std::uint32_t turns_;
  std::vector<std::uint32_t>& count_;
  std::vector<std::uint32_t> sample_;
  std::size_t next_ = 0;
};

// Where a runtime gets stateless clients from. Begin is called once a round, by one thread; Id and Make by
// several at once, so they change nothing. Nobody takes part twice in one round; there may be nobody at all,
// and then the server gets an empty sum.
template <class S, class A>
concept ClientSource = Stateless<A> && requires(S source, const S& same, std::uint32_t round, std::size_t i) {
  { source.Begin(round) } -> std::same_as<std::size_t>;  // how many take part in this round
  { same.Id(i) } -> std::same_as<std::uint32_t>;  // which client is the i-th of them
  { same.Make(i) } -> std::same_as<typename A::Client>;  // that client
};

// The source with these participants: make(id) returns a client.
template <class F>
class TheseClients {
 public:
  TheseClients(Participants& who, F make) : who_(who), make_(std::move(make)) {}
  std::size_t Begin(std::uint32_t round) { return who_.Begin(round); }
  std::uint32_t Id(std::size_t i) const { return who_.Id(i); }
  auto Make(std::size_t i) const { return make_(who_.Id(i)); }

 private:
  Participants& who_;
  F make_;
};

// The source in which clients 0 … n − 1 take part in every round: make(id) returns a client.
template <class F>
class EveryClient {
 public:
  EveryClient(std::size_t clients, F make) : clients_(clients), make_(std::move(make)) {}
  std::size_t Begin(std::uint32_t) { return clients_; }
  std::uint32_t Id(std::size_t i) const { return static_cast<std::uint32_t>(i); }
  auto Make(std::size_t i) const { return make_(static_cast<std::uint32_t>(i)); }

 private:
  std::size_t clients_;
  F make_;
};

}  // namespace tacit
