#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>

#include "privacy/ledger.h"
#include "privacy/sqlite_file.h"

namespace tacit {

using internal::SqliteTrouble;

namespace {

// One row per run of neighbouring clients with equal figures, so that a million equal accounts are
// one row. `spent` is the durable figure: at least what was released.
constexpr const char* kSchema = R"sql(
CREATE TABLE IF NOT EXISTS runs (
  run TEXT PRIMARY KEY, data TEXT NOT NULL, unit TEXT NOT NULL, adjacency TEXT NOT NULL,
  mode TEXT NOT NULL, delta REAL NOT NULL, state TEXT NOT NULL, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS accounts (
  run TEXT NOT NULL REFERENCES runs(run), first INTEGER NOT NULL, count INTEGER NOT NULL,
  budget REAL NOT NULL, spent REAL NOT NULL, PRIMARY KEY (run, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plans (
  run TEXT PRIMARY KEY REFERENCES runs(run), events TEXT NOT NULL, epsilon REAL NOT NULL);
CREATE TABLE IF NOT EXISTS rounds_released (run TEXT PRIMARY KEY REFERENCES runs(run), rounds INTEGER NOT NULL);
)sql";

constexpr std::int64_t kMostAccounts = 1 << 28;      // a larger file was not written here

// Two writers would overwrite each other's figures, and the file could fall below what was released. So
// every write moves the run's version on, from the one this process wrote last.
Status TakeTurn(SQLite::Database& db, const std::filesystem::path& file, const std::string& run,
                std::int64_t version) {
  SQLite::Statement next(db, "UPDATE runs SET version = ? WHERE run = ? AND version = ?");
  next.bind(1, version + 1);
  next.bind(2, run);
  next.bind(3, version);
  if (next.exec() == 1) return Ok{};
  return Fail(Code::kIo, "ledger {}: another process has opened run {} since; let one of them go on",
              file.string(), run);
}

// SQLite stores ∞ as a REAL without trouble; NaN never gets here.
void WriteAccounts(SQLite::Database& db, const std::string& run, const std::vector<MuSquared>& budget,
                   const std::vector<MuSquared>& spent) {
  SQLite::Statement clear(db, "DELETE FROM accounts WHERE run = ?");
  clear.bind(1, run);
  clear.exec();
  SQLite::Statement put(db, "INSERT INTO accounts VALUES (?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < budget.size();) {
    std::size_t j = i + 1;
    while (j < budget.size() && budget[j] == budget[i] && spent[j] == spent[i]) ++j;
    put.bind(1, run);
    put.bind(2, static_cast<std::int64_t>(i));
    put.bind(3, static_cast<std::int64_t>(j - i));
    put.bind(4, budget[i].value());
    put.bind(5, spent[i].value());
    put.exec();
    put.reset();
    i = j;
  }
}

// The plan of a run, or nothing; files of earlier versions have no such table.
bool ReadPlan(SQLite::Database& db, const std::string& run, std::string& events, double& epsilon) {
  if (!db.tableExists("plans")) return false;
  SQLite::Statement find(db, "SELECT events, epsilon FROM plans WHERE run = ?");
  find.bind(1, run);
  if (!find.executeStep()) return false;
  events = find.getColumn(0).getString();
  epsilon = find.getColumn(1).getDouble();
  return true;
}

// Files of earlier versions have no such table.
std::int64_t ReadRoundsReleased(SQLite::Database& db, const std::string& run) {
  if (!db.tableExists("rounds_released")) return 0;
  SQLite::Statement find(db, "SELECT rounds FROM rounds_released WHERE run = ?");
  find.bind(1, run);
  return find.executeStep() ? find.getColumn(0).getInt64() : 0;
}

}  // namespace

struct SqliteVault::State {
  State(const std::filesystem::path& path, std::string run_id)
      : file(path),
        run(std::move(run_id)),
        db(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, internal::kBusyMilliseconds) {}
  std::filesystem::path file;
  std::string run;
  std::mutex mutex;
  SQLite::Database db;
  std::vector<MuSquared> budget, spent;
  std::int64_t version = 0, rounds_released = 0;
};

SqliteVault::SqliteVault(std::unique_ptr<State> state) : state_(std::move(state)) {}
SqliteVault::~SqliteVault() = default;

Result<std::unique_ptr<SqliteVault>> SqliteVault::Open(const std::filesystem::path& file, const RunInfo& info,
                                                       std::span<const MuSquared> budgets) {
  try {
    internal::MakeFolderOf(file);
    auto state = std::make_unique<State>(file, info.run);
    auto& db = state->db;
    internal::MakeDurable(db);
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    db.exec(kSchema);
    state->budget.assign(budgets.begin(), budgets.end());
    const bool planned = !info.plan.empty();
    state->spent.assign(budgets.size(), planned ? MuSquared::Proven(kInf) : MuSquared{0.0});
    SQLite::Statement known(db, "SELECT adjacency, version FROM runs WHERE run = ?");
    known.bind(1, info.run);
    if (known.executeStep()) {
      if (known.getColumn(0).getString() != Name(info.adjacency)) {
        return Fail(
            Code::kInvalidArgument,
            "ledger {}: run {} was opened with adjacency {}, not {}; two adjacencies are never mixed in one "
            "ledger",
            file.string(), info.run, known.getColumn(0).getString(), Name(info.adjacency));
      }
      std::string events;
      double epsilon = 0;
      if (ReadPlan(db, info.run, events, epsilon) != planned ||
          (planned && (events != info.plan || epsilon != info.plan_epsilon)))
        return Fail(
            Code::kInvalidArgument,
            "ledger {}: run {} was opened with another plan of releases; a plan is paid for as a whole "
            "and kept, so start again with `tacit train`",
            file.string(), info.run);
      const Error other = Fail(Code::kMalformed,
                               "ledger {}: run {} has accounts for other clients than this run's {}; use "
                               "another experiment.name or ledger file",
                               file.string(), info.run, budgets.size());
      SQLite::Statement rows(db, "SELECT first, count, spent FROM accounts WHERE run = ? ORDER BY first");
      rows.bind(1, info.run);
      std::size_t filled = 0;
      while (rows.executeStep()) {
        const std::int64_t first = rows.getColumn(0).getInt64(), count = rows.getColumn(1).getInt64();
        const double spent = rows.getColumn(2).isFloat() ? rows.getColumn(2).getDouble() : -1;
        if (first != static_cast<std::int64_t>(filled) || count <= 0 ||
            count > static_cast<std::int64_t>(budgets.size() - filled) || !(spent >= 0))
          return other;
        for (std::int64_t i = 0; i < count; ++i) state->spent[filled++] = MuSquared::Proven(spent);
      }
      if (filled != budgets.size()) return other;
      state->rounds_released = ReadRoundsReleased(db, info.run);
      if (state->rounds_released < 0)
        return Fail(Code::kMalformed, "ledger {}: run {} counts {} rounds; the file was changed",
                    file.string(), info.run, state->rounds_released);
      state->version = known.getColumn(1).getInt64();
      TACIT_OK(TakeTurn(db, file, info.run, state->version++));
      SQLite::Statement reopen(db, "UPDATE runs SET state = 'open' WHERE run = ?");
      reopen.bind(1, info.run);
      reopen.exec();
    } else {
      SQLite::Statement add(db, "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, 'open', 0)");
      add.bind(1, info.run);
      add.bind(2, info.data);
      add.bind(3, info.unit);
      add.bind(4, Name(info.adjacency));
      add.bind(5, info.mode);
      add.bind(6, info.delta);
      add.exec();
      if (planned) {
        SQLite::Statement keep(db, "INSERT INTO plans VALUES (?, ?, ?)");
        keep.bind(1, info.run);
        keep.bind(2, info.plan);
        keep.bind(3, info.plan_epsilon);
        keep.exec();
      }
    }
    WriteAccounts(db, info.run, state->budget, state->spent);
    transaction.commit();
    return std::unique_ptr<SqliteVault>(new SqliteVault(std::move(state)));
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(file, "opening", e);
  }
}

Status SqliteVault::Reserve(std::uint32_t first, std::span<const MuSquared> up_to) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  TACIT_CHECK(first + up_to.size() <= s.spent.size());
  std::vector<MuSquared> spent = s.spent;
  for (std::size_t i = 0; i < up_to.size(); ++i)
    if (up_to[i] > spent[first + i]) spent[first + i] = up_to[i];       // never falls
  try {
    SQLite::Transaction transaction(s.db, SQLite::TransactionBehavior::IMMEDIATE);
    TACIT_OK(TakeTurn(s.db, s.file, s.run, s.version));
    WriteAccounts(s.db, s.run, s.budget, spent);
    transaction.commit();
    ++s.version;
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(s.file, "reserving budget", e);
  }
  s.spent = std::move(spent);
  return Ok{};
}

std::vector<MuSquared> SqliteVault::reserved() const {
  const std::lock_guard lock(state_->mutex);
  return state_->spent;
}

Status SqliteVault::Settle(const LedgerBook& book) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  std::vector<MuSquared> spent;
  for (std::uint32_t i = 0; i < book.size(); ++i) spent.push_back(book.account(i).spent());
  TACIT_CHECK(spent.size() == s.spent.size());
  try {
    SQLite::Transaction transaction(s.db, SQLite::TransactionBehavior::IMMEDIATE);
    TACIT_OK(TakeTurn(s.db, s.file, s.run, s.version));
    WriteAccounts(s.db, s.run, s.budget, spent);
    SQLite::Statement done(s.db, "UPDATE runs SET state = 'settled' WHERE run = ?");
    done.bind(1, s.run);
    done.exec();
    transaction.commit();
    ++s.version;
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(s.file, "settling", e);
  }
  s.spent = std::move(spent);
  return Ok{};
}

Status SqliteVault::CountReleased(std::uint64_t rounds) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  const auto wanted = static_cast<std::int64_t>(rounds);
  if (wanted <= s.rounds_released) return Ok{};
  try {
    SQLite::Transaction transaction(s.db, SQLite::TransactionBehavior::IMMEDIATE);
    TACIT_OK(TakeTurn(s.db, s.file, s.run, s.version));
    SQLite::Statement put(s.db, "INSERT OR REPLACE INTO rounds_released VALUES (?, ?)");
    put.bind(1, s.run);
    put.bind(2, wanted);
    put.exec();
    transaction.commit();
    ++s.version;
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(s.file, "counting rounds", e);
  }
  s.rounds_released = wanted;
  return Ok{};
}

