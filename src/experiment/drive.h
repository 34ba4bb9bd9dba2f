#pragma once

// The loop around a runtime: reserves budget ahead, measures, traces, and keeps checkpoints. It is the same
// for every algorithm, with a server (Drive) or without (drive_network.h).
#include <chrono>
#include <fstream>
#include <thread>

#include "experiment/checkpoint.h"
#include "experiment/session.h"
#include "privacy/gdp.h"
#include "runtime/threads.h"

namespace tacit {

// The mean of the clients' models, and (1/n) Σ‖mean − x_i‖².
template <class Client>
double MeanIterate(std::span<Client> clients, Vec& mean) {
  Fill(mean, 0.0);
  for (const Client& c : clients) Axpy(1.0, c.iterate(), mean);
  Scale(1.0 / static_cast<double>(clients.size()), mean);
  double consensus = 0;
  for (const Client& c : clients) consensus += DistanceSquared(c.iterate(), mean);
  return consensus / static_cast<double>(clients.size());
}

inline NoiseSource NoiseOf(const Session& s) {
  return s.config.privacy.noise == "replayable" ? NoiseSource{.replay_seed = ReplaySeed(s)} : NoiseSource{};
}

// What does not depend on the runtime.
class DriveLoop {
 public:
  DriveLoop(const DriveLoop&) = delete;
  DriveLoop& operator=(const DriveLoop&) = delete;
  virtual ~DriveLoop() = default;

  Status Run() {
    r_.threads = threads();
    if (s_.ranks() != nullptr) r_.ranks = s_.ranks()->size();
    Status done = Train();
    if (s_.ranks() == nullptr) return done;
    if (s_.ranks()->lost()) {
      std::string what = done.error().message;
      if (s_.vault != nullptr)
        what += fmt::format(
            "; what was released is in the ledger and the last checkpoint is whole: go on with "
            "`tacit resume {}`, with or without mpirun",
            r_.folder.string());
      return Error{done.error().code, what};
    }
    // The others wait for an order, however this ended.
    if (Status over = Dismiss(); done.ok() && !over.ok()) return over;
    return done;
  }

 protected:
  Status Train() {
    TACIT_TRY(const Standing from, Begin());
    if (from.rounds_done > 0) Returned();
    begin_ = std::chrono::steady_clock::now();
    if (!from.finished) {
      const Watcher watcher{.before = [this](std::uint32_t round) { return Before(round); },
                            .after = [this](const RoundReport& report) { return After(report); }};
      Status done = Go(static_cast<std::size_t>(from.rounds_done), watcher);
      if (!done.ok()) {
        if (done.error().code != Code::kInterrupted) return done;
        r_.interrupted = true;
        TACIT_OK(Keep(/*finished=*/false));
      }
    }
    r_.seconds = from.seconds + Elapsed() - aside_;
    TACIT_OK(Collect());
    r_.metrics = Measured();
    Average(r_.metrics);
    r_.model = mean_;
    return Ok{};
  }

  DriveLoop(Session& s, RunResult& r)
      : s_(s),
        r_(r),
        noise_(NoiseOf(s)),
        mean_(s.plan.dim),
        charges_(PlannedCharges(s)),
        every_(s.config.experiment.trace_every != 0 ? s.config.experiment.trace_every
                                                    : std::max<std::size_t>(1, s.plan.schedule.size() / 100)),
        ahead_(s.plan.clients, MuSquared{0.0}) {}

  // The runtime's part.
  virtual unsigned threads() const = 0;
  virtual Status Go(std::size_t rounds_done, const Watcher&) = 0;  // all rounds that are left
  virtual Status Collect() = 0;  // what Measured and Save need that is at other ranks
  virtual Status Dismiss() = 0;  // the other ranks are done
  virtual Metrics Measured() = 0;  // the model into mean_, and what there is to say of it
  virtual Status Save(const Standing&) = 0;
  virtual Result<Standing> Load(std::size_t planned) = 0;
  virtual void Describe(nlohmann::json&) const {}  // adds to a line of the trace
  virtual Status Expect() { return Ok{}; }  // the round that comes now will be traced
  virtual void Returned() {}  // earlier processes made r_.rounds_done rounds

