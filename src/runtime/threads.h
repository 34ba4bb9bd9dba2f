#pragma once

// The in-process runtime: every client of a simulation on a few threads. Messages travel as values; those of
// clients elsewhere come as frames over a link. The model is the same bit for bit for any number of threads,
// and over any link.
//
// A client that sends nothing, or what is not of the agreed length or not finite, is left out of the round,
// which goes on with the others; if nobody is left the server makes no step. The report counts them.
#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "algorithms/algorithm.h"
#include "core/rng.h"
#include "runtime/answers.h"
#include "runtime/link.h"
#include "runtime/pool.h"

namespace tacit {

// Where clients' noise comes from. Replayable noise is addressed by (seed, client, round), so it does
// not depend on threads and a resumed run needs no generator state.
struct NoiseSource {
  std::optional<std::uint64_t> replay_seed;      // nullopt: the operating system's entropy
};

// What the driver tells whoever watches, after every round. Returning false stops the run.
struct RoundReport {
  std::uint32_t round = 0;                       // from 1; skipped rounds are not reported
  std::size_t bytes_up = 0, bytes_down = 0;      // of this round, over all clients
  Answers answers = {};                          // of this round
  bool last = false;
};
struct Watcher {
  std::function<Status(std::uint32_t round)> before;  // e.g. reserve budget; an error ends the run
  std::function<Status(const RoundReport&)> after;
};

template <Coordinated A>
class ThreadRuntime {
 public:
  ThreadRuntime(unsigned threads, NoiseSource noise) : pool_(threads), noise_(noise) {
    for (unsigned k = 0; k < pool_.size(); ++k) {
      rngs_.push_back(noise.replay_seed ? NoiseRng::Replayable({*noise.replay_seed, Purpose::kNoise, 0, 0})
                                        : NoiseRng::FromEntropy());
    }
    lanes_ = std::vector<Lane>(pool_.size());
    for (unsigned k = 0; k < pool_.size(); ++k) lanes_[k].scratch.rng = &rngs_[k];
  }
  unsigned threads() const { return pool_.size(); }
  // Who is told the released numbers of every message; by several threads at once, where there are several.
  void Observe(std::function<void(std::uint32_t client, View released)> saw) { saw_ = std::move(saw); }

  // The next broadcast. With the state of the server and the clients it is all that a run is between two
  // rounds: save the three while a watcher is called, restore them, and Resume.
  typename A::Down& down() { return down_; }

  // Clients that live as long as the run. A client's refusal ends the run before anything more is sent.
  Status Run(typename A::Server& server, std::vector<typename A::Client>& clients, const Watcher& watcher)
      requires Algorithm<A> {
    Everyone everyone(clients.size());
    return Run(server, clients, everyone, watcher);
  }
  // The same where not all of them take part in every round.
  Status Run(typename A::Server& server, std::vector<typename A::Client>& clients, Participants& who,
             const Watcher& watcher) requires Algorithm<A> {
    return server.Start(down_) ? Resume(server, clients, who, watcher) : Status(Ok{});
  }
  Status Resume(typename A::Server& server, std::vector<typename A::Client>& clients, Participants& who,
                const Watcher& watcher) requires Algorithm<A> {
    return Loop(
        server, watcher, [&](std::uint32_t round) { return who.Begin(round); },
        [&](std::size_t i) { return who.Id(i); },
        [&](std::size_t i, const typename A::Down& down, Lane& lane) {
          return clients[who.Id(i)].Round(down, lane.up, lane.scratch);
        },
        [&](typename A::Down& down, RoundReport& report) -> Status {
          ForEach(clients, [&](typename A::Client& c) { c.Finish(down); });
          report.bytes_down += WireSize(down) * clients.size();
          return Ok{};
        });
  }

  // Clients that are made when it is their turn: memory does not grow with their number. The last model is
  // sent to nobody.
  template <ClientSource<A> Source>
  Status Run(typename A::Server& server, Source& source, const Watcher& watcher) {
    return server.Start(down_) ? Resume(server, source, watcher) : Status(Ok{});
  }
  template <ClientSource<A> Source>
  Status Resume(typename A::Server& server, Source& source, const Watcher& watcher) {
    const Source& same = source;
    return Loop(
        server, watcher, [&](std::uint32_t round) { return source.Begin(round); },
        [&](std::size_t i) { return same.Id(i); },
        [&](std::size_t i, const typename A::Down& down, Lane& lane) {
          const typename A::Client client = same.Make(i);
          return client.Round(down, lane.up, lane.scratch);
        },
        [](const typename A::Down&, RoundReport&) -> Status { return Ok{}; });
  }

