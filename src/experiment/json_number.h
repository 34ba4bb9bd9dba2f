#pragma once

// Numbers in JSON, which has no infinity: what is not private is the text "inf".
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace tacit {

inline nlohmann::json Number(double v) {
  if (std::isfinite(v)) return v;
  return v > 0 ? "inf" : v < 0 ? "-inf" : "nan";
}
inline nlohmann::json Number(const std::optional<double>& v) {
  return v ? Number(*v) : nlohmann::json(nullptr);
}

// The way back; nothing for any other JSON value. NaN is not read: it is no figure.
inline std::optional<double> NumberOf(const nlohmann::json& j) {
  if (j.is_number()) return j.get<double>();
  if (j == "inf") return std::numeric_limits<double>::infinity();
  if (j == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

}  // namespace tacit
