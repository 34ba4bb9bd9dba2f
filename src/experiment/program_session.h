#pragma once

// For programs that compute the gradients of records themselves, in Python or elsewhere: accounts for all
// their clients, and the only way through them, Σ clip_C(g_l) over the gradients g_l of one client's records,
// with noise. One record of one client, replaced by another, is what is hidden.
//
// The gradients are handed over as the rows of a least-squares problem whose gradients they are: with x = 0
// and y = −1, ∇½(aᵀx − y)² = a. So what is released here goes through the same clipping, the same ledger and
// the same mechanism as the engine's own algorithms.
//
// What to release next, with how much noise, and when to stop may be chosen by what was released before:
// every account is a filter (filter.h). So what holds is the budget, from the first release on, and not what
// was used of it (docs/accounting.md).
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/vec.h"

namespace tacit {

struct SessionOptions {
  std::vector<std::size_t> records = {};  // of every client: public
  std::size_t dim = 1;  // of a gradient
  double clip = 1, epsilon = 1, delta = 1e-5;
  std::size_t rounds = 1;  // releases per client that sigma() is made for; at most 1e7
  std::string mechanism = "lattice_gaussian";
  std::string folder = {};  // of the session, which exists; empty: no ledger is kept
  std::string ledger = {}, data = {}, digest = {};  // the cumulative ledger, and what it calls the data
};

// Belongs to the process that opened it: a fork can release and close nothing.
class ProgramSession {
 public:
  static Result<std::unique_ptr<ProgramSession>> Open(SessionOptions);
  ~ProgramSession();

  // The noise on a sum with which `rounds` releases just keep the budget.
  double sigma() const;
  // gradients: one row a record of the client, row by row. Safe from several threads.
  Result<Vec> Release(std::uint32_t client, std::span<const double> gradients, std::size_t rows,
                      std::optional<double> sigma);
  // What is promised: 0 until something was released, then the ε of the budget.
  double Epsilon() const;
  double Used() const;  // share of the budget that the client with the most has used, in [0, 1]
  nlohmann::json Certificate() const;  // the content of releases.json
  // Nothing can be released any more; the ledgers keep what was used, and releases.json is written. After an
  // error it may be called again.
  Status Close();

 private:
  struct State;
  explicit ProgramSession(std::unique_ptr<State>);
  std::unique_ptr<State> s_;
};

std::string SessionText(const nlohmann::json& certificate);  // for people

}  // namespace tacit
