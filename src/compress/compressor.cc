#include "compress/compressor.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

#include "core/rng.h"

namespace tacit {
namespace {

using internal::BitWriter;
using internal::How;
using internal::Where;

constexpr double kLeast = 0x1p-1000, kMost = 0x1p1000;
constexpr std::size_t kMostLevels = 65535;  // what a message can count

template <class... F> struct Overload : F... {
  using F::operator()...;
};
template <class... F> Overload(F...) -> Overload<F...>;

double FiniteOrZero(double v) { return std::isfinite(v) ? v : 0; }

void PutVarint(std::vector<std::uint8_t>& out, std::uint64_t v) {
  for (; v >= 128; v >>= 7) out.push_back(static_cast<std::uint8_t>(v | 128));
  out.push_back(static_cast<std::uint8_t>(v));
}
template <class T> void PutNumber(std::vector<std::uint8_t>& out, T v) {
  const std::size_t at = out.size();
  out.resize(at + sizeof v);
  std::memcpy(out.data() + at, &v, sizeof v);
}
// The low bytes of every code.
template <class T> void PutCodes(std::vector<std::uint8_t>& out, const std::vector<std::uint64_t>& code) {
  const std::size_t at = out.size();
  out.resize(at + sizeof(T) * code.size());
  std::uint8_t* to = out.data() + at;
  for (const std::uint64_t c : code) {
    const T low = static_cast<T>(c);
    std::memcpy(to, &low, sizeof low);
    to += sizeof low;
  }
}

// Rice's code of the gaps between positions: its parameter, and its length in bits.
struct Rice {
  int low = 0;
  std::uint64_t bits = 0;
};
Rice BestRice(const std::vector<std::uint32_t>& index, std::size_t d) {
  const int middle = static_cast<int>(std::bit_width(d / index.size())) - 1;
  Rice best{0, std::numeric_limits<std::uint64_t>::max()};
  for (int low = std::max(0, middle - 1); low <= std::min(31, middle + 1); ++low) {
    std::uint64_t bits = static_cast<std::uint64_t>(index.size()) * (static_cast<std::uint64_t>(low) + 1);
    std::uint32_t next = 0;
    for (const std::uint32_t i : index) {
      bits += (i - next) >> low;
      next = i + 1;
    }
    if (bits < best.bits) best = {low, bits};
  }
  return best;
}
void PutRice(std::vector<std::uint8_t>& out, const std::vector<std::uint32_t>& index, int low) {
  BitWriter bits(out);
  std::uint32_t next = 0;
  for (const std::uint32_t i : index) {
    const std::uint32_t gap = i - next;
    bits.Ones(gap >> low);
    bits.Put(static_cast<std::uint64_t>(gap & ((std::uint64_t{1} << low) - 1)) << 1, low + 1);
    next = i + 1;
  }
  bits.Flush();
}

// How a message's values are written. Codes are 0 for zero, whatever the form.
struct Form {
  How how = How::kDouble;
  std::size_t size = 8;     // bytes of a code; 0: packed, levels
  int scale = 0;            // 2^scale, where it is shared
  std::size_t lowest = 0, levels = 0;
  const std::vector<double>* level = nullptr;
  std::uint64_t Bits(std::uint64_t n, bool zero) const {
    return n * static_cast<std::uint64_t>(size > 0 ? static_cast<int>(8 * size)
                                                   : internal::LevelBits(levels, zero));
  }
};

Form CodeFloats(int bits, const Vec& value, std::vector<std::uint64_t>& code) {
  code.resize(value.size());
  Form form;
  if (bits == 64) {
    for (std::size_t i = 0; i < value.size(); ++i)
      code[i] = value[i] == 0 ? 0 : std::bit_cast<std::uint64_t>(value[i]);
    return form;
  }
  double most = 0;
  for (const double v : value) most = std::max(most, std::abs(v));
  form.how = bits == 32 ? How::kFloat : bits == 16 ? How::kSixteen : How::kEight;
  form.size = static_cast<std::size_t>(bits) / 8;
  if (most < kLeast) {
    std::fill(code.begin(), code.end(), 0);
    return form;
  }
  form.scale = std::ilogb(most);
  const double down = std::ldexp(1.0, -form.scale);  // exact, and so are the products that matter
  const auto each = [&](std::uint64_t sign, auto magnitude) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::uint64_t m = magnitude(std::abs(value[i]) * down);
      code[i] = m == 0 ? 0 : m | (std::signbit(value[i]) ? sign : 0);
    }
  };
  if (bits == 32)
    each(0x80000000, [](double y) {
      constexpr std::uint32_t kLargest = 0x3fffffff;  // the float below 2
      return std::min(std::bit_cast<std::uint32_t>(static_cast<float>(y)), kLargest);
    });
  else if (bits == 16)
    each(0x8000, [](double y) { return internal::Mini16::Code(y); });
  else
    each(0x80, [](double y) { return internal::Mini8::Code(y); });
  return form;
}

