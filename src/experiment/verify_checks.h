#pragma once

// What recomputing a certificate needs whatever it is of: reading fields so that a wrong one is named, and
// noting figures that do not hold. For verify.cc and verify_session.cc.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "experiment/json_number.h"
#include "experiment/verify.h"
#include "privacy/gdp.h"

namespace tacit::verification {

using nlohmann::json;

inline constexpr long double kUlp = 0x1p-52L;  // of a double, relatively
inline constexpr double kWhole = 0x1p53;

// Numbers as they are read back bit for bit; whole ones without a point.
inline std::string Text(double v) {
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return fmt::format("{}", v);
}
inline std::string Text(std::size_t v) { return fmt::format("{}", v); }
inline std::string Text(const std::string& v) { return "\"" + v + "\""; }
inline std::string Text(const std::optional<double>& v) { return v ? Text(*v) : "none"; }
inline std::string Shown(const json& j) {
  std::string text = j.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Reads fields by dotted path; the first one that is not as it must be is the error.
class Fields {
 public:
  // file: what must be given instead of a wrong one.
  Fields(const json& root, std::string name, std::string file = "a certificate.json that `tacit train` wrote")
      : root_(root), name_(std::move(name)), file_(std::move(file)) {}

  const json* Find(const std::string& path) {
    const json* at = &root_;
    std::istringstream keys(path);
    for (std::string key; std::getline(keys, key, '.');) {
      const auto open = key.find('[');
      const std::string member = key.substr(0, open);
      if (!at->is_object() || !at->contains(member)) return Missing(path), nullptr;
      at = &(*at)[member];
      if (open == std::string::npos) continue;
      at = &(*at)[std::stoul(key.substr(open + 1))];  // only paths made here, within the list
    }
    return at;
  }
  std::string String(const std::string& path) {
    const json* j = Find(path);
    if (j == nullptr) return "";
    if (!j->is_string()) return Wrong(path, *j, "text"), "";
    return j->get<std::string>();
  }
  std::string OneOf(const std::string& path, const std::vector<std::string>& choices) {
    std::string s = String(path), all;
    for (const auto& c : choices) all += (all.empty() ? "" : ", ") + c;
    if (!error_ && std::find(choices.begin(), choices.end(), s) == choices.end())
      Wrong(path, s, "one of " + all);
    return s;
  }
  bool Flag(const std::string& path) {
    const json* j = Find(path);
    if (j == nullptr) return false;
    if (!j->is_boolean()) return Wrong(path, *j, "true or false"), false;
    return j->get<bool>();
  }
  std::size_t Count(const std::string& path, double least = 0) {
    const json* j = Find(path);
    if (j == nullptr) return 0;
    return CountOf(path, *j, least);
  }
  // At least `least`; "inf" where it may be infinite.
  double Figure(const std::string& path, double least, bool may_be_infinite) {
    const json* j = Find(path);
    if (j == nullptr) return 0;
    return FigureOf(path, *j, least, may_be_infinite);
  }
  std::optional<double> Maybe(const std::string& path, double least, bool may_be_infinite) {
    const json* j = Find(path);
    if (j == nullptr || j->is_null()) return std::nullopt;
    return FigureOf(path, *j, least, may_be_infinite);
  }
  const json* List(const std::string& path) {
    const json* j = Find(path);
    if (j == nullptr) return nullptr;
    if (!j->is_array()) return Wrong(path, *j, "a list"), nullptr;
    return j;
  }
  std::vector<double> Figures(const std::string& path, double least, bool may_be_infinite) {
    std::vector<double> out;
    const json* list = List(path);
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error_; ++i)
      out.push_back(FigureOf(fmt::format("{}[{}]", path, i), (*list)[i], least, may_be_infinite));
    return out;
  }
  std::vector<std::string> Strings(const std::string& path) {
    std::vector<std::string> out;
    const json* list = List(path);
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error_; ++i) {
      if (!(*list)[i].is_string()) return Wrong(path, *list, "a list of texts"), out;
      out.push_back((*list)[i].get<std::string>());
    }
    return out;
  }
  std::vector<std::size_t> Counts(const std::string& path, double least) {
    std::vector<std::size_t> out;
    const json* list = List(path);
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error_; ++i)
      out.push_back(CountOf(fmt::format("{}[{}]", path, i), (*list)[i], least));
    return out;
  }
  void Wrong(const std::string& path, const json& value, const std::string& must) {
    if (!error_)
      error_ =
          Fail(Code::kMalformed, "{}: {} = {}: must be {}; give {}", name_, path, Shown(value), must, file_);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  void Missing(const std::string& path) {
    if (!error_) error_ = Fail(Code::kMalformed, "{}: {} is missing; give {}", name_, path, file_);
  }
  std::size_t CountOf(const std::string& path, const json& j, double least) {
    const auto v = NumberOf(j);
    if (!v || !(*v >= least && *v <= kWhole) || *v != std::floor(*v))
      return Wrong(path, j, fmt::format("a whole number from {} upwards", least)), 0;
    return static_cast<std::size_t>(*v);
  }
  double FigureOf(const std::string& path, const json& j, double least, bool may_be_infinite) {
    const auto v = NumberOf(j);
    if (!v || !(*v >= least) || (std::isinf(*v) && !may_be_infinite))
      return Wrong(path, j,
                   fmt::format("a number of at least {:g}{}", least, may_be_infinite ? ", or \"inf\"" : "")),
             0.0;
    return *v;
  }

  const json& root_;
  std::string name_, file_;
  std::optional<Error> error_;
};

