// Frauds that the auditor must catch: each is a run whose certificate says one thing and whose code does
// another. Kept here alone. "Caught" means disproved beyond doubt (kBeyondDoubt): an honest run is accused
// with a probability below 1e-4.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "audit/audit.h"
#include "privacy/lattice_sampler.h"

namespace tacit {
namespace {

Config Small(const std::string& privacy, const std::string& algorithm, const std::string& data = "") {
  auto given = ParseConfig(
      fmt::format("[data]\nsource = \"synthetic-linear\"\nrows = 8\nfeatures = 4\n{}\n"
                  "[model]\nname = \"least-squares\"\nl2 = 0.1\n[privacy]\n{}\n{}\n[algorithm]\n{}\n",
                  data.empty() ? "clients = 2" : data,
                  privacy.find("epsilon") == std::string::npos ? "epsilon = 2.0" : "", privacy, algorithm),
      "fraud.toml", {});
  EXPECT_TRUE(given.ok()) << given.error().message;
  std::vector<std::string> changes;
  auto small = ForAudit(*given, 64, changes);
  EXPECT_TRUE(small.ok()) << small.error().message;
  return *small;
}
const char* const kFedAvg = "name = \"dp-fedavg\"\nallocation = \"static\"\nrounds = 3";

AuditReport Found(const Config& config, Variation variation = {}, std::uint32_t runs = 4000) {
  AuditOptions o;
  o.explore = 1500;
  o.measure = runs;
  auto r = Audit(config, o, std::move(variation));
  EXPECT_TRUE(r.ok()) << r.error().message;
  return r.ok() ? *r : AuditReport{};
}

// Honest in all but what a subclass changes: integers on the grid, as LatticeGaussian has them, which are
// kept here as doubles.
class Forged : public Mechanism {
 public:
  std::string_view name() const override { return honest_.name(); }
  PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const override {
    return honest_.EventFor(sensitivity, sigma, dim);
  }
  Status CheckRange(double most, NoiseStd sigma) const override { return honest_.CheckRange(most, sigma); }
  double OverheadMu(std::size_t dim) const override { return honest_.OverheadMu(dim); }

 protected:
  static void Normals(std::size_t dim, NoiseRng& rng, Vec& out) {
    std::vector<std::int64_t> k(dim);
    LatticeNormals(0x1p30, rng, k);
    out.resize(dim);
    for (std::size_t j = 0; j < dim; ++j) out[j] = std::ldexp(static_cast<double>(k[j]), -30);
  }
  void Draw(NoiseStd, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const override {
    Normals(dim, rng, noise.real);
  }
  void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
    for (std::size_t j = 0; j < value.size(); ++j) out[j] = value[j] + sigma.value() * noise.real[j];
  }

 private:
  LatticeGaussian honest_;
};
template <class F>
Variation With() {
  Variation v;
  v.mechanism = [](std::unique_ptr<Mechanism>) { return std::make_unique<F>(); };
  return v;
}

TEST(Frauds, TheFrameAloneIsHonest) {
  const AuditReport r = Found(Small("unit = \"client\"", kFedAvg), With<Forged>());
  EXPECT_FALSE(r.broken());
  EXPECT_LE(r.measured(), r.certified);
  EXPECT_GT(r.measured(), 0.6 * r.certified);
}

// One run is enough for a tenth of the noise, and does not accuse who is honest.
TEST(Frauds, ATenthOfTheNoiseInOneRun) {
  struct Tenth : Forged {
    void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
      Forged::Add(NoiseStd::Proven(sigma.value() / 10), noise, value, out);
    }
  };
  const Config config = Small("unit = \"client\"", kFedAvg);
  const auto honest = AuditInOneRun(config, 2000, {}, With<Forged>()),
             found = AuditInOneRun(config, 2000, {}, With<Tenth>());
  ASSERT_TRUE(honest.ok() && found.ok());
  EXPECT_FALSE(honest->broken());
  EXPECT_TRUE(found->broken()) << found->doubtless_epsilon;
}

TEST(Frauds, HalfTheNoise) {
  struct Half : Forged {
    void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
      Forged::Add(NoiseStd::Proven(sigma.value() / 2), noise, value, out);
    }
  };
  for (const char* trust : {"local", "central"}) {
    const AuditReport r =
        Found(Small(fmt::format("unit = \"client\"\ntrust = \"{}\"", trust), kFedAvg), With<Half>());
    EXPECT_TRUE(r.broken()) << trust << " " << r.mu << " of " << r.certified_mu;
  }
}

