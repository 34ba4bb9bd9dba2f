#pragma once

// Plans of runs with error feedback (dpd-ef21, dpd-ef21-2, dp-clip21, clip21-sgd2m): compressor, steps,
// radii, noise, charges and theory. Everything here comes from public constants.
#include <string>
#include <string_view>

#include "algorithms/ef21_theory.h"
#include "algorithms/feedback.h"
#include "experiment/config.h"
#include "experiment/plan.h"

namespace tacit {

bool WithFeedback(std::string_view algorithm);

enum class FeedbackDesign {
  kMirrored,  // dpd-ef21-2, certified: state from messages, noise, then the compressor
  kPrivate,  // dpd-ef21, certified: private state, compressor, clip, noise
  kPrinted,  // either in paper mode
  kClip21,  // dp-clip21, clip21-sgd2m
};
const char* Name(FeedbackDesign);  // mirrored, private, printed, clip21

struct FeedbackPlan {
  FeedbackDesign design = FeedbackDesign::kMirrored;
  Compressor compressor, wire;
  std::string state;  // mirrored or noiseless: what clients add up
  std::string schedule;  // paper mode of dpd-ef21 and dpd-ef21-2; otherwise empty
  bool noise_first = false;  // noise, then the compressor
  double alpha = 1;
  double theta = 0;  // of the theory; ∞: growth is too large
  std::size_t batch = 0;
  double momentum = 1, mixing = 1;
  double radius_ratio = 1;
  double follow = 0;  // L of radii that follow the iterates; 0: as planned
  Vec gamma, radius;  // of the rounds that run
  std::size_t message = 0;  // bytes of one, about: the codings depend on the values
  // Theory, where it has the constants it needs.
  std::optional<double> rounds_printed, rounds_by_levels, least_epsilon;  // conditions on T, and on ε
  std::optional<double> floor;  // what noise leaves of E‖x − x*‖² on a quadratic, where a plan can know it
  std::optional<RadiusNoise> radii;  // private state
};

Result<Plan> PlanFeedback(const Config&, const PublicFacts&);

}  // namespace tacit