  std::filesystem::path File(const char* name) const { return r_.folder / name; }

  Session& s_;
  RunResult& r_;
  NoiseSource noise_;
  Vec mean_;
  std::size_t made_ = 0;  // rounds of this process

 private:
  // Whether the round after k others is traced.
  bool Traced(std::size_t k) const {
    return k + 1 == s_.plan.schedule.size() || (k + 1) % every_ == 0 ||
           k + s_.config.experiment.tail >= s_.plan.schedule.size();
  }
  // Over the last rounds of the trace.
  void Average(Metrics& m) const {
    const std::size_t n = std::min(s_.config.experiment.tail, r_.trace.size());
    const auto mean = [&](std::optional<double> Metrics::* of) -> std::optional<double> {
      double sum = 0;
      for (std::size_t i = r_.trace.size() - n; i < r_.trace.size(); ++i) {
        const auto& value = r_.trace[i].second.*of;
        if (!value) return std::nullopt;
        sum += *value;
      }
      return sum / static_cast<double>(n);
    };
    if (n == 0) return;
    m.tail_accuracy = mean(&Metrics::accuracy);
    m.tail_loss = mean(&Metrics::loss);
  }
  double Elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  // At the first round, or where the folder's checkpoint stands.
  Result<Standing> Begin() {
    Standing from;
    if (s_.vault == nullptr) return from;
    from.spent.assign(s_.plan.clients, MuSquared{0.0});
    if (s_.resuming) {
      const std::size_t planned = s_.book->plan() != nullptr ? s_.book->plan()->left().size() : 0;
      auto found = Load(planned);
      if (found.ok())
        from = *std::move(found);
      else if (found.error().code != Code::kNotFound)      // none: nothing had left before the crash
        return found.error();
      else
        from.replay_seed = noise_.replay_seed.value_or(0);
      if (from.replay_seed != noise_.replay_seed.value_or(0))
        return Fail(
            Code::kInvalidArgument,
            "{}: {} has changed since the run began; put the data back as it was, or start again with "
            "`tacit train`",
            r_.folder.string(), s_.config.data.source);
      // A round is in both ledgers before its values leave, and after its checkpoint is durable.
      const std::uint64_t left = std::max(s_.run_vault->rounds_released(), s_.data_ledger->rounds_released());
      if (from.rounds_done < left)
        return Fail(
            Code::kInvalidArgument,
            "{}: values of {} rounds have left by its ledger, and the checkpoint is an older one, of round "
            "{}; put the newest back, or start again with `tacit train`",
            r_.folder.string(), left, from.rounds_done);
      TACIT_OK(s_.book->Resume(s_.vault.get(), from.spent, from.left));
      TACIT_OK(CountReleased(from.rounds_done));  // a process may have died between the checkpoint and this
      TACIT_OK(RestoreTrace(from));
    } else {
      s_.book->Attach(s_.vault.get());
    }
    trace_.open(File("trace.jsonl"), std::ios::binary | std::ios::app);
    if (!trace_) return Fail(Code::kIo, "{}: cannot be written", File("trace.jsonl").string());
    trace_bytes_ = from.trace_bytes + from.held.size();
    r_.rounds_done = static_cast<std::size_t>(from.rounds_done);
    r_.bytes_up = static_cast<std::size_t>(from.bytes_up);
    r_.bytes_down = static_cast<std::size_t>(from.bytes_down);
    r_.answers = from.answers;
    seconds_before_ = from.seconds;
    reserved_until_ = r_.rounds_done;
    return from;
  }

  // In both ledgers: so many rounds may have left.
  Status CountReleased(std::uint64_t rounds) {
    TACIT_OK(s_.data_ledger->CountReleased(rounds));
    return s_.run_vault->CountReleased(rounds);
  }

