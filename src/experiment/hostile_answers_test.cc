// What a server takes from clients that are elsewhere: messages that a client which keeps to the protocol
// can have sent, and no others, however well they are framed. Whatever is sent, the run goes on.
#include <gtest/gtest.h>

#include <unistd.h>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/rng.h"
#include "experiment/job.h"
#include "runtime/link.h"

namespace tacit {
namespace {

constexpr std::uint32_t kDim = 6;

// Replies as bytes: what is Released at the other end is a number like any other here.
struct FcrnReply {
  Public<std::uint64_t> mask;
  Public<std::uint32_t> dim;
  Public<Vec> value;
  auto Fields() { return std::tie(mask, dim, value); }
};
struct WeightedReply {
  Public<double> weight;
  Public<Vec> update;
  auto Fields() { return std::tie(weight, update); }
};
struct EncodedReply {
  Public<Encoded> change;
  auto Fields() { return std::tie(change); }
};
Bytes Fcrn(std::uint64_t mask, std::uint32_t dim, Vec value) {
  FcrnReply r;
  r.mask.Mutable() = mask, r.dim.Mutable() = dim, r.value.Mutable() = std::move(value);
  return Codec::Encode(r);
}
Bytes Weighted(double weight, Vec update) {
  WeightedReply r;
  r.weight.Mutable() = weight, r.update.Mutable() = std::move(update);
  return Codec::Encode(r);
}
Bytes Dense(const Vec& v) {  // everywhere, as doubles: compress/encoded.h
  EncodedReply r;
  auto& to = r.change.Mutable().data;
  to = {1, static_cast<std::uint8_t>(v.size())};
  for (const double x : v)
    for (const auto byte : std::bit_cast<std::array<std::uint8_t, 8>>(x)) to.push_back(byte);
  return Codec::Encode(r);
}

struct Sent {
  const char* why;
  bool taken;
  Bytes bytes;
};

// Asks whether each of a client's messages would be taken, and then hands over those that were, the last one
// of a client counting.
class Hostile final : public Link {
 public:
  std::function<std::vector<Sent>(std::uint32_t client, std::uint32_t round)> send;
  std::size_t asked = 0;