class Checks {
 public:
  explicit Checks(Verification& v) : v_(v) {}
  template <class T>
  void Differ(const std::string& figure, const T& stated, const T& recomputed, const std::string& why) {
    Add(figure, Text(stated), Text(recomputed), why);
  }
  template <class T>
  void Same(const std::string& figure, const T& stated, const T& other, const std::string& why) {
    if (!(stated == other)) Differ(figure, stated, other, why);
  }
  // stated must be within [exact·(1 − below), exact·(1 + above)].
  void Within(const std::string& figure, double stated, long double exact, long double below,
              long double above, const std::string& why) {
    if (std::isinf(stated) && std::isinf(exact)) return;
    if (!std::isinf(stated) && stated >= exact * (1 - below) && stated <= exact * (1 + above)) return;
    Differ(figure, stated, static_cast<double>(exact), why);
  }
  void Add(const std::string& figure, const std::string& stated, const std::string& recomputed,
           const std::string& why) {
    v_.findings.push_back(
        {figure, stated, recomputed, fmt::format("{}: states {}, {} {}", figure, stated, why, recomputed)});
  }

 private:
  Verification& v_;
};

inline double ExactEpsilon(double mu, double delta) {
  return GdpEpsilon(Mu::Proven(mu), Delta::Proven(delta)).upper;
}

// Δ of a sum of `units` terms of at most c each, `moved` of which a neighbour may replace, as bounded.h
// defines it; what was charged is this rounded up.
struct Enclosed {
  long double exact, above;  // above: relative room for rounding up
};
inline Enclosed SumSensitivity(long double c, long double moved, long double units, long double roundings) {
  const long double ku = roundings * 0x1p-53L;
  const long double slack = 2 * (ku / (1 - ku)) * units * c;
  const long double exact = moved * c + slack;
  return {exact, kUlp + 16 * kUlp * slack / exact};
}

// (Δ + g√d)/σ of one release, g the largest power of two ≤ σ·2⁻³⁰ for the lattice and 0 otherwise.
inline long double MuOf(const std::string& mechanism, std::size_t dim, double sigma,
                        long double sensitivity) {
  int exponent = 0;
  static_cast<void>(std::frexp(sigma, &exponent));  // σ = m·2^exponent, m in [1/2, 1)
  const long double grid = mechanism == "lattice_gaussian" ? std::ldexp(1.0L, exponent - 31) : 0.0L;
  return (sensitivity + grid * std::sqrt(static_cast<long double>(dim))) / sigma;
}

// A sum that loses nothing to the order of its terms (Kahan's).
class LongSum {
 public:
  void Add(long double term) {
    term -= lost_;
    const long double next = sum_ + term;
    lost_ = (next - sum_) - term;
    sum_ = next;
  }
  long double value() const { return sum_; }

 private:
  long double sum_ = 0, lost_ = 0;
};

}  // namespace tacit::verification
