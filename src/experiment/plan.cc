#include "experiment/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/adaptive_clip.h"
#include "algorithms/primal_dual_theory.h"
#include "data/catalogue.h"
#include "experiment/build.h"
#include "experiment/feedback_plan.h"
#include "experiment/network_plan.h"
#include "experiment/second_order_plan.h"
#include "privacy/calibrate.h"
#include "privacy/claims.h"
#include "privacy/joint_release.h"
#include "privacy/randomizer_plan.h"
#include "privacy/schedule.h"

namespace tacit {

const std::vector<AlgorithmEntry>& Algorithms() {
  static const std::vector<AlgorithmEntry> kTable = {
      {"primal-dual", "Zhang, Fay, Johansson, ICASSP 2024",
       "locally private proximal primal-dual method with dynamic noise allocation"},
      {"fedexp", "Takakura, Liew, Hasegawa, DP-FedEXP",
       "federated averaging with an adaptive global step size, local or central privacy of clients"},
      {"dp-fedavg", "McMahan, Ramage, Talwar, Zhang, ICLR 2018",
       "federated averaging, local or central privacy of clients, or of records"},
      {"dp-scaffold", "Noble, Bellet, Dieuleveut, AISTATS 2022",
       "federated averaging with control variates, local or central privacy of clients, or of records"},
      {"isrl-dp", "Lowy, Razaviyayn, ICLR 2023", "noisy gradient descent, local privacy of records"},
      {"dpd-ef21", "DPd-EF21, anonymous submission; EF21: Richtarik, Sokolov, Fatkhullin, NeurIPS 2021",
       "compressed differences of gradients with private state and radii that fall, local privacy of "
       "clients"},
      {"dpd-ef21-2", "DPd-EF21, anonymous submission; EF21: Richtarik, Sokolov, Fatkhullin, NeurIPS 2021",
       "differences of gradients, compressed after the noise, local privacy of records or clients"},
      {"dp-clip21", "Khirirat et al., Clip21, 2023",
       "clipped differences of gradients, local privacy of clients"},
      {"clip21-sgd2m", "Islamov et al., Clip21-SGD2M, 2025",
       "clipped differences of gradients with two momenta, local privacy of clients"},
      {"fcrn", "Huo, Liu, Ding, Johansson, Shi, DP-FCRN",
       "cubic-regularised Newton method on secret samples of records, local privacy of records"},
      {"dp-fed-sgd", "Lowy, Razaviyayn, ICLR 2023",
       "noisy gradient descent on secret samples of records, local privacy of records"},
      {"zcdp-nfl", "Gauthier, Gratton, Venkategowda, Werner, zCDP-NFL",
       "linearised ADMM on a graph without a server, for losses with kinks; local privacy of records"},
      {"dp-nfl", "Gauthier, Gratton, Venkategowda, Werner, zCDP-NFL",
       "zcdp-nfl with noise by composition theorems for (epsilon, delta)"},
      {"zcdp-grad-nfl", "Nedic, Ozdaglar, IEEE TAC 2009",
       "subgradient method on a graph without a server, local privacy of records"},
      {"p-admm", "Ding, Gong, Pan, Han, 2019",
       "ADMM on a graph without a server, for smooth objectives; local privacy of records"},
  };
  return kTable;
}

double Plan::EpsilonAfter(std::size_t k) const {
  if (std::isinf(certified_epsilon)) return kInf;
  if (account) return certified_epsilon;
  MuSquared spent{0.0};
  for (std::size_t i = 0; i <= k && i < schedule.size() && (turns == 0 || i < turns); ++i)
    spent = spent + Squared(Mu::Proven(schedule[i].mu));
  return GdpEpsilon(Root(spent), Delta::Proven(delta)).upper;
}

double Plan::expected() const {
  if (sampling.kind == SampleKind::kFull) return static_cast<double>(clients);
  if (sampling.kind == SampleKind::kFixed) return static_cast<double>(sampling.size);
  return sampling.rate.value() * static_cast<double>(clients);
}

// Equal weights make exactly what there is without.
double Plan::expected_weight() const {
  return weights.empty() ? expected() : expected() * (everyone / static_cast<double>(clients));
}

void SetWeights(Plan& p, const std::vector<std::size_t>& records) {
  TACIT_CHECK(records.size() == p.clients);
  p.most_records = *std::max_element(records.begin(), records.end());
  TACIT_CHECK(p.most_records > 0 && p.most_records < std::size_t{1} << 49);      // see Bounded::Entrust
  p.weights.clear();
  p.everyone = 0;
  for (const std::size_t m : records) {
    p.weights.push_back(static_cast<double>(m) / static_cast<double>(p.most_records));
    p.everyone += p.weights.back();
  }
  if (p.trust == "central")
    for (PlannedRound& r : p.schedule) r.noise_on_mean = r.sigma / p.expected_weight();
}

std::string ClientUnitText(const Config& c) {
  const auto& d = c.data;
  std::string how =
      d.split == "column" ? "by " + d.group_column : fmt::format("{} into {}", d.split, d.clients);
  if (d.split == "dirichlet") how += fmt::format(", alpha {:g}", d.alpha);
  if (d.split == "mixed") how += fmt::format(", {} uniform", d.uniform);
  if (d.split != "column" && d.split != "blocks") how += fmt::format(", seed {}", c.experiment.seed);
  if (d.rows_per_client != 0) how += fmt::format(", {} rows each", d.rows_per_client);
  if (d.rows != 0) how += fmt::format(", of {} rows", d.rows);
  if (d.skip != 0) how += fmt::format(" after {}", d.skip);
  if (c.algorithm.weights == "records") how += "; numbers of records public";
  return fmt::format("client ({}; {})", c.privacy.trust, how);
}

std::string UnitText(const std::string& unit, const std::string& person_bound,
                     std::size_t records_per_person) {
  if (unit != "person") return unit;
  const std::string most = records_per_person == 0 ? ""
                                                   : fmt::format("at most {} record{}", records_per_person,
                                                                 records_per_person == 1 ? "" : "s");
  if (person_bound == "records") return fmt::format("person ({})", most);
  return fmt::format("person ({}{}sum clipped)", most, most.empty() ? "" : ", ");
}

Result<Shares> Allocate(const Config& c, const Vec& log_q, double delta, Mu budget) {
  const auto& a = c.algorithm;
  const std::size_t rounds = log_q.size();
  const Vec log_delta(rounds, std::log(delta));
  if (a.allocation == "geometric") {
    if (std::isfinite(a.variance_cap))
      return Fail(Code::kUnsupported,
                  "algorithm.variance_cap = {:g}: a geometric allocation has no cap; use dynamic",
                  a.variance_cap);
    return GeometricShares(rounds, a.ratio);
  }
  if (a.allocation == "dynamic") {
    const double skip = a.mode == "certified" ? kSkipShare : 0.0;  // a paper sends every round
    if (std::isfinite(a.variance_cap))
      return CappedWaterFilling(log_q, log_delta, budget, a.variance_cap, skip);
    return WaterFillingShares(log_q, log_delta, skip);
  }
  if (const double variance = delta * delta * static_cast<double>(rounds) / (budget.value() * budget.value());
      variance > a.variance_cap)
    return Fail(
        Code::kBudget,
        "algorithm.variance_cap = {:g}: a static allocation needs variance {:.6g} in every round; raise "
        "it or privacy.epsilon, or lower algorithm.rounds",
        a.variance_cap, variance);
  return UniformShares(rounds);
}

Result<NoisePlan> NoiseOf(const std::vector<std::uint32_t>& rounds, const Vec& mu, double delta) {
  NoisePlan plan;
  plan.reserve(rounds.size());
  for (const std::uint32_t t : rounds) {
    const auto sigma = NoiseStd::Of(DivUp(delta, mu[t - 1]));
    if (!sigma.ok())
      return Fail(Code::kInvalidArgument,
                  "algorithm.rounds = {}: the noise of round {} is beyond any number; lower it, or set "
                  "algorithm.allocation = \"static\"",
                  mu.size(), t);
    plan.push_back(*sigma);
  }
  return plan;
}

Result<PublicFacts> FactsWithoutData(const Config& c) {
  PublicFacts f;
  if (c.data.source.empty())
    return Fail(
        Code::kInvalidArgument,
        "data.source is not set: give a name that `tacit data list` knows, a file, or synthetic-logistic");
  const KnownSet* known = FindSet(c.data.source);
  std::size_t rows = 0;
  TACIT_TRY(const CsvLayout layout, LayoutOf(c));
  if (known != nullptr) {
    rows = known->rows;
    f.features = c.data.features != 0 ? c.data.features : known->features;
    if (known->format == Format::kCsv) {
      if (c.data.features == 0) f.features -= std::min(f.features, layout.drop.size());
      f.features = layout.Features(f.features);
    }
    f.classes = known->classes;
  } else if (IsSynthetic(c.data.source)) {
    rows = kSyntheticRows;
    f.features = c.data.features != 0 ? c.data.features : kSyntheticFeatures;
    f.classes = 2;
  } else if (c.data.rows == 0 || c.data.features == 0) {
    return Fail(Code::kInvalidArgument,
                "data.source = \"{}\": a plan reads no data, so the shape of a file must be given; set "
                "data.rows and data.features",
                c.data.source);
  } else {
    rows = c.data.rows + c.data.skip;
    f.features = layout.Features(c.data.features);
  }
  if (IsSynthetic(c.data.source)) {
    rows = c.data.rows != 0 ? c.data.rows : rows;
  } else {
    if (c.data.skip >= rows)
      return Fail(Code::kInvalidArgument, "data.skip = {}: leaves nothing of {} rows; lower it", c.data.skip,
                  rows);
    rows -= c.data.skip;
    if (c.data.rows != 0) rows = std::min(rows, c.data.rows);
  }
  f.clients = c.data.clients;
  if (c.data.split != "column" && f.clients > rows)
    return Fail(Code::kInvalidArgument, "data.clients = {}: more clients than the {} rows; lower it",
                f.clients, rows);
  if (c.data.rows_per_client != 0) {
    if (c.data.rows_per_client > rows / f.clients)
      return Fail(
          Code::kInvalidArgument,
          "data.rows_per_client = {}: {} clients would need {} rows and there are {}; lower one of them",
          c.data.rows_per_client, f.clients, f.clients * c.data.rows_per_client, rows);
    rows = f.clients * c.data.rows_per_client;
  }
  f.rows = rows;
  // Persons are kept whole, so how many records a client has depends on who has how many.
  if (c.privacy.unit != "person" && (c.data.split == "blocks" || c.data.split == "iid" ||
                                     c.data.split == "label" || c.data.split == "mixed")) {
    f.records.assign(f.clients, rows / f.clients);
    for (std::size_t i = 0; i < rows % f.clients; ++i) ++f.records[i];
  }
  if (c.data.intercept) ++f.features;
  f.row_bound = c.data.row_norm == "none" ? kInf : c.data.row_bound;
  return f;
}

MuSquared BudgetOf(Mu mu) { return MuSquared::Proven(std::max(0.0, NextDown(mu.value() * mu.value()))); }

Result<Adjacency> ParseAdjacency(const std::string& name) {
  for (Adjacency a : {Adjacency::kReplaceOne, Adjacency::kAddOrRemove, Adjacency::kZeroOut})
    if (name == Name(a)) return a;
  return Fail(Code::kInvalidArgument, "privacy.adjacency = \"{}\": unknown", name);
}

Status CheckData(const Config& c) {
  const auto& d = c.data;
  if (d.lower.size() != d.upper.size())
    return Fail(Code::kInvalidArgument,
                "data.lower has {} numbers and data.upper {}; give one of each, or one of each per feature",
                d.lower.size(), d.upper.size());
  for (std::size_t i = 0; i < d.lower.size(); ++i)
    if (!(d.lower[i] < d.upper[i]))
      return Fail(Code::kInvalidArgument, "data.lower[{}] = {:g} is not below data.upper[{}] = {:g}", i,
                  d.lower[i], i, d.upper[i]);
  if (d.scale == 0)
    return Fail(Code::kInvalidArgument, "data.scale = 0: every feature would be 0; give another constant");
  if (d.separator.size() != 1)
    return Fail(Code::kInvalidArgument, "data.separator = \"{}\": must be one character", d.separator);
  return Ok{};
}

namespace {

// Public constants that fit each other, said before any data is read.
Status CheckConstants(const Config& c) {
  TACIT_OK(CheckData(c));
  const auto& d = c.data;
  const bool by_client = c.privacy.unit == "client", primal_dual = c.algorithm.name == "primal-dual";
  if (by_client && primal_dual)
    return Fail(Code::kUnsupported,
                "privacy.unit = \"client\": primal-dual releases sums of records' gradients and protects one "
                "record or person; use another unit, or fedexp, dp-fedavg or dp-scaffold");
  const bool fedexp = c.algorithm.name == "fedexp", isrl = c.algorithm.name == "isrl-dp";
  if (fedexp && !by_client)
    return Fail(
        Code::kUnsupported,
        "privacy.unit = \"{}\": fedexp clips a client's whole update and protects all its records; set "
        "privacy.unit = \"client\", or use dp-fedavg, dp-scaffold, isrl-dp or primal-dual",
        c.privacy.unit);
  if (isrl && by_client)
    return Fail(
        Code::kUnsupported,
        "privacy.unit = \"client\": isrl-dp releases sums of records' gradients and protects one record; "
        "set privacy.unit = \"record\", or use fedexp, dp-fedavg or dp-scaffold");
  const bool by_unit = c.privacy.mechanism == "priv-unit", paper = c.algorithm.mode == "paper";
  const bool masked = c.privacy.trust == "masked";
  if (masked && paper)
    return Fail(Code::kUnsupported,
                "privacy.trust = \"masked\": no paper here states noise for masked sums; use certified mode");
  if (by_unit) {
    if (!by_client || c.privacy.trust != "local")
      return Fail(
          Code::kUnsupported,
          "privacy.mechanism = \"priv-unit\": is for a client's whole update that nobody else noises; set "
          "privacy.unit = \"client\" and privacy.trust = \"local\"");
    if (!c.privacy.budgets.empty() || c.algorithm.clip_quantile != 0)
      return Fail(Code::kUnsupported,
                  "privacy.mechanism = \"priv-unit\": has one randomizer for all clients and rounds; leave "
                  "privacy.budgets and algorithm.clip_quantile out");
    if (c.algorithm.noise_multiplier != 0)
      return Fail(Code::kInvalidArgument,
                  "algorithm.noise_multiplier = {:g}: is for Gaussian noise; leave it out with "
                  "privacy.mechanism = \"priv-unit\"",
                  c.algorithm.noise_multiplier);
    if (paper && c.privacy.split.size() != 3)
      return Fail(Code::kInvalidArgument,
                  "privacy.split has {} numbers: paper mode states epsilon0, epsilon1 and epsilon2 of a "
                  "message; give "
                  "three ([2, 2, 2] in the experiments of DP-FedEXP), or use certified mode",
                  c.privacy.split.size());
    if (!paper && (!c.privacy.split.empty() || c.privacy.cap != "best"))
      return Fail(Code::kInvalidArgument,
                  "privacy.split, privacy.cap: certified mode finds them from privacy.epsilon; leave them "
                  "out, or set "
                  "algorithm.mode = \"paper\"");
    if (paper && c.privacy.length_share != 0)
      return Fail(Code::kInvalidArgument,
                  "privacy.length_share = {:g}: paper mode states privacy.split; leave it out",
                  c.privacy.length_share);
  }
  if (c.algorithm.weights == "records") {
    if (!by_client)
      return Fail(Code::kUnsupported,
                  "algorithm.weights = \"records\": is for clients as what is hidden; set privacy.unit = "
                  "\"client\", or leave it out");
    if (by_unit)
      return Fail(Code::kUnsupported,
                  "algorithm.weights = \"records\": is for Gaussian noise; leave it out with "
                  "privacy.mechanism = \"priv-unit\"");
    if (masked)
      return Fail(
          Code::kUnsupported,
          "algorithm.weights = \"records\": masked sums are of updates that all count alike; leave it out "
          "with privacy.trust = \"masked\"");
    if (c.privacy.adjacency == Name(Adjacency::kAddOrRemove))
      return Fail(
          Code::kUnsupported,
          "algorithm.weights = \"records\": who has how many records is public then, so whether a client is "
          "there cannot be hidden; set privacy.adjacency = \"zero-out\" or \"replace-one\"");
  }
  if (c.algorithm.server_optimizer != "plain" && (fedexp || primal_dual || isrl))
    return Fail(
        Code::kUnsupported,
        "algorithm.server_optimizer = \"{}\": {} has its own global step; leave it out, or use dp-fedavg "
        "or dp-scaffold",
        c.algorithm.server_optimizer, c.algorithm.name);
  if (c.algorithm.clip_quantile != 0) {
    if (c.algorithm.name != "dp-fedavg" || !by_client)
      return Fail(Code::kUnsupported,
                  "algorithm.clip_quantile = {:g}: a clip that follows the updates is for dp-fedavg with "
                  "privacy.unit = \"client\"; set both, or leave it out",
                  c.algorithm.clip_quantile);
    if (c.algorithm.mode == "paper")
      return Fail(
          Code::kUnsupported,
          "algorithm.clip_quantile = {:g}: paper mode has the fixed clip of its papers; use certified mode",
          c.algorithm.clip_quantile);
  }
  if (!by_client && !primal_dual) {
    if (!isrl && c.model.penalty != "none")
      return Fail(
          Code::kUnsupported,
          "model.penalty = \"{}\": local steps are plain gradient steps and have no prox; use none, or "
          "model.l2",
          c.model.penalty);
    if (c.algorithm.batch != 0 || c.algorithm.proximal != 0)
      return Fail(
          Code::kUnsupported,
          "algorithm.batch = {}, algorithm.proximal = {:g}: with privacy.unit = \"record\" every step is on "
          "all records of a client; set both to 0",
          c.algorithm.batch, c.algorithm.proximal);
  }
  if (!by_client && c.privacy.trust != "local")
    return Fail(Code::kUnsupported,
                "privacy.trust = \"{}\": {} with privacy.unit = \"{}\" has its noise at the clients; "
                "set trust to "
                "local, or unit to client with fedexp, dp-fedavg or dp-scaffold",
                c.privacy.trust, c.algorithm.name, c.privacy.unit);
  if (by_client) {
    if (c.privacy.adjacency == Name(Adjacency::kAddOrRemove) &&
        (c.privacy.trust != "central" || c.algorithm.sampling != "poisson"))
      return Fail(Code::kUnsupported,
                  "privacy.adjacency = \"add-remove\": who takes part is public here, so a client cannot be "
                  "hidden, only what it has; use replace-one or zero-out with privacy.unit = \"client\", or "
                  "privacy.trust = \"central\" with algorithm.sampling = \"poisson\"");
    if (c.algorithm.name == "dp-scaffold" && c.algorithm.sampling == "fixed" && c.privacy.trust == "central")
      return Fail(
          Code::kUnsupported,
          "algorithm.sampling = \"fixed\": clients of dp-scaffold remember their turns, which in samples "
          "of a fixed size depend on everybody's, and no amplification is proved; use poisson");
    if (c.algorithm.mode == "paper" && !c.privacy.budgets.empty())
      return Fail(
          Code::kUnsupported,
          "privacy.budgets: papers with clients as the unit have one noise for all; leave it out, or use "
          "certified mode");
    if (const double z = c.algorithm.noise_multiplier; z != 0 && !(z >= 1e-6 && z <= 1e6))
      return Fail(Code::kInvalidArgument, "algorithm.noise_multiplier = {:g}: must be in [1e-6, 1e6]", z);
    if (c.algorithm.mode == "certified" && c.algorithm.noise_multiplier != 0)
      return Fail(
          Code::kInvalidArgument,
          "algorithm.noise_multiplier = {:g}: certified mode takes the noise from privacy.epsilon; leave it "
          "out, or set algorithm.mode = \"paper\"",
          c.algorithm.noise_multiplier);
    if (fedexp && c.algorithm.server_rate != 1)
      return Fail(
          Code::kInvalidArgument,
          "algorithm.server_rate = {:g}: fedexp finds its own global step; leave it at 1, or use dp-fedavg",
          c.algorithm.server_rate);
    if (!fedexp && c.algorithm.step != "corrected")
      return Fail(Code::kInvalidArgument, "algorithm.step = \"{}\": is for fedexp; leave it out with {}",
                  c.algorithm.step, c.algorithm.name);
    if (c.privacy.trust != "local" && !c.privacy.budgets.empty())
      return Fail(Code::kUnsupported,
                  "privacy.budgets: one noise on the sum protects all clients alike; leave it out with "
                  "privacy.trust = \"{}\"",
                  c.privacy.trust);
    if (c.algorithm.mode == "paper" && !(c.algorithm.noise_multiplier > 0) && !by_unit &&
        c.privacy.mechanism != "expose")
      return Fail(
          Code::kInvalidArgument,
          "algorithm.noise_multiplier is not set: these papers state the noise and not epsilon; set it "
          "(0.7 with local and 5 with central trust in the experiments of DP-FedEXP), or use certified "
          "mode");
    if (c.algorithm.name == "dp-scaffold" && (c.algorithm.batch != 0 || c.algorithm.proximal != 0))
      return Fail(
          Code::kUnsupported,
          "algorithm.batch = {}, algorithm.proximal = {:g}: control variates are for full local steps; "
          "set both to 0 with dp-scaffold",
          c.algorithm.batch, c.algorithm.proximal);
    if (c.algorithm.name == "fedexp" && c.algorithm.step == "naive" && c.privacy.trust != "local")
      return Fail(
          Code::kUnsupported,
          "algorithm.step = \"naive\": is about squared lengths of noisy updates; with privacy.trust = "
          "\"{}\" nobody has them, so use corrected",
          c.privacy.trust);
    if (c.model.penalty != "none")
      return Fail(
          Code::kUnsupported,
          "model.penalty = \"{}\": local steps are plain gradient steps and have no prox; use none, or "
          "model.l2",
          c.model.penalty);
  }
  if (c.privacy.unit != "person") return Ok{};
  if (!primal_dual)
    return Fail(
        Code::kUnsupported,
        "privacy.unit = \"person\": is proved for primal-dual and not for {}; use that, or the unit record",
        c.algorithm.name);
  if (c.algorithm.mode != "certified")
    return Fail(Code::kUnsupported,
                "privacy.unit = \"person\": a paper's calibration is for records; set algorithm.mode = "
                "\"certified\"");
  if (d.person_column.empty())
    return Fail(Code::kInvalidArgument,
                "privacy.unit = \"person\": needs to know whose record a row is; set data.person_column");
  if (d.rows_per_client != 0)
    return Fail(
        Code::kInvalidArgument,
        "data.rows_per_client = {}: would cut a person's rows; with privacy.unit = \"person\" leave it "
        "at 0",
        d.rows_per_client);
  if (c.privacy.person_bound == "records" && d.records_per_person == 0)
    return Fail(Code::kInvalidArgument,
                "data.records_per_person is not set: privacy.person_bound = \"records\" needs that public "
                "number; set it, or use \"sum\"");
  // A person with records at several clients is covered by the noise of the least noisy one.
  if (!c.privacy.budgets.empty())
    return Fail(
        Code::kUnsupported,
        "privacy.budgets: one person may have records at several clients, so all need the same noise; "
        "leave it out with privacy.unit = \"person\"");
  return Ok{};
}

}  // namespace

Result<Sampling> SamplingOf(const Config& c, std::size_t clients) {
  const auto& a = c.algorithm;
  const bool poisson = a.sampling == "poisson", fixed = a.sampling == "fixed";
  if (!poisson && a.sample_rate != 0)
    return Fail(
        Code::kInvalidArgument,
        "algorithm.sample_rate = {:g}: is for algorithm.sampling = \"poisson\"; set that, or leave it out",
        a.sample_rate);
  if (!fixed && a.sample_clients != 0)
    return Fail(
        Code::kInvalidArgument,
        "algorithm.sample_clients = {}: is for algorithm.sampling = \"fixed\"; set that, or leave it out",
        a.sample_clients);
  if (a.participations != 0 && ((!poisson && !fixed) || c.privacy.trust != "local"))
    return Fail(Code::kInvalidArgument,
                "algorithm.participations = {}: is for samples of clients with privacy.trust = \"local\"; "
                "leave it out",
                a.participations);
  if (!poisson && !fixed) return Sampling{};
  if (c.privacy.unit != "client" && !WithFeedback(a.name))
    return Fail(
        Code::kUnsupported,
        "algorithm.sampling = \"{}\": clients are sampled where they are what is hidden; set privacy.unit "
        "= \"client\", or sampling = \"full\"",
        a.sampling);
  if (c.privacy.mechanism == "priv-unit")
    return Fail(Code::kUnsupported,
                "algorithm.sampling = \"{}\": is for Gaussian noise; use \"full\" with privacy.mechanism = "
                "\"priv-unit\"",
                a.sampling);
  if (c.privacy.trust == "masked")
    return Fail(
        Code::kUnsupported,
        "algorithm.sampling = \"{}\": who is asked for a masked sum is seen, so that a sample is worth "
        "nothing, and noise is shared by all clients; use \"full\" with privacy.trust = \"masked\"",
        a.sampling);
  if (a.mode != "certified")
    return Fail(
        Code::kUnsupported,
        "algorithm.sampling = \"{}\": the papers have every client in every round; use certified mode",
        a.sampling);
  if (poisson) {
    if (!(a.sample_rate > 0))
      return Fail(
          Code::kInvalidArgument,
          "algorithm.sample_rate is not set: sampling = \"poisson\" needs the probability with which a "
          "client takes part; set it, e.g. to 0.01");
    return Sampling{.kind = SampleKind::kPoisson, .rate = Probability::Proven(a.sample_rate), .size = 0};
  }
  if (a.sample_clients == 0 || a.sample_clients > clients)
    return Fail(
        Code::kInvalidArgument,
        "algorithm.sample_clients = {}: sampling = \"fixed\" needs how many of the {} clients take part "
        "in a round",
        a.sample_clients, clients);
  if (c.privacy.trust == "central" && c.privacy.adjacency != Name(Adjacency::kReplaceOne))
    return Fail(
        Code::kUnsupported,
        "algorithm.sampling = \"fixed\": which of a fixed number take part depends on everybody who is "
        "there, so neighbours differ by replacing one; set privacy.adjacency = \"replace-one\", or use "
        "poisson");
  // Who has a turn is known to every client of itself, and a turn that one has another has not: seen from one
  // client the others are sampled from one fewer.
  const double others = static_cast<double>(clients) - 1, wanted = static_cast<double>(a.sample_clients);
  return Sampling{.kind = SampleKind::kFixed,
                  .rate = Probability::Proven(wanted < others ? DivUp(wanted, others) : 1.0),
                  .size = static_cast<std::uint32_t>(a.sample_clients)};
}

Result<NoiseStd> SampledNoise(const Plan& p, const Sampling& sampling, L2Bound sensitivity,
                              const Mechanism& mechanism, std::size_t rounds) {
  const Epsilon epsilon = Epsilon::Proven(p.epsilon);
  const Delta delta = Delta::Proven(p.delta);
  TACIT_TRY(const Calibration found, CalibrateNoise({.adjacency = p.adjacency,
                                                     .rounds = static_cast<double>(rounds),
                                                     .rate = sampling.rate.value(),
                                                     .fixed_size = sampling.kind == SampleKind::kFixed},
                                                    epsilon, delta));
  const double mu = NextDown(NextDown(1 / found.value) - mechanism.OverheadMu(p.released()));
  for (double room = 1; mu > 0 && room < 2; room = 1 + 2 * (room - 1) + 1e-10) {
    const auto sigma = NoiseStd::Of(DivUp(MulUp(sensitivity.value(), room), mu));
    if (!sigma.ok()) break;
    Accountant account(p.adjacency);
    TACIT_OK(account.Compose(OnSecretSample(sampling, mechanism.EventFor(sensitivity, *sigma, p.released())),
                             rounds));
    TACIT_TRY(const Bracket reached, account.EpsilonAt(delta));
    if (reached.upper <= p.epsilon) return *sigma;
  }
  return Fail(
      Code::kBudget,
      "privacy.epsilon = {:g}: no noise in reach keeps it over {} rounds with {} parameters; raise it, or "
      "lower algorithm.rounds",
      p.epsilon, rounds, p.dim);
}

namespace {

// The theory's constants for this problem, and warnings where they do not apply.
PrimalDualTheory Theory(const Config& c, const PublicFacts& facts, const Objective& f, double scale,
                        Plan& p) {
  const std::optional<double> smooth = f.Smoothness(facts.row_bound);
  PrimalDualTheory theory{.gamma = c.algorithm.gamma, .mu_f = 0, .l_f = 0};
  theory.l_f = smooth && std::isfinite(*smooth) ? scale * (*smooth + c.model.l2) : kInf;
  theory.mu_f = c.algorithm.strong_convexity >= 0 ? c.algorithm.strong_convexity : scale * c.model.l2;
  theory.sharp =
      c.algorithm.factor == "sharp" || (c.algorithm.factor == "auto" && c.algorithm.mode == "certified");
  if (std::isinf(theory.l_f)) {
    p.warnings.push_back(std::isinf(facts.row_bound)
                             ? "no public smoothness constant: rows are not bounded (set data.row_norm); the "
                               "step is limited by 1/4 alone"
                             : fmt::format("model.name = \"{}\" has no smoothness constant; the step is "
                                           "limited by 1/4 alone, and the theory does not "
                                           "cover it",
                                           c.model.name));
    theory.l_f = 4;
  }
  if (theory.gamma == 0) theory.gamma = theory.LargestStep();
  if (theory.gamma > theory.LargestStep() * (1 + 1e-12))
    p.warnings.push_back(
        fmt::format("algorithm.gamma = {:g} is above min{{1/4, 1/L_f}} = {:g}: the theory does not cover it",
                    theory.gamma, theory.LargestStep()));
  return theory;
}

// Bytes of the whole run, as the frames of its messages have them.
void CountTraffic(Plan& p) {
  const bool by_client = p.by_client(), primal_dual = p.algorithm == "primal-dual",
             isrl = p.algorithm == "isrl-dp";
  const std::size_t rounds = p.schedule.size();
  const std::size_t length = sizeof(std::uint64_t), vector = length + p.dim * sizeof(double);
  if (!primal_dual) {  // the model is not in the first broadcast; who remembers has one more
    const bool control = p.algorithm == "dp-scaffold", local_noise = !by_client && !isrl;
    const bool remember = control || local_noise;
    const std::size_t vectors = control ? 2 : 1;
    const std::size_t lengths = remember ? 2 : 1;  // vectors of a message, empty ones included
    const std::size_t up =
        p.randomizer ? kFrameHeader + sizeof(std::uint32_t) + length + p.dim * sizeof(std::int32_t)
        : p.secure   ? kFrameHeader + sizeof(std::uint32_t) + length + p.released() * (p.secure->bits() / 8)
                     : kFrameHeader + (local_noise ? 2 : 1) * length +
                         (local_noise ? vectors : 1) * p.released() * sizeof(double) +
                         (p.by_records && p.trust == "local" ? sizeof(double) : 0);
    const std::size_t empty = kFrameHeader + sizeof(std::uint32_t) + lengths * length +
                              (p.indicator > 0 ? sizeof(double) : 0),
                      full = empty + vectors * p.dim * sizeof(double);
    // Clients of a round, in the mean where they are sampled; everyone who remembers gets the last model.
    const auto of_round = [&](double bytes) { return static_cast<std::size_t>(p.expected() * bytes); };
    p.bytes_up = of_round(static_cast<double>(up * rounds));
    p.bytes_down =
        of_round(static_cast<double>(empty + full * (rounds - 1))) + (remember ? full * p.clients : 0);
    return;
  }
  const std::size_t up = kFrameHeader + vector, down = kFrameHeader + sizeof(std::uint32_t) + vector;
  p.bytes_up = up * rounds * p.clients;
  p.bytes_down = (down * (rounds + 1) - p.dim * sizeof(double)) * p.clients;
}

// A run whose messages are directions and lengths: one randomizer for all rounds, paid for as a whole.
Status PlanByUnit(const Config& c, Plan& p) {
  const L2Bound clip = L2Bound::Proven(c.privacy.clip);
  const Delta delta = Delta::Proven(p.delta);
  const auto epsilon = [](double e) { return Epsilon::Proven(e); };
  if (p.mode == "certified" && ((c.algorithm.allocation == "geometric" && c.algorithm.ratio != 1) ||
                                (c.algorithm.allocation == "dynamic" && p.factor < 1)))
    return Fail(
        Code::kUnsupported,
        "algorithm.allocation = \"{}\": with privacy.mechanism = \"priv-unit\" all rounds have the same "
        "epsilon; set static",
        c.algorithm.allocation);
  if (p.mode == "paper") {
    p.split = c.privacy.split;
    const RandomizerSplit split{epsilon(p.split[0]), epsilon(p.split[1]), epsilon(p.split[2])};
    auto made = StatedRandomizer(split, c.privacy.cap == "printed", p.dim, clip);
    if (!made.ok()) return Error{made.error().code, "privacy.split: " + made.error().message};
    p.randomizer = std::make_shared<const LocalRandomizer>(*std::move(made));
    p.claimed_epsilon = p.epsilon = p.split[0] + p.split[1] + p.split[2];
    p.claim_source = "DP-FedEXP, Lemma D.1: one message of one client; a run has one a round";
  } else {
    auto made = CalibrateRandomizer(epsilon(p.epsilon), delta, p.adjacency, p.rounds, p.dim, clip,
                                    c.privacy.length_share);
    if (!made.ok()) return Error{made.error().code, "privacy.epsilon: " + made.error().message};
    p.randomizer = std::make_shared<const LocalRandomizer>(*std::move(made));
  }
  const LocalRandomizer& r = *p.randomizer;
  TACIT_TRY(Accountant account, AccountOf(r, p.adjacency, p.rounds));
  TACIT_TRY(const Bracket whole, account.EpsilonAt(delta));
  p.account.emplace(std::move(account));
  p.certified_epsilon = whole.upper;
  p.certified_epsilon_lower = whole.lower;
  p.method = whole.method;
  const double rounds = static_cast<double>(p.rounds);
  const double one = AddUp(PureCost(r.direction().event()).value(), PureCost(r.length().event()).value());
  p.pure_epsilon = MulUp(rounds, one);
  const double rho = ZcdpCost(r.direction().event()).value() + ZcdpCost(r.length().event()).value();
  p.zcdp_epsilon = ZcdpEpsilon(Rho::Proven(rho * rounds * (1 + 1e-12)), delta);
  p.mu_budget = kInf;
  p.units = 1;
  p.record_bound = clip.value();
  p.sensitivity = Bounded::Sensitivity(p.adjacency, clip, 1, 0).value();
  // Noise a coordinate, of an update as long as the clip: what Gaussian noise of that size would do.
  const double spread = r.SecondMoment(clip.value()) - clip.value() * clip.value();
  const double sigma = std::sqrt(std::max(spread, 1e-300) / static_cast<double>(p.dim));
  p.noise.push_back(std::make_shared<const NoisePlan>(p.rounds, NoiseStd::Proven(sigma)));
  p.noise_of.assign(p.clients, 0);
  p.budgets.assign(p.clients, MuSquared::Proven(kInf));
  for (std::uint32_t t = 1; t <= p.rounds; ++t)
    p.schedule.push_back(
        {.round = t, .share = 1 / rounds, .mu = kInf, .sigma = sigma, .noise_on_mean = sigma});
  CountTraffic(p);
  return Ok{};
}

// Half of how far apart two clients' terms can be, or how long one is: the clip, but where a squared length,
// or whether it was clipped (0 or −κ), goes along.
L2Bound TermOf(const Plan& p, L2Bound clip) {
  const double x = MulUp(p.square, clip.value());
  const double step = p.adjacency == Adjacency::kReplaceOne ? p.indicator / 2 : p.indicator;
  return step > 0 ? L2Bound::Proven(SqrtUp(AddUp(MulUp(clip.value(), clip.value()), MulUp(step, step))))
         : p.square == 0 ? clip
         : p.adjacency == Adjacency::kReplaceOne
             ? L2Bound::Proven(MulUp(clip.value(), SquareFactor(x)))
             : L2Bound::Proven(MulUp(clip.value(), SqrtUp(AddUp(1.0, MulUp(x, x)))));
}

// Sums that clients noise together and mask: one noise for all rounds, paid for as a whole. It is that of the
// fewest clients a sum may have, less those who collude.
Status PlanMasked(const Config& c, Plan& p) {
  if ((c.algorithm.allocation == "geometric" && c.algorithm.ratio != 1) ||
      (c.algorithm.allocation == "dynamic" && p.factor < 1))
    return Fail(Code::kUnsupported,
                "algorithm.allocation = \"{}\": masked sums have the same noise in every round; set static",
                c.algorithm.allocation);
  const Quorum quorum{
      .clients = static_cast<std::uint32_t>(p.clients),
      .minimum = static_cast<std::uint32_t>(c.privacy.survivors != 0 ? c.privacy.survivors : p.clients),
      .colluding = static_cast<std::uint32_t>(c.privacy.colluding)};
  TACIT_OK(quorum.Check());
  const L2Bound clip = L2Bound::Proven(c.privacy.clip);
  const Delta delta = Delta::Proven(p.delta);
  if (c.algorithm.name == "fedexp") p.square = FreeSquare(clip);
  if (c.algorithm.clip_quantile > 0)
    p.indicator = ClipRule::Indicator(clip, c.algorithm.clip_share, p.adjacency);
  const bool plain = p.square == 0 && p.indicator == 0;
  const double more = std::max(MulUp(p.square, MulUp(clip.value(), clip.value())), p.indicator);
  const L2Bound longest = L2Bound::Proven(AddUp(clip.value(), more));
  const L2Bound term = TermOf(p, clip);
  p.roundings = p.square > 0 ? EntrustedSum::Roundings(1, p.released()) : 0;
  const L2Bound charged = Bounded::Sensitivity(p.adjacency, term, 1, p.roundings);
  const auto rounds = static_cast<double>(p.rounds), honest = static_cast<double>(quorum.honest());
  const auto sum_with = [&](double share) -> Result<SecureSum> {
    TACIT_TRY(const NoiseStd sigma, NoiseStd::Of(share));
    return SecureSum::Make(quorum, sigma, longest);
  };
  const auto account_of = [&](const SecureSum& sum) -> Result<Accountant> {
    Accountant account(p.adjacency);
    TACIT_OK(account.Compose(sum.EventFor(charged, plain, p.released()), p.rounds));
    return account;
  };
  Family family;  // by σ of a share over the sensitivity
  family.account = [&](double x) -> Result<Accountant> {
    TACIT_TRY(const SecureSum sum, sum_with(x * charged.value()));
    return account_of(sum);
  };
  family.guess = std::sqrt(rounds / (2 * honest * ZcdpRho(Epsilon::Proven(p.epsilon), delta).value()));
  family.low = family.guess / 1e4, family.high = family.guess * 1e4;
  auto found = Calibrate(family, Epsilon::Proven(p.epsilon), delta);
  if (!found.ok()) return Error{found.error().code, "privacy.epsilon: " + found.error().message};
  TACIT_TRY(SecureSum sum, sum_with(found->value * charged.value()));
  const double sigma = sum.share().value();
  if (sigma * sigma * honest > c.algorithm.variance_cap)
    return Fail(
        Code::kBudget,
        "algorithm.variance_cap = {:g}: a masked sum needs variance {:.6g} in every round; raise it or "
        "privacy.epsilon, or lower algorithm.rounds",
        c.algorithm.variance_cap, sigma * sigma * honest);
  TACIT_TRY(p.account, account_of(sum));
  TACIT_OK(StateAccount(p));
  const double rho = ZcdpCost(sum.EventFor(charged, plain, p.released())).value();
  p.zcdp_epsilon = ZcdpEpsilon(Rho::Proven(rho * rounds * (1 + 1e-12)), delta);
  p.secure = std::make_shared<const SecureSum>(std::move(sum));
  p.mu_budget = kInf;
  p.units = 1;
  p.record_bound = term.value();
  p.sensitivity = charged.value();
  p.noise.push_back(std::make_shared<const NoisePlan>(p.rounds, p.secure->share()));
  p.noise_of.assign(p.clients, 0);
  p.budgets.assign(p.clients, MuSquared::Proven(kInf));
  for (std::uint32_t t = 1; t <= p.rounds; ++t)
    p.schedule.push_back({.round = t,
                          .share = 1 / rounds,
                          .mu = kInf,
                          .sigma = sigma,
                          .noise_on_mean = sigma / std::sqrt(static_cast<double>(p.clients))});
  CountTraffic(p);
  return Ok{};
}

}  // namespace

// Keys that change what is trained on, or sent, and that a method without them would ignore in silence.
static Status CheckUse(const Config& c) {
  const auto& a = c.algorithm;
  const Config standard;
  const auto refuse = [&](const char* key, const std::string& value, const char* whose) {
    return Fail(Code::kInvalidArgument, "{} = {}: is for {}; leave it out with algorithm.name = \"{}\"", key,
                value, whose, a.name);
  };
  const bool samples = OnRecordSamples(a.name), server = !WithoutServer(a.name);
  if (server && !(c.network == standard.network))
    return Fail(
        Code::kInvalidArgument,
        "[network]: is for methods without a server; leave it out with algorithm.name = \"{}\", or use "
        "zcdp-nfl, dp-nfl, zcdp-grad-nfl or p-admm",
        a.name);
  if (server && c.model.weight_rule != "given")
    return Fail(Code::kUnsupported,
                "model.weight_rule = \"{}\": is for methods without a server in paper mode; set model.weight",
                c.model.weight_rule);
  const bool masked = c.privacy.trust == "masked";
  if (masked != (c.privacy.mechanism == "discrete_gaussian"))
    return Fail(
        Code::kInvalidArgument, "privacy.mechanism = \"{}\" with privacy.trust = \"{}\": {}",
        c.privacy.mechanism, c.privacy.trust,
        masked ? "of noise that clients add up, only that of discrete Gaussians is proved; set mechanism to "
                 "discrete_gaussian"
               : "discrete Gaussians are for noise that clients add up; set trust to masked, or mechanism "
                 "to lattice_gaussian");
  if (!masked && (c.privacy.survivors != 0 || c.privacy.colluding != 0))
    return Fail(
        Code::kInvalidArgument,
        "privacy.survivors = {}, privacy.colluding = {}: are for privacy.trust = \"masked\"; set that, or "
        "leave them out",
        c.privacy.survivors, c.privacy.colluding);
  if (c.privacy.mechanism != "priv-unit" &&
      (c.privacy.length_share != 0 || !c.privacy.split.empty() || c.privacy.cap != "best"))
    return Fail(
        Code::kInvalidArgument,
        "privacy.length_share, split and cap are for privacy.mechanism = \"priv-unit\"; set that, or leave "
        "them out");
  if (!samples && a.record_sampling != standard.algorithm.record_sampling)
    return refuse("algorithm.record_sampling", a.record_sampling, "fcrn and dp-fed-sgd");
  if (!samples && a.sample_records != standard.algorithm.sample_records)
    return refuse("algorithm.sample_records", std::to_string(a.sample_records), "fcrn and dp-fed-sgd");
  if (!samples && a.coordinates != standard.algorithm.coordinates)
    return refuse("algorithm.coordinates", std::to_string(a.coordinates), "fcrn and dp-fed-sgd");
  if (!WithFeedback(a.name) && a.compressor != standard.algorithm.compressor)
    return refuse("algorithm.compressor", a.compressor, "dpd-ef21 and dpd-ef21-2");
  if (!samples && a.allocation == "late")
    return Fail(Code::kUnsupported,
                "algorithm.allocation = \"late\": is for fcrn; use dynamic, static or geometric with {}",
                a.name);
  return Ok{};
}

// Keys of [algorithm] that some methods alone read, and which. Of the others that matter to a budget CheckUse
// and the plans of the methods refuse what they do not know.
namespace {
struct Readers {
  std::string_view keys, methods;
};
constexpr Readers kReaders[] = {
    {"gamma", "primal-dual dpd-ef21 dpd-ef21-2 dp-clip21 clip21-sgd2m"},
    {"factor scaling", "primal-dual"},
    {"local_steps", "fedexp dp-fedavg dp-scaffold"},
    {"local_rate", "fedexp dp-fedavg dp-scaffold isrl-dp dp-fed-sgd"},
    {"batch", "fedexp dp-fedavg dp-scaffold dpd-ef21 dpd-ef21-2 dp-clip21 clip21-sgd2m"},
    {"proximal", "fedexp dp-fedavg"},
    {"step", "fedexp"},
    {"clip_rate clip_share", "dp-fedavg"},
    {"server_momentum server_second server_floor", "dp-fedavg dp-scaffold"},
    {"server_optimizer", "dp-fedavg dp-scaffold"},
    {"compressor schedule level_ratio", "dpd-ef21 dpd-ef21-2"},
    {"radius_ratio radius_rule", "dpd-ef21"},
    {"smoothness first_gamma growth", "dpd-ef21 dpd-ef21-2 dp-clip21 clip21-sgd2m"},
    {"target_error", "dpd-ef21 dpd-ef21-2"},
    {"state", "dp-clip21 clip21-sgd2m"},
    {"beta beta_hat", "clip21-sgd2m"},
    {"rho", "zcdp-nfl dp-nfl p-admm"},
    {"eta eta_rule", "zcdp-nfl dp-nfl zcdp-grad-nfl"},
    {"output", "zcdp-nfl dp-nfl zcdp-grad-nfl p-admm"},
    {"composition", "dp-nfl"},
    {"design solve_at solver_steps cubic hessian_share delta0", "fcrn"},
};
bool HasWord(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; (at = words.find(word, at)) != std::string_view::npos; at += word.size())
    if ((at == 0 || words[at - 1] == ' ') &&
        (at + word.size() == words.size() || words[at + word.size()] == ' '))
      return true;
  return false;
}
std::string CommaList(std::string_view words) {
  std::string out;
  for (const char letter : words) out += letter == ' ' ? std::string(", ") : std::string(1, letter);
  return out;
}
}  // namespace