Form CodeLevels(const Rounding& rounding, const Vec& value, std::vector<std::uint64_t>& code) {
  code.resize(value.size());
  Form form{rounding.powers_of_two() ? How::kPowers : How::kLevels, 0, 0, 0, 1, &rounding.levels()};
  int lowest = std::numeric_limits<int>::max(), highest = -1;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const int l = value[i] == 0 ? -1 : rounding.LevelOf(std::abs(value[i]));
    code[i] = l < 0 ? 0 : 1 + 2 * static_cast<std::uint64_t>(l) + (std::signbit(value[i]) ? 1 : 0);
    if (l >= 0) lowest = std::min(lowest, l);
    highest = std::max(highest, l);
  }
  if (highest < 0) return form;
  form.lowest = static_cast<std::size_t>(lowest);
  form.levels = static_cast<std::size_t>(highest - lowest) + 1;
  for (std::uint64_t& c : code) c -= c == 0 ? 0 : 2 * form.lowest;
  return form;
}

void PutValues(const Form& form, bool zero, const std::vector<std::uint64_t>& code,
               std::vector<std::uint8_t>& out) {
  if (form.size > 0) {
    if (form.how != How::kDouble) PutNumber(out, static_cast<std::int16_t>(form.scale));
    switch (form.size) {
      case 8: return PutCodes<std::uint64_t>(out, code);
      case 4: return PutCodes<std::uint32_t>(out, code);
      case 2: return PutCodes<std::uint16_t>(out, code);
      default: return PutCodes<std::uint8_t>(out, code);
    }
  }
  if (form.how == How::kPowers)
    PutNumber(out, static_cast<std::int16_t>(std::ilogb((*form.level)[form.lowest])));
  PutNumber(out, static_cast<std::uint16_t>(form.levels));
  if (form.how == How::kLevels)
    for (std::size_t l = 0; l < form.levels; ++l) PutNumber(out, (*form.level)[form.lowest + l]);
  BitWriter bits(out);
  const int width = internal::LevelBits(form.levels, zero);
  for (const std::uint64_t c : code) bits.Put(zero ? c : c - 1, width);
  bits.Flush();
}

}  // namespace

std::size_t Portion::Of(std::size_t d) const {
  if (d == 0) return 0;
  if (count > 0) return std::min(count, d);
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(fraction * static_cast<double>(d))), 1,
                                 d);
}