  // What the checkpoint holds of the trace is what there is of it, whatever reached the file.
  Status RestoreTrace(const Standing& from) {
    const std::filesystem::path file = File("trace.jsonl");
    std::error_code ec;
    const std::uintmax_t size = std::filesystem::exists(file, ec) ? std::filesystem::file_size(file, ec) : 0;
    if (ec || size < from.trace_bytes)
      return Fail(Code::kMalformed,
                  "{}: has {} bytes and the checkpoint knows of {}; put the file back as it was",
                  file.string(), size, from.trace_bytes);
    // Lines are written after the checkpoint that holds them: more of them means that rounds after this one
    // have left, and would be made again for nothing.
    if (size > from.trace_bytes + from.held.size())
      return Fail(
          Code::kInvalidArgument,
          "{}: knows of rounds after the checkpoint, which is an older one; put the newest back, or start "
          "again with `tacit train`",
          file.string());
    if (size != 0) std::filesystem::resize_file(file, from.trace_bytes, ec);
    if (ec) return Fail(Code::kIo, "{}: cannot be written ({})", file.string(), ec.message());
    std::ofstream out(file, std::ios::binary | std::ios::app);
    out << from.held;
    out.close();
    if (!out) return Fail(Code::kIo, "{}: cannot be written; check the disk", file.string());
    std::ifstream in(file, std::ios::binary);
    for (std::string line; std::getline(in, line);) {
      const auto point = nlohmann::json::parse(line, nullptr, false);
      if (point.is_object() && point.contains("metrics") &&
          point.value("round", nlohmann::json()).is_number_unsigned())
        r_.trace.emplace_back(point["round"].get<std::uint32_t>(), MetricsOf(point["metrics"]));
    }
    return Ok{};
  }

  Status Before(std::uint32_t round) {
    if (s_.hooks.interrupt != nullptr && s_.hooks.interrupt->load())
      return Fail(Code::kInterrupted, "interrupted before round {} of {}", round, s_.plan.rounds);
    if (Traced(r_.rounds_done)) TACIT_OK(Expect());
    // A plan is durable as a whole before the first round.
    if (s_.vault == nullptr || s_.plan.account || r_.rounds_done < reserved_until_) return Ok{};
    // As many rounds again as were made: few writes, and a crash never costs more than was spent.
    reserved_until_ = r_.rounds_done + std::max(s_.config.experiment.reserve, r_.rounds_done);
    std::vector<MuSquared> per_plan(charges_.size(), MuSquared{0.0});
    for (std::size_t p = 0; p < charges_.size(); ++p)
      for (std::size_t k = r_.rounds_done; k < std::min(charges_[p].size(), reserved_until_); ++k)
        per_plan[p] = per_plan[p] + charges_[p][k];
    for (std::size_t i = 0; i < s_.plan.clients; ++i) ahead_[i] = per_plan[s_.plan.noise_of[i]];
    // A sum of charges rounds up by its order. Other ranks cannot ask for the last bit, so they get a few
    // more.
    if (s_.ranks() != nullptr)
      for (MuSquared& m : ahead_) m = MuSquared::Proven(MulUp(m.value(), 1 + 0x1p-40));
    return s_.book->Reserve(ahead_);
  }

