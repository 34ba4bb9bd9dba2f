#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/check.h"
#include "net/broadcast.h"

// What a server sends a client as a question: parts, each a message of protobuf after a byte with its length.
// The first byte of the input says how long a frame may be. No more is kept than that and than what was
// announced, and a question that is whole is what its parts say, one after the other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t most = data[0];
  tacit::WorkParts parts(most);
  tacit::v1::WorkPart part, first;
  std::string all;
  bool begun = false, sound = true;
  for (std::size_t at = 1; sound && at < size;) {
    const std::size_t length = std::min<std::size_t>(data[at], size - at - 1);
    ++at;
    if (!part.ParseFromArray(data + at, static_cast<int>(length))) break;  // the call ends
    at += length;
    if (!begun) first = part;
    begun = true;
    const std::size_t before = parts.work().frame.size();
    sound = parts.Take(part);
    if (sound) all += part.data();
    TACIT_CHECK(sound || parts.work().frame.size() == before);
    TACIT_CHECK(sound == (first.size() <= most && before + part.data().size() <= first.size()));
  }
  const tacit::Work& work = parts.work();
  TACIT_CHECK(work.frame.size() <= most && work.frame.size() == all.size());
  TACIT_CHECK(std::equal(all.begin(), all.end(), reinterpret_cast<const char*>(work.frame.data())));
  if (!begun) return 0;
  TACIT_CHECK(work.kind == first.kind() && work.round == first.round() && work.step == first.step());
  TACIT_CHECK(work.question == first.question() && work.counted == first.counted() &&
              work.answered == first.answered());
  if (sound) TACIT_CHECK(parts.whole() == (all.size() == first.size()));
  return 0;
}