Result<Rounding> Rounding::Of(const std::vector<double>& period) {
  if (period.size() < 2)
    return Fail(Code::kInvalidArgument,
                "rounding: a sequence has at least two numbers, the last the first of the next period");
  for (std::size_t i = 0; i < period.size(); ++i)
    if (!(period[i] >= 0x1p-100 && period[i] <= 0x1p100) || (i > 0 && !(period[i] > period[i - 1])))
      return Fail(Code::kInvalidArgument,
                  "rounding: {} is not a number in an increasing sequence between 2^-100 and 2^100",
                  period[i]);
  const double ratio = period.back() / period.front();
  const double expected =
      static_cast<double>(period.size() - 1) * (2000 * std::log(2.0) / std::log(ratio) + 2);
  if (!(expected <= static_cast<double>(kMostLevels)))
    return Fail(Code::kInvalidArgument,
                "rounding: a sequence that grows by {} in {} steps has too many levels; let it grow faster",
                ratio, period.size() - 1);
  auto table = std::make_shared<Table>();
  table->period = period;
  auto& level = table->level;
  for (std::size_t i = 0; i + 1 < period.size(); ++i) {
    for (double a = period[i]; a <= kMost; a *= ratio) level.push_back(a);
    for (double a = period[i] / ratio; a >= kLeast; a /= ratio) level.push_back(a);
  }
  std::sort(level.begin(), level.end());
  for (std::size_t k = 1; k < level.size(); ++k)
    if (!(level[k] > level[k - 1] * (1 + 0x1p-40)))  // closer than their rounding allows to tell
      return Fail(Code::kInvalidArgument,
                  "rounding: two numbers of the sequence are too close to each other; leave one out");
  table->powers_of_two =
      period.size() == 2 && ratio == 2 && std::ldexp(1.0, std::ilogb(period[0])) == period[0];
  table->first_exponent = std::ilogb(level.front()) + 1023;
  for (std::size_t k = 0; k < level.size(); ++k) {
    const double a = k == 0 ? 0 : level[k - 1], b = level[k];
    const double sum = a + b, lost = a - (sum - b);                   // a + b = sum + lost, since b ≥ a
    table->middle.push_back(lost > 0 ? std::nextafter(sum / 2, kMost * 2) : sum / 2);
    if (k == 0) continue;
    const double r = b / a;
    table->beta = std::min(table->beta, 4 * r / ((1 + r) * (1 + r)) * (1 - 0x1p-50));
  }
  table->first.resize(2049);
  for (std::size_t e = 0, k = 0; e <= 2048; ++e) {
    while (k < level.size() && std::bit_cast<std::uint64_t>(table->middle[k]) >> 52 < e) ++k;
    table->first[e] = static_cast<int>(k);
  }
  Rounding out;
  out.table_ = std::move(table);
  return out;
}

int Rounding::LevelOf(double y) const {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(y);
  const Table& t = *table_;
  const int count = static_cast<int>(t.level.size());
  if (t.powers_of_two) {  // half of the mantissa carries into the exponent, which is the level
    const int e = static_cast<int>((bits + (std::uint64_t{1} << 51)) >> 52) - t.first_exponent;
    return e >= 0 ? std::min(e, count - 1) : y >= t.middle[0] ? 0 : -1;
  }
  const std::uint64_t e = bits >> 52;
  int k = t.first[e];
  const int to = t.first[e + 1];
  if (to - k <= 8) {
    int below = 0;
    for (int m = k; m < to; ++m) below += t.middle[static_cast<std::size_t>(m)] <= y ? 1 : 0;
    return k + below - 1;
  }
  const auto from = t.middle.begin() + k;
  k = static_cast<int>(std::upper_bound(from, t.middle.begin() + to, y) - t.middle.begin());
  return k - 1;
}

void Compressor::Select(View x, std::uint64_t stream, CompressSpace& s) const {
  const auto gather = [&](double scale) {
    s.value.resize(s.index.size());
    for (std::size_t i = 0; i < s.index.size(); ++i) s.value[i] = scale * FiniteOrZero(x[s.index[i]]);
  };
  std::visit(
      Overload{
          [&](const All&) {
            s.value.resize(x.size());
            for (std::size_t i = 0; i < x.size(); ++i) s.value[i] = FiniteOrZero(x[i]);
          },
          [&](const TopK& top) {
            SelectLargest(x, top.k.Of(x.size()), s.select, s.index);
            gather(1);
          },
          [&](const LayerTopK& top) {
            TACIT_CHECK(std::accumulate(top.sizes.begin(), top.sizes.end(), std::size_t{0}) == x.size());
            s.layered.clear();
            std::size_t at = 0;
            for (std::size_t l = 0; l < top.sizes.size(); ++l) {
              const Portion& k = top.k.size() == 1 ? top.k[0] : top.k[l];
              SelectLargest(x.subspan(at, top.sizes[l]), k.Of(top.sizes[l]), s.select, s.index, l);
              for (const std::uint32_t i : s.index) s.layered.push_back(static_cast<std::uint32_t>(at) + i);
              at += top.sizes[l];
            }
            s.index.swap(s.layered);
            gather(1);
          },
          [&](const RandK& rand) {
            const std::size_t k = rand.k.Of(x.size());
            DrawPositions(stream, x.size(), k, s.decode.drawn, s.index);
            gather(rand.unbiased ? static_cast<double>(x.size()) / static_cast<double>(k) : 1);
            if (!rand.unbiased) return;
            constexpr double kLimit = std::numeric_limits<double>::max();
            for (double& v : s.value) v = std::clamp(v, -kLimit, kLimit);
          },
      },
      selection_);
}

