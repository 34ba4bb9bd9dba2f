#include "compress/encoded.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/rng.h"

namespace tacit {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

namespace internal {

template <int E, int M>
std::uint32_t Mini<E, M>::Code(double y) {
  constexpr std::uint32_t kLargest = (1u << (E + M)) - 1;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(y);
  constexpr std::uint64_t kFirstNormal = static_cast<std::uint64_t>(1024 - kTop) << 52;  // bits of 2^(1−kTop)
  if (bits < kFirstNormal) {
    const double steps =
        std::nearbyint(y * std::bit_cast<double>(static_cast<std::uint64_t>(1022 + kTop + M) << 52));
    return static_cast<std::uint32_t>(steps);  // 2^M at most, which is the first normal code
  }
  const std::uint64_t odd = bits >> (52 - M) & 1;
  const std::uint64_t rounded = (bits + ((std::uint64_t{1} << (51 - M)) - 1) + odd) >> (52 - M);
  return std::min(static_cast<std::uint32_t>(rounded - (static_cast<std::uint64_t>(1023 - kTop) << M)),
                  kLargest);
}

template <int E, int M>
double Mini<E, M>::Value(std::uint32_t code) {
  const std::uint32_t e = code >> M, f = code & ((1u << M) - 1);
  if (e == 0) return f * std::bit_cast<double>(static_cast<std::uint64_t>(1024 - kTop - M) << 52);
  return std::bit_cast<double>((static_cast<std::uint64_t>(e) + 1023 - kTop) << 52 |
                               static_cast<std::uint64_t>(f) << (52 - M));
}

template struct Mini<5, 10>;
template struct Mini<4, 3>;

int LevelBits(std::size_t levels, bool zero) {
  return static_cast<int>(std::bit_width(2 * levels - (zero ? 0 : 1)));
}

void BitWriter::Put(std::uint64_t bits, int count) {
  held_ |= bits << count_;
  count_ += count;
  if (count_ < 32) return;
  const std::size_t at = out_.size();
  const auto word = static_cast<std::uint32_t>(held_);
  out_.resize(at + 4);
  std::memcpy(out_.data() + at, &word, 4);
  held_ >>= 32;
  count_ -= 32;
}

void BitWriter::Ones(std::uint64_t count) {
  for (; count >= 32; count -= 32) Put(0xffffffff, 32);
  Put((std::uint64_t{1} << count) - 1, static_cast<int>(count));
}

void BitWriter::Flush() {
  for (; count_ > 0; count_ -= 8, held_ >>= 8) out_.push_back(static_cast<std::uint8_t>(held_));
  held_ = 0;
  count_ = 0;
}

}  // namespace internal

namespace {

using internal::How;
using internal::Where;

// Reads bytes, and knows when there were too few.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> in) : in_(in) {}
  bool ok() const { return ok_; }
  bool empty() const { return in_.empty(); }
  std::span<const std::uint8_t> Take(std::uint64_t n) {
    if (n > in_.size()) {
      ok_ = false;
      return {};
    }
    const auto out = in_.first(static_cast<std::size_t>(n));
    in_ = in_.subspan(out.size());
    return out;
  }
  template <class T> T Number() {
    T v{};
    if (const auto bytes = Take(sizeof v); !bytes.empty()) std::memcpy(&v, bytes.data(), sizeof v);
    return v;
  }
  // Seven bits a byte, the lowest first; below 2^35, and the last byte is not zero unless it is the first.
  std::uint64_t Varint() {
    std::uint64_t v = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const std::uint8_t byte = Number<std::uint8_t>();
      v |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) {
        if (byte == 0 && shift > 0) ok_ = false;
        return v;
      }
    }
    ok_ = false;
    return 0;
  }
  std::span<const std::uint8_t> rest() const { return in_; }

 private:
  std::span<const std::uint8_t> in_;
  bool ok_ = true;
};

