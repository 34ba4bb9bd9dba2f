#include "view/text.h"

#include <cstdint>

namespace tacit {
namespace {

// Bytes of the well-formed UTF-8 sequence at the beginning, 0 if there is none.
std::size_t Sequence(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = byte(0);
  const std::size_t n = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (n == 0 || n > s.size()) return 0;
  std::uint32_t code = n == 1 ? lead : lead & (0x7FU >> n);
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[n] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  // C0, DEL and C1 controls; marks that turn the direction of the text around what follows.
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return 0;
  if ((code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069)) return 0;
  return n;
}

template <class Replace>
std::string Mapped(std::string_view text, const Replace& replace) {
  std::string out;
  out.reserve(text.size());
  for (const char c : Printable(text)) {
    const std::string_view with = replace(c);
    if (with.empty())
      out += c;
    else
      out += with;
  }
  return out;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t n = Sequence(text);
    if (n == 0)
      out += '?';
    else
      out += text.substr(0, n);
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

std::string HtmlEscaped(std::string_view text) {
  return Mapped(text, [](char c) -> std::string_view {
    switch (c) {
      case '&': return "&amp;";
      case '<': return "&lt;";
      case '>': return "&gt;";
      case '"': return "&quot;";
      case '\'': return "&#39;";
      default: return {};
    }
  });
}

std::string TexEscaped(std::string_view text) {
  return Mapped(text, [](char c) -> std::string_view {
    switch (c) {
      case '\\': return "\\textbackslash{}";
      case '~': return "\\textasciitilde{}";
      case '^': return "\\textasciicircum{}";
      case '&': return "\\&";
      case '%': return "\\%";
      case '$': return "\\$";
      case '#': return "\\#";
      case '_': return "\\_";
      case '{': return "\\{";
      case '}': return "\\}";
      default: return {};
    }
  });
}

std::string MarkdownEscaped(std::string_view text) {
  return Mapped(text, [](char c) -> std::string_view {
    switch (c) {
      case '|': return "\\|";
      case '<': return "&lt;";
      case '&': return "&amp;";
      case '`': return "\\`";
      case '*': return "\\*";
      case '_': return "\\_";
      case '[': return "\\[";
      case '\\': return "\\\\";
      default: return {};
    }
  });
}

std::string CsvEscaped(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace tacit
