#include "terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tacit::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr std::size_t kBarCells = 24;

std::size_t Columns(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// The first columns of a UTF-8 text, cut between code points.
std::string_view Head(std::string_view s, std::size_t columns) {
  std::size_t i = 0, seen = 0;
  for (; i < s.size(); ++i) {
    if ((static_cast<unsigned char>(s[i]) & 0xc0) == 0x80) continue;
    if (seen == columns) break;
    ++seen;
  }
  return s.substr(0, i);
}

}  // namespace

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
  bool escape = false;
  for (char c : utf8) {
    if (c == '\033') escape = true;
    if (!escape && (static_cast<unsigned char>(c) & 0xc0) != 0x80) ++n;
    if (escape && c == 'm') escape = false;
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
  fmt::print(stderr, "\r\033[2K{}", Head(line, Columns(stderr) - 1));
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
