#pragma once

// Checks of HTML and SVG that the program writes, for tests. Its pages are well-formed XML too.
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace tacit {

// What is wrong with the markup: tags that do not nest, attributes without quotes, a bare & or < in the text.
// Empty: nothing.
inline std::string MarkupProblem(std::string_view text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  const auto near = [&] { return " near: " + std::string(text.substr(at > 30 ? at - 30 : 0, 80)); };
  if (text.starts_with("<!DOCTYPE html>")) at = 15;
  while (at < text.size()) {
    if (text[at] == '&') {
      const auto end = text.find(';', at);
      if (end == std::string_view::npos || end - at > 8) return "a bare &" + near();
      at = end + 1;
      continue;
    }
    if (text[at] == '>' && (open.empty() || open.back() != "style")) return "a bare >" + near();
    if (text[at] != '<') {
      ++at;
      continue;
    }
    const bool closing = text.substr(at, 2) == "</";
    std::size_t i = at + (closing ? 2 : 1), from = i;
    while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0)) ++i;
    const std::string name(text.substr(from, i - from));
    if (name.empty()) return "a bare <" + near();
    bool empty = false;
    while (i < text.size() && text[i] != '>') {
      if (text[i] == '/') {
        empty = true;
        ++i;
      } else if (std::isspace(static_cast<unsigned char>(text[i])) != 0) {
        ++i;
      } else {
        while (i < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '-' || text[i] == ':'))
          ++i;
        if (text.substr(i, 2) != "=\"") return "an attribute without quotes" + near();
        i = text.find('"', i + 2);
        if (i == std::string_view::npos) return "an attribute that does not end" + near();
        ++i;
      }
    }
    if (i >= text.size()) return "a tag that does not end" + near();
    at = i + 1;
    if (closing) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing" + near();
      open.pop_back();
    } else if (!empty) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

// What a page would fetch or run; empty: nothing. An address within text is no reference.
inline std::string ExternalReference(std::string_view text) {
  for (const char* bad :
       {"<script", "<link", "<iframe", "<object", "<embed", "<img", "@import", "url(", "javascript:"})
    if (text.find(bad) != std::string_view::npos) return bad;
  bool tag = false, quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!tag && text[i] == '<')
      tag = true, quoted = false;
    else if (tag && text[i] == '"')
      quoted = !quoted;
    else if (tag && !quoted && text[i] == '>')
      tag = false;
    if (!tag || quoted) continue;
    for (const char* bad : {" src=", " href=", " on"})
      if (text.substr(i).starts_with(bad)) return std::string(text.substr(i, 60));
  }
  return "";
}

}  // namespace tacit
