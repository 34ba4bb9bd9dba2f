#pragma once

// A question of a server, as it comes in parts: the first says what it is and how long, the others bring the
// rest of its bytes. A server may say anything, so that no more is kept than it may be long.
#include <federation.grpc.pb.h>

#include "runtime/link.h"

namespace tacit {

struct Work {
  v1::WorkPart::Kind kind = v1::WorkPart::WAIT;
  std::uint32_t round = 0, step = 0;
  std::uint32_t counted = 0, answered = 0;  // as the server says of this client
  std::string question;  // its name, to be answered by
  Bytes frame;
};

class WorkParts {
 public:
  explicit WorkParts(std::size_t most) : most_(most) {}  // bytes of a frame
  // False: it is longer than it says, or than it may be; nothing of this part is kept.
  bool Take(const v1::WorkPart& part) {
    if (!begun_) {
      begun_ = true;
      work_.kind = part.kind(), work_.round = part.round(), work_.step = part.step();
      work_.question = part.question(), work_.counted = part.counted(), work_.answered = part.answered();
      size_ = part.size();
    }
    if (size_ > most_ || part.data().size() > size_ - work_.frame.size()) return false;
    const auto* data = reinterpret_cast<const std::byte*>(part.data().data());
    work_.frame.insert(work_.frame.end(), data, data + part.data().size());
    return true;
  }
  bool whole() const { return work_.frame.size() == size_; }
  Work& work() { return work_; }

 private:
  std::size_t most_;
  bool begun_ = false;
  std::uint64_t size_ = 0;
  Work work_;
};

}  // namespace tacit
