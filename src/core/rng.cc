#include "core/rng.h"

// SHA256_* is deprecated in favour of EVP_Digest*, which allocates on every use.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace tacit {
namespace {

__extension__ using Wide = unsigned __int128;

// Natural logarithm of a normal x > 0 from IEEE operations alone: libm's last bit differs between
// versions, and a Stream may not. Relative error below 1e-15 where Normal uses it (x ≤ 0.075).
double Log(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), s2 = s * s;  // log m = 2 atanh s, |s| ≤ 0.1716
  double series = 0;
  for (int n = 23; n >= 3; n -= 2) series = (series + 1.0 / n) * s2;
  return exponent * 0.69314718055994530942 + 2 * s * (1 + series);
}

template <std::size_t N>
double Horner(const double (&a)[N], double x) {
  double v = a[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) v = v * x + a[i];
  return v;
}

// Φ⁻¹(½ + q), |q| < ½. Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988).
double NormalQuantile(double q) {
  static constexpr double kA[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                  1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                  3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double kB[] = {1.0,
                                  4.2313330701600911252e1,
                                  6.8718700749205790830e2,
                                  5.3941960214247511077e3,
                                  2.1213794301586595867e4,
                                  3.9307895800092710610e4,
                                  2.8729085735721942674e4,
                                  5.2264952788528545610e3};
  static constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                  5.76949722146069140550e0,  3.64784832476320460504e0,
                                  1.27045825245236838258e0,  2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (Horner(kA, r) / Horner(kB, r));
  }
  const double r = std::sqrt(-Log(0.5 - std::abs(q)));
  const double z = r <= 5 ? Horner(kC, r - 1.6) / Horner(kD, r - 1.6) : Horner(kE, r - 5) / Horner(kF, r - 5);
  return q < 0 ? -z : z;
}

}  // namespace

namespace internal {

std::array<std::uint64_t, 4> Philox4x64(std::array<std::uint64_t, 4> c, std::array<std::uint64_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const Wide a = Wide{0xd2e7470ee14c6c93} * c[0], b = Wide{0xca5a826395121157} * c[2];
    c = {static_cast<std::uint64_t>(b >> 64) ^ c[1] ^ k[0], static_cast<std::uint64_t>(b),
         static_cast<std::uint64_t>(a >> 64) ^ c[3] ^ k[1], static_cast<std::uint64_t>(a)};
    k[0] += 0x9e3779b97f4a7c15;
    k[1] += 0xbb67ae8584caa73b;
  }
  return c;
}

}  // namespace internal

// The four numbers fill key and counter without overlap, so distinct ids never share a block.
Stream::Stream(StreamId id)
    : key_{id.seed, static_cast<std::uint64_t>(id.purpose) << 32 | id.who}, counter_{0, 0, 0, id.round} {}

std::uint64_t Stream::operator()() {
  if (used_ == 4) {
    block_ = internal::Philox4x64(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

double Stream::Uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

double Stream::Normal() {
  return NormalQuantile((static_cast<double>((*this)() >> 12) + 0.5) * 0x1p-52 - 0.5);
}

// Lemire, ACM TOMACS 29 (2019): the high half of word·n, redrawn in the 2^64 mod n surplus cases.
std::uint64_t Stream::Below(std::uint64_t n) {
  TACIT_CHECK(n > 0);
  Wide product = Wide{(*this)()} * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t surplus = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < surplus) product = Wide{(*this)()} * n;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

// ---------------------------------------------------------------------------------------------

static_assert(std::endian::native == std::endian::little, "the key stream is read as little-endian words");

namespace {

// Counts the forks this process descends from. raw clone(2) is not seen here; Refill also compares
// process ids.
std::atomic<std::uint64_t> fork_generation{0};

void WatchForks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); });
  TACIT_CHECK(registered == 0);
}

constexpr std::size_t kKeyBytes = 32, kKeyWords = kKeyBytes / 8;
constexpr unsigned char kZeroIv[16] = {};

}  // namespace

// AES-256 in counter mode from counter 0. The buffer holds key stream not yet handed out; a word is
// zeroed when it leaves, which both forgets it and prepares the next in-place encryption of zeros.
struct NoiseRng::State {
  static constexpr std::size_t kWords = 4096;   // 32 KiB: the new key schedule costs less than a hundredth
  static constexpr std::size_t kFirstWords = 64;  // the first refills are short: a client may need little

  alignas(64) std::array<std::uint64_t, kWords> words{};
  std::size_t next = 0, end = 0;
  std::size_t refill = kFirstWords;
  EVP_CIPHER_CTX* cipher = nullptr;
  bool replayable;
  std::uint64_t generation = 0;
  pid_t pid = 0;

