#pragma once

// Where one party of a run stands that has a process of its own, a client or a peer: its checkpoint, and the
// ledgers it pays from. What it computed leaves only after it is paid for, kept and counted; after a crash at
// any instant the same bytes are sent again.
#include "experiment/checkpoint.h"
#include "experiment/session.h"
#include "runtime/threads.h"

namespace tacit {

class OwnRounds {
 public:
  OwnRounds(const OwnRounds&) = delete;
  OwnRounds& operator=(const OwnRounds&) = delete;
  virtual ~OwnRounds() = default;
  std::size_t rounds() const { return static_cast<std::size_t>(at_.rounds_done); }  // made, paid and kept

 protected:
  explicit OwnRounds(Session&);
  std::filesystem::path File() const;  // of the checkpoint
  std::size_t planned() const;  // numbers in Standing::left
  // From the checkpoint that was found; kNotFound: from the beginning.
  Status GoOn(Result<Standing> found);
  // As many rounds again as were made are durable in the ledger: few writes, and a crash never costs more
  // than was spent.
  Status Reserve();
  // One more round: save(next) makes it durable, with `held` as what leaves, and the ledgers count it.
  Status Keep(std::string held, std::size_t bytes_up, std::size_t bytes_down,
              const std::function<Status(const Standing&)>& save);

  Session& s_;
  NoiseSource noise_;
  Standing at_;

 private:
  Status CountReleased(std::uint64_t rounds);  // in both ledgers: so many may have left
  std::vector<MuSquared> charges_;  // of the rounds, as planned
  std::size_t reserved_until_ = 0;
};

}  // namespace tacit