  // Clients that are somewhere else. An answer that is not a frame of this algorithm is turned away at the
  // door, and its sender is absent from the round.
  Status Run(typename A::Server& server, FarCohort& far, Participants& who, const Watcher& watcher)
      requires Framed<typename A::Up> {
    return server.Start(down_) ? Resume(server, far, who, watcher) : Status(Ok{});
  }
  Status Resume(typename A::Server& server, FarCohort& far, Participants& who, const Watcher& watcher)
      requires Framed<typename A::Up> {
    const auto lengths = server.lengths();
    const std::size_t own = far.clients.empty() ? 0 : far.clients.front().x.size();
    const auto fits = [&](auto reply) -> Status {  // a Result<Reply<A>>
      if (!reply.ok()) return reply.error();
      const Fault fault = FaultOf(reply->up, lengths);  // absent: the client says that it has nothing to say
      if ((fault != Fault::kNone && fault != Fault::kAbsent) || reply->iterate->size() != own ||
          !AllFinite(*reply->iterate))
        return Fail(Code::kMalformed,
                    "the message is not of the agreed length, or not finite; sender and receiver must run "
                    "the same job and version");
      return Ok{};
    };
    std::vector<std::uint32_t> ids;
    std::vector<Bytes> answers;
    return Loop(
        server, watcher,
        [&](std::uint32_t round) -> Result<std::size_t> {
          ids.resize(who.Begin(round));
          for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = who.Id(i);
          const Bytes frame = Codec::Encode(down_);
          TACIT_OK(far.link.Ask({.round = round,
                                 .who = ids,
                                 .frame = frame,
                                 .most_bytes = MostBytes(lengths, own),
                                 .check = [&](auto bytes) { return fits(Codec::Decode<Reply<A>>(bytes)); }},
                                answers));
          return ids.size();
        },
        [&](std::size_t i) { return ids[i]; },
        [&](std::size_t i, const typename A::Down&, Lane& lane) -> Status {
          if (answers[i].empty()) return Ok{};
          TACIT_TRY(Reply<A> reply, Codec::Decode<Reply<A>>(answers[i]));
          lane.up = std::move(reply.up);
          if (own != 0) far.clients[ids[i]].x = *reply.iterate;
          return Ok{};
        },
        [&](typename A::Down& down, RoundReport& report) -> Status {
          ids.resize(far.count);
          for (std::uint32_t i = 0; i < ids.size(); ++i) ids[i] = i;
          const Bytes frame = Codec::Encode(down);
          TACIT_OK(far.link.Ask({.round = report.round,
                                 .last = true,
                                 .who = ids,
                                 .frame = frame,
                                 .most_bytes = MostBytes({}, own),
                                 .check = [&](auto bytes) -> Status {
                                   TACIT_TRY(const auto last, Codec::Decode<Farewell<A>>(bytes));
                                   if (last.iterate->size() == own && AllFinite(*last.iterate)) return Ok{};
                                   return Fail(Code::kMalformed,
                                               "the last model is not of the agreed length");
                                 }},
                                answers));
          for (std::size_t i = 0; own != 0 && i < ids.size(); ++i) {
            if (answers[i].empty()) continue;  // its model of the round before stands
            TACIT_TRY(const auto last, Codec::Decode<Farewell<A>>(answers[i]));
            far.clients[i].x = *last.iterate;
          }
          report.bytes_down += WireSize(down) * ids.size();
          return Ok{};
        });
  }

 private:
  static constexpr std::uint32_t kServer = 0xffffffff;  // whose noise a server's is
  struct Lane {  // one thread's reusable state
    Scratch scratch;
    typename A::Up up;
    Vec seen;
    std::size_t bytes_up = 0;
    Answers answers;
  };
  struct Slot {
    typename A::Sum sum;
    bool done = false;
  };

  // Clients per chunk: a function of the cohort alone, so that sums are too.
  static std::size_t ChunkOf(std::size_t clients) { return std::clamp<std::size_t>(clients / 64, 1, 1024); }

