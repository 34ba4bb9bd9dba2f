#include "audit/recovery.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tacit {
namespace {

constexpr std::size_t kSide = 14;
// A letter T in a ring: nobody's.
constexpr const char* kPicture[kSide] = {
    "....######....", "..##......##..", ".#..........#.", ".#.########.#.", "#..########..#",
    "#.....##.....#", "#.....##.....#", "#.....##.....#", "#.....##.....#", "#.....##.....#",
    ".#....##....#.", ".#..........#.", "..##......##..", "....######...."};

// Costs what the mechanism within costs and adds nothing: what a run would be without noise.
class WithoutNoise final : public Mechanism {
 public:
  explicit WithoutNoise(std::unique_ptr<Mechanism> within) : within_(std::move(within)) {}
  std::string_view name() const override { return within_->name(); }
  PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const override {
    return within_->EventFor(sensitivity, sigma, dim);
  }
  Status CheckRange(double most, NoiseStd sigma) const override { return within_->CheckRange(most, sigma); }
  double OverheadMu(std::size_t dim) const override { return within_->OverheadMu(dim); }

 private:
  void Draw(NoiseStd, std::size_t, NoiseRng&, NoiseBuffer&) const override {}
  void Add(NoiseStd, const NoiseBuffer&, View value, Span out) const override { Copy(value, out); }
  std::unique_ptr<Mechanism> within_;
};

Variation Silent() {
  Variation v;
  v.mechanism = [](std::unique_ptr<Mechanism> m) { return std::make_unique<WithoutNoise>(std::move(m)); };
  v.masked_noise = 0;
  return v;
}

Result<std::uint64_t> Right(const Config& config, std::uint64_t seed, std::uint32_t each,
                            Variation variation) {
  TACIT_TRY(const std::unique_ptr<Arena> arena, Arena::Make(config, seed, std::move(variation)));
  std::uint64_t right = 0;
  for (std::uint32_t i = 0; i < each; ++i)
    for (const int world : {0, 1}) {
      TACIT_TRY(const Sighting seen, arena->Run(world, i));
      right += (seen.likelihood > 0) == (world == 1);
    }
  return right;
}

// The picture in a release: of a linear model the release itself, of softmax the part of the first class, of
// a network (first layer: inputs × units) the unit that moves most. `at` says which, and where it is 0 or
// more it was chosen before: by who knows the model, that is without noise.
Vec Part(View release, const Config& c, std::size_t pixels, std::size_t& unit) {
  Vec out(pixels);
  const std::size_t width = c.model.name == "mlp" ? static_cast<std::size_t>(c.model.hidden.front()) : 1;
  if (release.size() < pixels * width) return {};
  if (width > 1 && unit >= width) {
    double most = -1;
    for (std::size_t h = 0; h < width; ++h) {
      double sum = 0;
      for (std::size_t i = 0; i < pixels; ++i) sum += release[i * width + h] * release[i * width + h];
      if (sum > most) most = sum, unit = h;
    }
  }
  for (std::size_t i = 0; i < pixels; ++i) out[i] = release[width > 1 ? i * width + unit : i];
  return out;
}

double Likeness(View a, View b) {
  const auto n = static_cast<double>(a.size());
  double ma = 0, mb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) ma += a[i] / n, mb += b[i] / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - ma) * (b[i] - mb);
    aa += (a[i] - ma) * (a[i] - ma);
    bb += (b[i] - mb) * (b[i] - mb);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0.0;
}

void Stretch(Vec& v) {  // to [0, 1]
  if (v.empty()) return;
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  const double from = *low, by = *high > *low ? 1 / (*high - *low) : 0.0;
  for (double& x : v) x = (x - from) * by;
}

}  // namespace

Result<Recovery> Recover(const Config& config, std::uint64_t seed) {
  Recovery r;
  constexpr std::uint32_t kGuesses = 500;
  if (config.privacy.mechanism == "priv-unit") return r;
  TACIT_TRY(r.right_with, Right(config, seed, kGuesses, {}));
  TACIT_TRY(r.right_without, Right(config, seed, kGuesses, Silent()));
  r.guesses = 2 * kGuesses;

  Config pictured = config;
  pictured.data.features = kSide * kSide;
  if (config.algorithm.name == "fcrn") return r;  // what it releases is of few coordinates, or no gradient
  Canary::Record record{.row = Vec(kSide * kSide), .label = 1};
  for (std::size_t y = 0; y < kSide; ++y)
    for (std::size_t x = 0; x < kSide; ++x) record.row[y * kSide + x] = kPicture[y][x] == '#' ? 1 : 0;
  const Vec picture = record.row;
  const auto silent = Arena::Watch(pictured, record, seed, Silent());
  const auto noised = Arena::Watch(pictured, record, seed);
  if (!silent.ok() || !noised.ok()) return r;  // a config that fits rows of four numbers alone
  // All releases of the client, each by the inverse of its variance. Whose they are everybody knows.
  Vec without(picture.size()), with(picture.size());
  std::size_t unit = kSide * kSide;
  for (std::size_t k = 0; k < std::min(silent->releases.size(), noised->releases.size()); ++k) {
    const auto &quiet = silent->releases[k], &loud = noised->releases[k];
    if (quiet.dim != loud.dim || !(NormSquared(silent->Out(quiet)) > 0)) continue;
    const Vec a = Part(silent->Out(quiet), pictured, picture.size(), unit);
    const Vec b = Part(noised->Out(loud), pictured, picture.size(), unit);
    if (a.empty() || b.empty()) return r;
    Axpy(1 / (quiet.sigma * quiet.sigma), a, without);
    Axpy(1 / (loud.sigma * loud.sigma), b, with);
  }
  if (!(NormSquared(without) > 0)) return r;
  // Whether it is the picture or its negative follows from the public label.
  const double sign = Likeness(without, picture) < 0 ? -1 : 1;
  Scale(sign, without);
  Scale(sign, with);
  r.side = kSide;
  r.likeness_without = Likeness(without, picture);
  r.likeness_with = Likeness(with, picture);
  r.picture = picture;
  r.without = std::move(without);
  r.with = std::move(with);
  Stretch(r.without);
  Stretch(r.with);
  return r;
}

nlohmann::json ToJson(const Recovery& r) {
  const auto levels = [](const Vec& v) {
    nlohmann::json out = nlohmann::json::array();
    for (const double x : v) out.push_back(static_cast<int>(std::lround(15 * std::clamp(x, 0.0, 1.0))));
    return out;
  };
  nlohmann::json j = {
      {"guesses", r.guesses}, {"right_without_noise", r.right_without}, {"right_with_noise", r.right_with}};
  j["picture"] = nullptr;
  if (r.side > 0)
    j["picture"] = {{"side", r.side},
                    {"levels", levels(r.picture)},
                    {"without_noise", levels(r.without)},
                    {"with_noise", levels(r.with)},
                    {"likeness_without_noise", r.likeness_without},
                    {"likeness_with_noise", r.likeness_with}};
  return j;
}

}  // namespace tacit