// Noise is drawn once for all clients of a round: what one sends takes the noise off what another does.
TEST(Frauds, NoiseOncePerBatchInsteadOfPerClient) {
  struct Shared : Forged {
    void Draw(NoiseStd, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const override {
      if (drawn_++ % 2 == 0) Normals(dim, rng, batch_);  // two clients
      noise.real = batch_;
    }
    mutable Vec batch_;
    mutable std::size_t drawn_ = 0;
  };
  const AuditReport r = Found(Small("unit = \"client\"", kFedAvg), With<Shared>());
  EXPECT_TRUE(r.broken());
  EXPECT_TRUE(r.certain());
  EXPECT_EQ(r.attack, "learned score");
}

// The generator starts anew with the same seed in every round. Where the noise of rounds differs in size,
// their difference takes the deviate off and leaves the data.
TEST(Frauds, AReusedSeed) {
  struct Again : Forged {
    void Draw(NoiseStd, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const override {
      if (drawn_++ % 6 == 0) seed_ = rng.Bits();  // a run: three rounds of two clients
      NoiseRng same =
          NoiseRng::Replayable({seed_, Purpose::kNoise, static_cast<std::uint32_t>(drawn_ % 2), 0});
      Normals(dim, same, noise.real);
    }
    mutable std::uint64_t seed_ = 0;
    mutable std::size_t drawn_ = 0;
  };
  const AuditReport r = Found(
      Small("unit = \"client\"", "name = \"dp-fedavg\"\nallocation = \"geometric\"\nratio = 0.5\nrounds = 3"),
      With<Again>());
  EXPECT_TRUE(r.broken());
  EXPECT_TRUE(r.certain());
}

// Nothing is clipped before the noise is added; what leaves is as short as one would expect.
TEST(Frauds, ClippingAfterNoise) {
  struct Late : Forged {
    void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
      Forged::Add(sigma, noise, value, out);
      const double most = 1 + 4 * sigma.value(), norm = Norm(out);
      if (norm > most) Scale(most / norm, out);
    }
  };
  // Says that every gradient is short, so that none is clipped.
  class Short final : public Objective {
   public:
    explicit Short(std::unique_ptr<Objective> of) : of_(std::move(of)) {}
    std::size_t dim(std::size_t features) const override { return of_->dim(features); }
    double Value(const Shard& s, View x, Workspace& w) const override { return of_->Value(s, x, w); }
    void RecordNorms(const Shard& s, View x, Workspace& w, Span norm) const override {
      of_->RecordNorms(s, x, w, norm);
      for (double& n : norm) n = std::min(n, 0.5);
    }
    void WeightedSum(const Shard& s, View x, Workspace& w, View weight, Span g) const override {
      of_->WeightedSum(s, x, w, weight, g);
    }
    std::size_t Roundings(std::size_t m) const override { return of_->Roundings(m); }
    std::size_t outputs() const override { return of_->outputs(); }
    void Predict(const Shard& s, View x, Span out) const override { of_->Predict(s, x, out); }
    std::optional<double> Accuracy(const Shard& s, View x) const override { return of_->Accuracy(s, x); }
    std::optional<double> RecordBound(double bound) const override { return of_->RecordBound(bound); }
    std::optional<double> Smoothness(double bound) const override { return of_->Smoothness(bound); }

   private:
    std::unique_ptr<Objective> of_;
  };
  Variation v = With<Late>();
  v.objective = [](std::unique_ptr<Objective> of) { return std::make_unique<Short>(std::move(of)); };
  const AuditReport r = Found(Small("", "rounds = 3"), std::move(v));
  EXPECT_TRUE(r.broken());
}

// Noise for records that come and go, under a certificate for records that are replaced: their terms are up
// to 2C apart, not C.
TEST(Frauds, AForgottenFactorTwo) {
  Variation v;
  v.adjacency = Adjacency::kReplaceOne;
  const AuditReport r = Found(Small("adjacency = \"zero-out\"", "rounds = 3"), std::move(v));
  EXPECT_TRUE(r.broken()) << r.mu << " of " << r.certified_mu;
  EXPECT_FALSE(Found(Small("adjacency = \"zero-out\"", "rounds = 3")).broken());
}

// What is charged too little by so little that no number of guesses would show it: the ledger of the run and
// the distance of its releases do.
TEST(Frauds, AChargeThatIsOnePercentTooSmall) {
  struct Cheap : Forged {
    PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const override {
      return Forged::EventFor(L2Bound::Proven(0.99 * sensitivity.value()), sigma, dim);
    }
  };
  for (const char* trust : {"local", "central"}) {
    const Config config = Small(fmt::format("unit = \"client\"\ntrust = \"{}\"", trust), kFedAvg);
    const AuditReport r = Found(config, With<Cheap>(), 500);
    EXPECT_TRUE(r.overdrawn()) << trust;
    EXPECT_TRUE(r.broken()) << trust;
    EXPECT_NEAR(r.most_reach, 1 / 0.99, 1e-6) << trust;
    EXPECT_FALSE(Found(config, {}, 500).overdrawn()) << trust;
  }
}

TEST(Frauds, AChargeThatIsForgottenInOneRound) {
  struct Forgetful : Forged {
    PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const override {
      // The target is the first of two clients; the plan asks too, before all rounds.
      const bool forgotten = asked_++ % 6 == 2;
      return Forged::EventFor(forgotten ? L2Bound::Proven(1e-9) : sensitivity, sigma, dim);
    }
    mutable std::size_t asked_ = 0;
  };
  const AuditReport r = Found(Small("unit = \"client\"", kFedAvg), With<Forgetful>(), 500);
  EXPECT_TRUE(r.overdrawn()) << r.most_reach;
}

// The same where the sample is secret: by guesses alone 20,000 runs do not show it.
TEST(Frauds, AForgottenFactorTwoUnderSecretSamples) {
  const Config config = Small("unit = \"client\"\ntrust = \"central\"\nadjacency = \"zero-out\"",
                              "name = \"dp-fedavg\"\nallocation = \"static\"\nrounds = 3\nsampling = "
                              "\"poisson\"\nsample_rate = 0.5");
  Variation v;
  v.adjacency = Adjacency::kReplaceOne;
  const AuditReport r = Found(config, std::move(v), 500);
  EXPECT_TRUE(r.overdrawn());
  EXPECT_NEAR(r.most_reach, 2, 1e-6);
  EXPECT_FALSE(Found(config, {}, 500).broken());
}

// Where samples are secret few runs show what one unit did, but all of them show the noise.
TEST(Frauds, ATenthLessNoiseUnderSecretSamples) {
  struct Less : Forged {
    void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
      Forged::Add(NoiseStd::Proven(0.9 * sigma.value()), noise, value, out);
    }
  };
  const Config config = Small("unit = \"client\"\ntrust = \"central\"",
                              "name = \"dp-fedavg\"\nallocation = \"static\"\nrounds = 3\nsampling = "
                              "\"poisson\"\nsample_rate = 0.5");
  const AuditReport r = Found(config, With<Less>(), 500);
  EXPECT_TRUE(r.noise_short()) << r.noise;
  EXPECT_TRUE(r.broken());
  EXPECT_NEAR(r.noise, 0.9, 0.01);
  const AuditReport honest = Found(config, {}, 500);
  EXPECT_FALSE(honest.broken());
  EXPECT_NEAR(honest.noise, 1, 0.01);
}

