#include "privacy/sqlite_file.h"

#include <sqlite3.h>

namespace tacit::internal {

Error SqliteTrouble(const std::filesystem::path& file, const char* doing, const SQLite::Exception& e) {
  if (e.getErrorCode() == SQLITE_NOTADB || e.getErrorCode() == SQLITE_CORRUPT)
    return Fail(Code::kMalformed, "ledger {}: {} failed ({}); name a ledger.db that tacit wrote",
                file.string(), doing, e.what());
  return Fail(Code::kIo, "ledger {}: {} failed ({}); check the disk and the file's permissions",
              file.string(), doing, e.what());
}

void MakeDurable(SQLite::Database& db) {
  db.exec("PRAGMA journal_mode = WAL");
  db.exec("PRAGMA synchronous = FULL");       // a commit survives a power cut, not only a crash
  db.exec("PRAGMA foreign_keys = ON");
}

void MakeFolderOf(const std::filesystem::path& file) {
  if (!file.has_parent_path()) return;
  std::error_code ec;      // opening the file says what is wrong
  std::filesystem::create_directories(file.parent_path(), ec);
}

// A ledger in WAL mode can be read only where its -shm file can be written. In a folder that one may only
// read, the file alone is the whole ledger as long as no -wal file is beside it; with one, it would show too
// little.
SQLite::Database OpenToRead(const std::filesystem::path& file, const char* table) {
  SQLite::Database db(file.string(), SQLite::OPEN_READONLY, kBusyMilliseconds);
  try {
    static_cast<void>(db.execAndGet(std::string("SELECT count(*) FROM ") + table));
    return db;
  } catch (const SQLite::Exception& e) {
    const bool locked_out = e.getErrorCode() == SQLITE_READONLY || e.getErrorCode() == SQLITE_CANTOPEN;
    std::error_code ec;
    const bool newer = std::filesystem::exists(file.string() + "-wal", ec);
    if (!locked_out || newer || ec) return db;      // the next query says the same
  }
  std::string uri = "file:";
  std::error_code ec;
  for (const char c : std::filesystem::absolute(file, ec).string())
    uri += c == '%' ? "%25" : c == '?' ? "%3f" : c == '#' ? "%23" : std::string(1, c);
  return SQLite::Database(uri + "?immutable=1", SQLite::OPEN_READONLY | SQLite::OPEN_URI);
}

Status CheckIsThere(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (std::filesystem::exists(file, unreadable)) return Ok{};
  if (unreadable)
    return Fail(Code::kIo, "ledger {}: cannot be read ({}); check the path and its permissions",
                file.string(), unreadable.message());
  return Fail(Code::kNotFound, "ledger {}: no such file; give the ledger.db of a run folder", file.string());
}

}  // namespace tacit::internal
