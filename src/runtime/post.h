#pragma once

// How a peer on a graph reaches its neighbours, which are elsewhere. All go through the same rounds, none
// more than one ahead of a neighbour: a round's note of each is there for its neighbours until they have
// asked for the next one. Places count the rounds that run, from 1.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/result.h"
#include "runtime/link.h"

namespace tacit {

class Post {
 public:
  virtual ~Post() = default;
  // From now on neighbours may have it, as often as they ask; that of the place before too, none earlier.
  // Empty: this peer is silent in this round.
  virtual Status Publish(std::uint32_t place, Bytes note) = 0;
  // notes[i] of from[i], empty where it was silent; waits for all, so long. check: why one is no note of this
  // run, which is then not taken and may be followed by a better one. Whoever asks for a place has made
  // durable all that came before, and an error where a neighbour has heard more of this peer than that: its
  // state was put back, and another note would be a second release.
  virtual Status Fetch(std::uint32_t place, std::span<const std::uint32_t> from,
                       const std::function<Status(std::span<const std::byte>)>& check,
                       std::vector<Bytes>& notes) = 0;
  virtual void Note(const std::string&) {}  // for whoever watches
};

}  // namespace tacit
