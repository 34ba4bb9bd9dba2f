#include "privacy/data_ledger.h"

#include <algorithm>
#include <cmath>

#include "core/round.h"
#include "privacy/gdp.h"
#include "privacy/sqlite_file.h"

namespace tacit {

using internal::SqliteTrouble;

namespace {

// A set goes by tags: "name:…" and "sha256:…".
constexpr const char* kSchema = R"sql(
CREATE TABLE IF NOT EXISTS data_sets (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, limit_epsilon REAL, limit_delta REAL);
CREATE TABLE IF NOT EXISTS tags (tag TEXT PRIMARY KEY, data INTEGER NOT NULL REFERENCES data_sets(id));
CREATE TABLE IF NOT EXISTS data_runs (
  id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, data INTEGER NOT NULL REFERENCES data_sets(id),
  unit TEXT NOT NULL, adjacency TEXT NOT NULL, mode TEXT NOT NULL, delta REAL NOT NULL,
  mu_squared REAL NOT NULL, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS data_plans (run TEXT PRIMARY KEY, epsilon REAL NOT NULL);
CREATE TABLE IF NOT EXISTS data_rounds (run TEXT PRIMARY KEY, rounds INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS run_digests (run TEXT PRIMARY KEY, sha256 TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS plan_limits (
  data INTEGER PRIMARY KEY REFERENCES data_sets(id), epsilon REAL NOT NULL, delta REAL NOT NULL);
)sql";

std::int64_t FindTag(SQLite::Database& db, const std::string& tag) {      // 0: none
  SQLite::Statement find(db, "SELECT data FROM tags WHERE tag = ?");
  find.bind(1, tag);
  return find.executeStep() ? find.getColumn(0).getInt64() : 0;
}

void AddTag(SQLite::Database& db, const std::string& tag, std::int64_t data) {
  SQLite::Statement add(db, "INSERT OR IGNORE INTO tags VALUES (?, ?)");
  add.bind(1, tag);
  add.bind(2, data);
  add.exec();
}

// Whether a run that was begun on the set `data` would go on with other rows. Files of earlier versions keep
// no digest of a run, but that of a set has been kept from the run's first release on.
bool BeganWithOthers(SQLite::Database& db, const std::string& run, std::int64_t data,
                     const std::string& digest) {
  if (digest.empty()) return false;
  SQLite::Statement own(db, "SELECT sha256 FROM run_digests WHERE run = ?");
  own.bind(1, run);
  if (own.executeStep()) return own.getColumn(0).getString() != digest;
  SQLite::Statement any(db, "SELECT 1 FROM tags WHERE data = ? AND tag LIKE 'sha256:%' LIMIT 1");
  any.bind(1, data);
  return any.executeStep() && FindTag(db, "sha256:" + digest) != data;
}

std::int64_t FindOrAdd(SQLite::Database& db, const DataSetId& id) {
  // What is in the file decides before what it is called: a copy is the same data.
  std::int64_t data = id.digest.empty() ? 0 : FindTag(db, "sha256:" + id.digest);
  if (data == 0) data = FindTag(db, "name:" + id.name);
  if (data == 0) {
    SQLite::Statement add(db, "INSERT INTO data_sets (name) VALUES (?)");
    add.bind(1, id.name);
    add.exec();
    data = db.getLastInsertRowid();
  }
  AddTag(db, "name:" + id.name, data);
  if (!id.digest.empty()) AddTag(db, "sha256:" + id.digest, data);
  return data;
}

struct Limit {
  std::string name;
  double epsilon = 0, delta = 0;
  MuSquared mu_squared{0.0};
};

std::optional<Limit> LimitOf(SQLite::Database& db, std::int64_t data) {
  SQLite::Statement find(db, "SELECT name, limit_epsilon, limit_delta FROM data_sets WHERE id = ?");
  find.bind(1, data);
  if (!find.executeStep() || find.getColumn(1).isNull()) return std::nullopt;
  Limit l{.name = find.getColumn(0).getString(),
          .epsilon = find.getColumn(1).getDouble(),
          .delta = find.getColumn(2).getDouble()};
  if (!(l.epsilon >= 0) || !(l.delta >= 0 && l.delta < 1)) return l;  // nobody wrote this: nothing is left
  const double mu = GdpMu(Epsilon::Proven(l.epsilon), Delta::Proven(l.delta)).value();
  l.mu_squared = MuSquared::Proven(std::nextafter(mu * mu, 0.0));  // a limit is rounded down
  return l;
}

// Σ μ² of the other runs on the data that have no plan.
MuSquared SpentByOthers(SQLite::Database& db, std::int64_t data, const std::string& run) {
  SQLite::Statement others(db,
                           "SELECT mu_squared FROM data_runs WHERE data = ? AND run <> ? AND run NOT IN "
                           "(SELECT run FROM data_plans)");
  others.bind(1, data);
  others.bind(2, run);
  MuSquared sum{0.0};
  while (others.executeStep()) {
    const double figure = others.getColumn(0).getDouble();
    sum = sum + MuSquared::Proven(figure >= 0 ? figure : kInf);  // a figure that nobody wrote counts as all
  }
  return sum;
}

// Whether a plan of (epsilon, delta) fits beside the others' under what the limit leaves to plans.
Status CheckPlanLimit(SQLite::Database& db, std::int64_t data, const std::string& run, const Limit& limit,
                      double epsilon, double delta) {
  SQLite::Statement find(db, "SELECT epsilon, delta FROM plan_limits WHERE data = ?");
  find.bind(1, data);
  if (!find.executeStep())
    return Fail(
        Code::kBudget,
        "data set {}: has a limit and none for runs that pay by a plan (samples of clients, priv-unit); "
        "give one with `tacit ledger limit --plan-epsilon`, or lift the limit",
        limit.name);
  const double most = find.getColumn(0).getDouble(), most_delta = find.getColumn(1).getDouble();
  SQLite::Statement others(
      db,
      "SELECT p.epsilon, r.delta FROM data_plans p JOIN data_runs r ON p.run = r.run WHERE r.data = ? AND "
      "r.run <> ?");
  others.bind(1, data);
  others.bind(2, run);
  double spent = 0, spent_delta = 0;
  while (others.executeStep()) {
    const double e = others.getColumn(0).getDouble(), d = others.getColumn(1).getDouble();
    spent = e >= 0 ? AddUp(spent, e) : kInf;  // a figure that nobody wrote counts as all
    spent_delta = d >= 0 ? AddUp(spent_delta, d) : kInf;
  }
  if (AddUp(spent, epsilon) <= most && AddUp(spent_delta, delta) <= most_delta) return Ok{};
  return Fail(
      Code::kBudget,
      "data set {}: runs with a plan have cost epsilon = {:.4g}, delta = {:.3g} on it and this one would "
      "add {:.4g} and {:.3g}, past the limit for plans of {:.4g} and {:.3g}; lower privacy.epsilon or "
      "privacy.delta, or raise the limit with `tacit ledger limit`",
      limit.name, spent, spent_delta, epsilon, delta, most, most_delta);
}

double EpsilonOf(MuSquared m, double delta) { return GdpEpsilon(Root(m), Delta::Proven(delta)).upper; }

Status CheckLimit(const std::optional<Limit>& limit, MuSquared others, MuSquared own) {
  if (!limit || others + own <= limit->mu_squared) return Ok{};
  const MuSquared both = others + own;
  return Fail(
      Code::kBudget,
      "data set {}: runs on it have cost epsilon = {:.4g} and this one would bring it to {:.4g}, past "
      "its limit of {:.4g} at delta = {:.3g}; lower privacy.epsilon, or raise the limit with `tacit "
      "ledger limit`",
      limit->name, EpsilonOf(others, limit->delta), EpsilonOf(both, limit->delta), limit->epsilon,
      limit->delta);
}

}  // namespace

struct DataLedger::State {
  explicit State(const std::filesystem::path& path)
      : file(path),
        db(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, internal::kBusyMilliseconds) {}
  std::filesystem::path file;
  std::mutex mutex;
  SQLite::Database db;
  std::int64_t data = 0;
  std::string run;
  bool planned = false;
  MuSquared durable{0.0};
  std::int64_t rounds = 0;

  void Raise(MuSquared figure) {  // in the file it never falls, whoever else wrote it
    SQLite::Statement put(
        db, "UPDATE data_runs SET mu_squared = max(mu_squared, ?), state = 'open' WHERE run = ?");
    put.bind(1, figure.value());
    put.bind(2, run);
    put.exec();
  }
};

DataLedger::DataLedger(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataLedger::~DataLedger() = default;

Result<std::unique_ptr<DataLedger>> DataLedger::Open(const std::filesystem::path& file, const DataSetId& id,
                                                     const RunInfo& info, MuSquared planned) {
  try {
    internal::MakeFolderOf(file);
    auto state = std::make_unique<State>(file);
    SQLite::Database& db = state->db;
    internal::MakeDurable(db);
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    db.exec(kSchema);
    state->run = info.run;
    state->planned = info.plan_epsilon.has_value();
    SQLite::Statement known(db, "SELECT data, adjacency, unit, mu_squared FROM data_runs WHERE run = ?");
    known.bind(1, info.run);
    const bool again = known.executeStep();
    if (again && BeganWithOthers(db, info.run, known.getColumn(0).getInt64(), id.digest))
      return Fail(
          Code::kInvalidArgument,
          "ledger {}: run {} began with other data than it is given now, and is charged to those; give "
          "it the data it began with, unchanged, or start a new run",
          file.string(), info.run);
    state->data = again ? known.getColumn(0).getInt64() : FindOrAdd(db, id);
    const std::optional<Limit> limit = LimitOf(db, state->data);
    if (again) {
      if (known.getColumn(1).getString() != Name(info.adjacency) ||
          known.getColumn(2).getString() != info.unit)
        return Fail(Code::kInvalidArgument,
                    "ledger {}: run {} was opened with unit {} and adjacency {}; a run keeps both",
                    file.string(), info.run, known.getColumn(2).getString(), known.getColumn(1).getString());
      const double figure = known.getColumn(3).getDouble();
      state->durable = MuSquared::Proven(figure >= 0 ? figure : kInf);
      SQLite::Statement plan(db, "SELECT epsilon FROM data_plans WHERE run = ?");
      plan.bind(1, info.run);
      const bool had = plan.executeStep();
      if (had != state->planned || (had && plan.getColumn(0).getDouble() != *info.plan_epsilon))
        return Fail(Code::kInvalidArgument,
                    "ledger {}: run {} was opened with another plan of releases; a run keeps it",
                    file.string(), info.run);
      SQLite::Statement rounds(db, "SELECT rounds FROM data_rounds WHERE run = ?");
      rounds.bind(1, info.run);
      if (rounds.executeStep()) state->rounds = rounds.getColumn(0).getInt64();
      if (state->rounds < 0)
        return Fail(Code::kMalformed, "ledger {}: run {} has released {} rounds by it; the file was changed",
                    file.string(), info.run, state->rounds);
      state->Raise(state->durable);
    }
    if (limit) {
      SQLite::Statement other(
          db, "SELECT unit, adjacency FROM data_runs WHERE data = ? AND (unit <> ? OR adjacency <> ?)");
      other.bind(1, state->data);
      other.bind(2, info.unit);
      other.bind(3, Name(info.adjacency));
      if (other.executeStep())
        return Fail(
            Code::kInvalidArgument,
            "data set {}: has a limit and runs with unit {} and adjacency {}; costs under {} and {} "
            "cannot be added to them: use the same, or lift the limit with `tacit ledger limit --none`",
            limit->name, other.getColumn(0).getString(), other.getColumn(1).getString(), info.unit,
            Name(info.adjacency));
      if (info.plan_epsilon)
        TACIT_OK(CheckPlanLimit(db, state->data, info.run, *limit, *info.plan_epsilon, info.delta));
      else
        TACIT_OK(CheckLimit(limit, SpentByOthers(db, state->data, info.run), planned));
    }
    if (!again) {
      SQLite::Statement add(
          db,
          "INSERT INTO data_runs (run, data, unit, adjacency, mode, delta, mu_squared, state) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, 'open')");
      add.bind(1, info.run);
      add.bind(2, state->data);
      add.bind(3, info.unit);
      add.bind(4, Name(info.adjacency));
      add.bind(5, info.mode);
      add.bind(6, info.delta);
      // ∞ for a plan: a program that does not know of plans must not take it for nothing.
      if (info.plan_epsilon) state->durable = MuSquared::Proven(kInf);
      add.bind(7, state->durable.value());
      add.exec();
      if (!id.digest.empty()) {
        SQLite::Statement keep(db, "INSERT OR REPLACE INTO run_digests VALUES (?, ?)");
        keep.bind(1, info.run);
        keep.bind(2, id.digest);
        keep.exec();
      }
      if (info.plan_epsilon) {
        SQLite::Statement keep(db, "INSERT INTO data_plans VALUES (?, ?)");
        keep.bind(1, info.run);
        keep.bind(2, *info.plan_epsilon);
        keep.exec();
      }
    }
    transaction.commit();
    return std::unique_ptr<DataLedger>(new DataLedger(std::move(state)));
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(file, "opening", e);
  }
}

Status DataLedger::Reserve(MuSquared up_to) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (s.planned || !(up_to > s.durable)) return Ok{};
  try {
    SQLite::Transaction transaction(s.db, SQLite::TransactionBehavior::IMMEDIATE);
    TACIT_OK(CheckLimit(LimitOf(s.db, s.data), SpentByOthers(s.db, s.data, s.run), up_to));
    s.Raise(up_to);
    transaction.commit();
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(s.file, "reserving budget", e);
  }
  s.durable = up_to;
  return Ok{};
}

Status DataLedger::Settle(MuSquared spent) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (s.planned) spent = MuSquared::Proven(kInf);  // as a whole, whatever was released of it
  try {
    SQLite::Transaction transaction(s.db, SQLite::TransactionBehavior::IMMEDIATE);
    // What this process reserved falls to what it spent; what another has reserved since, does not.
    SQLite::Statement put(
        s.db,
        "UPDATE data_runs SET mu_squared = CASE WHEN mu_squared > ? THEN max(mu_squared, ?) "
        "ELSE ? END, state = 'settled' WHERE run = ?");
    put.bind(1, s.durable.value());
    put.bind(2, spent.value());
    put.bind(3, spent.value());
    put.bind(4, s.run);
    put.exec();
    transaction.commit();
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(s.file, "settling", e);
  }
  s.durable = spent;
  return Ok{};
}

Status DataLedger::CountReleased(std::uint64_t rounds) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  const auto wanted = static_cast<std::int64_t>(rounds);
  if (wanted <= s.rounds) return Ok{};
  try {
    SQLite::Transaction transaction(s.db, SQLite::TransactionBehavior::IMMEDIATE);
    // By another process's count too it never falls.
    SQLite::Statement put(s.db,
                          "INSERT INTO data_rounds VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET rounds = "
                          "max(rounds, excluded.rounds)");
    put.bind(1, s.run);
    put.bind(2, wanted);
    put.exec();
    transaction.commit();
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(s.file, "counting rounds", e);
  }
  s.rounds = wanted;
  return Ok{};
}

std::uint64_t DataLedger::rounds_released() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::uint64_t>(state_->rounds);
}