// Bits, lowest first. Reads zeros past the end; `at` then is beyond it.
class BitReader {
 public:
  explicit BitReader(std::span<const std::uint8_t> in) : in_(in) {}
  std::uint64_t at() const { return at_; }
  std::uint64_t Get(int count) {  // count ≤ 56
    const std::uint64_t bits = Peek() & ((std::uint64_t{1} << count) - 1);
    at_ += static_cast<std::uint64_t>(count);
    return bits;
  }
  std::uint64_t Ones() {  // up to the next zero, which is taken; past the end all is zero, so this ends
    std::uint64_t found = 0;
    for (;;) {
      const int run = std::min(std::countr_one(Peek()), 56);
      found += static_cast<std::uint64_t>(run);
      at_ += static_cast<std::uint64_t>(run);
      if (run < 56) break;
    }
    ++at_;
    return found;
  }

 private:
  std::uint64_t Peek() const {  // at least 57 bits
    const std::size_t byte = static_cast<std::size_t>(at_ >> 3);
    std::uint64_t word = 0;
    if (byte + 8 <= in_.size())
      std::memcpy(&word, in_.data() + byte, 8);
    else if (byte < in_.size())
      std::memcpy(&word, in_.data() + byte, in_.size() - byte);
    return word >> (at_ & 7);
  }
  std::span<const std::uint8_t> in_;
  std::uint64_t at_ = 0;
};

bool RestIsZero(std::span<const std::uint8_t> bytes, std::uint64_t used) {
  BitReader bits(bytes.subspan(static_cast<std::size_t>(used >> 3)));
  (void)bits.Get(static_cast<int>(used & 7));
  return bits.Get(8) == 0;
}

double PowerOfTwo(int e) { return std::ldexp(1.0, e); }

// Walks through a message once: checks all of it and, with a space, keeps positions and values there. False:
// malformed. `everywhere`: the values are for all coordinates and there are no positions.
class Walk {
 public:
  Walk(const Encoded& e, std::size_t dim, DecodeSpace* space) : in_(e.data), dim_(dim), space_(space) {}

  bool Run() {
    const std::uint8_t kind = in_.Number<std::uint8_t>();
    const std::uint8_t where = kind & 15, how = kind >> 4;
    if (!in_.ok() || where > static_cast<int>(Where::kDrawn) || how > static_cast<int>(How::kLevels))
      return false;
    where_ = static_cast<Where>(where);
    how_ = static_cast<How>(how);
    if (in_.Varint() != dim_ || !in_.ok()) return false;
    if (space_) space_->index.clear(), space_->value.clear();
    if (where_ == Where::kNowhere) return how == 0 && in_.empty();
    return Positions() && Numbers() && in_.ok() && in_.empty();
  }
  bool everywhere() const { return where_ == Where::kEverywhere; }

