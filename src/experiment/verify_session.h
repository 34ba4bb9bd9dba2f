#pragma once

// The releases.json of a session (program_session.h), recomputed: from clip, dimension and records the
// sensitivity, from the noise of every release the part of the budget that was used, from the budget ε. What
// the program did with its rows beside releasing sums no file can tell, and the file says so.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/result.h"
#include "experiment/verify.h"

namespace tacit {

bool IsSession(const nlohmann::json& document);  // by its format, of any version
Result<Verification> VerifySession(const nlohmann::json& document, const std::string& name);

// Whether the folder is a session's rather than a run's: it has releases.json, or a ledger and no
// config.toml.
bool IsSessionFolder(const std::filesystem::path&);
// Compares also with ledger.db. A session that was not closed has no releases.json: an error that says what
// the ledger shows.
Result<Verification> VerifySessionFolder(const std::filesystem::path& folder);

}  // namespace tacit
