#include "audit/arena.h"

#include <algorithm>
#include <cmath>

#include "experiment/feedback_plan.h"
#include "experiment/second_order_plan.h"

namespace tacit {
namespace {

constexpr double kCertain = 1e300;  // a score that leaves no doubt
constexpr std::uint32_t kTarget = 0;  // the client with the canary
constexpr std::uint32_t kPilots = 6;  // runs in which a canary shows what it can do

bool Regression(const std::string& model) {
  return model == "least-squares" || model == "absolute-deviation" || model == "huber";
}
bool Binary(const std::string& model) {
  return model == "logistic" || model == "hinge" || model == "smoothed-hinge";
}

// ln(e^a (1 − q) + e^b q).
double LogMix(double a, double b, double q) {
  const double top = std::max(a, b);
  if (!std::isfinite(top)) return top;
  return top + std::log((1 - q) * std::exp(a - top) + q * std::exp(b - top));
}

NoiseSums NoiseOf(const Transcript& t) {
  NoiseSums n;
  Vec z, sum;
  double own = 0, releases = 0;
  for (const Transcript::Release& r : t.releases) {
    const View out = t.Out(r), mean = t.Mean(r);
    const auto ends = [&](double v) { return std::abs(v) >= 0x1p30 * r.sigma; };  // the lattice does
    if (!(r.sigma > 0) || std::any_of(mean.begin(), mean.end(), ends)) continue;
    z.resize(r.dim);
    for (std::size_t j = 0; j < r.dim; ++j) z[j] = (out[j] - mean[j]) / r.sigma;
    const double square = NormSquared(z);
    n.squares += square;
    n.numbers += static_cast<double>(r.dim);
    if (sum.empty()) sum.resize(r.dim);
    if (r.dim != sum.size()) continue;
    Axpy(1, z, sum);
    own += square;
    ++releases;
  }
  n.products = (NormSquared(sum) - own) / 2;
  n.pairs = static_cast<double>(sum.size()) * releases * (releases - 1) / 2;
  return n;
}

double Sane(double score) {
  if (std::isnan(score)) return 0;
  return std::clamp(score, -kCertain, kCertain);
}

}  // namespace

// A session on some rows, to be launched again and again.
struct Arena::Stage {
  Config config;
  TrainHooks hooks;
  std::unique_ptr<Session> session;
  Transcript transcript;
  EchoMechanism* echo = nullptr;  // null: a real run, or masked sums
  std::unique_ptr<WatchedSum> watched;  // masked sums
  std::vector<Vec> messages;  // of the target, where these are scored
  bool samples = true;  // secret samples of clients are drawn; false: everyone takes part