std::vector<std::string> IgnoredKeys(const Config& c) {
  std::vector<std::string> out;
  Config set = c, standard;
  const std::vector<Section> sets = Describe(set), defaults = Describe(standard);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].name() != "algorithm") continue;
    for (std::size_t k = 0; k < sets[i].options().size(); ++k) {
      const std::string key = sets[i].options()[k].key, value = ToText(sets[i].options()[k].get());
      if (value == defaults[i].options()[k].fallback) continue;
      for (const Readers& r : kReaders)
        if (HasWord(r.keys, key) && !HasWord(r.methods, c.algorithm.name))
          out.push_back(fmt::format("algorithm.{} = {}: {} does not read it; it is for {}", key, value,
                                    c.algorithm.name, CommaList(r.methods)));
    }
  }
  return out;
}

Result<Plan> BeginPlan(const Config& c, const PublicFacts& facts) {
  const AlgorithmEntry& entry =
      *std::find_if(Algorithms().begin(), Algorithms().end(),
                    [&](const AlgorithmEntry& a) { return a.name == c.algorithm.name; });
  Plan p;
  p.algorithm = entry.name;
  p.paper = entry.paper;
  p.mode = c.algorithm.mode;
  p.mechanism = c.privacy.mechanism;
  p.unit = c.privacy.unit;
  p.trust = c.privacy.trust;
  p.rounds = c.algorithm.rounds;
  p.clients = facts.clients;
  p.everyone = static_cast<double>(p.clients);
  p.rows = facts.rows;
  p.epsilon = c.privacy.epsilon;
  p.delta = c.privacy.delta;
  p.clip = c.privacy.clip;
  TACIT_TRY(p.adjacency, ParseAdjacency(c.privacy.adjacency));
  if (!c.privacy.budgets.empty() && c.privacy.budgets.size() != p.clients)
    return Fail(Code::kInvalidArgument,
                "privacy.budgets has {} values for {} clients; give one per client, or none",
                c.privacy.budgets.size(), p.clients);
  const std::size_t others = p.by_client() ? p.clients : facts.rows;
  if (p.delta > 1.0 / static_cast<double>(others))
    p.warnings.push_back(
        fmt::format("privacy.delta = {:g} is above 1/{} = {:.2g}: a mechanism that publishes a random {} "
                    "would pass",
                    p.delta, p.by_client() ? "clients" : "rows", 1.0 / static_cast<double>(others),
                    p.by_client() ? "client" : "record"));
  return p;
}