Result<std::vector<DataSetRecord>> DataLedger::Read(const std::filesystem::path& file) {
  TACIT_OK(internal::CheckIsThere(file));
  try {
    SQLite::Database db = internal::OpenToRead(file, "data_sets");
    std::vector<DataSetRecord> out;
    const bool plans = db.tableExists("data_plans"), limits = db.tableExists("plan_limits");
    SQLite::Statement sets(db, "SELECT id, name, limit_epsilon, limit_delta FROM data_sets ORDER BY name");
    while (sets.executeStep()) {
      DataSetRecord r;
      const std::int64_t id = sets.getColumn(0).getInt64();
      r.id.name = sets.getColumn(1).getString();
      if (!sets.getColumn(2).isNull()) {
        r.limit_epsilon = sets.getColumn(2).getDouble();
        r.limit_delta = sets.getColumn(3).getDouble();
      }
      if (limits) {  // files of earlier versions have none
        SQLite::Statement limit(db, "SELECT epsilon, delta FROM plan_limits WHERE data = ?");
        limit.bind(1, id);
        if (limit.executeStep()) {
          r.plan_limit_epsilon = limit.getColumn(0).getDouble();
          r.plan_limit_delta = limit.getColumn(1).getDouble();
        }
      }
      SQLite::Statement runs(
          db,
          "SELECT run, unit, adjacency, mode, state, delta, mu_squared FROM data_runs WHERE "
          "data = ? ORDER BY id");
      runs.bind(1, id);
      while (runs.executeStep()) {
        DataRun& d = r.runs.emplace_back();
        d.run = runs.getColumn(0).getString();
        d.unit = runs.getColumn(1).getString();
        d.adjacency = runs.getColumn(2).getString();
        d.mode = runs.getColumn(3).getString();
        d.state = runs.getColumn(4).getString();
        d.delta = runs.getColumn(5).getDouble();
        d.mu_squared = runs.getColumn(6).getDouble();
        if (plans) {
          SQLite::Statement plan(db, "SELECT epsilon FROM data_plans WHERE run = ?");
          plan.bind(1, d.run);
          if (plan.executeStep()) d.plan_epsilon = plan.getColumn(0).getDouble();
        }
        if (!(d.mu_squared >= 0) || !(d.plan_epsilon.value_or(0) >= 0) || !(d.delta >= 0 && d.delta < 1))
          return Fail(Code::kMalformed,
                      "ledger {}: run {} has figures that no run writes; the file was changed", file.string(),
                      d.run);
      }
      SQLite::Statement tags(db, "SELECT tag FROM tags WHERE data = ? AND tag LIKE 'sha256:%' LIMIT 1");
      tags.bind(1, id);
      if (tags.executeStep()) r.id.digest = tags.getColumn(0).getString().substr(7);
      out.push_back(std::move(r));
    }
    return out;
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(file, "reading", e);
  }
}