void Compressor::Compress(View x, std::uint64_t stream, Encoded& out, CompressSpace& s) const {
  TACIT_CHECK(x.size() <= std::numeric_limits<std::uint32_t>::max());
  Select(x, stream, s);
  Encode(x.size(), stream, out, s);
}

void Compressor::Compress(const Difference& x, std::uint64_t stream, double& guess, Encoded& out,
                          CompressSpace& s) const {
  const TopK* top = std::get_if<TopK>(&selection_);
  if (top == nullptr) {
    TACIT_CHECK(x.a.size() == x.b.size());
    s.formed.resize(x.size());
    FormPart(x, 0, s.formed);
    return Compress(s.formed, stream, out, s);
  }
  const std::size_t k = top->k.Of(x.size());
  s.select.Guess(x.size(), k, guess);
  SelectLargest(x, k, s.select, s.index);
  guess = s.select.threshold;
  s.value.resize(s.index.size());
  for (std::size_t i = 0; i < s.index.size(); ++i) s.value[i] = x[s.index[i]];
  Encode(x.size(), stream, out, s);
}

void Compressor::Encode(std::size_t d, std::uint64_t stream, Encoded& out, CompressSpace& s) const {
  std::vector<std::uint8_t>& bytes = out.data;
  bytes.clear();
  const Form form = std::visit(Overload{[&](const Floats& f) { return CodeFloats(f.bits, s.value, s.code); },
                                        [&](const Rounding& r) { return CodeLevels(r, s.value, s.code); }},
                               values_);
  const auto nonzero = static_cast<std::size_t>(
      std::count_if(s.code.begin(), s.code.end(), [](std::uint64_t c) { return c != 0; }));
  const auto head = [&](Where where) {
    bytes.push_back(static_cast<std::uint8_t>(
        static_cast<int>(where) + 16 * (where == Where::kNowhere ? 0 : static_cast<int>(form.how))));
    PutVarint(bytes, d);
  };
  if (nonzero == 0) return head(Where::kNowhere);
  if (random()) {
    head(Where::kDrawn);
    PutVarint(bytes, s.code.size());
    PutNumber(bytes, stream);
    return PutValues(form, true, s.code, bytes);
  }
  // Where positions are sent, zeros are not.
  const bool all = std::holds_alternative<All>(selection_);
  if (all && nonzero == d) {
    head(Where::kEverywhere);
    return PutValues(form, true, s.code, bytes);
  }
  if (all) {
    s.index.clear();
    for (std::size_t i = 0; i < d; ++i)
      if (s.code[i] != 0) s.index.push_back(static_cast<std::uint32_t>(i));
  } else if (nonzero < s.code.size()) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < s.code.size(); ++i) {
      s.index[kept] = s.index[i];
      kept += s.code[i] != 0 ? 1 : 0;
    }
    s.index.resize(kept);
  }
  const Rice rice = BestRice(s.index, d);
  const std::uint64_t gaps = 1 + (rice.bits + 7) / 8, bitmap = (d + 7) / 8;
  if (all && form.Bits(d, true) <= form.Bits(nonzero, false) + 8 * std::min(gaps, bitmap)) {
    head(Where::kEverywhere);
    return PutValues(form, true, s.code, bytes);
  }
  s.code.erase(std::remove(s.code.begin(), s.code.end(), std::uint64_t{0}), s.code.end());
  head(gaps < bitmap ? Where::kGaps : Where::kBitmap);
  PutVarint(bytes, nonzero);
  if (gaps < bitmap) {
    bytes.push_back(static_cast<std::uint8_t>(rice.low));
    PutRice(bytes, s.index, rice.low);
  } else {
    const std::size_t at = bytes.size();
    bytes.resize(at + bitmap);
    for (const std::uint32_t i : s.index)
      bytes[at + i / 8] = static_cast<std::uint8_t>(bytes[at + i / 8] | 1u << (i % 8));
  }
  PutValues(form, false, s.code, bytes);
}

void Compressor::Apply(View x, std::uint64_t stream, Span out, CompressSpace& s) const {
  TACIT_CHECK(x.size() == out.size());
  if (identity()) {
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] == 0 ? 0 : FiniteOrZero(x[i]);
    return;
  }
  Compress(x, stream, s.encoded, s);
  TACIT_CHECK(Decode(s.encoded, out, s.decode).ok());
}

