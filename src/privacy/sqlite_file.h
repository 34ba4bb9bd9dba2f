#pragma once

// What the ledgers' SQLite files have in common. Internal to privacy/.
#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>

#include "core/result.h"

namespace tacit::internal {

// Waits up to this long for another process's transaction.
inline constexpr int kBusyMilliseconds = 10000;

Error SqliteTrouble(const std::filesystem::path& file, const char* doing, const SQLite::Exception&);
// Write-ahead log, and a commit that survives a power cut.
void MakeDurable(SQLite::Database&);
void MakeFolderOf(const std::filesystem::path& file);
// Also where one may only read. `table`: one that the file must have.
SQLite::Database OpenToRead(const std::filesystem::path& file, const char* table);
Status CheckIsThere(const std::filesystem::path& file);

}  // namespace tacit::internal
