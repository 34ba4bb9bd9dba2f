#include "terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace tacit::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr std::size_t kBarCells = 24;

// Of a code point: marks that join the letter before take no column, letters of East Asia and pictures two.
std::size_t ColumnsOf(char32_t c) {
  static constexpr std::pair<char32_t, char32_t> kNone[] = {
      {0x300, 0x36f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
  static constexpr std::pair<char32_t, char32_t> kTwo[] = {
      {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
      {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
      {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  const auto in = [c](const auto& range) { return c >= range.first && c <= range.second; };
  if (std::any_of(std::begin(kNone), std::end(kNone), in)) return 0;
  return std::any_of(std::begin(kTwo), std::end(kTwo), in) ? 2 : 1;
}

// What stands at the beginning of a text: a code point, or a style ("\033[1m"), which has no columns.
struct Sign {
  std::size_t bytes, columns;
};
Sign FirstOf(std::string_view s) {
  if (s[0] == '\033') {
    const std::size_t end = s.find('m');
    return {end == std::string_view::npos ? s.size() : end + 1, 0};
  }
  const auto first = static_cast<unsigned char>(s[0]);
  std::size_t n = 1;
  while (n < s.size() && n < 4 && (static_cast<unsigned char>(s[n]) & 0xc0) == 0x80) ++n;
  char32_t c = n == 1 ? first : first & (0x7fu >> n);
  for (std::size_t k = 1; k < n; ++k) c = c << 6 | (static_cast<unsigned char>(s[k]) & 0x3f);
  return {n, ColumnsOf(c)};
}

}  // namespace

WindowSize SizeOf(std::FILE* terminal) {
  winsize size{};
  if (::ioctl(::fileno(terminal), TIOCGWINSZ, &size) != 0) return {80, 24};
  return {size.ws_col > 0 ? size.ws_col : std::size_t{80}, size.ws_row > 0 ? size.ws_row : std::size_t{24}};
}

std::string Head(std::string_view s, std::size_t columns) {
  std::string out;
  std::size_t used = 0;
  bool full = false;
  while (!s.empty()) {
    const Sign sign = FirstOf(s);
    full |= used + sign.columns > columns;
    if (!full || s[0] == '\033') out += s.substr(0, sign.bytes);  // a style that began must also end
    if (!full) used += sign.columns;
    s.remove_prefix(sign.bytes);
  }
  return out;
}

bool IsTerminal(std::FILE* stream) { return ::isatty(::fileno(stream)) != 0; }

std::string Styled(std::FILE* stream, Style style, std::string_view text) {
  // https://no-color.org: any non-empty value counts
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if ((no_color != nullptr && *no_color != '\0') || (term != nullptr && std::string_view(term) == "dumb") ||
      !IsTerminal(stream))
    return std::string(text);
  const auto code = [&] {
    switch (style) {
      case Style::kBold: return 1;
      case Style::kDim: return 2;
      case Style::kGreen: return 32;
      case Style::kRed: return 31;
      case Style::kYellow: return 33;
    }
    return 0;
  };
  return fmt::format("\033[{}m{}\033[0m", code(), text);
}

std::size_t Width(std::string_view utf8) {
  std::size_t n = 0;
  while (!utf8.empty()) {
    const Sign sign = FirstOf(utf8);
    n += sign.columns;
    utf8.remove_prefix(sign.bytes);
  }
  return n;
}

std::string Digits(double v, int significant) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return fmt::format("{:.{}g}", v, significant);
}

std::string DigitsUp(double v, int significant) {
  std::string text = Digits(v, significant);
  if (!(std::isfinite(v) && v > 0) || std::strtod(text.c_str(), nullptr) >= v) return text;
  // Decimal, digit by digit: adding a power of ten in binary could fall below v again.
  std::string up = fmt::format("{:.{}e}", v, significant - 1);
  const std::size_t e = up.find('e');
  int exponent = std::atoi(up.c_str() + e + 1);
  std::size_t i = e;
  while (i-- > 0) {
    if (up[i] == '.') continue;
    if (up[i] != '9') break;
    up[i] = '0';
  }
  std::string mantissa = up.substr(0, e);
  if (i == std::string::npos)
    mantissa.assign(1, '1'), ++exponent;
  else
    ++mantissa[i];
  return Digits(std::strtod(fmt::format("{}e{}", mantissa, exponent).c_str(), nullptr), significant);
}

std::string DigitsDown(double v, int significant) {
  std::string text = Digits(v, significant);
  if (!(std::isfinite(v) && v > 0) || std::strtod(text.c_str(), nullptr) <= v) return text;
  // The other digits are cut off.
  const std::string all = fmt::format("{:.17e}", v);
  const auto kept = static_cast<std::size_t>(significant) + (significant > 1 ? 1 : 0);  // with the point
  return Digits(std::strtod((all.substr(0, kept) + all.substr(all.find('e'))).c_str(), nullptr), significant);
}

std::string EpsilonText(double v, int significant) {
  return std::isinf(v) ? "inf (not private)" : DigitsUp(v, significant);
}

std::string Bytes(std::size_t n) {
  const char* const kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto v = static_cast<double>(n);
  std::size_t unit = 0;
  while (v >= 999.5 && unit + 1 < std::size(kUnits)) v /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} B", n) : fmt::format("{:.3g} {}", v, kUnits[unit]);
}

std::string Duration(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds)) return "?";
  if (seconds < 1) return fmt::format("{:.2g} s", std::max(seconds, 0.001));
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<long long>(std::llround(std::min(seconds, 1e12)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02d} s", s / 60, s % 60);
  return fmt::format("{} h {:02d} min", s / 3600, s / 60 % 60);
}

std::string Grouped(std::size_t n) {
  std::string s = fmt::format("{}", n);
  for (std::size_t at = s.size(); at > 3;) s.insert(at -= 3, 1, ',');
  return s;
}

std::string Wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (column > indent && column + 1 + Width(word) > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += Width(word);
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  }
  return out;
}

void Table::Print(std::FILE* stream, std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string& cell = rows_[r][c];
      const std::string pad(widths[c] - Width(cell), ' ');
      const bool left = std::find(left_.begin(), left_.end(), c) != left_.end();
      if (c > 0) line += "  ";
      line += left ? cell + pad : pad + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print(stream, "{}\n", r == 0 ? Styled(stream, Style::kBold, line) : line);
  }
}

