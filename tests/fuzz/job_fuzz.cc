#include <cstddef>
#include <cstdint>

#include "experiment/job.h"
#include "now_and_then.h"

// What a client reads of a server: a job that parses must survive being resolved and read again, and one of
// 64 must plan or refuse in words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto job = tacit::ParseJob({reinterpret_cast<const char*>(data), size}, "fuzz.toml", {});
  if (!job.ok()) {
    TACIT_CHECK(!job.error().message.empty());
    return 0;
  }
  const std::string resolved = tacit::ToToml(*job);
  const auto again = tacit::ParseJob(resolved, "again.toml", {});
  TACIT_CHECK(again.ok() && tacit::ToToml(*again) == resolved);
  if (!tacit::NowAndThen(data, size)) return 0;
  if (job->config.algorithm.rounds > 1000) return 0;  // planning is linear in rounds
  if (const auto facts = tacit::FactsOf(*job); facts.ok() && facts->features < 100000)
    (void)tacit::PlanOf(*job).ok();
  return 0;
}