  Status After(const RoundReport& report) {
    const std::size_t k = r_.rounds_done++;
    ++made_;
    if (s_.plan.secret()) {  // how much was really sent, or did not arrive, would tell who took part
      const double part = static_cast<double>(k + 1) / static_cast<double>(s_.plan.schedule.size());
      r_.bytes_up = static_cast<std::size_t>(part * static_cast<double>(s_.plan.bytes_up));
      r_.bytes_down = static_cast<std::size_t>(part * static_cast<double>(s_.plan.bytes_down));
    } else {
      r_.bytes_up += report.bytes_up;
      r_.bytes_down += report.bytes_down;
      r_.answers.Add(report.answers);
    }
    const bool point = s_.hooks.measure && (report.last || Traced(k));
    if (point || (s_.hooks.measure && Elapsed() - shown_ > 0.1)) {
      shown_ = Elapsed();
      epsilon_ = s_.plan.account
                     ? s_.plan.certified_epsilon  // of the whole plan: no part of it has one of its own
                 : s_.link != nullptr
                     ? s_.plan.EpsilonAfter(k)  // clients elsewhere pay by their own ledgers
                     : GdpEpsilon(Root(s_.book->largest_spent()), Delta::Proven(s_.plan.delta)).upper;
    }
    if (point) {
      const double before = Elapsed();
      TACIT_OK(Collect());
      latest_ = Measured();
      r_.trace.emplace_back(report.round, *latest_);
      if (s_.vault != nullptr) {
        nlohmann::json line = {{"round", report.round},
                               {"epsilon", Number(epsilon_)},
                               {"sigma", Number(s_.plan.schedule[k].sigma)},
                               {"bytes_up", r_.bytes_up},
                               {"bytes_down", r_.bytes_down},
                               {"metrics", ToJson(*latest_)}};
        Describe(line);
        if (!s_.plan.secret()) line["answered"] = report.answers.taken;
        if (const nlohmann::json missed = Missed(r_.answers); !missed.empty()) line["missed"] = missed;
        held_ += line.dump() + "\n";
      }
      aside_ += Elapsed() - before;
    }
    if (report.last || Elapsed() >= next_checkpoint_) TACIT_OK(Keep(report.last));
    const bool out = s_.vault == nullptr || held_.empty();  // metrics leave with their checkpoint
    if (s_.hooks.progress)
      s_.hooks.progress({report.round, s_.plan.rounds, epsilon_, seconds_before_ + Elapsed(),
                         out && latest_ ? &*latest_ : nullptr, s_.plan.account.has_value()});
    if (out) latest_.reset();
    return Ok{};
  }

  // A durable checkpoint, then whatever waited for it.
  Status Keep(bool finished) {
    if (s_.vault == nullptr) return Ok{};
    const double before = Elapsed();
    TACIT_OK(Collect());
    Standing at{.rounds_done = r_.rounds_done,
                .bytes_up = r_.bytes_up,
                .bytes_down = r_.bytes_down,
                .answers = r_.answers,
                .trace_bytes = trace_bytes_,
                .replay_seed = noise_.replay_seed.value_or(0),
                .seconds = seconds_before_ + before - aside_,
                .finished = finished,
                .held = held_,
                .spent = {},
                .left = {}};
    if (s_.book->plan() != nullptr)
      at.left.assign(s_.book->plan()->left().begin(), s_.book->plan()->left().end());
    for (std::uint32_t i = 0; i < s_.book->size(); ++i) at.spent.push_back(s_.book->account(i).spent());
    TACIT_OK(Save(at));
    TACIT_OK(CountReleased(r_.rounds_done));
    trace_ << held_ << std::flush;
    if (!trace_)
      return Fail(Code::kIo, "{}: cannot be written; check the disk, then `tacit resume {}`",
                  File("trace.jsonl").string(), r_.folder.string());
    trace_bytes_ += held_.size();
    held_.clear();
    const double cost = Elapsed() - before;
    aside_ += cost;
    // At most a twentieth of the time goes into checkpoints.
    next_checkpoint_ = Elapsed() + std::max(s_.config.experiment.checkpoint, 20 * cost);
    if (s_.config.experiment.checkpoint == 0) next_checkpoint_ = 0;
    return Ok{};
  }

  std::vector<std::vector<MuSquared>> charges_;
  std::size_t every_;
  std::vector<MuSquared> ahead_;
  std::size_t reserved_until_ = 0;  // rounds whose budget is durable
  std::chrono::steady_clock::time_point begin_;
  double seconds_before_ = 0, aside_ = 0;  // of earlier processes; measuring and keeping
  double epsilon_ = 0, shown_ = -1, next_checkpoint_ = 0;
  std::ofstream trace_;
  std::uint64_t trace_bytes_ = 0;
  std::string held_;  // trace lines that wait for their checkpoint
  std::optional<Metrics> latest_;
};

// With a server. Cohort: the clients, where they remember; a ClientSource, where they do not; a FarCohort,
// where they are elsewhere.
template <Coordinated A, class Cohort>
class Drive final : public DriveLoop {
  static constexpr bool kFar = std::is_same_v<Cohort, FarCohort>;
  static constexpr bool kRemember = std::is_same_v<Cohort, std::vector<typename A::Client>>;
  using Kept = std::conditional_t<kFar, FarClient, typename A::Client>;  // in a checkpoint