Status CheckPenalty(const Config& c, std::size_t dim) {
  if (c.model.weights.empty() || c.model.weights.size() == dim) return Ok{};
  return Fail(Code::kInvalidArgument,
              "model.weights has {} numbers for {} parameters; give one each, or none",
              c.model.weights.size(), dim);
}

Status StateAccount(Plan& p) {
  TACIT_TRY(const Bracket whole, p.account->EpsilonAt(Delta::Proven(p.delta)));
  p.certified_epsilon = whole.upper;
  p.certified_epsilon_lower = whole.lower;
  p.method = whole.method;
  return Ok{};
}

static Result<Plan> PlanMethod(const Config& c, const PublicFacts& facts);

Result<Plan> MakePlan(const Config& c, const PublicFacts& facts) {
  TACIT_OK(CheckUse(c));
  TACIT_TRY(Plan p, PlanMethod(c, facts));
  p.ignored = IgnoredKeys(c);
  return p;
}

static Result<Plan> PlanMethod(const Config& c, const PublicFacts& facts) {
  if (WithoutServer(c.algorithm.name)) return PlanNetwork(c, facts);
  if (WithFeedback(c.algorithm.name)) return PlanFeedback(c, facts);
  if (OnRecordSamples(c.algorithm.name)) return PlanOnRecordSamples(c, facts);
  TACIT_OK(CheckConstants(c));
  TACIT_TRY(Plan p, BeginPlan(c, facts));
  const bool by_client = c.privacy.unit == "client", central = c.privacy.trust == "central";
  const bool primal_dual = c.algorithm.name == "primal-dual", isrl = c.algorithm.name == "isrl-dp";
  if (!by_client && !primal_dual && !isrl) p.each = c.algorithm.local_steps;
  const bool certified = c.algorithm.mode == "certified";
  p.clipped = certified || (!primal_dual && !isrl);
  TACIT_TRY(p.sampling, SamplingOf(c, p.clients));
  if (p.sampling.kind != SampleKind::kFull && !p.secret())
    p.turns = c.algorithm.participations == 0 ? p.rounds : std::min(p.rounds, c.algorithm.participations);
  p.by_records = c.algorithm.weights == "records";
  if (p.by_records && !facts.records.empty()) SetWeights(p, facts.records);
  if (const double drawn = p.expected() / static_cast<double>(p.clients) * static_cast<double>(p.rounds);
      p.turns != 0 && drawn > static_cast<double>(p.turns))
    p.warnings.push_back(
        fmt::format("algorithm.participations = {}: a client is drawn {:.4g} times in the mean, so late "
                    "rounds have few clients or none; raise it, or sample fewer",
                    p.turns, drawn));
  TACIT_TRY(const auto objective, BuildObjective(c, facts));
  TACIT_TRY(const auto regularizer, BuildRegularizer(c));
  const SumUnit unit = UnitOf(c);
  const bool by_sum = unit.person && c.privacy.person_bound == "sum";
  p.sum_unit = unit;
  if (unit.person) {
    p.person_bound = c.privacy.person_bound;
    p.records_per_person = c.data.records_per_person;
  }
  const std::size_t divided = by_sum && c.data.persons != 0 ? c.data.persons : facts.rows;
  if (unit.person || p.adjacency == Adjacency::kAddOrRemove)
    p.divisor = std::max<std::size_t>(1, divided / std::max<std::size_t>(1, facts.clients));
  p.dim = objective->dim(facts.features);
  const bool exposed = c.privacy.mechanism == "expose";
  const auto d = static_cast<double>(p.dim), n = static_cast<double>(p.clients);
  // What the noise of a release is divided by where it enters a mean.
  const double m = !by_client ? static_cast<double>(divided) / n : central ? p.expected_weight() : 1.0;

  // Theory and allocation, from public constants.
  const double scale = c.algorithm.scaling == "printed" && primal_dual ? 1 / n : 1.0;
  PrimalDualTheory theory;
  Vec log_q(p.rounds);
  if (!primal_dual) {
    // A quadratic with that curvature shrinks a round's noise by the factor of a round each time after.
    p.mu_f = c.algorithm.strong_convexity >= 0 ? c.algorithm.strong_convexity : c.model.l2;
    // Where the model is a mean of all iterates, every round counts alike.
    const double shrink = isrl ? 0.0 : c.algorithm.local_rate * p.mu_f;  // of one local step
    if (shrink >= 1 && c.algorithm.allocation == "dynamic" && certified)
      return Fail(
          Code::kInvalidArgument,
          "algorithm.local_rate = {:g}: with strong convexity {:g} a local step overshoots; lower it, or "
          "set algorithm.allocation = \"static\"",
          c.algorithm.local_rate, p.mu_f);
    const double log_factor =
        shrink < 1 ? std::log1p(-shrink) * static_cast<double>(c.algorithm.local_steps) : 0.0;
    p.factor = std::max(std::exp(log_factor), std::numeric_limits<double>::min());
    for (std::size_t t = 0; t < p.rounds; ++t)
      log_q[t] = 2 * static_cast<double>(p.rounds - 1 - t) * log_factor;
    p.last = c.algorithm.last != 0 ? c.algorithm.last : c.algorithm.name == "fedexp" ? 2 : 1;
  } else {
    theory = Theory(c, facts, *objective, scale, p);
    log_q = theory.LogWeights(p.rounds);
    p.gamma = theory.gamma;
    p.gamma_max = theory.LargestStep();
    p.mu_f = theory.mu_f;
    p.l_f = theory.l_f;
    p.factor = theory.Factor();
  }
  if (!(p.factor > 0 && p.factor <= 1))
    return Fail(
        Code::kInvalidArgument,
        "algorithm.gamma = {:g}: with strong convexity {:g} the method does not contract (factor {:g}); "
        "lower it to at most {:g}",
        p.gamma, p.mu_f, p.factor, p.gamma_max);
  if (c.privacy.mechanism == "priv-unit" || c.privacy.trust == "masked") {
    TACIT_OK(c.privacy.trust == "masked" ? PlanMasked(c, p) : PlanByUnit(c, p));
    return p;
  }
  TACIT_TRY(const auto mechanism, MakeMechanism(c.privacy.mechanism));
  const L2Bound clip = L2Bound::Proven(c.privacy.clip);
  const Epsilon epsilon = Epsilon::Proven(c.privacy.epsilon);
  const Delta delta = Delta::Proven(c.privacy.delta);
  const auto budget_of = [&](Epsilon e) {
    if (isrl && !certified) return IsrlDpMu(e, delta, p.rounds);
    return certified ? GdpMu(e, delta) : Mu::Proven(std::sqrt(2 * ZcdpRho(e, delta).value()));
  };
  // Papers with clients as the unit state the noise.
  const bool stated = by_client && !certified && !exposed;
  if (stated) TACIT_OK(Mu::Of(std::sqrt(static_cast<double>(p.rounds)) * 2 / c.algorithm.noise_multiplier));
  const Mu budget =
      stated ? Mu::Proven(std::sqrt(static_cast<double>(p.rounds)) * 2 / c.algorithm.noise_multiplier)
             : budget_of(epsilon);
  if (c.algorithm.name == "fedexp" && central)
    p.square = stated ? n / (d * c.algorithm.noise_multiplier * clip.value()) : FreeSquare(clip);
  if (c.algorithm.clip_quantile > 0)
    p.indicator = ClipRule::Indicator(clip, c.algorithm.clip_share, p.adjacency);
  const std::size_t most = by_client ? (central ? p.clients : 1)
                           : facts.records.empty()
                               ? facts.rows
                               : *std::max_element(facts.records.begin(), facts.records.end());
  p.roundings = by_client && central ? EntrustedSum::Roundings(p.clients, p.released()) : 0;
  // From some number of doubles on, the errors of their sum are as large as a record.
  const Error too_many =
      Fail(Code::kInvalidArgument,
           "data.rows = {}: a sum over {} records of one client has too few digits left to "
           "bound what one of them changes; lower it, or raise data.clients",
           facts.rows, most);
  if (most > std::size_t{1} << 30) return too_many;
  const double x = MulUp(p.square, clip.value());
  const L2Bound term = TermOf(p, clip);
  const L2Bound charged = Bounded::Sensitivity(p.adjacency, term, most,
                                               by_client ? p.roundings
                                               : by_sum  ? most + 1
                                                         : objective->Roundings(most),
                                               unit);
  // Δ of the sum: what the noise is calibrated to. The paper prints 2B, whatever the ledger's adjacency.
  const double unit_bound = static_cast<double>(unit.terms) * clip.value();
  const double delta_sum = by_client && certified                                ? charged.value()
                           : p.adjacency == Adjacency::kReplaceOne || !certified ? 2 * unit_bound
                                                                                 : unit_bound;
  const Vec log_delta(p.rounds, std::log(delta_sum));
  p.mu_budget = budget.value();
  TACIT_OK(CheckPenalty(c, p.dim));
  Shares shares = UniformShares(p.rounds);
  if (!certified && !primal_dual) {
    // the same noise in every round, as these papers have it
  } else if (p.sampling.kind != SampleKind::kFull) {
    // the same too: the account has one line, and equal rounds are best where all count alike
    if ((c.algorithm.allocation == "geometric" && c.algorithm.ratio != 1) ||
        (c.algorithm.allocation == "dynamic" && p.factor < 1))
      return Fail(
          Code::kUnsupported,
          "algorithm.allocation = \"{}\": with samples of clients the noise is the same in every round; set "
          "static",
          c.algorithm.allocation);
  } else if (!exposed) {  // without noise nothing is allocated or skipped
    TACIT_TRY(shares, Allocate(c, log_q, delta_sum, budget));
    if (c.algorithm.allocation == "geometric" && by_client && c.algorithm.ratio != 1 && p.rounds > 1)
      p.warnings.push_back(
          "a geometric allocation puts large noise on some rounds, and nothing bounds the model: clipped "
          "updates "
          "may not walk back; use static, or dynamic with algorithm.variance_cap");
    if (c.algorithm.allocation == "dynamic" && std::isinf(regularizer->DomainRadius(p.dim)) && p.factor < 1 &&
        log_q.front() < std::log(1e-4))
      p.warnings.push_back(
          primal_dual || isrl
              ? "dynamic allocation puts large noise on early rounds, and model.penalty leaves the domain "
                "unbounded: clipped gradients may not walk back; use l1box, box or l2ball"
              : "dynamic allocation puts large noise on early rounds, and nothing bounds the model: clipped "
                "updates may not walk back; set algorithm.variance_cap, or allocation = \"static\"");
    if (c.algorithm.allocation != "static")
      p.static_over_dynamic = NoiseCost(UniformShares(p.rounds), log_q, log_delta, budget) /
                              NoiseCost(shares, log_q, log_delta, budget);
  }

  if (!exposed) {
    const Vec alike(p.rounds);
    const auto compare = [&](const char* name, const Shares& s) {
      const Shares equal = UniformShares(p.rounds);
      p.allocations.push_back(
          {name, NoiseCost(s, log_q, log_delta, budget) / NoiseCost(equal, log_q, log_delta, budget),
           NoiseCost(s, alike, log_delta, budget) / NoiseCost(equal, alike, log_delta, budget)});
    };
    compare("static", UniformShares(p.rounds));
    compare("dynamic", WaterFillingShares(log_q, log_delta, 0.0));
    if (c.algorithm.allocation == "geometric" || c.algorithm.variance_cap < kInf)
      compare("this plan", shares);
  }

  // Calibration: σ for every round and every distinct budget.
  const double relative = charged.value() / delta_sum - 1 + 1e-15,
               absolute = mechanism->OverheadMu(p.released());
  if (!(relative < 0.5) && !by_client) return too_many;
  std::vector<std::uint32_t> active;
  for (std::size_t t = 0; t < p.rounds; ++t)
    if (!shares.skipped(t)) active.push_back(static_cast<std::uint32_t>(t + 1));
  p.skipped = p.rounds - active.size();
  std::optional<NoiseStd> sampled;  // with secret samples one noise for all rounds
  if (p.secret() && !exposed) {
    TACIT_TRY(sampled, SampledNoise(p, p.sampling, charged, *mechanism, p.rounds));
    if (sampled->value() * sampled->value() > c.algorithm.variance_cap)
      return Fail(
          Code::kBudget,
          "algorithm.variance_cap = {:g}: this sampling needs variance {:.6g} in every round; raise it or "
          "privacy.epsilon, or lower algorithm.rounds",
          c.algorithm.variance_cap, sampled->value() * sampled->value());
  }
  const auto sigmas = [&](Mu mu) -> Result<NoisePlan> {
    if (sampled) return NoisePlan(active.size(), *sampled);
    Vec nominal(p.rounds);
    if (p.turns != 0 && !exposed) {  // any so many rounds keep the budget
      TACIT_TRY(const Vec one, Calibrate(UniformShares(p.turns), mu, relative, absolute));
      const auto sigma = NoiseStd::Of(DivUp(delta_sum, one.front()));
      if (sigma.ok() && sigma->value() * sigma->value() <= c.algorithm.variance_cap)
        return NoisePlan(active.size(), *sigma);
      return Fail(
          Code::kBudget,
          "algorithm.variance_cap = {:g}: {} rounds of a client need more variance in each; raise it or "
          "privacy.epsilon, or lower algorithm.participations",
          c.algorithm.variance_cap, p.turns);
    }
    if (certified) {  // a round's share is for all its releases
      const Mu one = Mu::Proven(std::max(0.0, NextDown(mu.value() / std::sqrt(static_cast<double>(p.each)))));
      TACIT_TRY(nominal, Calibrate(shares, one, relative, absolute));
    } else {
      for (std::size_t t = 0; t < p.rounds; ++t)
        nominal[t] =
            mu.value() * std::exp(0.5 * shares.log_share[t]) / std::sqrt(static_cast<double>(p.each));
    }
    return NoiseOf(active, nominal, delta_sum);
  };
  p.noise_of.assign(p.clients, 0);
  TACIT_TRY(NoisePlan everyone, sigmas(budget));
  p.noise.push_back(std::make_shared<const NoisePlan>(std::move(everyone)));
  const bool unlimited = exposed || !certified || sampled.has_value();
  p.budgets.assign(p.clients, unlimited ? MuSquared::Proven(kInf) : BudgetOf(budget));
  std::vector<double> seen = {c.privacy.epsilon};
  for (std::size_t i = 0; i < c.privacy.budgets.size(); ++i) {
    const double e = c.privacy.budgets[i];
    const std::size_t at = static_cast<std::size_t>(std::find(seen.begin(), seen.end(), e) - seen.begin());
    const Mu mu = budget_of(Epsilon::Proven(e));
    if (at == seen.size()) {
      seen.push_back(e);
      TACIT_TRY(NoisePlan own, sigmas(mu));
      p.noise.push_back(std::make_shared<const NoisePlan>(std::move(own)));
    }
    p.noise_of[i] = at;
    if (!unlimited) p.budgets[i] = BudgetOf(mu);
  }

  // What it comes to. Paper mode is charged by what in fact bounds a record, if anything does.
  double record = 0;  // the longest gradient, where anything bounds it
  std::optional<L2Bound> bound;
  if (p.clipped) {
    record = term.value();
    bound = charged;
  } else if (const auto b = objective->RecordBound(facts.row_bound); b && std::isfinite(*b)) {
    record = *b;
    bound = Bounded::Sensitivity(p.adjacency, L2Bound::Proven(*b), most, objective->Roundings(most));
  }
  p.sensitivity = bound ? bound->value() : kInf;
  p.record_bound = bound ? record : kInf;
  p.units = most;
  if (!exposed) {
    for (const auto& noise : p.noise) {
      const auto [least, highest] = std::minmax_element(noise->begin(), noise->end());
      const double longest = p.square > 0 ? clip.value() * (1 + x) : record;  // of one term, at most
      TACIT_OK(mechanism->CheckRange(static_cast<double>(most) * longest, *least));
      TACIT_OK(mechanism->CheckRange(0, *highest));
      // What one client pays for floating point and lattice must stay below the clip: see Bounded.
      const double each =
          charged.value() - delta_sum + mechanism->OverheadMu(p.released()) * highest->value();
      if (unit.person && !(each <= clip.value() * (1 - 1e-9)))
        return Fail(Code::kUnsupported,
                    "privacy.unit = \"person\": rounding may move a sum by {:.3g}, more than privacy.clip = "
                    "{:g} allows; raise privacy.epsilon, or lower algorithm.rounds",
                    each, clip.value());
    }
  }
  std::vector<double> holders(p.noise.size());
  for (std::size_t at : p.noise_of) ++holders[at];
  std::size_t lead = p.noise_of.front();  // the largest budget that someone has
  for (std::size_t at : p.noise_of)
    if (seen[at] > seen[lead]) lead = at;
  p.epsilon = seen[lead];
  if (!stated) p.mu_budget = budget_of(Epsilon::Proven(p.epsilon)).value();
  MuSquared spent{0.0};
  double cost = 0;  // Σ q_t ξ_t², ξ_t the noise on s·∇f_i
  for (std::size_t k = 0; k < active.size(); ++k) {
    const NoiseStd sigma = (*p.noise[lead])[k];
    PlannedRound r{.round = active[k], .share = shares.share(active[k] - 1)};
    r.sigma = exposed ? 0 : sigma.value();
    r.noise_on_mean = r.sigma / m;
    double one = kInf;  // μ of one release
    if (bound && !exposed) {
      const PrivacyEvent event = mechanism->EventFor(*bound, sigma, p.released());
      if (const auto* g = std::get_if<GaussianEvent>(&event)) one = g->mu.value();
    }
    r.mu = p.each == 1 ? one : MulUp(SqrtUp(static_cast<double>(p.each)), one);
    if (p.turns == 0 || k < p.turns)
      for (std::size_t j = 0; j < p.each; ++j) spent = spent + MuSquared::Proven(MulUp(one, one));
    for (std::size_t at = 0; at < p.noise.size() && !exposed; ++at) {
      if (holders[at] == 0) continue;
      const double log_xi = std::log(scale / m) + std::log((*p.noise[at])[k].value());
      cost += holders[at] / n * std::exp(log_q[active[k] - 1] + 2 * log_xi);
    }
    p.schedule.push_back(r);
  }
  const Interval certified_epsilon = GdpEpsilon(Root(spent), delta);
  p.certified_epsilon = certified_epsilon.upper;
  p.certified_epsilon_lower = certified_epsilon.lower;
  if (sampled) {
    p.account.emplace(p.adjacency);
    TACIT_OK(p.account->Compose(
        OnSecretSample(p.sampling, mechanism->EventFor(charged, *sampled, p.released())), active.size()));
  }
  if (p.account) TACIT_OK(StateAccount(p));
  p.zcdp_epsilon = std::isinf(spent.value()) ? kInf : ZcdpEpsilon(Rho::Proven(spent.value() / 2), delta);
  if (exposed)
    p.warnings.push_back(
        "privacy.mechanism = \"expose\": nothing is noised, so the run is not private, whatever "
        "privacy.epsilon says");
  if (stated) {
    const double z = c.algorithm.noise_multiplier, extra = p.square * clip.value() / z;
    const double each = 4 / (z * z) + extra * extra;  // sum and squared lengths accounted apart
    const Mu mu = Mu::Proven(std::sqrt(central ? static_cast<double>(p.rounds) * each : 4 / (z * z)));
    p.claimed_epsilon = p.epsilon = GdpEpsilon(mu, delta).upper;
    p.claim_source = !central ? "DP-FedEXP, Proposition 4.1: one message of one client; a run has one a round"
                     : p.square > 0
                         ? "DP-FedEXP, Proposition 4.2: the mean update and the mean squared length, each "
                           "with its own noise, over all rounds"
                         : "DP-FedEXP, of its baselines: the mean update over all rounds";
  } else if (!certified && !exposed) {
    p.claimed_epsilon = p.epsilon;
    p.claim_source = primal_dual ? kPrimalDualClaimSource
                     : isrl      ? kIsrlDpClaimSource
                            : "Noble, Bellet, Dieuleveut: Renyi divergences of all local steps of a client, "
                              "converted to (epsilon, delta)";
    if (isrl && c.privacy.epsilon > 2 * std::log(2 / c.privacy.delta))
      p.warnings.push_back(fmt::format(
          "privacy.epsilon = {:g} is above 2 ln(2/delta) = {:.4g}: the printed calibration is for "
          "smaller ones",
          c.privacy.epsilon, 2 * std::log(2 / c.privacy.delta)));
    if (!bound)
      p.warnings.push_back(
          "nothing bounds a record's gradient (model.name or data.row_norm): the certified epsilon is "
          "infinite");
    else if (p.sensitivity > delta_sum * (1 + 1e-6))
      p.warnings.push_back(fmt::format(
          "privacy.clip = {:g} is assumed by the paper's calibration, but a record's gradient may reach {:g}",
          c.privacy.clip, *objective->RecordBound(facts.row_bound)));
  }
  if (!exposed && p.mu_f > 0 && primal_dual) {
    const double rho = ZcdpRho(epsilon, delta).value(), c1 = std::min(p.mu_f, 1.0);
    p.bound_printed =
        PrimalDualTheory::PrintedNoiseTerm(unit_bound, d, rho, n, m, p.mu_f) * (scale * n) * (scale * n);
    p.bound_sharp = theory.NoiseTerm(n, d, cost);
    if (c.algorithm.initial_error > 0) {
      // ln(ε² n m² min{μ_f², 1} E[Φ¹] / (B² d ln 1/δ)) / (γ min{μ_f, 1}), for s = 1/n.
      const double e = c.privacy.epsilon, l = std::log(1 / c.privacy.delta);
      const double inside = e * e * m * m * c1 * c1 * c.algorithm.initial_error /
                            (n * scale * scale * unit_bound * unit_bound * d * l);
      p.rounds_needed = std::max(1.0, std::ceil(std::log(inside) / (p.gamma * c1)));
    }
  }
  CountTraffic(p);
  return p;
}

}  // namespace tacit
