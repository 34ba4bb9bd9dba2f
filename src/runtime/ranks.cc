#include "runtime/ranks.h"

#include <cstdlib>
#include <cstring>

namespace tacit {
namespace {

bool IsCode(std::int32_t number) {
  switch (static_cast<Code>(number)) {  // a compiler's warning if one is added and not named here
    case Code::kInternal:
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kMalformed:
    case Code::kBudget:
    case Code::kIo:
    case Code::kUnsupported:
    case Code::kMismatch:
    case Code::kInterrupted: return true;
  }
  return false;
}

}  // namespace

Error LostThread() {
  return Fail(Code::kInternal,
              "the processes of this run do not understand each other; all must be of one build");
}

void PutStatus(Parcel& p, const Status& s) {
  p.Put(s.ok() ? std::int32_t{0} : static_cast<std::int32_t>(s.error().code));
  p.Put(s.ok() ? std::string() : s.error().message);
}

bool GetStatus(Parcel& p, Status& s) {
  std::int32_t code = 0;
  std::string message;
  if (!p.Get(code) || !p.Get(message)) return false;
  if (code == 0 ? !message.empty() : !IsCode(code) || message.empty()) return false;  // nobody sends that
  s = code == 0 ? Status(Ok{}) : Status(Error{static_cast<Code>(code), message});
  return true;
}

Result<std::unique_ptr<Ranks>> Ranks::Start(const RankWire& wire, const std::atomic<bool>& ending) {
  std::uint32_t rank = 0, size = 0, here = 1;
  if (wire.start(&ending, &rank, &size, &here) != 0)
    return Fail(Code::kIo, "the processes of this run cannot find each other: {}", wire.last_error());
  return std::unique_ptr<Ranks>(new Ranks(wire, rank, size, here));
}

Error Ranks::Lost(std::uint32_t whom) {
  lost_ = true;
  return Fail(Code::kIo, "rank {} of {} does not answer ({}): a process of the run has died or was stopped",
              whom, size_, wire_.last_error());
}

Status Ranks::Write(std::uint32_t to, About about, Parcel& p) {
  p.bytes_[0] = static_cast<std::byte>(about);
  bytes_sent_ += p.bytes_.size();
  if (wire_.send(to, p.bytes_.data(), p.bytes_.size()) != 0) return Lost(to);
  return Ok{};
}

Result<Ranks::Message> Ranks::Read(std::uint32_t from) {
  Message m{.from = from, .about = {}, .parcel = {}};
  Parcel& p = m.parcel;
  p.bytes_.clear();
  const auto room = [](void* into, std::size_t size) -> void* {
    auto& bytes = *static_cast<std::vector<std::byte>*>(into);
    const std::size_t at = bytes.size();
    bytes.resize(at + size);
    return bytes.data() + at;
  };
  if (wire_.receive(&m.from, room, &p.bytes_) != 0) return Lost(from);
  if (p.bytes_.empty() || m.from >= size_) return LostThread();
  m.about = static_cast<About>(p.bytes_[0]);
  return m;
}

Status Ranks::Send(std::uint32_t to, About about, Parcel& p) {
  if (left_[to]) return Fail(Code::kInternal, "rank {} has left", to);
  return Write(to, about, p);
}

Status Ranks::Post(std::uint32_t to, About about, Parcel p) {
  if (wire_.finish_sends() != 0) return Lost(to);  // the one before, whose bytes go now
  posted_ = std::move(p);
  posted_.bytes_[0] = static_cast<std::byte>(about);
  bytes_sent_ += posted_.bytes_.size();
  if (wire_.begin_send(to, posted_.bytes_.data(), posted_.bytes_.size()) != 0) return Lost(to);
  return Ok{};
}

Result<Parcel> Ranks::Receive(std::uint32_t from, About about) {
  TACIT_TRY(Message m, Read(from));
  if (m.about == about) return std::move(m.parcel);
  return Left(m);
}

Result<Ranks::Message> Ranks::ReceiveAny() {
  TACIT_TRY(Message m, Read(kAnyRank));
  if (m.about == About::kLeave) return Left(m);
  return m;
}

Error Ranks::Left(Message& m) {
  if (m.about != About::kLeave) return LostThread();
  left_[m.from] = true;
  Status why = Ok{};
  if (!GetStatus(m.parcel, why)) return LostThread();
  if (why.ok()) return Fail(Code::kInternal, "rank {} ended before the others", m.from);
  return why.error();
}

Status Ranks::Exchange(About about, std::vector<Parcel>& out, std::vector<Parcel>& in) {
  in.resize(size_);
  for (std::uint32_t step = 1; step < size_; ++step) {
    const std::uint32_t to = (rank_ + step) % size_;
    std::vector<std::byte>& bytes = out[to].bytes_;
    bytes[0] = static_cast<std::byte>(about);
    bytes_sent_ += bytes.size();
    if (wire_.begin_send(to, bytes.data(), bytes.size()) != 0) return Lost(to);
  }
  for (std::uint32_t step = 1; step < size_; ++step) {
    const std::uint32_t from = (rank_ + size_ - step) % size_;
    TACIT_TRY(in[from], Receive(from, about));
  }
  if (wire_.finish_sends() != 0) return Lost((rank_ + 1) % size_);
  return Ok{};
}

Status Ranks::Agree(const Status& mine, const Sha256::Digest& digest, const char* what) {
  std::vector<std::uint8_t> own(digest.size());
  std::memcpy(own.data(), digest.data(), own.size());
  if (!first()) {
    Parcel say;
    PutStatus(say, mine);
    say.Put(own);
    TACIT_OK(Send(0, About::kStatus, say));
    TACIT_TRY(Parcel heard, Receive(0, About::kVerdict));
    Status verdict = Ok{};
    if (!GetStatus(heard, verdict)) return LostThread();
    return verdict;
  }
  Status verdict = mine;
  for (std::uint32_t r = 1; r < size_; ++r) {
    auto heard = Receive(r, About::kStatus);
    Status theirs = Ok{};
    std::vector<std::uint8_t> other;
    if (!heard.ok())
      theirs = heard.error();
    else if (!GetStatus(*heard, theirs) || !heard->Get(other))
      theirs = LostThread();
    else if (theirs.ok() && other != own && mine.ok())
      theirs = Fail(Code::kInvalidArgument, "{}; start all of them with the same program and the same files",
                    what);
    if (!theirs.ok() && verdict.ok())
      verdict =
          Error{theirs.error().code, fmt::format("rank {} of {}: {}", r, size_, theirs.error().message)};
  }
  Parcel say;
  PutStatus(say, verdict);
  for (std::uint32_t r = 1; r < size_; ++r)
    if (!left_[r]) TACIT_OK(Send(r, About::kVerdict, say));
  return verdict;
}

void Ranks::Leave(const Status& mine) {
  if (lost_) Abort(static_cast<int>(Code::kIo));
  Parcel say;
  PutStatus(say, mine);
  // Rank 0 hears from all, and all from rank 0; whatever was on its way before that is of no use any more.
  const std::uint32_t others = first() ? size_ : 1;
  for (std::uint32_t r = first() ? 1 : 0; r < others; ++r)
    if (!Write(r, About::kLeave, say).ok()) Abort(static_cast<int>(Code::kIo));
  for (std::uint32_t r = first() ? 1 : 0; r < others; ++r)
    while (!left_[r]) {
      const auto m = Read(r);
      if (!m.ok()) Abort(static_cast<int>(Code::kIo));
      left_[r] = m->about == About::kLeave;
    }
  wire_.stop();
}

void Ranks::Abort(int code) {
  wire_.abort(code);
  std::_Exit(code);
}

}  // namespace tacit
