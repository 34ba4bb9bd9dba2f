#pragma once

// For tests: what must not be seen on a wire, looked for in all that was said there.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/vec.h"

namespace tacit {

// Values that must not be seen, and where they are: as doubles of either byte order at any offset, up to
// rounding (10⁻⁹ of the value; a random eight bytes are that close to one of 10⁴ values with probability
// 10⁻⁸), and as texts. Numbers with few digits are anybody's (1, 0.5), and left out.
class Search {
 public:
  void Add(double v) {
    int exponent = 0;
    const double m = std::ldexp(std::frexp(v, &exponent), 20);
    if (v != 0 && std::isfinite(v) && m != std::floor(m)) values_.push_back(v);
  }
  void Add(std::string text) { texts_.push_back(std::move(text)); }
  std::size_t size() const { return values_.size(); }
  std::size_t Hits(std::string_view bytes) {
    std::sort(values_.begin(), values_.end());
    std::size_t hits = 0;
    for (std::size_t at = 0; at + 8 <= bytes.size(); ++at) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, 8);
      hits += Close(std::bit_cast<double>(bits)) + Close(std::bit_cast<double>(__builtin_bswap64(bits)));
    }
    for (const std::string& t : texts_) hits += bytes.find(t) != std::string_view::npos;
    return hits;
  }

 private:
  std::size_t Close(double v) const {
    if (!std::isfinite(v) || v == 0) return 0;
    const double slack = 1e-9 * std::fabs(v);
    const auto at = std::lower_bound(values_.begin(), values_.end(), v - slack);
    return at != values_.end() && *at <= v + slack ? 1 : 0;
  }
  Vec values_;
  std::vector<std::string> texts_;
};

struct PrivateRows {
  std::vector<Vec> rows;  // scaled to norm 1 at most
  Vec labels;
};
// The rows of a client's file, none of whose lines and numbers may be seen, scaled or not.
inline PrivateRows RowsOf(const std::string& file, Search& secret) {
  PrivateRows out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    secret.Add(line);
    std::istringstream words(line);
    Vec row;
    for (std::string word; std::getline(words, word, ',');) row.push_back(std::stod(word));
    out.labels.push_back(row[0]);
    row.erase(row.begin());
    for (const double v : row) secret.Add(v), secret.Add(-v);
    Scale(1 / std::max(1.0, Norm(row)), row);
    for (const double v : row) secret.Add(v), secret.Add(-v);
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace tacit
