#include <cstddef>
#include <cstdint>

#include "privacy/calibrate.h"
#include "privacy/event_json.h"

// A list of events that parses is written and read again as the same; it is scaled, or that is refused in
// words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = tacit::ParseEvents({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!file.ok()) {
    TACIT_CHECK(!file.error().message.empty());
    return 0;
  }
  const std::string text = tacit::WriteEvents(file->account, file->delta);
  const auto again = tacit::ParseEvents(text, "again.json");
  TACIT_CHECK(again.ok() && tacit::WriteEvents(again->account, again->delta) == text);
  for (const double factor : {0.5, 3.0}) (void)tacit::WithNoiseScaled(file->account, factor).ok();
  return 0;
}
