#pragma once

// What an algorithm is: two state machines and the messages between them. It knows no threads,
// sockets, files or clocks; a runtime moves the messages.
#include <concepts>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/private.h"
#include "core/result.h"
#include "models/objective.h"
#include "models/regularizer.h"
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
};

// σ of the noise on what a client releases, one per round that runs; clients with equal budgets share one.
using NoisePlan = std::vector<NoiseStd>;

// What a runtime lends to whichever client it is serving: one per thread, reused.
struct Scratch {
  ClipSpace clip;
  NoiseBuffer noise;
  Released<Vec> released;
  NoiseRng* rng = nullptr;          // already the stream of this client and round
};

// A server-coordinated algorithm. Per round:
//   every client   Round(down, up, scratch)     computes, pays, releases into `up`
//   the runtime    sum.Add(up) in client order, in chunks that depend on the cohort alone, and
//                  sum.Merge(chunk) in chunk order: memory does not grow with the cohort, and the
//                  result does not depend on threads or arrival
//   the server     Round(sum, down)             writes the next `down`; false: training is over
// and once after the last round, every client Finish(down).
template <class A>
concept Algorithm = Message<typename A::Down> && Message<typename A::Up> &&
                    requires(typename A::Server server, typename A::Client client, typename A::Sum sum,
                             const typename A::Sum total, typename A::Down down, const typename A::Down& in,
                             typename A::Up up, Scratch& scratch) {
                      { server.Start(down) } -> std::same_as<bool>;
                      { client.Round(in, up, scratch) } -> std::same_as<Status>;
                      { sum.Reset() };
                      { sum.Add(up) };
                      { sum.Merge(total) };
                      { server.Round(sum, down) } -> std::same_as<bool>;
                      { client.Finish(in) };
                      {
                        server.round()
                      } -> std::same_as<std::uint32_t>;      // the round `down` belongs to, from 1
                      {
                        client.iterate()
                      } -> std::same_as<View>;             // the client's model: a function of releases
                    };

}  // namespace tacit