bool ProgressBar::due() const {
  return on_ && (!terminal_ || std::chrono::steady_clock::now() - last_ >= kRedraw);
}

void ProgressBar::Draw(const std::string& line) {
  // The last column stays free: some terminals wrap when it is filled.
  fmt::print(stderr, "\r\033[2K{}", Head(line, SizeOf(stderr).columns - 1));
  std::fflush(stderr);
  drawn_ = true;
  last_ = std::chrono::steady_clock::now();
}

void ProgressBar::Say(const std::string& text) {
  if (on_ && terminal_) Draw(text);
}

void ProgressBar::Update(double fraction, double seconds, const std::string& text) {
  if (!on_) return;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const std::string left =
      fraction > 0 && seconds > 0.5 ? Duration(seconds * (1 - fraction) / fraction) + " left" : "";
  if (!terminal_) {
    const int quarter = static_cast<int>(fraction * 4);
    if (quarter > quarter_ && quarter < 4)
      fmt::print(stderr, "{}{}{}\n", text, left.empty() ? "" : ", ", left);
    quarter_ = std::max(quarter, quarter_);
    return;
  }
  if (!due() && fraction < 1) return;
  const auto full = static_cast<std::size_t>(fraction * kBarCells);
  std::string bar;
  for (std::size_t i = 0; i < kBarCells; ++i) bar += i < full ? "━" : i == full ? "╸" : " ";
  Draw(fmt::format("{} {:3.0f}%  {}{}{}", bar, std::floor(100 * fraction), text, left.empty() ? "" : "  ",
                   left));
}

void ProgressBar::Clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[2K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace tacit::cli
