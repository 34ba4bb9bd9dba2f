#include "board/calculator.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "experiment/json_number.h"
#include "privacy/calibrate.h"

namespace tacit {
namespace {

// What a page may ask takes seconds at most.
constexpr double kMostRounds = 1e7, kSmallestDelta = 1e-30;

Result<double> Positive(const std::string& text, const char* name) {
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !(v > 0) || !std::isfinite(v))
    return Fail(Code::kInvalidArgument, "{}: \"{}\" is not a number above 0; give one like 10 or 1e-6", name,
                text.substr(0, 40));
  return v;
}

}  // namespace

Result<nlohmann::json> Calculate(const std::function<std::string(const char*)>& parameter) {
  const std::string find = parameter("find"), sampling = parameter("sampling");
  if (find != "epsilon" && find != "noise")
    return Fail(Code::kInvalidArgument, "find: must be epsilon or noise");
  if (sampling != "none" && sampling != "poisson" && sampling != "fixed")
    return Fail(Code::kInvalidArgument, "sampling: must be none, poisson or fixed");
  ReleasePlan plan;
  TACIT_TRY(plan.rounds, Positive(parameter("rounds"), "rounds"));
  if (plan.rounds != std::floor(plan.rounds) || plan.rounds > kMostRounds)
    return Fail(Code::kInvalidArgument,
                "rounds: must be a whole number up to {:.0e} here; `tacit account` takes more", kMostRounds);
  TACIT_TRY(const double d, Positive(parameter("delta"), "δ"));
  if (d < kSmallestDelta)
    return Fail(Code::kInvalidArgument, "δ: must be at least {:.0e} here; `tacit account` takes smaller ones",
                kSmallestDelta);
  TACIT_TRY(const Delta delta, Delta::Of(d));
  std::string what = fmt::format("--rounds {} --delta {}", plan.rounds, d);
  if (sampling != "none") {
    TACIT_TRY(plan.rate, Positive(parameter("rate"), "share sampled"));
    plan.fixed_size = sampling == "fixed";
    if (!plan.fixed_size) plan.adjacency = Adjacency::kAddOrRemove;
    what += fmt::format(" --rate {} --sampling {}", *plan.rate, sampling);
  }
  if (find == "epsilon") {
    TACIT_TRY(plan.noise, Positive(parameter("noise_multiplier"), "noise multiplier"));
    TACIT_TRY(const Accountant account, AccountOf(plan));
    TACIT_TRY(const Bracket epsilon, account.EpsilonAt(delta));
    return nlohmann::json{
        {"epsilon", Number(epsilon.upper)},
        {"epsilon_lower", Number(epsilon.lower)},
        {"noise_multiplier", plan.noise},
        {"method", epsilon.method},
        {"command", fmt::format("tacit account {} --noise-multiplier {} {}",
                                plan.rate ? "subsampled-gaussian" : "gaussian", plan.noise, what)}};
  }
  TACIT_TRY(const double e, Positive(parameter("epsilon"), "ε"));
  TACIT_TRY(const Epsilon epsilon, Epsilon::Of(e));
  TACIT_TRY(const Calibration c, CalibrateNoise(plan, epsilon, delta));
  return nlohmann::json{{"epsilon", Number(c.epsilon.upper)},
                        {"epsilon_lower", Number(c.epsilon.lower)},
                        {"noise_multiplier", Number(c.value)},
                        {"method", c.epsilon.method},
                        {"command", fmt::format("tacit calibrate --epsilon {} {}", e, what)}};
}

}  // namespace tacit
