#include "audit/recovery.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tacit {
namespace {

Config Small(const std::string& model, const std::string& algorithm, double epsilon) {
  auto given =
      ParseConfig(fmt::format("[data]\nsource = \"synthetic-linear\"\nrows = 8\nfeatures = 4\nclients = 2\n"
                              "[model]\n{}\n[privacy]\nepsilon = {}\n{}\n",
                              model, epsilon, algorithm),
                  "recovery.toml", {});
  EXPECT_TRUE(given.ok()) << given.error().message;
  std::vector<std::string> changes;
  auto small = ForAudit(*given, 8, changes);
  EXPECT_TRUE(small.ok()) << small.error().message;
  return *small;
}

TEST(Recovery, EverythingWithoutNoiseAndLittleWithIt) {
  for (const char* model : {"name = \"least-squares\"", "name = \"logistic\"",
                            "name = \"softmax\"\nclasses = 3", "name = \"mlp\"\nclasses = 3\nhidden = [4]"}) {
    const auto r = Recover(Small(model, "[algorithm]\nname = \"dp-fedavg\"\nrounds = 4", 1), 7);
    ASSERT_TRUE(r.ok()) << model << ": " << r.error().message;
    EXPECT_EQ(r->right_without, r->guesses) << model;
    // ε = 1 at δ = 1e-5 is μ = 0.268: at most Φ(μ/2) = 55.3 % are right. 1,000 guesses: five deviations.
    EXPECT_LT(static_cast<double>(r->right_with), 0.633 * static_cast<double>(r->guesses)) << model;
    ASSERT_EQ(r->side, 14u) << model;
    EXPECT_GT(r->likeness_without, 0.99) << model;
    EXPECT_LT(r->likeness_with, 0.5) << model;
    EXPECT_EQ(ToJson(*r)["picture"]["levels"].size(), 196u);
  }
}

TEST(Recovery, ReturnsAsNoiseGoes) {
  const Config nearly =
      Small("name = \"least-squares\"", "[algorithm]\nname = \"dp-fedavg\"\nrounds = 1", 1e5);
  const auto r = Recover(nearly, 7);
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_GT(r->likeness_with, 0.95);
}

}  // namespace
}  // namespace tacit