  Status Launch(std::uint64_t seed) {
    Session& s = *session;
    s.replay_seed = seed;
    transcript.Clear();
    messages.clear();
    if (watched) watched->Begin();
    s.sampler.reset();
    if (s.plan.secret() && samples)
      s.sampler = std::make_unique<SecretSampler>(s.plan.sampling, static_cast<std::uint32_t>(s.plan.clients),
                                                  std::optional(seed));
    if (echo != nullptr)  // masked sums are charged by plan: the same in an echo
      s.book = std::make_unique<LedgerBook>(std::vector<MuSquared>(s.plan.clients, MuSquared::Proven(kInf)),
                                            s.plan.adjacency);
    else
      s.book = s.plan.account ? std::make_unique<LedgerBook>(s.plan.clients, *s.plan.account, s.sampler.get())
                              : std::make_unique<LedgerBook>(s.plan.budgets, s.plan.adjacency);
    RunResult r;
    return tacit::Launch(s, r);
  }
  void Follow(const Transcript& along) { watched ? watched->Follow(along) : echo->Follow(along); }
  bool parted() const { return watched ? watched->parted() : echo->parted(); }
};

Arena::Arena(Config config, std::uint64_t seed, Variation variation)
    : config_(std::move(config)), seed_(seed), variation_(std::move(variation)) {}
Arena::~Arena() = default;
const Plan& Arena::plan() const { return *plan_; }
bool Arena::by_messages() const { return plan_->randomizer != nullptr; }

Result<std::unique_ptr<Arena>> Arena::Make(const Config& config, std::uint64_t seed, Variation variation) {
  std::unique_ptr<Arena> a(new Arena(config, seed, std::move(variation)));
  TACIT_TRY(a->facts_, FactsWithoutData(a->config_));
  TACIT_TRY(Plan plan, MakePlan(a->config_, a->facts_));
  a->plan_ = std::make_unique<Plan>(std::move(plan));
  const Plan& p = *a->plan_;
  a->adjacency_ = a->variation_.adjacency.value_or(p.adjacency);
  if (!a->variation_.sample_seen) {
    // The rate that is charged for a sample of a fixed size is that of who knows of one client's turns.
    if (p.secret())
      a->sampled_ = true,
      a->rate_ = p.sampling.kind == SampleKind::kFixed
                     ? static_cast<double>(p.sampling.size) / static_cast<double>(p.clients)
                     : p.sampling.rate.value();
    if (p.sampled_records != 0) a->sampled_ = true, a->rate_ = p.record_rate;
    if (p.second_order && !p.second_order->options.sampling.cycle &&
        p.second_order->options.sampling.sample.kind != SampleKind::kFull)
      a->sampled_ = true, a->rate_ = p.second_order->options.sampling.sample.rate.value();
  }
  TACIT_OK(a->Choose());
  if (p.secure)
    a->mu_ = std::sqrt(a->Charged(*a->real_[0]));
  else if (!p.account && !p.randomizer)
    a->mu_ = Root(PlannedCost(*a->real_[0]->session)).value();
  return a;
}

Result<Transcript> Arena::Watch(const Config& config, const Canary::Record& record, std::uint64_t seed,
                                Variation variation) {
  Arena a(config, seed, std::move(variation));
  TACIT_TRY(a.facts_, FactsWithoutData(a.config_));
  TACIT_TRY(Plan plan, MakePlan(a.config_, a.facts_));
  a.plan_ = std::make_unique<Plan>(std::move(plan));
  TACIT_TRY(const std::unique_ptr<Stage> stage, a.MakeStage({record}, false, nullptr));
  TACIT_OK(stage->Launch(seed));
  return std::move(stage->transcript);
}

// canaries: of the first clients, one each. everywhere: all records of these are the canary. like: whose runs
// are echoed; null: a real run.
Result<std::unique_ptr<Arena::Stage>> Arena::MakeStage(const std::vector<Canary::Record>& canaries,
                                                       bool everywhere, const Stage* like) const {
  auto stage = std::make_unique<Stage>();
  stage->config = config_;
  stage->hooks.threads = 1;
  stage->hooks.write_folder = false;
  stage->hooks.measure = false;
  stage->hooks.progress = [at = stage.get()](const Progress&) { at->transcript.EndRound(); };
  stage->session.reset(new Session{.config = stage->config, .hooks = stage->hooks});
  Session& s = *stage->session;
  s.facts = facts_;
  s.plan = *plan_;
  if (like != nullptr && sampled_ && s.plan.second_order) {
    // An echo asks what the target's record would do alone, whatever the law of the sample is.
    auto alone = std::make_shared<SecondOrderPlan>(*s.plan.second_order);
    alone->options.sampling.sample = {.kind = SampleKind::kFixed, .rate = Probability{1.0}, .size = 1};
    s.plan.second_order = alone;
  }

  Dataset rows;
  rows.name = "made by the auditor";
  rows.features = facts_.features;
  const bool persons = config_.privacy.unit == "person";
  const std::size_t each = facts_.rows / facts_.clients, unit = RecordsOfUnit(config_);
  const bool all = everywhere || s.plan.by_client();
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < facts_.rows; ++i) {
    const bool target = i / each < canaries.size() && i % each < (all ? each : unit);
    const Canary::Record null, &record = target ? canaries[i / each] : null;
    if (record.there) there.push_back(i);
    if (record.row.empty())
      rows.value.insert(rows.value.end(), rows.features, 0.0);
    else
      rows.value.insert(rows.value.end(), record.row.begin(), record.row.end());
    rows.label.push_back(record.label);
    if (persons) rows.person.push_back(static_cast<std::uint32_t>(i / unit));
  }
  TACIT_TRY(s.partition, PartitionRows(config_, facts_, std::move(rows)));
  if (s.plan.by_records) SetWeights(s.plan, FactsOf(s.partition, facts_.classes).records);
  if (there.size() < facts_.rows) {
    // Who is not there leaves a gap: everybody else is where they were, and what is public is the same.
    std::vector<std::size_t> begin;
    for (const std::size_t b : s.partition.begin)
      begin.push_back(
          static_cast<std::size_t>(std::lower_bound(there.begin(), there.end(), b) - there.begin()));
    Dataset kept = Select(s.partition.data, there);
    s.partition = {.data = std::move(kept), .begin = std::move(begin), .columns = {}};
  }
  if (s.plan.charges_units()) s.partition.data.charged_terms = s.plan.units;
  TACIT_TRY(s.objective, BuildObjective(config_, facts_));
  if (variation_.objective) s.objective = variation_.objective(std::move(s.objective));
  KeepEntriesFor(*s.objective, s.partition);  // as a run does
  TACIT_TRY(s.regularizer, BuildRegularizer(config_));
  if (s.plan.randomizer) {
    stage->hooks.saw = [at = stage.get()](std::uint32_t client, View released) {
      if (client == kTarget) at->messages.emplace_back(released.begin(), released.end());
    };
  } else if (s.plan.secure) {
    stage->watched = std::make_unique<WatchedSum>(*plan_->secure, stage->transcript, variation_.colluding,
                                                  like != nullptr ? 1.0 : variation_.masked_noise);
    s.plan.secure = stage->watched->sum();
  } else if (like != nullptr) {
    auto echo = std::make_unique<EchoMechanism>(*like->session->mechanism, stage->transcript);
    stage->echo = echo.get();
    s.mechanism = std::move(echo);
  } else {
    TACIT_TRY(std::unique_ptr<Mechanism> mechanism, MakeMechanism(config_.privacy.mechanism));
    if (variation_.mechanism) mechanism = variation_.mechanism(std::move(mechanism));
    s.mechanism = std::make_unique<TappedMechanism>(std::move(mechanism), stage->transcript);
  }
  return stage;
}

