#pragma once

// What people see: colours where the stream is a terminal, aligned tables, a progress bar.
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::cli {

enum class Style { kBold, kDim, kGreen, kRed, kYellow };
// The text in that style if the stream is a terminal and NO_COLOR is not set; else as it is.
std::string Styled(std::FILE* stream, Style, std::string_view text);
bool IsTerminal(std::FILE* stream);

struct WindowSize {
  std::size_t columns, rows;
};
WindowSize SizeOf(std::FILE* terminal);                    // as it is now; 80 × 24 if it does not tell
std::size_t Width(std::string_view utf8);                  // columns on the screen; a style takes none
std::string Head(std::string_view utf8, std::size_t columns);  // what fits into them; styles stay whole
std::string EpsilonText(double v, int significant = 4);      // rounded up: never below what was proved
std::string Digits(double, int significant = 4);           // "0.01234", "1.2e-05"
std::string DigitsUp(double, int significant = 4);         // the same, never below the value
std::string DigitsDown(double, int significant = 4);       // never above it
std::string Bytes(std::size_t);                            // "31.4 MB"
std::string Duration(double seconds);                      // "8 s", "3 min 20 s"
std::string Grouped(std::size_t);                          // "60,000"
// Text broken at spaces to the given width, every line after the first indented.
std::string Wrapped(std::string_view text, std::size_t indent, std::size_t width = 100);

// Columns padded to their widest entry; numbers to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void Left(std::size_t column) { left_.push_back(column); }     // text columns
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void Print(std::FILE* stream, std::size_t indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> left_;
};

// One line on stderr, redrawn about ten times a second; where stderr is no terminal, a plain line at
// each quarter instead. Gone, and the line cleared, when it is destroyed.
class ProgressBar {
 public:
  enum class Kind { kNone, kFull };
  explicit ProgressBar(Kind kind) : on_(kind == Kind::kFull), terminal_(IsTerminal(stderr)) {}
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  bool due() const;                                        // would an update be drawn now?
  void Say(const std::string& text);                       // a state without a fraction: "reading data …"
  void Update(double fraction, double seconds, const std::string& text);
  void Clear();

 private:
  void Draw(const std::string& line);
  bool on_, terminal_, drawn_ = false;
  int quarter_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace tacit::cli