 private:
  bool Positions() {
    n_ = dim_;
    if (where_ == Where::kEverywhere) return dim_ > 0;
    n_ = static_cast<std::size_t>(in_.Varint());
    if (!in_.ok() || n_ == 0 || n_ > dim_) return false;
    switch (where_) {
      case Where::kBitmap: return Bitmap();
      case Where::kGaps: return Gaps();
      case Where::kDrawn: {
        const std::uint64_t stream = in_.Number<std::uint64_t>();
        if (!in_.ok()) return false;
        if (space_) DrawPositions(stream, dim_, n_, space_->drawn, space_->index);
        return true;
      }
      default: return false;
    }
  }
  bool Bitmap() {
    const auto bytes = in_.Take((dim_ + 7) / 8);
    if (!in_.ok() || (dim_ % 8 != 0 && bytes.back() >> (dim_ % 8) != 0)) return false;
    std::size_t found = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      found += static_cast<std::size_t>(std::popcount(bytes[i]));
      if (!space_ || found > n_) continue;
      for (unsigned b = bytes[i]; b != 0; b &= b - 1)
        space_->index.push_back(static_cast<std::uint32_t>(8 * i) +
                                static_cast<std::uint32_t>(std::countr_zero(b)));
    }
    return found == n_;
  }
  bool Gaps() {
    const int low = in_.Number<std::uint8_t>();
    if (!in_.ok() || low > 32) return false;
    const auto bytes = in_.rest();
    BitReader bits(bytes);
    std::uint64_t next = 0;  // the first position that may come
    for (std::size_t i = 0; i < n_; ++i) {
      const std::uint64_t high = bits.Ones();
      if (high > dim_ >> low) return false;
      next += high << low | bits.Get(low);
      if (next >= dim_ || bits.at() > 8 * bytes.size()) return false;
      if (space_) space_->index.push_back(static_cast<std::uint32_t>(next));
      ++next;
    }
    in_.Take((bits.at() + 7) / 8);
    return bits.at() % 8 == 0 ||
           RestIsZero(bytes.first(static_cast<std::size_t>((bits.at() + 7) / 8)), bits.at());
  }

  bool Numbers() {
    switch (how_) {
      case How::kDouble:
        return Each(8, [](const std::uint8_t* p, double& v) {
          std::memcpy(&v, p, 8);
          return std::isfinite(v);
        });
      case How::kFloat: {
        double scale = 0;
        return Scale(scale) && Each(4, [scale](const std::uint8_t* p, double& v) {
                 float f = 0;
                 std::memcpy(&f, p, 4);
                 v = static_cast<double>(f) * scale;
                 return std::abs(f) < 2;
               });
      }
      case How::kSixteen: {
        double scale = 0;
        return Scale(scale) && Each(2, [scale](const std::uint8_t* p, double& v) {
                 std::uint16_t c = 0;
                 std::memcpy(&c, p, 2);
                 v = (c & 0x8000 ? -scale : scale) * internal::Mini16::Value(c & 0x7fff);
                 return true;
               });
      }
      case How::kEight: {
        double scale = 0;
        return Scale(scale) && Each(1, [scale](const std::uint8_t* p, double& v) {
                 v = (*p & 0x80 ? -scale : scale) * internal::Mini8::Value(*p & 0x7f);
                 return true;
               });
      }
      case How::kPowers: {
        const int lowest = in_.Number<std::int16_t>();
        const std::size_t levels = in_.Number<std::uint16_t>();
        if (!in_.ok() || levels == 0 || lowest < -1022 || lowest + static_cast<int>(levels) > 1024)
          return false;
        return Codes(levels, [lowest](std::size_t l) { return PowerOfTwo(lowest + static_cast<int>(l)); });
      }
      case How::kLevels: {
        const std::size_t levels = in_.Number<std::uint16_t>();
        const auto bytes = in_.Take(8 * levels);
        if (!in_.ok() || levels == 0) return false;
        const auto level = [bytes](std::size_t l) {
          double a = 0;
          std::memcpy(&a, bytes.data() + 8 * l, 8);
          return a;
        };
        double last = 0;
        for (std::size_t l = 0; l < levels; ++l) {
          const double a = level(l);
          if (!(a > last) || !std::isfinite(a)) return false;
          last = a;
        }
        return Codes(levels, level);
      }
    }
    return false;
  }
  bool Scale(double& scale) {
    const int s = in_.Number<std::int16_t>();
    scale = PowerOfTwo(std::clamp(s, -1022, 1023));
    return in_.ok() && s >= -1022 && s <= 1023;
  }
  template <class Read> bool Each(std::size_t size, Read read) {
    const auto bytes = in_.Take(static_cast<std::uint64_t>(size) * n_);
    if (!in_.ok()) return false;
    if (space_) space_->value.resize(n_);
    bool good = true;
    double v = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      good &= read(bytes.data() + size * i, v);
      if (space_) space_->value[i] = v;
    }
    return good;
  }
  template <class Level> bool Codes(std::size_t levels, Level level) {
    const bool zero = where_ == Where::kEverywhere || where_ == Where::kDrawn;
    const int width = internal::LevelBits(levels, zero);
    const std::uint64_t used = static_cast<std::uint64_t>(width) * n_;
    const auto bytes = in_.Take((used + 7) / 8);
    if (!in_.ok() || (used % 8 != 0 && !RestIsZero(bytes, used))) return false;
    BitReader bits(bytes);
    const std::uint64_t codes = 2 * levels + (zero ? 1 : 0);
    if (!space_) {
      for (std::size_t i = 0; i < n_; ++i)
        if (bits.Get(width) >= codes) return false;
      return true;
    }
    space_->level.resize(codes);  // the number of every code
    if (zero) space_->level[0] = 0;
    for (std::size_t l = 0; l < levels; ++l) {
      space_->level[(zero ? 1 : 0) + 2 * l] = level(l);
      space_->level[(zero ? 1 : 0) + 2 * l + 1] = -level(l);
    }
    space_->value.resize(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      const std::uint64_t c = bits.Get(width);
      if (c >= codes) return false;
      space_->value[i] = space_->level[c];
    }
    return true;
  }

  Reader in_;
  std::size_t dim_, n_ = 0;
  DecodeSpace* space_;
  Where where_ = Where::kNowhere;
  How how_ = How::kDouble;
};