Status Arena::Set(const Canary& canary) {
  canary_ = canary;
  // Records of a sample of one: whoever is drawn of a client whose records are all the canary is the canary.
  const bool records = sampled_ && !plan_->secret();
  for (const std::size_t b : {std::size_t{0}, std::size_t{1}}) {
    TACIT_TRY(real_[b], MakeStage({canary.world[b]}, false, nullptr));
    if (by_messages()) continue;
    TACIT_TRY(echo_[b], MakeStage({canary.world[b]}, records, real_[0].get()));
    echo_[b]->samples = !sampled_;
  }
  if (!sampled_ || by_messages()) return Ok{};
  // Whom a sample of clients does not have is not there; a record that is not drawn leaves null ones.
  Canary::Record none;
  none.there = !plan_->secret();
  TACIT_TRY(rest_, MakeStage({none}, true, real_[0].get()));
  rest_->samples = false;
  return Ok{};
}

// Pairs of records with gradients that are as long as the clip, or longer, in opposite directions, and stay
// so while the model moves: which of them do depends on the loss and on what preprocessing leaves of a row.
std::vector<Canary> Arena::Candidates() const {
  const std::size_t f = facts_.features;
  const double c = config_.privacy.clip;
  const auto along = [&](double size) {
    Vec row(f);
    row[0] = size;
    return row;
  };
  const bool classes = !Regression(config_.model.name) && !Binary(config_.model.name);
  std::vector<std::array<Canary::Record, 2>> pairs;
  if (by_messages())
    // The longest update in one direction, and hardly any in the other: both parts of a message differ.
    pairs.push_back({Canary::Record{along(1e-6), -1}, Canary::Record{along(1e-6), 1e15 * c}});
  else if (Regression(config_.model.name))
    for (const double size : {1.0, 1e3 * c}) {
      const double label = 1e8 * c * std::max(size, 1 / size);
      pairs.push_back({Canary::Record{along(size), -label}, Canary::Record{along(size), label}});
    }
  else if (Binary(config_.model.name))
    for (const double size : {2.0, 4.0, 8.0, 32.0, 1e3, 1e6})
      pairs.push_back(
          {Canary::Record{along(size * c), 0}, Canary::Record{along(size * c), config_.data.positive}});
  if (classes)
    for (const double size : {2.0, 8.0, 32.0, 1e3}) {
      Vec dense(f), turned(f);
      for (std::size_t j = 0; j < f; ++j) dense[j] = (j % 2 == 0 ? size : -size) * c, turned[j] = -dense[j];
      pairs.push_back({Canary::Record{dense, 0}, Canary::Record{turned, 0}});
      pairs.push_back({Canary::Record{dense, 0}, Canary::Record{dense, 1}});
    }
  std::vector<Canary> out;
  const char* unit = config_.privacy.unit == "person" ? "person" : plan_->by_client() ? "client" : "record";
  if (adjacency_ == Adjacency::kReplaceOne)
    for (const auto& pair : pairs) out.push_back({pair, fmt::format("one {} against its opposite", unit)});
  // The term of a client that is left out is 0. That of one with null records is not, where its update has a
  // penalty or a control variate in it: only a client without any has none.
  const bool left_out = adjacency_ == Adjacency::kZeroOut && plan_->by_client();
  for (const auto& pair : pairs) {
    const Canary::Record null{
        .row = {}, .label = 0, .there = adjacency_ != Adjacency::kAddOrRemove && !left_out};
    out.push_back({{null, pair[1]},
                   fmt::format("one {} against {}", unit,
                               left_out     ? "one that contributes nothing"
                               : null.there ? "a null one"
                                            : "its absence")});
  }
  return out;
}