  explicit State(bool replay) : replayable(replay) {
    cipher = EVP_CIPHER_CTX_new();
    TACIT_CHECK(cipher != nullptr);
    EVP_CIPHER* const aes = EVP_CIPHER_fetch(nullptr, "AES-256-CTR", nullptr);
    TACIT_CHECK(aes != nullptr);
    TACIT_CHECK(EVP_EncryptInit_ex2(cipher, aes, nullptr, nullptr, nullptr) == 1);
    EVP_CIPHER_free(aes);  // the context keeps its own reference
    if (!replay) WatchForks();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    EVP_CIPHER_CTX_free(cipher);  // cleanses the key schedule
    OPENSSL_cleanse(words.data(), sizeof(words));
  }

  void SetKey(const unsigned char* key) {
    TACIT_CHECK(EVP_EncryptInit_ex2(cipher, nullptr, key, kZeroIv, nullptr) == 1);
  }

  void Restart(unsigned char* key) {
    SetKey(key);
    OPENSSL_cleanse(key, kKeyBytes);
    OPENSSL_cleanse(words.data() + next, (end - next) * 8);  // the rest is zero already
    next = end = 0;
    refill = kFirstWords;
  }

  void SeedFromSystem() {
    generation = fork_generation.load(std::memory_order_relaxed);
    pid = getpid();
    unsigned char key[kKeyBytes];
    if (RAND_priv_bytes(key, kKeyBytes) != 1) {
      std::fputs("the operating system's generator failed: no noise can be drawn, so nothing is released\n",
                 stderr);
      std::abort();
    }
    Restart(key);
  }

  void SeedFromId(StreamId id) {
    // Label, then the four numbers little-endian at fixed width: injective.
    unsigned char message[36] = "tacit noise v1\0";
    const std::uint32_t purpose = static_cast<std::uint32_t>(id.purpose);
    std::memcpy(message + 16, &id.seed, 8);
    std::memcpy(message + 24, &purpose, 4);
    std::memcpy(message + 28, &id.who, 4);
    std::memcpy(message + 32, &id.round, 4);
    unsigned char key[kKeyBytes];
    SHA256_CTX hash;
    TACIT_CHECK(SHA256_Init(&hash) == 1 && SHA256_Update(&hash, message, sizeof(message)) == 1);
    TACIT_CHECK(SHA256_Final(key, &hash) == 1);
    Restart(key);
  }

  // A child of fork() holds the parent's key and buffer: drop both before the first word.
  void LeaveParent() {
    if (!replayable && generation != fork_generation.load(std::memory_order_relaxed)) [[unlikely]]
      SeedFromSystem();
  }

  void Refill() {
    if (!replayable && pid != getpid()) SeedFromSystem();
    unsigned char* const bytes = reinterpret_cast<unsigned char*>(words.data());
    const int size = static_cast<int>(refill * 8);
    int written = 0;
    TACIT_CHECK(EVP_EncryptUpdate(cipher, bytes, &written, bytes, size) == 1 && written == size);
    next = 0;
    end = refill;
    refill = std::min(4 * refill, kWords);
    if (!replayable) {
      // Fast key erasure: what was handed out before cannot be recomputed from what is kept.
      SetKey(bytes);
      OPENSSL_cleanse(bytes, kKeyBytes);
      next = kKeyWords;
    }
  }
};

NoiseRng::NoiseRng(std::unique_ptr<State> state)
    : state_(std::move(state)), replayable_(state_->replayable) {}
NoiseRng::NoiseRng(NoiseRng&&) noexcept = default;
NoiseRng& NoiseRng::operator=(NoiseRng&&) noexcept = default;
NoiseRng::~NoiseRng() = default;

NoiseRng NoiseRng::FromEntropy() {
  auto state = std::make_unique<State>(false);
  state->SeedFromSystem();
  return NoiseRng(std::move(state));
}

NoiseRng NoiseRng::Replayable(StreamId id) {
  auto state = std::make_unique<State>(true);
  state->SeedFromId(id);
  return NoiseRng(std::move(state));
}

std::uint64_t NoiseRng::Bits() {
  TACIT_CHECK(state_ != nullptr);
  State& s = *state_;
  s.LeaveParent();
  if (s.next == s.end) s.Refill();
  return std::exchange(s.words[s.next++], 0);
}

void NoiseRng::Fill(std::span<std::uint64_t> out) {
  TACIT_CHECK(state_ != nullptr);
  State& s = *state_;
  s.LeaveParent();
  while (!out.empty()) {
    if (s.next == s.end) s.Refill();
    const std::size_t n = std::min(out.size(), s.end - s.next);
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {      // of one size: no calls, which small releases would feel
      std::memcpy(&out[i], &s.words[s.next + i], 32);
      std::memset(&s.words[s.next + i], 0, 32);
    }
    for (; i < n; ++i) out[i] = std::exchange(s.words[s.next + i], 0);
    s.next += n;
    out = out.subspan(n);
  }
}

void NoiseRng::Rekey(StreamId id) {
  TACIT_CHECK(state_ != nullptr && state_->replayable);
  state_->SeedFromId(id);
}

}  // namespace tacit