  // The only loop. begin(round) says how many take part, id(i) who the i-th is, serve(i, down, lane) has it
  // do its round, and finish(down, report) ends the run.
  template <class Begin, class Id, class Serve, class End>
  Status Loop(typename A::Server& server, const Watcher& watcher, Begin begin, Id id, Serve serve,
              End finish) {
    typename A::Down& down = down_;
    for (bool more = true; more;) {
      RoundReport report{.round = server.round()};
      TACIT_OK(watcher.before(report.round));
      Result<std::size_t> many = begin(report.round);
      if (!many.ok()) return many.error();
      TACIT_OK(Round(down, server.lengths(), *many, id, serve, report));
      Scratch& scratch = lanes_.front().scratch;
      if (noise_.replay_seed)
        scratch.rng->Rekey({*noise_.replay_seed, Purpose::kNoise, kServer, report.round});
      TACIT_TRY(more, server.Round(total_, down, scratch));
      report.last = !more;
      if (report.last) TACIT_OK(finish(down, report));
      TACIT_OK(watcher.after(report));
    }
    return Ok{};
  }

  template <class Id, class Serve>
  Status Round(typename A::Down& down, const Lengths<typename A::Up>& lengths, std::size_t clients, Id id,
               Serve serve, RoundReport& report) {
    const std::size_t chunk = ChunkOf(clients), chunks = (clients + chunk - 1) / chunk;
    slots_.resize(std::min<std::size_t>(chunks, 4 * pool_.size()));
    for (Slot& s : slots_) s.done = false;
    total_.Reset();
    std::atomic<std::size_t> next{0}, merged{0};
    std::atomic<bool> failed{false};
    std::optional<Error> error;
    std::size_t error_client = clients;
    std::mutex mutex;  // guards merging and the error
    pool_.Run([&](unsigned k) {
      Lane& lane = lanes_[k];
      for (;;) {
        const std::size_t c = next.fetch_add(1, std::memory_order_relaxed);
        if (c >= chunks) return;
        // A slot is free once the chunk that used it is merged.
        while (c >= merged.load(std::memory_order_acquire) + slots_.size()) std::this_thread::yield();
        Slot& slot = slots_[c % slots_.size()];
        slot.sum.Reset();
        for (std::size_t i = c * chunk; i < std::min(clients, (c + 1) * chunk); ++i) {
          if (failed.load(std::memory_order_relaxed)) break;
          if (noise_.replay_seed)
            lane.scratch.rng->Rekey({*noise_.replay_seed, Purpose::kNoise, id(i), report.round});
          Clear(lane.up);  // the client before left its own
          if (Status s = serve(i, down, lane); !s.ok()) {
            const std::lock_guard lock(mutex);
            if (i < error_client) error = s.error(), error_client = i;
            failed.store(true, std::memory_order_relaxed);
            break;
          }
          // Every message passes here, and none is added that the sum could not bear.
          const Fault fault = FaultOf(lane.up, lengths);
          lane.answers.Count(fault);
          if (fault == Fault::kNone) slot.sum.Add(lane.up);
          if (fault != Fault::kAbsent) lane.bytes_up += WireSize(lane.up);
          if (saw_ && fault == Fault::kNone) {
            ReleasedNumbers(lane.up, lane.seen);
            saw_(id(i), lane.seen);
          }
        }
        const std::lock_guard lock(mutex);
        slot.done = true;
        for (std::size_t m = merged.load(std::memory_order_relaxed); m < chunks; ++m) {
          Slot& s = slots_[m % slots_.size()];
          if (!s.done) break;
          total_.Merge(s.sum);
          s.done = false;
          merged.store(m + 1, std::memory_order_release);
        }
      }
    });
    for (Lane& lane : lanes_) {
      report.bytes_up += std::exchange(lane.bytes_up, 0);
      report.answers.Add(std::exchange(lane.answers, {}));
    }
    report.bytes_down = WireSize(down) * clients;
    if (error) return *error;
    return Ok{};
  }

  template <class F>
  void ForEach(std::vector<typename A::Client>& clients, F f) {
    std::atomic<std::size_t> next{0};
    pool_.Run([&](unsigned) {
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < clients.size();) f(clients[i]);
    });
  }

  Pool pool_;
  NoiseSource noise_;
  std::vector<NoiseRng> rngs_;
  std::vector<Lane> lanes_;
  std::vector<Slot> slots_;
  std::function<void(std::uint32_t, View)> saw_;
  typename A::Sum total_;
  typename A::Down down_;
};

}  // namespace tacit
