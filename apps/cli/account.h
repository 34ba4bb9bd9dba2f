#pragma once

// What the verbs of tacit account and tacit calibrate share: the question (at which δ, with a curve or not)
// and the answer (ε with its bracket, adjacency and method).
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli.h"
#include "privacy/accountant.h"

namespace tacit::cli {

struct Asked {
  std::optional<double> delta;
  std::string adjacency;                         // empty: the usual one
  bool curve = false, plot = false;
  std::optional<double> group, belief;
  bool trade_off = false;

  Result<Delta> DeltaOr(std::optional<Delta> otherwise = std::nullopt) const;
  Result<Adjacency> AdjacencyOr(Adjacency usual) const;
};
// For options that hold a number: refuses everything else in words, the empty text included.
CLI::Validator IsNumber();
// --delta, --adjacency, --curve, --plot, --group, --trade-off and --belief.
void AddAsked(CLI::App* sub, Asked&, bool delta_required, const char* adjacency_help);

struct Answer {
  std::string title;
  nlohmann::json more = nlohmann::json::object();                  // further fields of the document
  std::vector<std::pair<std::string, std::string>> lines = {};     // further lines: name and text
  std::optional<Bracket> epsilon = std::nullopt;                   // if it is known already
  double seconds = 0;                                              // spent so far
};
// ε at δ, its bracket, the adjacency, the method and, if asked for, the curve; as text or as JSON.
Result<int> Print(const Common&, const Accountant&, Delta, const Asked&, Answer);

// "the truth lies in [lower, upper]", rounded outwards.
std::string Between(const Bracket&);

// What the account means to a group of units, to a test and to someone with beliefs, as far as asked for.
struct Meaning {
  nlohmann::json more = nlohmann::json::object();
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<std::pair<double, double>> trade_off;                // α and β
};
void AddMeaning(CLI::App* sub, Asked&);
Result<Meaning> MeaningOf(const Accountant&, Delta, const Asked&);
void PrintTradeOff(const Meaning&);

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tacit::cli