// Rounds that have the same noise and the same gradients give nothing away to a canary; the noise does.
TEST(Frauds, AReusedSeedInRoundsThatAreAlike) {
  struct Again : Forged {
    void Draw(NoiseStd, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const override {
      if (drawn_++ % 6 == 0) seed_ = rng.Bits();
      NoiseRng same =
          NoiseRng::Replayable({seed_, Purpose::kNoise, static_cast<std::uint32_t>(drawn_ % 2), 0});
      Normals(dim, same, noise.real);
    }
    mutable std::uint64_t seed_ = 0;
    mutable std::size_t drawn_ = 0;
  };
  const AuditReport r = Found(Small("unit = \"client\"", kFedAvg), With<Again>(), 500);
  EXPECT_TRUE(r.noise_short()) << r.shared_noise;
  EXPECT_GT(r.shared_noise, 5);
}

// Amplification is credited for a rate; who is drawn more often has less of it.
TEST(Frauds, ASampleThatHasTheUnitMoreOftenThanItsRate) {
  const Config config = Small("unit = \"client\"\ntrust = \"central\"",
                              "name = \"dp-fedavg\"\nallocation = \"static\"\nrounds = 3\nsampling = "
                              "\"poisson\"\nsample_rate = 0.25");
  AuditReport r = Found(config, {}, 500);
  EXPECT_EQ(r.rate, 0.25);
  EXPECT_GT(r.sampled_rounds, 1000u);
  EXPECT_NEAR(static_cast<double>(r.drawn) / static_cast<double>(r.sampled_rounds), 0.25, 0.05);
  EXPECT_FALSE(r.broken());
  r.drawn = r.sampled_rounds / 3;
  EXPECT_TRUE(r.drawn_too_often());
  EXPECT_TRUE(r.broken());
}

// Whoever mends the code, or breaks it, is not shown what an earlier program found.
TEST(Frauds, AStateOfAnHonestProgram) {
  struct Half : Forged {
    void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
      Forged::Add(NoiseStd::Proven(sigma.value() / 2), noise, value, out);
    }
  };
  AuditOptions o;
  o.explore = 100, o.measure = 200;
  o.state = std::filesystem::temp_directory_path() / fmt::format("tacit_frauds_{}.json", ::getpid());
  std::filesystem::remove(o.state);
  const Config config = Small("unit = \"client\"", kFedAvg);
  ASSERT_TRUE(Audit(config, o, With<Forged>()).ok());
  EXPECT_TRUE(Audit(config, o, With<Forged>()).ok());
  const auto other = Audit(config, o, With<Half>());
  std::filesystem::remove(o.state);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("another audit"), std::string::npos) << other.error().message;
}