std::uint64_t SqliteVault::rounds_released() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::uint64_t>(state_->rounds_released);
}

Result<std::vector<LedgerRecord>> SqliteVault::Read(const std::filesystem::path& file) {
  TACIT_OK(internal::CheckIsThere(file));
  try {
    SQLite::Database db = internal::OpenToRead(file, "runs");
    std::vector<LedgerRecord> out;
    SQLite::Statement runs(db,
                           "SELECT run, data, unit, adjacency, mode, delta, state FROM runs ORDER BY run");
    while (runs.executeStep()) {
      LedgerRecord r;
      r.run = runs.getColumn(0).getString();
      r.data = runs.getColumn(1).getString();
      r.unit = runs.getColumn(2).getString();
      r.adjacency = runs.getColumn(3).getString();
      r.mode = runs.getColumn(4).getString();
      r.delta = runs.getColumn(5).getDouble();
      r.state = runs.getColumn(6).getString();
      SQLite::Statement rows(db, "SELECT count, budget, spent FROM accounts WHERE run = ? ORDER BY first");
      rows.bind(1, r.run);
      while (rows.executeStep()) {
        const std::int64_t rows_of = rows.getColumn(0).getInt64();
        if (rows_of <= 0 || rows_of > kMostAccounts - static_cast<std::int64_t>(r.budget.size()))
          return Fail(Code::kMalformed,
                      "ledger {}: run {} counts {} accounts in one row; the file was changed", file.string(),
                      r.run, rows_of);
        const auto count = static_cast<std::size_t>(rows_of);
        r.budget.insert(r.budget.end(), count, rows.getColumn(1).getDouble());
        r.spent.insert(r.spent.end(), count, rows.getColumn(2).getDouble());
      }
      if (ReadPlan(db, r.run, r.plan, r.plan_epsilon) && !(r.plan_epsilon >= 0))
        return Fail(Code::kMalformed, "ledger {}: run {} has a plan that no run writes; the file was changed",
                    file.string(), r.run);
      r.rounds_released =
          static_cast<std::uint64_t>(std::max<std::int64_t>(0, ReadRoundsReleased(db, r.run)));
      out.push_back(std::move(r));
    }
    return out;
  } catch (const SQLite::Exception& e) {
    return SqliteTrouble(file, "reading", e);
  }
}

}  // namespace tacit
