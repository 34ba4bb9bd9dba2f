#pragma once

// A certificate, recomputed from its own public constants. Nothing here uses the plan or the ledger of a
// run: the sensitivity, the lattice's share, Σ μ_t² and ε are worked out again from what the certificate
// says was released, in extended precision, and compared with what it states. Directions and lengths
// (priv-unit) follow from the dimension and what was stated or, with config.toml, to the bit.
//
// A stated figure may be above the recomputed one by what rounding up adds, (T + 8)·2⁻⁵² relatively for T
// rounds, and never below it. ε must be the exact curve's at the stated μ and δ, rounded up.
//
// A certificate that contradicts itself is found out by itself. One that was changed consistently (other σ
// with the ε that goes with them) is found out by the run folder, or by its signature.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tacit {

// A figure that does not hold.
struct Finding {
  std::string figure;              // "privacy.certified_epsilon"
  std::string stated, recomputed;  // as text; recomputed also: what another file says
  std::string sentence;
};

struct Verification {
  std::string run, mode, unit, adjacency, mechanism;
  double mu = 0, epsilon = 0, delta = 0;  // recomputed; ∞: nothing is promised
  std::string claimed;                    // the paper's ε, as stated; empty if none
  std::size_t rounds = 0;
  std::string session;                    // of a session: what was used of its budget; empty: of a run
  std::vector<std::string> compared;      // what was looked at, for people
  std::vector<Finding> findings;          // empty: it holds
  bool holds() const { return findings.empty(); }
};

// Total on any bytes: what is not a certificate is an error that names the field and what it must be.
// name stands for the file in messages.
// The certificate of a run, or the releases.json of a session (verify_session.h).
Result<nlohmann::json> ParseCertificate(std::string_view bytes, const std::string& name);
Result<Verification> Verify(const nlohmann::json& certificate, const std::string& name);

// The certificate of a run folder, compared also with everything else in it: config.toml, model.npy,
// ledger.db, trace.jsonl, certificate.txt, and participation.csv and weights.csv where a run has them. A file
// that is missing is a finding. Of a search, the certificates of its other runs are read where they are in
// the folders beside this one; `compared` says how many are not. Of a session's folder: its releases.json and
// its ledger.
Result<Verification> VerifyFolder(const std::filesystem::path& folder);

// A whole file. what: "a certificate"; for the message when there is none.
Result<std::string> ReadWhole(const std::filesystem::path& file, const char* what);

}  // namespace tacit