Error Malformed(const Encoded& e, std::size_t dim) {
  return Fail(
      Code::kMalformed,
      "compressed vector: {} bytes that are not one of length {}; sender and receiver must have the same "
      "model and run the same version",
      e.bytes(), dim);
}

}  // namespace

std::size_t EncodedLength(const Encoded& e) {
  Reader in(e.data);
  in.Take(1);
  const std::uint64_t dim = in.Varint();
  return in.ok() ? static_cast<std::size_t>(dim) : 0;
}

Status CheckEncoded(const Encoded& e, std::size_t dim) {
  if (!Walk(e, dim, nullptr).Run()) return Malformed(e, dim);
  return Ok{};
}

Status Decode(const Encoded& e, Span out, DecodeSpace& space) {
  Walk walk(e, out.size(), &space);
  if (!walk.Run()) return Malformed(e, out.size());
  if (walk.everywhere()) {
    Copy(space.value, out);
    return Ok{};
  }
  Fill(out, 0.0);
  for (std::size_t i = 0; i < space.index.size(); ++i) out[space.index[i]] = space.value[i];
  return Ok{};
}

Status AddDecoded(double a, const Encoded& e, Span y, DecodeSpace& space) {
  Walk walk(e, y.size(), &space);
  if (!walk.Run()) return Malformed(e, y.size());
  if (walk.everywhere())
    Axpy(a, space.value, y);
  else
    for (std::size_t i = 0; i < space.index.size(); ++i) y[space.index[i]] += a * space.value[i];
  return Ok{};
}

void DrawPositions(std::uint64_t stream, std::size_t d, std::size_t n, std::vector<std::uint64_t>& bits,
                   std::vector<std::uint32_t>& out) {
  TACIT_CHECK(n <= d && d <= std::numeric_limits<std::uint32_t>::max());
  // Of more than half, those that are left out are drawn: they are fewer.
  const bool left_out = n > d / 2;
  const std::size_t draws = left_out ? d - n : n;
  bits.assign((d + 63) / 64, 0);
  Stream coins({stream, Purpose::kCompressor, 0, 0});
  for (std::size_t j = d - draws; j < d; ++j) {
    std::uint64_t at = coins.Below(j + 1);
    if (bits[at / 64] >> (at % 64) & 1) at = j;
    bits[at / 64] |= std::uint64_t{1} << (at % 64);
  }
  out.clear();
  out.reserve(n);
  for (std::size_t w = 0; w < bits.size(); ++w) {
    std::uint64_t word = left_out ? ~bits[w] : bits[w];
    if (w == d / 64) word &= (std::uint64_t{1} << (d % 64)) - 1;
    for (; word != 0; word &= word - 1)
      out.push_back(static_cast<std::uint32_t>(64 * w) + static_cast<std::uint32_t>(std::countr_zero(word)));
  }
}

}  // namespace tacit