std::size_t Compressor::kept(std::size_t d) const {
  return std::visit(Overload{[&](const All&) { return d; }, [&](const TopK& t) { return t.k.Of(d); },
                             [&](const LayerTopK& t) {
                               std::size_t sum = 0;
                               for (std::size_t l = 0; l < t.sizes.size(); ++l)
                                 sum += (t.k.size() == 1 ? t.k[0] : t.k[l]).Of(t.sizes[l]);
                               return sum;
                             },
                             [&](const RandK& r) { return r.k.Of(d); }},
                    selection_);
}

double Compressor::alpha(std::size_t d) const {
  if (d == 0) return 1;
  const auto share = [](const Portion& k, std::size_t of) {
    return of == 0 ? 1.0 : static_cast<double>(k.Of(of)) / static_cast<double>(of);
  };
  const double selected = std::visit(
      Overload{
          [&](const All&) { return 1.0; }, [&](const TopK& t) { return share(t.k, d); },
          [&](const LayerTopK& t) {
            double least = t.sizes.empty() ? 0 : 1;  // not told of layers: none
            for (std::size_t l = 0; l < t.sizes.size(); ++l)
              least = std::min(least, share(t.k.size() == 1 ? t.k[0] : t.k[l], t.sizes[l]));
            return least;
          },
          [&](const RandK& r) { return r.unbiased ? std::max(0.0, 2 - 1 / share(r.k, d)) : share(r.k, d); }},
      selection_);
  const double beta = std::visit(Overload{[&](const Floats& f) {
                                            const double n = static_cast<double>(kept(d));
                                            switch (f.bits) {
                                              case 32: return 1 - (0x1p-48 + n * 0x1p-300);
                                              case 16: return 1 - (0x1p-22 + n * 0x1p-82);
                                              case 8: return 1 - (0x1p-8 + n * 0x1p-36);
                                              default: return 1.0;
                                            }
                                          },
                                          [](const Rounding& r) { return r.beta(); }},
                                 values_);
  return selected * beta;
}

std::optional<double> Compressor::omega(std::size_t d) const {
  if (identity()) return 0.0;
  const RandK* rand = std::get_if<RandK>(&selection_);
  if (rand == nullptr || !rand->unbiased || d == 0) return std::nullopt;
  return static_cast<double>(d) / static_cast<double>(rand->k.Of(d)) - 1;
}

bool Compressor::identity() const {
  const Floats* floats = std::get_if<Floats>(&values_);
  return std::holds_alternative<All>(selection_) && floats != nullptr && floats->bits == 64;
}

Status Compressor::SetLayers(const std::vector<std::size_t>& sizes) {
  LayerTopK* top = std::get_if<LayerTopK>(&selection_);
  if (top == nullptr) return Ok{};
  if (top->k.size() != 1 && top->k.size() != sizes.size())
    return Fail(Code::kInvalidArgument,
                "compressor \"{}\": {} parts for a model of {} layers; give one for each, or one for all",
                text(), top->k.size(), sizes.size());
  top->sizes = sizes;
  return Ok{};
}

std::string Compressor::text() const {
  const auto part = [](const Portion& k) {
    return k.count > 0 ? fmt::format("k={}", k.count) : fmt::format("{}", k.fraction);
  };
  const std::string selected = std::visit(
      Overload{
          [](const All&) { return std::string("identity"); },
          [&](const TopK& t) { return fmt::format("top:{}", part(t.k)); },
          [&](const LayerTopK& t) {
            std::string out = "layers:";
            for (std::size_t l = 0; l < t.k.size(); ++l)
              out += fmt::format("{}{}", l > 0 ? "," : "", part(t.k[l]));
            return out;
          },
          [&](const RandK& r) { return fmt::format("{}rand:{}", r.unbiased ? "unbiased-" : "", part(r.k)); }},
      selection_);
  if (const Floats* f = std::get_if<Floats>(&values_)) return fmt::format("{}/{}", selected, f->bits);
  const std::vector<double>& period = std::get<Rounding>(values_).period();
  std::string out = std::holds_alternative<All>(selection_) ? "round:" : selected + "+round:";
  if (period.size() == 2 && period[0] == 1) return out + fmt::format("{}", period[1]);
  for (std::size_t i = 0; i < period.size(); ++i) out += fmt::format("{}{}", i > 0 ? "," : "", period[i]);
  return out;
}