const char* const kMasked =
    "unit = \"client\"\ntrust = \"masked\"\nmechanism = \"discrete_gaussian\"\nsurvivors = 3\ncolluding = 1";

// Masked sums: every client adds half of its share, or one more tells the server its own than is said to.
TEST(Frauds, MaskedSumsWithLessNoiseThanIsSaid) {
  const Config config = Small(kMasked, kFedAvg, "clients = 4");
  Variation half, told;
  half.masked_noise = 0.5;
  told.colluding = 1;
  for (Variation* v : {&half, &told}) {
    const AuditReport r = Found(config, *v, 12000);
    EXPECT_TRUE(r.noise_short()) << r.noise;
    EXPECT_GT(r.doubtless_mu, r.certified_mu);
    EXPECT_TRUE(r.broken());
  }
  const AuditReport honest = Found(config);
  EXPECT_FALSE(honest.broken());
  EXPECT_NEAR(honest.noise, 1, 0.01);
  EXPECT_GT(honest.measured(), 0.6 * honest.certified);
}

// Noise for a secret sample, and a sample that everybody sees.
TEST(Frauds, AmplificationCreditedForPublicSampling) {
  const Config config = Small("unit = \"client\"\ntrust = \"central\"\nepsilon = 0.5",
                              "name = \"dp-fedavg\"\nallocation = \"static\"\nrounds = 20\nsampling = "
                              "\"poisson\"\nsample_rate = 0.1");
  Variation seen;
  seen.sample_seen = true;
  const AuditReport r = Found(config, std::move(seen), 20000);
  EXPECT_TRUE(r.broken()) << r.doubtless_epsilon << " of " << r.certified;
  EXPECT_FALSE(Found(config).broken());
}

}  // namespace
}  // namespace tacit