Status Arena::Choose() {
  Canary best;
  bool found = false;
  std::optional<Error> why;
  for (const Canary& canary : Candidates()) {
    if (Status set = Set(canary); !set.ok()) {
      why = set.error();
      continue;
    }
    double sum = 0;
    bool runs = true;
    for (std::uint32_t i = 0; i < kPilots && runs; ++i) {
      auto seen = Run(static_cast<int>(i % 2), 0xffff0000u + i);
      if (seen.ok())
        sum += seen->strength;
      else
        why = seen.error(), runs = false;
    }
    const double strength = sum / kPilots;
    // A tie goes to the earlier one.
    if (runs && (!found || strength > 1.001 * strength_)) best = canary, strength_ = strength, found = true;
  }
  if (!found) return why ? *why : Fail(Code::kInternal, "audit: no canary fits {}", config_.model.name);
  return Set(best);
}

Result<Sighting> Arena::Run(int world, std::uint32_t number) {
  const std::uint64_t seed = Stream({seed_, Purpose::kTest, static_cast<std::uint32_t>(world), number})();
  Stage& real = *real_[static_cast<std::size_t>(world)];
  TACIT_OK(real.Launch(seed));
  Sighting out;
  if (by_messages()) {
    ByMessages(real, out);
    return out;
  }
  out.charged = Charged(real);
  out.noise = NoiseOf(real.transcript);
  const auto echo = [&](Stage& stage) -> Status {
    stage.Follow(real.transcript);
    return stage.Launch(seed);
  };
  if (sampled_) {
    TACIT_OK(echo(*rest_));
    TACIT_OK(echo(*echo_[0]));
    TACIT_OK(echo(*echo_[1]));
    const bool without = rest_->parted();
    const std::array<bool, 2> parted = {echo_[0]->parted(), echo_[1]->parted()};
    if (without || parted[0] || parted[1]) {
      // Which world can have made releases of this shape, by a sample with the target or without it.
      const bool zero = !without || !parted[0], one = !without || !parted[1];
      out.likelihood = zero == one ? 0.0 : one ? kCertain : -kCertain;
      return out;
    }
    Compare(real.transcript, echo_[0]->transcript, echo_[1]->transcript, false, world, out);
    if (world == 1) CountDrawn(real.transcript, out);
    // In a round the target is drawn or not; of all its releases together.
    out.likelihood = 0;
    const Transcript& t = real.transcript;
    const auto fit = [&](const Transcript& at, std::size_t from, std::size_t to) {
      double sum = 0;
      for (std::size_t k = from; k < to; ++k) {
        const double sigma = at.releases[k].sigma;
        sum -= DistanceSquared(t.Out(t.releases[k]), at.Mean(at.releases[k])) / (2 * sigma * sigma);
      }
      return sum;
    };
    std::size_t from = 0;
    for (const std::size_t to : t.rounds) {
      const double none = fit(rest_->transcript, from, to);
      out.likelihood += LogMix(none, fit(echo_[1]->transcript, from, to), rate_) -
                        LogMix(none, fit(echo_[0]->transcript, from, to), rate_);
      from = to;
    }
    out.likelihood = Sane(out.likelihood);
    return out;
  }
  Stage& other = *echo_[static_cast<std::size_t>(1 - world)];
  TACIT_OK(echo(other));
  const Transcript& own = real.transcript;
  if (world == 0)
    Compare(own, own, other.transcript, other.parted(), world, out);
  else
    Compare(own, other.transcript, own, other.parted(), world, out);
  return out;
}

