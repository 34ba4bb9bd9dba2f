#pragma once

// An experiment file, parsed and checked: the whole truth of a run. Tables and keys follow the path
// of the data: data → model → privacy → algorithm → network → runtime → experiment. Every key is declared
// once, in Describe(); parser, range checks, help, docs/options.md and the resolved config derive from it.
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/option.h"
#include "core/result.h"

namespace tacit {

struct Config {
  struct {
    std::string id;  // in the cumulative ledger
    std::string source, test;  // a known name, a file, or synthetic-…
    std::string format = "auto";
    std::string store = "memory", scratch;
    std::string labels_file, array = "x";
    std::size_t rows = 0, skip = 0, features = 0;
    std::size_t clients = 10, rows_per_client = 0, uniform = 0;
    std::string split = "blocks";
    double alpha = 0.3;
    std::vector<double> lower, upper;  // public ranges of the features
    std::string range = "symmetric";
    double scale = 1.0;
    bool intercept = false;
    std::string row_norm = "none";
    double row_bound = 1.0;
    double positive = 1.0;
    double label_bound = std::numeric_limits<double>::infinity();
    bool header = false;
    std::string label_column, group_column, person_column, separator = ",";
    std::vector<std::string> columns, drop, one_hot, fill, missing_indicator, bounds;
    double missing = 0.0;
    std::size_t records_per_person = 0, persons = 0;  // 0: not given
    double density = 0.1, label_noise = 0.05, heterogeneity = 0.0;  // synthetic only
  } data;
  struct {
    std::string name = "logistic";
    std::size_t classes = 0;  // softmax, mlp, cnn; 0: from the data set's public facts
    double threshold = 1.0;
    std::vector<double> hidden = {200};  // mlp and cnn: whole numbers
    std::string activation = "relu";
    std::vector<double> image = {1, 28, 28}, filters = {4, 8};  // cnn: whole numbers
    std::size_t kernel = 4;
    std::string pooling = "max";
    bool convolution_relu = false;
    double l2 = 0.0;
    std::string penalty = "none";
    double weight = 0.0, radius = 10.0, ridge = 0.0;
    std::vector<double> weights;  // of the l1 norm, one per parameter; empty: weight
    std::size_t group = 1;
    std::string weight_rule = "given";
  } model;
  struct {
    double epsilon = 1.0, delta = 1e-5;
    std::vector<double> budgets;  // ε per client; empty: epsilon for everyone
    std::string unit = "record", person_bound = "records";
    std::string trust = "local";
    std::size_t survivors = 0, colluding = 0;  // masked sums; survivors 0: all clients
    std::string adjacency = "replace-one";
    double clip = 1.0, clip_hessian = 0.25;
    std::string mechanism = "lattice_gaussian";
    double length_share = 0.0;  // priv-unit: part of ε of a message for the length; 0: the best
    std::vector<double> split;  // priv-unit in paper mode: ε0, ε1, ε2
    std::string cap = "best";
    std::string noise = "entropy";
  } privacy;
  struct {
    std::string name = "primal-dual", mode = "certified";
    std::size_t rounds = 100;
    double gamma = 0.0;  // 0: the largest step the theory allows
    std::string allocation = "dynamic", factor = "auto", scaling = "printed";
    double ratio = 0.99;  // geometric: variance of a round over that of the round before
    double strong_convexity = -1.0;  // −1: l2 times the scaling
    double initial_error = 0.0;  // public guess of E[Φ¹]; 0: none
    double variance_cap = std::numeric_limits<double>::infinity();  // on the noise of one released sum
    std::size_t local_steps = 1, batch = 0;
    double local_rate = 0.1, server_rate = 1.0, proximal = 0.0;
    std::string step = "corrected";
    std::string server_optimizer = "plain";
    double server_momentum = 0.9, server_second = 0.99, server_floor = 1e-3;
    double clip_quantile = 0.0, clip_rate = 0.2, clip_share = 0.01;  // quantile 0: the clip is fixed
    std::size_t last = 0;  // iterates that the model is the mean of; 0: as the paper
    std::string sampling = "full";
    double sample_rate = 0.0;  // poisson; 0: not given
    std::size_t sample_clients = 0;  // fixed; 0: not given
    std::size_t participations = 0;  // local trust; 0: all rounds
    std::string weights = "uniform";
    double noise_multiplier = 0.0;  // paper mode of the federated averages: σ over the clip
    double rho = 1.0, eta = 0.1;  // without a server: weight of an edge, step size
    // With error feedback.
    std::string compressor = "top:0.1", state = "noiseless", schedule = "geometric", radius_rule = "planned";
    double level_ratio = 0.0;  // q of Appendix D; 0: 1/√h
    double radius_ratio = 0.99;  // r
    double smoothness = 0.0;  // 0: of the model, by the row bound
    double first_gamma = 0.0, growth = 1.0;  // first 0: gamma
    double beta = 0.5, beta_hat = 0.5;
    double target_error = 0.0;  // 0: none
    std::string eta_rule = "fixed", output = "last", composition = "advanced";
    std::string design = "subspace", solve_at = "server", record_sampling = "fixed";
    std::size_t sample_records = 1, coordinates = 0, solver_steps = 10;  // 0: all; 0: as (9) in paper mode
    double cubic = -1.0, hessian_share = 0.5, delta0 = 0.01;  // −1: from the public bounds
  } algorithm;
  struct Network {
    std::string topology = "ring";
    double degree = 3.0, radius = 0.0;
    std::size_t rows = 0, seed = 1, attempts = 1;
    std::string file;
    std::vector<std::string> away, leave;  // "peer: from-to", "peer: round"
    bool operator==(const Network&) const = default;
  } network;
  struct {
    std::string name = "threads";
    std::size_t threads = 0;  // 0: one per core
  } runtime;
  struct {
    std::string name, output = "runs";
    std::size_t seed = 42;
    std::size_t trace_every = 0;  // 0: about a hundred points a run
    std::size_t tail = 0;  // last rounds over which accuracy and loss are also averaged
    bool oracle = false;
    std::size_t reserve = 64;
    double checkpoint = 1.0;  // seconds between checkpoints
    std::string ledger;
  } experiment;

  std::filesystem::path file;  // where it came from; empty if none
};

// The sections of an experiment file, bound to the fields of this config (which must stay put).
std::vector<Section> Describe(Config&);

struct Assignment {  // --set key=value
  std::string key;  // "privacy.epsilon"
  std::string value;
};

// Reads a TOML file (empty path: defaults), then applies assignments. Every error names the key, the
// value, the file with line, and the remedy. A [sweep] table is left to LoadSweep.
Result<Config> LoadConfig(const std::filesystem::path& file, const std::vector<Assignment>& sets);
Result<Config> ParseConfig(std::string_view toml, const std::string& name,
                           const std::vector<Assignment>& sets);
Status SetKey(Config&, std::string_view full_key, const Value&);
Result<Assignment> ParseAssignment(std::string_view text);  // "privacy.epsilon=2"
std::string ToToml(Config);  // resolved: every key with its value
std::string OptionsReference();  // docs/options.md

}  // namespace tacit
