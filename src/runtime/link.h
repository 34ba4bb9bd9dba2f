#pragma once

// How a server reaches clients that are not in its process. What travels are frames (wire/frame.h); who
// answers, how long to wait and what to do without an answer is the link's affair.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "wire/frame.h"

namespace tacit {

using Bytes = std::vector<std::byte>;
class Roster;  // mask_round.h

// One broadcast, and what is asked in return.
struct Question {
  std::uint32_t round = 0;                       // from 1
  bool last = false;                             // training is over: a farewell, after the last round
  std::span<const std::uint32_t> who;            // clients, ascending
  // The last round in which an answer of who[i] was counted, 0: none; empty: the clients need not know.
  std::span<const std::uint32_t> counted = {};
  std::span<const std::byte> frame;
  std::size_t most_bytes = 0;                    // of an answer
  // A round of several steps (mask_round.h): which one, from 1; 0: the round is one.
  std::uint32_t step = 0;
  std::span<const std::vector<std::byte>> personal = {};  // for who[i], after the frame; empty: nothing
  std::size_t least = 0;  // answers without which to wait; 0: by the link's own rule
  bool patient = true;  // false: end at the deadline with whatever there is
  bool enough = false;  // true: `least` answers will do, and nobody waits long for more
  bool gives_up = false;  // true: as long again after the deadline, it ends with whatever there is
  // Why an answer cannot be counted, before it is taken; by several threads at once.
  std::function<Status(std::span<const std::byte>)> check;
  std::function<Status(std::uint32_t client, std::span<const std::byte>)> check_from =
      {};  // after it; or none
};

class Link {
 public:
  virtual ~Link() = default;
  // answers[i]: a frame of who[i] that passed the check, or nothing. The same question may be asked again by
  // a server that was restarted; a client then sends the bytes it sent before.
  virtual Status Ask(const Question&, std::vector<Bytes>& answers) = 0;
  // By which clients' keys are known, for rounds under masks; null: this link knows nobody, and has none.
  virtual const Roster* roster() const { return nullptr; }
  // The name in the certificate that clients know this server by; empty: they know none, and can trust none.
  virtual std::string server() const { return {}; }
  virtual void Note(const std::string&) {}  // for whoever watches
};

// What a client sends in a round. Where the model is with the clients, its own goes along: a function of past
// messages.
template <Coordinated A>
struct Reply {
  typename A::Up up;
  Public<Vec> iterate;
  auto Fields() {
    if constexpr (HasModel<typename A::Server>)
      return up.Fields();
    else
      return std::tuple_cat(up.Fields(), std::tie(iterate));
  }
};
// And after the last one.
template <Coordinated A>
struct Farewell {
  Public<Vec> iterate;
  auto Fields() {
    if constexpr (HasModel<typename A::Server>)
      return std::tie();
    else
      return std::tie(iterate);
  }
};

// A client as the server knows it: the model it said it has, and when it was counted last.
struct FarClient {
  Vec x;
  std::uint32_t counted = 0;
  View iterate() const { return x; }
  auto State() { return std::tie(x, counted); }
};

// All clients of a run, each somewhere else.
struct FarCohort {
  Link& link;
  std::uint32_t count = 0;
  std::vector<FarClient> clients = {};  // empty where the model is with the server, and no client goes back
  std::span<const double> weights = {};  // of clients who trust the server; empty: 1 each
};

// Room for a frame whose vectors have these lengths, whatever they are vectors of.
inline std::size_t MostBytes(std::span<const std::size_t> lengths, std::size_t iterate) {
  std::size_t most = kFrameHeader + 64 + sizeof(double) * iterate;
  for (const std::size_t n : lengths) most += 64 + 16 * n;
  return most;
}

}  // namespace tacit