double Arena::Charged(const Stage& real) const {
  if (!plan_->account) return real.session->book->account(kTarget).spent().value();
  double sum = 0;
  for (const Accountant::Line& line : plan_->account->lines())
    sum += static_cast<double>(line.count) * 2 * ZcdpCost(line.event).value();  // ρ = μ²/2, samples or not
  return sum;
}

// Only rounds whose sums are exactly those with the target, or exactly those without it. Where others have
// something in the sums too these are rounds in which all of them were drawn: with coins that says nothing of
// the target, and samples of a fixed size then do not have the target as well.
void Arena::CountDrawn(const Transcript& real, Sighting& out) const {
  const Transcript &with = echo_[1]->transcript, &without = rest_->transcript;
  std::size_t from = 0;
  for (const std::size_t to : real.rounds) {
    double apart = 0, in = 0, outside = 0;
    for (std::size_t k = from; k < to; ++k) {
      const View mean = real.Mean(real.releases[k]), one = with.Mean(with.releases[k]),
                 none = without.Mean(without.releases[k]);
      apart += DistanceSquared(one, none);
      in += DistanceSquared(mean, one);
      outside += DistanceSquared(mean, none);
    }
    from = to;
    const double exact = 1e-12 * apart;
    if (!(apart > 0) || std::min(in, outside) > exact) continue;
    ++out.rounds;
    out.drawn += in <= exact;
  }
}

void Arena::Compare(const Transcript& seen, const Transcript& zero, const Transcript& one, bool parted,
                    int world, Sighting& out) const {
  if (parted) {
    out.likelihood = world == 1 ? kCertain : -kCertain;
    out.strength = kCertain;
    return;
  }
  const std::size_t n = seen.releases.size();
  std::vector<double> gap(n);
  for (std::size_t k = 0; k < n; ++k) {
    const Transcript::Release &r0 = zero.releases[k], &r1 = one.releases[k];
    const View s = seen.Out(seen.releases[k]), m0 = zero.Mean(r0), m1 = one.Mean(r1);
    const auto dim = static_cast<double>(s.size());
    gap[k] = std::sqrt(DistanceSquared(m0, m1));
    if (r0.sigma == r1.sigma) {
      const double by = 1 / (r0.sigma * r0.sigma);
      double sum = 0;
      for (std::size_t j = 0; j < s.size(); ++j) sum += (s[j] - (m0[j] + m1[j]) / 2) * (m1[j] - m0[j]);
      out.likelihood += sum * by;
      out.strength += gap[k] * gap[k] * by;
    } else {
      // Even the size of the noise tells.
      const double fit0 = DistanceSquared(s, m0) / r0.sigma / r0.sigma;
      const double fit1 = DistanceSquared(s, m1) / r1.sigma / r1.sigma, ratio = std::log(r0.sigma / r1.sigma);
      out.likelihood = Sane(out.likelihood + dim * ratio + Sane((fit0 - fit1) / 2));
      out.strength += Sane(gap[k] * gap[k] / r0.sigma / r1.sigma) + dim * ratio * ratio;
    }
  }
  out.likelihood = Sane(out.likelihood);
  if (n > kFeatures) return;
  out.features.resize(n);
  for (std::size_t k = 0; k < n; ++k) {
    // The nearest release that the canary moves, its own first.
    std::size_t line = k;
    bool found = false;
    for (std::size_t step = 0; step < n && !found; ++step)
      for (const std::size_t at : {k - step, k + step})
        if (!found && at < n && seen.releases[at].dim == seen.releases[k].dim && gap[at] > 0)
          line = at, found = true;
    if (!found) continue;
    const View s = seen.Out(seen.releases[k]), m0 = zero.Mean(zero.releases[k]),
               m1 = one.Mean(one.releases[k]);
    const View from = zero.Mean(zero.releases[line]), to = one.Mean(one.releases[line]);
    double sum = 0;
    for (std::size_t j = 0; j < s.size(); ++j) sum += (s[j] - (m0[j] + m1[j]) / 2) * (to[j] - from[j]);
    // In units of the noise that world 0 is said to have; around a middle that is known.
    out.features[k] = Sane(sum / (gap[line] * zero.releases[k].sigma));
  }
}