 public:
  Drive(Session& s, RunResult& r, typename A::Server& server, Cohort& clients, Participants& who)
      : DriveLoop(s, r), server_(server), clients_(clients), who_(who), runtime_(ThreadsOf(s), noise_) {
    if (s.hooks.saw) runtime_.Observe(s.hooks.saw);
    if constexpr (!kFar) {
      if (s.ranks() == nullptr) return;
      accounts_.emplace(*s.book, *s.ranks(), s.vault != nullptr);
      runtime_.Split(*s.ranks(), *accounts_, Remembering().size());
    }
  }

 private:
  unsigned threads() const override { return runtime_.threads(); }
  std::span<Kept> Remembering() {
    if constexpr (kFar)
      return clients_.clients;
    else if constexpr (kRemember)
      return clients_;
    else
      return {};
  }
  Status Collect() override {
    if constexpr (kRemember) return runtime_.Collect(clients_);
    return Ok{};
  }
  Status Dismiss() override { return runtime_.Dismiss(); }
  Status Share() {
    if constexpr (kRemember)
      return runtime_.Share(clients_);
    else
      return runtime_.Share();
  }
  Status Go(std::size_t done, const Watcher& watcher) override {
    if (s_.ranks() != nullptr && done > 0) TACIT_OK(Share());
    if constexpr (kRemember || kFar)
      return done == 0 ? runtime_.Run(server_, clients_, who_, watcher)
                       : runtime_.Resume(server_, clients_, who_, watcher);
    else
      return done == 0 ? runtime_.Run(server_, clients_, watcher)
                       : runtime_.Resume(server_, clients_, watcher);
  }
  void Returned() override {  // who had a turn
    if (s_.plan.turns != 0) who_.Begin(s_.plan.schedule[r_.rounds_done - 1].round);
  }
  // The model into mean_; how far the clients' models are from it, where they have their own.
  std::optional<double> Model() {
    if constexpr (HasModel<typename A::Server>) {
      Copy(server_.model(), mean_);
      return std::nullopt;
    } else {
      return MeanIterate(Remembering(), mean_);
    }
  }
  Metrics Measured() override {
    const auto consensus = Model();
    Metrics m = Measure(s_, mean_, consensus);
    if constexpr (requires { server_.mean_square(); })
      if (made_ > 0) m.step_size = server_.step_size(), m.mean_square = server_.mean_square();
    if (made_ == 0 && !r_.trace.empty())  // resumed at its end: as the trace has them
      m.step_size = r_.trace.back().second.step_size, m.mean_square = r_.trace.back().second.mean_square;
    return m;
  }
  void Describe(nlohmann::json& line) const override {
    if constexpr (requires { server_.step_size(); }) line["step_size"] = Number(server_.step_size());
    if constexpr (requires { server_.clip_scale(); })
      line["clip"] = Number(s_.plan.clip * server_.clip_scale());
  }
  Status Save(const Standing& at) override {
    return Checkpoint::Save<A, Kept>(File("checkpoint"), ConfigDigest(s_.config), at, server_,
                                     runtime_.down(), Remembering());
  }
  Result<Standing> Load(std::size_t planned) override {
    return Checkpoint::Load<A, Kept>(File("checkpoint"), ConfigDigest(s_.config), s_.plan.clients, planned,
                                     server_, runtime_.down(), Remembering());
  }

  typename A::Server& server_;
  Cohort& clients_;
  Participants& who_;
  ThreadRuntime<A> runtime_;
  std::optional<RankAccounts> accounts_;
};

// At a rank other than 0: `make` makes the clients that are served here.
template <Coordinated A, class Make>
Status Assist(Session& s, Make make) {
  static_assert(Portable<typename A::Sum>, "a sum that other ranks go on with lists all of it in State()");
  ThreadRuntime<A> runtime(ThreadsOf(s), NoiseOf(s));
  RankAccounts accounts(*s.book, *s.ranks(), s.hooks.write_folder);
  runtime.Split(*s.ranks(), accounts, Stateless<A> ? 0 : s.plan.clients);
  return runtime.Attend(make);
}

}  // namespace tacit
