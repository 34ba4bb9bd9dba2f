#pragma once

// For what is too slow for every input of ten million, a millisecond or more each: one of 64 gets it, the
// same ones in every run (150,000 of ten million), and every input of a corpus that is replayed. These are
// the plan of a job or config, a whole masked round, and what OpenSSL alone does: reading keys, checking
// signatures and chains of certificates. What is ours of a decoder sees every input.
#include <cstddef>
#include <cstdint>

namespace tacit {

inline bool NowAndThen([[maybe_unused]] const std::uint8_t* data, [[maybe_unused]] std::size_t size,
                       [[maybe_unused]] std::uint32_t one_in = 64) {
#ifdef TACIT_FUZZING  // set by tacit_fuzz()
  std::uint32_t hash = 2166136261;  // FNV-1a
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 16777619;
  return hash % one_in == 0;
#else
  return true;
#endif
}

}  // namespace tacit
