#pragma once

// Randomness, in two types that cannot be confused.
//
//   Stream    reproducible, for splits, minibatches, cohorts, compressors: never for privacy
//   NoiseRng  for privacy only: AES-256-CTR (OpenSSL), keyed by the operating system by default
//
// Nobody holds a global generator. The same StreamId names the same stream on every runtime,
// thread and machine.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/result.h"

namespace tacit {

enum class Purpose : std::uint32_t {
  kData = 1,
  kPartition,
  kMinibatch,
  kCohort,
  kCompressor,
  kNoise,
  kModel,
  kTest,
  kTopology,
};

struct StreamId {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kData;
  std::uint32_t who = 0;       // client
  std::uint32_t round = 0;
};

namespace internal {
// Philox4x64-10: the block at a counter under a key.
std::array<std::uint64_t, 4> Philox4x64(std::array<std::uint64_t, 4> counter,
                                        std::array<std::uint64_t, 2> key);
}  // namespace internal

// Counter-based generator (Philox4x64-10; Salmon et al., SC 2011). Satisfies
// UniformRandomBitGenerator.
class Stream {
 public:
  using result_type = std::uint64_t;
  explicit Stream(StreamId id);
  std::uint64_t operator()();
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }
  double Uniform();                              // [0, 1), 53 bits
  double Normal();  // one word, by inversion; for synthetic data and tests; not for privacy
  std::uint64_t Below(std::uint64_t n);  // uniform on 0..n-1, no modulo bias; n > 0
 private:
  std::array<std::uint64_t, 2> key_;
  std::array<std::uint64_t, 4> counter_;
  std::array<std::uint64_t, 4> block_{};
  unsigned used_ = 4;
};

// Random bits for privacy noise. Not copyable; one per thread. Fails closed: if the generator
// cannot deliver, the process stops rather than release a value with poor noise. From entropy, a
// child of fork() draws a fresh key, and the key is replaced after every refill, so what was handed
// out cannot be recomputed later. A replayable one repeats its stream wherever its id is used.
class NoiseRng {
 public:
  // Keyed by the operating system's generator.
  static NoiseRng FromEntropy();
  // Keyed by SHA-256 of the id. Anyone who knows the seed can subtract the noise: for experiments
  // and tests; the certificate says so.
  static NoiseRng Replayable(StreamId id);

  NoiseRng(NoiseRng&&) noexcept;
  NoiseRng& operator=(NoiseRng&&) noexcept;
  ~NoiseRng();

  std::uint64_t Bits();  // 64 uniform bits
  void Fill(std::span<std::uint64_t> out);
  // Starts the stream of another id without allocating; only for a Replayable generator.
  void Rekey(StreamId id);
  bool replayable() const {
    TACIT_CHECK(state_ != nullptr);
    return replayable_;
  }

 private:
  struct State;
  explicit NoiseRng(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
  bool replayable_;  // as the state has it
};

}  // namespace tacit
