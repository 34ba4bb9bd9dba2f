#pragma once

// The processes of one simulation, each a rank from 0. Rank 0 has the server, the ledgers, the files and the
// terminal; the others have clients and do what it says. How messages travel is the business of a library
// for message passing that is loaded where a run has several processes (src/mpi).
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/sha256.h"
#include "runtime/parcel.h"

namespace tacit {

inline constexpr std::uint32_t kAnyRank = 0xffffffff;

// What such a library offers, as plain functions. Those that return an int return 0 or have said in
// `last_error` why not. One thread calls them at a time.
struct RankWire {
  std::uint32_t abi;
  const char* version;  // of the program it was built with
  // ending: set by a signal that ends the job; who waits then gives up after a moment.
  // here: how many of the processes are on this machine.
  int (*start)(const std::atomic<bool>* ending, std::uint32_t* rank, std::uint32_t* size,
               std::uint32_t* here);
  int (*send)(std::uint32_t to, const void* data, std::size_t size);
  // Room for a message whose length is now known.
  using Room = void* (*)(void* into, std::size_t size);
  // from: kAnyRank takes whoever comes first, and says who it was.
  int (*receive)(std::uint32_t* from, Room room, void* into);
  // As if sent by send, to be waited for by `finish_sends`; the bytes stay where they are until then.
  int (*begin_send)(std::uint32_t to, const void* data, std::size_t size);
  int (*finish_sends)();
  const char* (*last_error)();
  void (*stop)();           // everybody is done
  void (*abort)(int code);  // ends all processes of the job; does not return
};
inline constexpr std::uint32_t kRankWireAbi = 1;
inline constexpr const char* kRankWireSymbol = "tacit_rank_wire";

class Ranks {
 public:
  // What a parcel is about; who gets one of another kind has lost the thread.
  enum class About : std::uint8_t { kStatus = 1, kVerdict, kCommand, kSum, kReply, kState, kNotes, kLeave };

  // Waits until all processes of the job are there.
  static Result<std::unique_ptr<Ranks>> Start(const RankWire&, const std::atomic<bool>& ending);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  bool first() const { return rank_ == 0; }
  std::uint32_t neighbours() const { return neighbours_; }  // ranks on this machine, this one included

  Status Send(std::uint32_t to, About, Parcel&);
  // The same, but goes on before it has arrived.
  Status Post(std::uint32_t to, About, Parcel);
  Result<Parcel> Receive(std::uint32_t from, About);
  struct Message {
    std::uint32_t from = 0;
    About about{};
    Parcel parcel;
  };
  Result<Message> ReceiveAny();
  // To all others at once, and one from each: out[r] for rank r.
  Status Exchange(About, std::vector<Parcel>& out, std::vector<Parcel>& in);

  // The same answer at all ranks: Ok if all said Ok and the same digest; otherwise whose complaint comes
  // first. what: what the digest is of, in a sentence.
  Status Agree(const Status& mine, const Sha256::Digest& digest, const char* what);
  // The end of this process' part, whatever came of it; waits for the others. After an error all learn of it,
  // wherever they are between two steps.
  void Leave(const Status& mine);
  // Ends all processes at once.
  [[noreturn]] void Abort(int code);

  std::uint64_t bytes_sent() const { return bytes_sent_; }
  bool lost() const { return lost_; }  // a rank did not answer any more: nothing can be said to the others

 private:
  Ranks(const RankWire& wire, std::uint32_t rank, std::uint32_t size, std::uint32_t here)
      : wire_(wire), rank_(rank), size_(size), neighbours_(here), left_(size) {}
  Error Lost(std::uint32_t whom);
  Status Write(std::uint32_t to, About, Parcel&);
  Result<Message> Read(std::uint32_t from);
  Error Left(Message&);  // somebody ended before its time

  const RankWire& wire_;
  std::uint32_t rank_, size_, neighbours_;
  std::vector<bool> left_;  // who has said goodbye
  Parcel posted_;  // what is on its way by Post
  std::uint64_t bytes_sent_ = 0;
  bool lost_ = false;
};

// Statuses in a parcel.
void PutStatus(Parcel&, const Status&);
bool GetStatus(Parcel&, Status&);
Error LostThread();  // a parcel that holds something else than it should

}  // namespace tacit