Status DataLedger::SetLimit(const std::filesystem::path& file, const std::string& name,
                            std::optional<Epsilon> epsilon, Delta delta, std::optional<PlanLimit> plans) {
  try {
    internal::MakeFolderOf(file);
    State state(file);
    internal::MakeDurable(state.db);
    SQLite::Transaction transaction(state.db, SQLite::TransactionBehavior::IMMEDIATE);
    state.db.exec(kSchema);
    const std::int64_t data = FindOrAdd(state.db, {.name = name, .digest = {}});
    SQLite::Statement put(state.db, "UPDATE data_sets SET limit_epsilon = ?, limit_delta = ? WHERE id = ?");
    if (epsilon) {
      put.bind(1, epsilon->value());
      put.bind(2, delta.value());
    }  // an unbound parameter is NULL
    put.bind(3, data);
    put.exec();
    SQLite::Statement clear(state.db, "DELETE FROM plan_limits WHERE data = ?");
    clear.bind(1, data);
    clear.exec();
    if (epsilon && plans) {
      SQLite::Statement keep(state.db, "INSERT INTO plan_limits VALUES (?, ?, ?)");
      keep.bind(1, data);
      keep.bind(2, plans->epsilon.value());
      keep.bind(3, plans->delta.value());
      keep.exec();
    }
    transaction.commit();
    return Ok{};
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(file, "setting a limit", e);
  }
}

