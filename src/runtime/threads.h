#pragma once

// The in-process runtime: every client of a simulation on a few threads. Messages travel as values; those of
// clients elsewhere come as frames over a link. The model is the same bit for bit for any number of threads,
// over any link, and over any number of ranks.
//
// Ranks (ranks.h). Every rank serves a part of the clients that are asked, in the order of the clients, and
// keeps the sums of its chunks. The total goes from rank to rank, and each adds its chunks in their order:
// the additions of one process, by other hands. So what travels in a round is one broadcast to each rank and
// one sum from each to the next, however many clients there are. A rank whose sums would need too much room
// serves its part in several passes. Clients that remember stay at one rank; where a chunk is then divided
// between ranks, the later one keeps its first messages until the sum of those before has come.
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
#include "runtime/rank_accounts.h"
#include "wire/bearable.h"

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

  // The clients are at several ranks. At rank 0, before it runs or resumes; the others Attend. Both outlive
  // the runtime. holders: how many clients there are that remember; 0: they do not.
  void Split(Ranks& ranks, RankAccounts& accounts, std::size_t holders) requires Portable<typename A::Sum> {
    ranks_ = &ranks, accounts_ = &accounts, holders_ = holders;
  }

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
          if (ranks_ != nullptr) TACIT_OK(Tell(Order::kFinish, [&](Parcel& p) { p.PutAll(down.Fields()); }));
          ForEach(Own(clients), [&](typename A::Client& c) { c.Finish(down); });
          report.bytes_down += WireSize(down) * clients.size();
          return Ok{};
        });
  }

  // At rank 0: brings the clients up to date that are at other ranks.
  Status Collect(std::vector<typename A::Client>& clients) requires Algorithm<A> {
    if (ranks_ == nullptr || current_) return Ok{};
    TACIT_OK(Tell(Order::kCollect, [](Parcel&) {}));
    for (std::uint32_t r = 1; r < ranks_->size(); ++r) {
      TACIT_TRY(Parcel p, ranks_->Receive(r, Ranks::About::kState));
      for (std::size_t i = First(r); i < First(r + 1); ++i)
        if (!p.GetAll(clients[i].State())) return LostThread();
    }
    current_ = true;
    return Ok{};
  }
  // At rank 0, which has resumed: the others' clients and accounts are as they are here.
  Status Share(std::vector<typename A::Client>& clients) requires Algorithm<A> {
    return Share([&](std::uint32_t r, Parcel& p) {
      for (std::size_t i = First(r); i < First(r + 1); ++i) p.PutAll(clients[i].State());
    });
  }
  Status Share() {
    return Share([](std::uint32_t, Parcel&) {});
  }
  // At rank 0: the run is over, however it ended.
  Status Dismiss() {
    return ranks_ == nullptr ? Status(Ok{}) : Tell(Order::kDismiss, [](Parcel&) {});
  }
  // At the others: takes part until rank 0 says that it is over.
  // make(id) makes a client: once, where it remembers, and otherwise when it is its turn.
  template <class Make>
  Status Attend(Make make) {
    std::vector<typename A::Client> own;
    if constexpr (Stateless<A>) {
      return Follow(
          [&](std::uint32_t id, const typename A::Down& down, Lane& lane) {
            const typename A::Client client = make(id);
            return client.Round(down, lane.up, lane.scratch);
          },
          own);
    } else {
      const std::size_t from = First(ranks_->rank()), to = First(ranks_->rank() + 1);
      own.reserve(to - from);
      for (std::size_t i = from; i < to; ++i) own.push_back(make(static_cast<std::uint32_t>(i)));
      return Follow([&](std::uint32_t id, const typename A::Down& down,
                        Lane& lane) { return own[id - from].Round(down, lane.up, lane.scratch); },
                    own);
    }
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
      requires Framed<typename A::Up> || IsEntrusted<typename A::Up> {
    return server.Start(down_) ? Resume(server, far, who, watcher) : Status(Ok{});
  }
  Status Resume(typename A::Server& server, FarCohort& far, Participants& who, const Watcher& watcher)
      requires Framed<typename A::Up> || IsEntrusted<typename A::Up> {
    // The server's noise is new if a round is made again, so nobody hears of a round before it is kept.
    keep_first_ = IsEntrusted<typename A::Up>;
    const auto open = [&](std::uint32_t client, std::span<const std::byte> bytes) -> Result<Reply<A>> {
      if constexpr (IsEntrusted<typename A::Up>) {
        TACIT_TRY(Private<Vec> sent, Codec::DecodeEntrusted(bytes));
        Reply<A> reply;
        if (server.Accept(sent, far.weights.empty() ? 1.0 : far.weights[client], reply.up)) return reply;
        return Fail(Code::kMalformed,
                    "the update is not of the agreed length, not finite, or longer than the clip; sender and "
                    "receiver must run the same job and version");
      } else {
        return Codec::Decode<Reply<A>>(bytes);
      }
    };
    const auto lengths = server.lengths();
    const std::size_t own = far.clients.empty() ? 0 : far.clients.front().x.size();
    const auto fits = [&](auto reply) -> Status {  // a Result<Reply<A>>
      if (!reply.ok()) return reply.error();
      const Fault fault = FaultOf(reply->up, lengths);  // absent: the client says that it has nothing to say
      const bool fit = fault == Fault::kNone ? Within(kLargestSent, reply->up) : fault == Fault::kAbsent;
      if (!fit || reply->iterate->size() != own || !Within(kLargestSent, *reply->iterate))
        return Fail(Code::kMalformed,
                    "the message is not of the agreed length, or has numbers that are not finite or beyond "
                    "2^100; sender and receiver must run the same job and version");
      return Ok{};
    };
    // Whether the public numbers of a message that fits are those of this client in this round.
    const auto agrees = [&](std::uint32_t client, auto reply) -> Status {
      typename A::Up& up = reply->up;
      bool ok = true;
      if constexpr (requires { server.CanBeOf(client, up); }) ok = server.CanBeOf(client, up);
      if constexpr (requires { *up.weight; }) ok = *up.weight == far.weights[client];
      if (ok || FaultOf(up, lengths) == Fault::kAbsent) return Ok{};
      return Fail(Code::kMalformed,
                  "the message's public numbers are not those of this client in this round; sender and "
                  "receiver must run the same job and version");
    };
    std::vector<std::uint32_t> ids, counted;
    std::vector<Bytes> answers;
    std::uint32_t now = 0;
    return Loop(
        server, watcher,
        [&](std::uint32_t round) -> Result<std::size_t> {
          now = round;
          ids.resize(who.Begin(round));
          for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = who.Id(i);
          if constexpr (GoesBack<typename A::Client>) {
            counted.resize(ids.size());
            for (std::size_t i = 0; i < ids.size(); ++i) counted[i] = far.clients[ids[i]].counted;
          }
          const Bytes frame = Codec::Encode(down_);
          TACIT_OK(far.link.Ask({.round = round,
                                 .who = ids,
                                 .counted = counted,
                                 .frame = frame,
                                 .most_bytes = MostBytes(lengths, own),
                                 .check = [&](auto bytes) -> Status {
                                   if constexpr (IsEntrusted<typename A::Up>) return Ok{};
                                   return fits(open(0, bytes));
                                 },
                                 .check_from = [&](std::uint32_t client, auto bytes) -> Status {
                                   if constexpr (IsEntrusted<typename A::Up>)
                                     return fits(open(client, bytes));
                                   return agrees(client, open(client, bytes));
                                 }},
                                answers));
          return ids.size();
        },
        [&](std::size_t i) { return ids[i]; },
        [&](std::size_t i, const typename A::Down&, Lane& lane) -> Status {
          if (answers[i].empty()) return Ok{};
          TACIT_TRY(Reply<A> reply, open(ids[i], answers[i]));
          lane.up = std::move(reply.up);
          if (own != 0) far.clients[ids[i]].x = *reply.iterate;
          if constexpr (GoesBack<typename A::Client>) far.clients[ids[i]].counted = now;
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
                                   if (last.iterate->size() == own && Within(kLargestSent, *last.iterate))
                                     return Ok{};
                                   return Fail(Code::kMalformed,
                                               "the last model is not of the agreed length, or has numbers "
                                               "that are not finite or beyond 2^100");
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
  using Begin = std::function<Result<std::size_t>(std::uint32_t round)>;
  using Id = std::function<std::uint32_t(std::size_t i)>;
  using Serve = std::function<Status(std::size_t i, const typename A::Down& down, Lane& lane)>;
  using End = std::function<Status(typename A::Down& down, RoundReport& report)>;
  Status Loop(typename A::Server& server, const Watcher& watcher, const Begin& begin, const Id& id,
              const Serve& serve, const End& finish) {
    typename A::Down& down = down_;
    for (bool more = true; more;) {
      RoundReport report{.round = server.round()};
      TACIT_OK(watcher.before(report.round));
      Result<std::size_t> many = begin(report.round);
      if (!many.ok()) return many.error();
      Status complaint = Ok{};
      if (ranks_ == nullptr) {
        const Work work{.round = report.round, .clients = *many};
        TACIT_OK(Round(down, server.lengths(), work, id, serve, complaint));
      } else if constexpr (Portable<typename A::Sum>) {
        TACIT_OK(RoundOfRanks(down, server.lengths(), *many, id, serve, report, complaint));
      }
      if (!complaint.ok()) return complaint.error();
      Count(report);
      report.bytes_down = WireSize(down) * *many;
      Scratch& scratch = lanes_.front().scratch;
      if (noise_.replay_seed)
        scratch.rng->Rekey({*noise_.replay_seed, Purpose::kNoise, kServer, report.round});
      TACIT_TRY(more, server.Round(total_, down, scratch));
      report.last = !more;
      if (report.last && !keep_first_) TACIT_OK(finish(down, report));
      TACIT_OK(watcher.after(report));
      if (report.last && keep_first_) TACIT_OK(finish(down, report));
    }
    return Ok{};
  }

  // One round, as all ranks know it.
  struct Work {
    std::uint32_t round = 0;
    std::size_t clients = 0;  // that take part
    std::size_t passes = 0;  // over the ranks; 0: each serves those that it holds, in one
    std::vector<std::uint32_t> ids = {};  // who they are, ascending; empty: 0 … clients − 1
  };
  struct Part {
    std::size_t from = 0, to = 0;
  };
  struct Held {
    typename A::Up up;
    bool counts = false;
  };

  // This rank's part of a round, or all of it where there is one process: total_ is then the sum.
  // all: the first complaint by the order of the clients, wherever it was. An error: a rank is out of reach.
  Status Round(typename A::Down& down, const Lengths<typename A::Up>& lengths, const Work& work, const Id& id,
               const Serve& serve, Status& all) {
    total_.Reset();
    open_.Reset();
    is_open_ = false;
    if (ranks_ == nullptr) {
      all = Add({0, work.clients}, true, down, lengths, work, id, serve);
    } else if constexpr (Portable<typename A::Sum>) {
      const std::uint32_t n = ranks_->size(), me = ranks_->rank();
      for (std::size_t pass = 0; pass < std::max<std::size_t>(work.passes, 1); ++pass) {
        const Part part = PartOf(work, me, pass);
        const bool begins = me == 0 && pass == 0;
        Status mine = Ok{};
        if (all.ok()) mine = Add(part, begins, down, lengths, work, id, serve);
        if (!begins) {
          TACIT_OK(TakeTotal((me + n - 1) % n, all));
          if (all.ok() && mine.ok()) MergeHeld(part, work.clients);
        }
        if (all.ok()) all = mine;
        TACIT_OK(PassTotal((me + 1) % n, all));
      }
      if (me == 0) TACIT_OK(TakeTotal(n - 1, all));
    }
    return Ok{};
  }

  // Serves the clients of a part. begins: total_ and open_ are those of all clients before, so that chunks
  // are merged as they come; otherwise they wait for MergeHeld.
  Status Add(const Part& part, bool begins, typename A::Down& down, const Lengths<typename A::Up>& lengths,
             const Work& work, const Id& id, const Serve& serve) {
    const std::size_t clients = work.clients, chunk = ChunkOf(clients);
    const Cut cut(part, chunk);
    held_.resize(cut.lead);
    slots_.resize(begins ? std::min<std::size_t>(cut.chunks, 4 * pool_.size()) : cut.chunks);
    for (Slot& s : slots_) s.done = false;
    std::atomic<std::size_t> next{0}, merged{0};
    std::atomic<bool> failed{false};
    std::optional<Error> error;
    std::size_t error_client = clients;
    std::mutex mutex;  // guards merging and the error
    // Whether client i's message, in lane.up, counts.
    const auto ask = [&](std::size_t i, Lane& lane) {
      if (noise_.replay_seed)
        lane.scratch.rng->Rekey({*noise_.replay_seed, Purpose::kNoise, id(i), work.round});
      Clear(lane.up);  // the client before left its own
      if (Status s = serve(i, down, lane); !s.ok()) {
        const std::lock_guard lock(mutex);
        if (i < error_client) error = s.error(), error_client = i;
        failed.store(true, std::memory_order_relaxed);
        return false;
      }
      // Every message passes here, and none is added that the sum could not bear.
      const Fault fault = FaultOf(lane.up, lengths);
      lane.answers.Count(fault);
      if (fault != Fault::kAbsent) lane.bytes_up += WireSize(lane.up);
      if (saw_ && fault == Fault::kNone) {
        ReleasedNumbers(lane.up, lane.seen);
        saw_(id(i), lane.seen);
      }
      return fault == Fault::kNone;
    };
    pool_.Run([&](unsigned k) {
      Lane& lane = lanes_[k];
      for (;;) {
        const std::size_t item = next.fetch_add(1, std::memory_order_relaxed);
        if (item < cut.lead) {
          Held& held = held_[item];
          held.counts = !failed.load(std::memory_order_relaxed) && ask(part.from + item, lane);
          if (held.counts) std::swap(held.up, lane.up);
          continue;
        }
        const std::size_t c = item - cut.lead;
        if (c >= cut.chunks) return;
        // A slot is free once the chunk that used it is merged.
        while (begins && c >= merged.load(std::memory_order_acquire) + slots_.size())
          std::this_thread::yield();
        Slot& slot = slots_[c % slots_.size()];
        slot.sum.Reset();
        const std::size_t from = (cut.first + c) * chunk;
        for (std::size_t i = from; i < std::min(part.to, from + chunk); ++i) {
          if (failed.load(std::memory_order_relaxed)) break;
          if (ask(i, lane)) slot.sum.Add(lane.up);
        }
        if (!begins) continue;
        const std::lock_guard lock(mutex);
        slot.done = true;
        for (std::size_t m = merged.load(std::memory_order_relaxed); m < cut.chunks; ++m) {
          Slot& s = slots_[m % slots_.size()];
          if (!s.done) break;
          Merge(s.sum, cut, m, part, clients);
          s.done = false;
          merged.store(m + 1, std::memory_order_release);
        }
      }
    });
    if (error) return *error;
    return Ok{};
  }

  // How a part lies in the chunks of a round.
  struct Cut {
    std::size_t lead;  // clients before the first chunk that begins in it
    std::size_t first;  // that chunk
    std::size_t chunks;  // that begin in it
    Cut(const Part& p, std::size_t chunk) : first((p.from + chunk - 1) / chunk) {
      lead = std::min(p.to, first * chunk) - p.from;
      chunks = std::max(first, (p.to + chunk - 1) / chunk) - first;
    }
  };
  // The m-th chunk of a part: into the total, or, where it goes on at the next rank, open.
  void Merge(typename A::Sum& sum, const Cut& cut, std::size_t m, const Part& part, std::size_t clients) {
    if (m + 1 == cut.chunks && part.to < clients && part.to % ChunkOf(clients) != 0) {
      std::swap(open_, sum);
      is_open_ = true;
    } else {
      total_.Merge(sum);
    }
  }
  void MergeHeld(const Part& part, std::size_t clients) {
    const std::size_t chunk = ChunkOf(clients);
    const Cut cut(part, chunk);
    for (std::size_t i = 0; i < cut.lead; ++i)
      if (held_[i].counts) open_.Add(held_[i].up);
    const std::size_t end = part.from + cut.lead;
    if (cut.lead > 0 && (end % chunk == 0 || end == clients)) {
      total_.Merge(open_);
      open_.Reset();
      is_open_ = false;
    }
    for (std::size_t m = 0; m < cut.chunks; ++m) Merge(slots_[m].sum, cut, m, part, clients);
  }

  void Count(RoundReport& report) {
    for (Lane& lane : lanes_) {
      report.bytes_up += std::exchange(lane.bytes_up, 0);
      report.answers.Add(std::exchange(lane.answers, {}));
    }
  }

  // --- over several ranks ---------------------------------------------------------------------------------

  enum class Order : std::uint8_t { kRound = 1, kFinish, kCollect, kShare, kDismiss };
  static constexpr std::size_t kRoom = std::size_t{1} << 28;  // bytes of sums that wait at a rank

  // The clients from First(r) up to First(r + 1) stay at rank r: whole chunks, where all take part.
  std::size_t First(std::uint32_t r) const {
    const std::size_t chunk = ChunkOf(holders_), chunks = (holders_ + chunk - 1) / chunk;
    return std::min(holders_, chunk * (chunks * r / ranks_->size()));
  }
  std::span<typename A::Client> Own(std::vector<typename A::Client>& clients) const {
    if (ranks_ == nullptr) return clients;
    const std::size_t from = First(ranks_->rank());
    return std::span(clients).subspan(from, First(ranks_->rank() + 1) - from);
  }
  Part PartOf(const Work& w, std::uint32_t r, std::size_t pass) const {
    if (w.passes == 0) {
      const auto at = [&](std::size_t id) -> std::size_t {
        if (w.ids.empty()) return std::min(w.clients, id);
        return static_cast<std::size_t>(std::lower_bound(w.ids.begin(), w.ids.end(), id) - w.ids.begin());
      };
      return {at(First(r)), at(First(r + 1))};
    }
    const std::size_t chunk = ChunkOf(w.clients), chunks = (w.clients + chunk - 1) / chunk;
    const std::size_t parts = w.passes * ranks_->size(), k = pass * ranks_->size() + r;
    return {std::min(w.clients, chunk * (chunks * k / parts)),
            std::min(w.clients, chunk * (chunks * (k + 1) / parts))};
  }

  // An order of rank 0 to all others.
  template <class Put>
  Status Tell(Order order, Put put) {
    Parcel p;
    p.Put(static_cast<std::uint8_t>(order));
    put(p);
    for (std::uint32_t r = 1; r < ranks_->size(); ++r) TACIT_OK(ranks_->Send(r, Ranks::About::kCommand, p));
    return Ok{};
  }
  template <class States>
  Status Share(States states) {
    for (std::uint32_t r = 1; r < ranks_->size(); ++r) {
      Parcel p;
      p.Put(static_cast<std::uint8_t>(Order::kShare));
      accounts_->PutAllCharged(p);
      states(r, p);
      TACIT_OK(ranks_->Send(r, Ranks::About::kCommand, p));
    }
    current_ = true;
    return Ok{};
  }
  Status PassTotal(std::uint32_t to, const Status& so_far) {
    Parcel p;
    PutStatus(p, so_far);
    p.Put(is_open_);
    if (so_far.ok()) p.PutAll(total_.State());
    if (so_far.ok() && is_open_) p.PutAll(open_.State());
    return ranks_->Post(to, Ranks::About::kSum, std::move(p));
  }
  Status TakeTotal(std::uint32_t from, Status& so_far) {
    TACIT_TRY(Parcel p, ranks_->Receive(from, Ranks::About::kSum));
    if (!GetStatus(p, so_far) || !p.Get(is_open_)) return LostThread();
    if (!so_far.ok()) return Ok{};
    if (!p.GetAll(total_.State())) return LostThread();
    open_.Reset();
    if (is_open_ && !p.GetAll(open_.State())) return LostThread();
    return Ok{};
  }
  // What was charged to the clients of a rank's part, said or heard: say(first, last) or say(who).
  template <class Say>
  Status EachCharge(const Work& w, std::uint32_t r, Say say) {
    for (std::size_t pass = 0; pass < std::max<std::size_t>(w.passes, 1); ++pass) {
      const Part part = PartOf(w, r, pass);
      if (w.ids.empty())
        TACIT_OK(say(static_cast<std::uint32_t>(part.from), static_cast<std::uint32_t>(part.to)));
      else
        TACIT_OK(say(std::span(w.ids).subspan(part.from, part.to - part.from)));
    }
    return Ok{};
  }

  // Rank 0.
  Status RoundOfRanks(typename A::Down& down, const Lengths<typename A::Up>& lengths, std::size_t clients,
                      const Id& id, const Serve& serve, RoundReport& report, Status& complaint) {
    Work work{.round = report.round, .clients = clients};
    if (clients > 0 && id(clients - 1) != clients - 1) {  // they ascend: so these are not the first ones
      work.ids.resize(clients);
      for (std::size_t i = 0; i < clients; ++i) work.ids[i] = id(i);
    }
    if (holders_ == 0) {
      std::size_t room = sizeof(typename A::Sum);
      for (const std::size_t n : lengths) room += 2 * sizeof(double) * n;
      const std::size_t chunk = ChunkOf(clients), chunks = (clients + chunk - 1) / chunk;
      const std::size_t most = std::max<std::size_t>(kRoom / room, 2 * pool_.size()) * ranks_->size();
      work.passes = std::max<std::size_t>(1, (chunks + most - 1) / most);
    }
    current_ = false;
    Parcel order;
    order.Put(static_cast<std::uint8_t>(Order::kRound));
    order.Put(work.round), order.Put(static_cast<std::uint64_t>(work.clients));
    order.Put(static_cast<std::uint64_t>(work.passes)), order.Put(work.ids);
    order.Put(std::vector<std::uint64_t>(lengths.begin(), lengths.end()));
    order.PutAll(down.Fields());
    accounts_->PutDurable(order);
    for (std::uint32_t r = 1; r < ranks_->size(); ++r) {
      Parcel p = order;
      // Who was served elsewhere before has paid there.
      TACIT_OK(EachCharge(work, r, [&](auto... who) -> Status {
        accounts_->PutCharged(who..., p);
        return Ok{};
      }));
      TACIT_OK(ranks_->Send(r, Ranks::About::kCommand, p));
    }
    TACIT_OK(Round(down, lengths, work, id, serve, complaint));
    for (std::uint32_t r = 1; r < ranks_->size(); ++r) {
      TACIT_TRY(Parcel p, ranks_->Receive(r, Ranks::About::kReply));
      std::uint64_t bytes = 0;
      Answers answers;
      if (!p.Get(bytes) || !p.GetAll(answers.All())) return LostThread();
      report.bytes_up += static_cast<std::size_t>(bytes);
      report.answers.Add(answers);
      TACIT_OK(EachCharge(work, r, [&](auto... who) { return accounts_->TakeCharged(who..., p); }));
    }
    return Ok{};
  }

  // The others.
  Status Follow(const Serve& serve, std::span<typename A::Client> own) {
    for (;;) {
      TACIT_TRY(Parcel p, ranks_->Receive(0, Ranks::About::kCommand));
      std::uint8_t order = 0;
      if (!p.Get(order)) return LostThread();
      switch (static_cast<Order>(order)) {
        case Order::kRound: TACIT_OK(FollowRound(p, serve)); break;
        case Order::kShare:
          TACIT_OK(accounts_->TakeAllCharged(p));
          if constexpr (Algorithm<A>)
            for (typename A::Client& c : own)
              if (!p.GetAll(c.State())) return LostThread();
          break;
        case Order::kFinish:
          if (!p.GetAll(down_.Fields())) return LostThread();
          if constexpr (Algorithm<A>) ForEach(own, [&](typename A::Client& c) { c.Finish(down_); });
          break;
        case Order::kCollect: {
          Parcel states;
          if constexpr (Algorithm<A>)
            for (typename A::Client& c : own) states.PutAll(c.State());
          TACIT_OK(ranks_->Send(0, Ranks::About::kState, states));
          break;
        }
        case Order::kDismiss: return Ok{};
        default: return LostThread();
      }
    }
  }
  Status FollowRound(Parcel& p, const Serve& serve) {
    Work work;
    std::uint64_t clients = 0, passes = 0;
    std::vector<std::uint64_t> numbers;
    Lengths<typename A::Up> lengths{};
    if (!p.Get(work.round) || !p.Get(clients) || !p.Get(passes) || !p.Get(work.ids) || !p.Get(numbers) ||
        !p.GetAll(down_.Fields()) || numbers.size() != lengths.size())
      return LostThread();
    TACIT_OK(accounts_->TakeDurable(p));
    work.clients = clients, work.passes = passes;
    std::copy(numbers.begin(), numbers.end(), lengths.begin());
    TACIT_OK(
        EachCharge(work, ranks_->rank(), [&](auto... who) { return accounts_->TakeCharged(who..., p); }));
    const Id id = [&](std::size_t i) {
      return work.ids.empty() ? static_cast<std::uint32_t>(i) : work.ids[i];
    };
    Status complaint = Ok{};  // goes to rank 0 with the sum; it says what follows
    const Serve turn = [&](std::size_t i, const typename A::Down& down, Lane& lane) {
      return serve(id(i), down, lane);
    };
    TACIT_OK(Round(down_, lengths, work, id, turn, complaint));
    RoundReport report;
    Count(report);
    Parcel reply;
    reply.Put(static_cast<std::uint64_t>(report.bytes_up));
    reply.PutAll(report.answers.All());
    TACIT_OK(EachCharge(work, ranks_->rank(), [&](auto... who) -> Status {
      accounts_->PutCharged(who..., reply);
      return Ok{};
    }));
    return ranks_->Send(0, Ranks::About::kReply, reply);
  }

  template <class F>
  void ForEach(std::span<typename A::Client> clients, F f) {
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
  std::vector<Held> held_;  // messages that wait for the sum of those before
  std::function<void(std::uint32_t, View)> saw_;
  typename A::Sum total_, open_;  // open_: of the clients of a chunk that is divided between ranks, so far
  typename A::Down down_;
  Ranks* ranks_ = nullptr;
  RankAccounts* accounts_ = nullptr;
  std::size_t holders_ = 0;  // clients that remember
  bool is_open_ = false;  // open_ counts
  bool keep_first_ = false;  // what the last round made is kept before clients hear of it
  bool current_ = true;  // rank 0 knows the state of the others' clients
};

}  // namespace tacit
