#include <cstddef>
#include <cstdint>

#include "experiment/config.h"
#include "experiment/plan.h"
#include "now_and_then.h"

// A config that parses must survive being resolved and read again (one of 8: to describe all keys takes
// longest), and one of 64 must plan or refuse in words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto config = tacit::ParseConfig({reinterpret_cast<const char*>(data), size}, "fuzz.toml", {});
  if (!config.ok()) {
    TACIT_CHECK(!config.error().message.empty());
    return 0;
  }
  if (!tacit::NowAndThen(data, size, 8)) return 0;
  const std::string resolved = tacit::ToToml(*config);
  const auto again = tacit::ParseConfig(resolved, "again.toml", {});
  TACIT_CHECK(again.ok() && tacit::ToToml(*again) == resolved);
  // Planning is linear in both of these.
  if (!tacit::NowAndThen(data, size)) return 0;
  if (config->algorithm.rounds > 1000 || config->data.clients > 1000) return 0;
  if (const auto facts = tacit::FactsWithoutData(*config); facts.ok() && facts->features < 100000)
    (void)tacit::MakePlan(*config, *facts).ok();
  return 0;
}