Status DataLedger::HoldTo(const std::filesystem::path& file, const DataSetId& id, Epsilon epsilon,
                          Delta delta) {
  try {
    internal::MakeFolderOf(file);
    State state(file);
    internal::MakeDurable(state.db);
    SQLite::Transaction transaction(state.db, SQLite::TransactionBehavior::IMMEDIATE);
    state.db.exec(kSchema);
    const std::int64_t data = FindOrAdd(state.db, id);
    const std::optional<Limit> there = LimitOf(state.db, data);
    SQLite::Statement put(state.db, "UPDATE data_sets SET limit_epsilon = ?, limit_delta = ? WHERE id = ?");
    put.bind(1, epsilon.value());
    put.bind(2, delta.value());
    put.bind(3, data);
    put.exec();
    if (there && there->mu_squared <= LimitOf(state.db, data)->mu_squared)
      return Ok{};  // and nothing is written
    transaction.commit();
    return Ok{};
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(file, "setting a limit", e);
  }
}

std::vector<DataTotal> Totals(const DataSetRecord& record) {
  std::vector<DataTotal> out;
  for (const DataRun& r : record.runs) {
    auto at = std::find_if(out.begin(), out.end(), [&](const DataTotal& t) {
      return t.unit == r.unit && t.adjacency == r.adjacency;
    });
    if (at == out.end()) {
      DataTotal fresh;
      fresh.unit = r.unit;
      fresh.adjacency = r.adjacency;
      at = out.insert(out.end(), fresh);
    }
    ++at->runs;
    if (r.plan_epsilon) {
      ++at->plans;
      at->plan_epsilon = std::isinf(*r.plan_epsilon) ? kInf : AddUp(at->plan_epsilon, *r.plan_epsilon);
      at->plan_delta = AddUp(at->plan_delta, r.delta);
      continue;
    }
    at->delta = at->runs - at->plans == 1 ? r.delta : std::min(at->delta, r.delta);
    at->mu_squared = std::isinf(r.mu_squared) ? kInf : AddUp(at->mu_squared, r.mu_squared);
  }
  return out;
}

double DataTotal::EpsilonAt(double at) const {
  if (runs == plans) return plan_epsilon;
  const double others = EpsilonOf(MuSquared::Proven(mu_squared), at);
  return std::isinf(others) || std::isinf(plan_epsilon) ? kInf : AddUp(others, plan_epsilon);
}

Status CumulativeVault::Reserve(std::uint32_t first, std::span<const MuSquared> up_to) {
  MuSquared most{0.0};
  for (const MuSquared m : up_to)
    if (m > most) most = m;
  TACIT_OK(data_.Reserve(most));  // accounts that are not in this call were covered by an earlier one
  return run_.Reserve(first, up_to);
}

}  // namespace tacit