namespace {

// A whole text as a number; nothing if it is not one.
template <class T> std::optional<T> NumberIn(std::string_view text) {
  T v{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return v;
}

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t comma = text.find(',');
    out.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

Result<Portion> PartIn(std::string_view all, std::string_view text) {
  if (text.substr(0, 2) == "k=") {
    const auto k = NumberIn<std::uint32_t>(text.substr(2));
    if (k && *k > 0) return Portion{1, *k};
  } else {
    const auto f = NumberIn<double>(text);
    if (f && *f > 0 && *f <= 1) return Portion{*f, 0};
  }
  return Fail(Code::kInvalidArgument,
              "compressor \"{}\": \"{}\" is neither a fraction in (0, 1] nor k= and a number of coordinates",
              all, text);
}

}  // namespace

Result<Compressor> ParseCompressor(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return Fail(Code::kInvalidArgument, "compressor \"{}\": {}", text, why);
  };
  std::string_view rest = text;
  std::optional<int> bits;
  if (const std::size_t slash = rest.rfind('/'); slash != std::string_view::npos) {
    bits = NumberIn<int>(rest.substr(slash + 1));
    if (!bits || (*bits != 64 && *bits != 32 && *bits != 16 && *bits != 8))
      return wrong("values have 64, 32, 16 or 8 bits; end it with /32, say");
    rest = rest.substr(0, slash);
  }
  std::optional<Rounding> rounding;
  std::size_t plus = rest.find('+');  // before a name; 1e+20 has another one
  while (plus != std::string_view::npos && plus + 1 < rest.size() && rest[plus + 1] >= '0' &&
         rest[plus + 1] <= '9')
    plus = rest.find('+', plus + 1);
  const std::string_view last = plus == std::string_view::npos ? rest : rest.substr(plus + 1);
  if (last.substr(0, 6) == "round:") {
    if (bits) return wrong("rounding has a code of its own; leave the width out");
    std::vector<double> period;
    for (const std::string_view number : Split(last.substr(6))) {
      const auto a = NumberIn<double>(number);
      if (!a) return wrong("after round: comes a base such as 2, or an increasing sequence such as 1,1.5,2");
      period.push_back(*a);
    }
    if (period.size() == 1) {
      if (!(period[0] > 1)) return wrong("the base of a rounding is above 1");
      period.insert(period.begin(), 1.0);
    }
    auto made = Rounding::Of(period);
    if (!made.ok()) return wrong(made.error().message);
    rounding = *std::move(made);
    if (plus == std::string_view::npos) return Compressor(All{}, *rounding);
  } else if (plus != std::string_view::npos) {
    return wrong("only a rounding may follow a selection, e.g. top:0.1+round:2");
  }
  const std::string_view name = rest.substr(0, plus);
  const std::size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  const std::string_view argument = colon == std::string_view::npos ? "" : name.substr(colon + 1);
  CoordinateChoice selection;
  bool exact = false;
  if (kind == "identity" && colon == std::string_view::npos) {
    selection = All{};
    exact = true;
  } else if (kind == "top") {
    TACIT_TRY(const Portion k, PartIn(text, argument));
    selection = TopK{k};
  } else if (kind == "layers") {
    LayerTopK top;
    for (const std::string_view each : Split(argument)) {
      TACIT_TRY(const Portion k, PartIn(text, each));
      top.k.push_back(k);
    }
    selection = std::move(top);
  } else if (kind == "rand" || kind == "unbiased-rand") {
    TACIT_TRY(const Portion k, PartIn(text, argument));
    const bool unbiased = kind == "unbiased-rand";
    if (unbiased && (rounding || bits.value_or(64) != 64))
      return wrong("rounded values would not be unbiased; use 64 bits, or rand for the contraction");
    selection = RandK{k, unbiased};
    exact = unbiased;
  } else {
    return wrong("known are identity, top:, layers:, rand:, unbiased-rand: and round:, e.g. top:0.1");
  }
  if (rounding) return Compressor(std::move(selection), *std::move(rounding));
  return Compressor(std::move(selection), Floats{bits.value_or(exact ? 64 : 32)});
}

std::uint64_t CompressStream(std::uint64_t seed, std::uint32_t who, std::uint32_t round) {
  return Stream({seed, Purpose::kCompressor, who, round})();
}

}  // namespace tacit