 private:
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    answers.assign(q.who.size(), {});
    if (q.last) return Ok{};
    for (std::size_t i = 0; i < q.who.size(); ++i)
      for (const Sent& one : send(q.who[i], q.round)) {
        ++asked;
        Status s = q.check(one.bytes);
        if (s.ok() && q.check_from) s = q.check_from(q.who[i], one.bytes);
        EXPECT_EQ(s.ok(), one.taken) << one.why << (s.ok() ? "" : ": " + s.error().message);
        if (s.ok()) answers[i] = one.bytes;
      }
    return Ok{};
  }
};

class HostileAnswers : public testing::Test {
 protected:
  void SetUp() override {
    home_ = std::filesystem::temp_directory_path() /
            fmt::format("tacit_hostile_{}_{}", ::getpid(),
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(home_);
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  // Runs the job, and says what its model is.
  void Run(const std::string& rest, Hostile& link, Vec& model) {
    const auto job =
        ParseJob("data = { source = \"sites\", features = 6, row_norm = \"clip\" }\n" + rest +
                     "serve = { clients = [\"a\", \"b\"], records = [30, 10] }\n",
                 "job.toml", {{"experiment.seed", "3"}, {"experiment.output", (home_ / "runs").string()}});
    ASSERT_TRUE(job.ok()) << job.error().message;
    const auto run = Coordinate(*job, link, home_ / "server");
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(run->rounds_done, 3u);
    EXPECT_EQ(run->answers.taken, 6u);
    EXPECT_TRUE(AllFinite(run->model));
    model = run->model;
  }
  std::filesystem::path home_;
};

const double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

TEST_F(HostileAnswers, AMaskOfAClientsOwnIsTheOneThatEverybodyKnows) {
  Hostile link;
  link.send = [](std::uint32_t client, std::uint32_t round) -> std::vector<Sent> {
    const std::uint64_t own = Stream({3, Purpose::kCompressor, client + 1, round})();
    const std::uint64_t other = Stream({3, Purpose::kCompressor, 2 - client, round})();
    const Vec two = {0.5, -0.25};
    return {{"as many coordinates as there are values", false, Fcrn(own, 2, two)},
            {"more coordinates than the model has", false, Fcrn(own, kDim + 1, two)},
            {"more than fit in memory", false, Fcrn(own, 1u << 28, two)},
            {"no coordinates", false, Fcrn(own, 0, two)},
            {"another client's mask", false, Fcrn(other, kDim, two)},
            {"a mask of its own choice", false, Fcrn(own + 1, kDim, two)},
            {"too many values", false, Fcrn(own, kDim, Vec(3, 1.0))},
            {"values for all", false, Fcrn(own, kDim, Vec(kDim, 1.0))},
            {"not a number", false, Fcrn(own, kDim, {kNan, 0})},
            {"infinite", false, Fcrn(own, kDim, {-kInf, 0})},
            {"finite, and nothing that squares are numbers of", false, Fcrn(own, kDim, {0, 1e200})},
            {"what an honest client sends", true, Fcrn(own, kDim, two)}};
  };
  Vec model;
  ASSERT_NO_FATAL_FAILURE(Run(
      "model = { l2 = 0.1, penalty = \"box\" }\nprivacy = { epsilon = 4.0 }\n"
      "algorithm = { name = \"fcrn\", design = \"full\", solver_steps = 3, coordinates = 2, rounds = 3 }\n",
      link, model));
  EXPECT_EQ(link.asked, 2u * 3 * 12);
}

TEST_F(HostileAnswers, AMaskOfTheRoundHasNoOther) {
  Hostile link;
  link.send = [](std::uint32_t, std::uint32_t) -> std::vector<Sent> {
    return {{"coordinates of its own", false, Fcrn(0, kDim, {1, 2})},
            {"as many as there are values", false, Fcrn(0, 2, {1, 2})},
            {"what an honest client sends", true, Fcrn(0, 0, {1, 2})}};
  };
  Vec model;
  ASSERT_NO_FATAL_FAILURE(
      Run("model = { l2 = 0.1, penalty = \"box\" }\nprivacy = { epsilon = 4.0 }\n"
          "algorithm = { name = \"fcrn\", solver_steps = 3, coordinates = 2, rounds = 3 }\n",
          link, model));
}

// A weight of one's own choice could make the others count for nothing, or the divisor 0.
TEST_F(HostileAnswers, WeightsAreThoseOfThePlan) {
  Hostile link;
  link.send = [](std::uint32_t client, std::uint32_t) -> std::vector<Sent> {
    const double own = client == 0 ? 1.0 : 10.0 / 30;
    const Vec update(kDim, 0.125);
    std::vector<Sent> out;
    for (const double w :
         {-own, 0.0, 2 * own, own * (1 + 1e-15), client == 0 ? 10.0 / 30 : 1.0, 1e300, kNan, kInf})
      out.push_back({"a weight of its own choice", false, Weighted(w, update)});
    out.push_back({"an update too long for numbers", false, Weighted(own, Vec(kDim, -0x1p101))});
    out.push_back({"what an honest client sends", true, Weighted(own, update)});
    return out;
  };
  Vec model;
  ASSERT_NO_FATAL_FAILURE(
      Run("model = { l2 = 0.1 }\nprivacy = { epsilon = 4.0, unit = \"client\" }\n"
          "algorithm = { name = \"dp-fedavg\", weights = \"records\", rounds = 3 }\n",
          link, model));
  for (const double x : model) EXPECT_NEAR(x, 3 * 0.125, 1e-12);
}

// Of a compressed vector, too: error feedback adds messages up, so that one would spoil the state for good.
TEST_F(HostileAnswers, CompressedNumbersAreBounded) {
  Hostile link;
  link.send = [](std::uint32_t, std::uint32_t) -> std::vector<Sent> {
    return {{"finite, and nothing that squares are numbers of", false, Dense(Vec(kDim, 1e200))},
            {"of another length", false, Dense(Vec(kDim - 1, 0.5))},
            {"not a number", false, Dense(Vec(kDim, kNan))},
            {"what an honest client can send", true, Dense(Vec(kDim, 0.5))}};
  };
  Vec model;
  ASSERT_NO_FATAL_FAILURE(
      Run("model = { l2 = 0.1 }\nprivacy = { epsilon = 4.0, unit = \"client\" }\n"
          "algorithm = { name = \"dpd-ef21\", rounds = 3 }\n",
          link, model));
}

}  // namespace
}  // namespace tacit