Result<Arena::Crowd> Arena::RunCrowd(std::uint32_t clients) const {
  if (plan_->trust != "local" || sampled_ || by_messages() || plan_->turns != 0)
    return Fail(Code::kUnsupported,
                "auditing in one run takes releases that are of one client each: trust = \"local\", Gaussian "
                "noise and no samples; audit this config with many runs");
  Arena crowd(config_, seed_,
              {.mechanism = variation_.mechanism,
               .objective = variation_.objective,
               .adjacency = variation_.adjacency});
  crowd.config_.data.clients = clients;
  crowd.config_.data.rows = clients * (config_.data.rows / config_.data.clients);
  TACIT_TRY(crowd.facts_, FactsWithoutData(crowd.config_));
  TACIT_TRY(Plan plan, MakePlan(crowd.config_, crowd.facts_));
  crowd.plan_ = std::make_unique<Plan>(std::move(plan));
  Crowd out{
      .coin = {}, .likelihood = {}, .certified = crowd.plan_->certified_epsilon, .delta = crowd.plan_->delta};
  std::vector<Canary::Record> mixed;
  Stream coins({seed_, Purpose::kTest, 2, 0});
  for (std::uint32_t i = 0; i < clients; ++i) {
    out.coin.push_back(coins.Below(2) == 1);
    mixed.push_back(canary_.world[out.coin.back() ? 1 : 0]);
  }
  TACIT_TRY(const std::unique_ptr<Stage> real, crowd.MakeStage(mixed, false, nullptr));
  const std::uint64_t seed = coins();
  TACIT_OK(real->Launch(seed));
  std::array<std::unique_ptr<Stage>, 2> echo;
  for (const std::size_t b : {std::size_t{0}, std::size_t{1}}) {
    TACIT_TRY(echo[b],
              crowd.MakeStage(std::vector<Canary::Record>(clients, canary_.world[b]), false, real.get()));
    echo[b]->Follow(real->transcript);
    TACIT_OK(echo[b]->Launch(seed));
  }
  out.likelihood.assign(clients, 0.0);
  const Transcript &t = real->transcript, &zero = echo[0]->transcript, &one = echo[1]->transcript;
  if (echo[0]->parted() || echo[1]->parted())
    return Fail(Code::kUnsupported, "auditing in one run: the number of releases depends on the data");
  std::size_t from = 0;
  for (const std::size_t to : t.rounds) {
    const std::size_t each = (to - from) / clients;
    if (each * clients != to - from)
      return Fail(Code::kUnsupported, "auditing in one run: not all clients release as much in a round");
    for (std::size_t k = from; k < to; ++k) {
      const View s = t.Out(t.releases[k]), m0 = zero.Mean(zero.releases[k]), m1 = one.Mean(one.releases[k]);
      const double s0 = zero.releases[k].sigma, s1 = one.releases[k].sigma;
      double& score = out.likelihood[(k - from) / each];
      score = Sane(score + static_cast<double>(s.size()) * std::log(s0 / s1) +
                   (DistanceSquared(s, m0) / s0 / s0 - DistanceSquared(s, m1) / s1 / s1) / 2);
    }
    from = to;
  }
  return out;
}

// PrivUnit: V falls into the cap around the true direction with probability p. ScalarDP: the level is the
// true one with the largest probability. World 1 points along the first axis with the largest level, world 0
// against it with the smallest.
void Arena::ByMessages(const Stage& real, Sighting& out) const {
  const LocalRandomizer& door = *plan_->randomizer;
  const double gamma = door.direction().gamma(), direction = EpsilonOf(door.direction().event());
  const double length = door.length().event().epsilon.value(), top = door.length().k();
  for (const Vec& message : real.messages) {
    const double level = message[0], t = std::ldexp(message[1], -PrivUnit::kGridBits);
    out.likelihood += direction * ((t >= gamma ? 1 : 0) - (t <= -gamma ? 1 : 0)) +
                      length * ((level == top ? 1 : 0) - (level == 0 ? 1 : 0));
    out.strength += 1;
  }
}

}  // namespace tacit
