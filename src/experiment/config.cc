#include "experiment/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "experiment/plan.h"
#include "experiment/toml_values.h"

namespace tacit {
namespace {

constexpr Range kAnyCount = {.lower = 0, .upper = 0x1p53 - 1};
constexpr Range kLength = Between(1e-100, 1e100);      // squares neither overflow nor vanish
constexpr Range kBudget = {.lower = 0, .upper = 1e100, .lower_open = true};      // of epsilon

using internal::At;

}  // namespace

std::vector<Section> Describe(Config& c) {
  std::vector<Section> all;
  {
    Section& s = all.emplace_back("data", "Who holds which rows. Everything here is a public constant.");
    s.Text("id", &c.data.id,
           "name under which runs on this data add up in the cumulative ledger; empty: the source");
    s.Text(
        "source", &c.data.source,
        "training data: a name `tacit data list` knows, a file (LIBSVM, CSV, IDX, CIFAR-10 .bin, .npy, .npz; "
        ".gz .bz2 .xz), "
        "synthetic-logistic, synthetic-linear or synthetic-fedexp");
    s.Text("test", &c.data.test, "public test data for loss and accuracy, written like source; empty: none");
    s.Choice("format", &c.data.format, {"auto", "libsvm", "csv", "idx", "cifar", "npy", "npz"},
             "format of a file");
    s.Choice(
        "store", &c.data.store, {"memory", "disk", "nowhere"},
        "where preprocessed rows are kept: disk is for sets larger than memory, as 8 bytes a number in a "
        "scratch file; nowhere: synthetic rows of linear models are made anew whenever they are read");
    s.Text(
        "scratch", &c.data.scratch,
        "store = disk: the folder of the scratch file, which has no name there; empty: $TMPDIR or /var/tmp");
    s.Text("labels_file", &c.data.labels_file,
           "IDX, .npy: the file with the labels; empty: the name of the images with labels instead, .npy: a "
           "column of the array");
    s.Text("array", &c.data.array, ".npz: the array that holds the features");
    s.Count("rows", &c.data.rows, kAnyCount, "use the first rows only (synthetic: how many to make); 0: all");
    s.Count("skip", &c.data.skip, kAnyCount, "rows passed over first");
    s.Count("features", &c.data.features, kAnyCount,
            "columns; 0: as many as the data set is known, or seen, to have");
    s.Count("clients", &c.data.clients, {.lower = 1, .upper = 0x1p28},
            "number of clients n (ignored by split = column)");
    s.Count("rows_per_client", &c.data.rows_per_client, kAnyCount,
            "exactly so many rows each; 0: all rows, as equal as possible");
    s.Choice("split", &c.data.split, {"blocks", "iid", "label", "dirichlet", "mixed", "column"},
             "contiguous blocks, a seeded shuffle, sorted by label, Dirichlet over the classes, some rows of "
             "all classes and the others of one, or the file's group_column");
    s.Count(
        "uniform", &c.data.uniform, kAnyCount,
        "split = mixed: rows of a client that are of all classes; the others of its rows_per_client are of "
        "one, the c-th for client c");
    s.Number("alpha", &c.data.alpha, Above(0), "concentration of split = dirichlet");
    s.Numbers("lower", &c.data.lower, {},
              "public lower ends of the features' ranges: one for all, or one each; values are clamped; "
              "empty: no ranges");
    s.Numbers("upper", &c.data.upper, {}, "public upper ends of the features' ranges");
    s.Choice("range", &c.data.range, {"symmetric", "positive"},
             "what lower to upper is mapped to: [-1, 1] or [0, 1]");
    s.Number("scale", &c.data.scale, {}, "every feature is multiplied by this public constant");
    s.Flag("intercept", &c.data.intercept, "append a constant feature 1");
    s.Choice("row_norm", &c.data.row_norm, {"none", "clip", "unit"},
             "scale rows longer than row_bound down to it (clip), or every row to it (unit)");
    s.Number("row_bound", &c.data.row_bound, kLength, "the public bound on the Euclidean norm of a row");
    s.Number("positive", &c.data.positive, {}, "binary models: this label is +1, every other one is -1");
    s.Number("label_bound", &c.data.label_bound, {.lower = 0, .upper = INFINITY, .lower_open = true},
             "regression: labels are clamped to plus or minus this");
    s.Flag("header", &c.data.header, "CSV: the first line names the columns");
    s.Text(
        "label_column", &c.data.label_column,
        "CSV, .npy: name or 0-based number of the label; empty: the last column; .npz: its array; empty: y",
        true);
    s.Text("group_column", &c.data.group_column,
           "CSV: name or number of the column that names the client; .npz: its array", true);
    s.Text("person_column", &c.data.person_column,
           "whose record a row is, for privacy.unit = person: CSV: name or number of the column; .npz: its "
           "array",
           true);
    s.Count("records_per_person", &c.data.records_per_person, kAnyCount,
            "at most so many records of a person count, the first ones in the file, over all clients; the "
            "others are dropped; 0: not given");
    s.Count(
        "persons", &c.data.persons, kAnyCount,
        "public number of persons: for privacy.person_bound = sum each client divides by persons/clients; "
        "0: by rows/clients");
    s.Texts("columns", &c.data.columns, "CSV without a header: names of all columns");
    s.Texts("drop", &c.data.drop, "CSV: columns left out");
    s.Texts("one_hot", &c.data.one_hot,
            "CSV: columns of categories, each written \"column: a | b | c\"; any other category is all "
            "zeros, or, if the list ends with *, a feature of its own");
    s.Text("separator", &c.data.separator, "CSV: one character between fields");
    s.Number("missing", &c.data.missing, {},
             "the public constant that stands for a missing value: CSV: an empty field or ?, NumPy: NaN");
    s.Texts("fill", &c.data.fill,
            "CSV: columns with a constant of their own for what is missing, each written \"column: 3.5\"");
    s.Texts("missing_indicator", &c.data.missing_indicator,
            "CSV: columns that get a second feature, 1 where the value is missing; *: all that are not "
            "one-hot");
    s.Texts("bounds", &c.data.bounds,
            "CSV: public ranges by column, each written \"column: 20 to 80\"; values are clamped and mapped "
            "like those of lower and upper, and other columns stay as they are");
    s.Number("density", &c.data.density, {.lower = 0, .upper = 1, .lower_open = true},
             "synthetic-logistic, -linear: fraction of features that are not zero");
    s.Number("label_noise", &c.data.label_noise, Between(0, 1),
             "synthetic-logistic: fraction of labels flipped; synthetic-linear: noise of the labels");
    s.Number("heterogeneity", &c.data.heterogeneity, AtLeast(0),
             "synthetic-logistic, -linear: how far clients' distributions lie apart");
  }
  {
    Section& s = all.emplace_back(
        "model", "What is minimised: the mean over clients of their mean loss, plus public regularisers.");
    s.Choice("name", &c.model.name,
             {"logistic", "softmax", "least-squares", "absolute-deviation", "huber", "hinge",
              "smoothed-hinge", "mlp", "cnn"},
             "loss of a linear model, or a network with softmax loss: dense layers (mlp), convolutions and "
             "dense layers (cnn)");
    s.Count("classes", &c.model.classes, kAnyCount,
            "softmax, mlp, cnn: number of classes; 0: as the data set is known to have");
    s.Number("threshold", &c.model.threshold, Above(0),
             "huber: where the square becomes a line; smoothed-hinge: width of the rounded corner");
    s.Numbers("hidden", &c.model.hidden, AtLeast(1), "mlp, cnn: widths of the hidden dense layers");
    s.Choice("activation", &c.model.activation, {"sigmoid", "relu"}, "mlp, cnn: after each hidden layer");
    s.Numbers("image", &c.model.image, AtLeast(1), "cnn: channels, height and width of the image in a row");
    s.Numbers("filters", &c.model.filters, AtLeast(1), "cnn: filters of each convolution");
    s.Count("kernel", &c.model.kernel, AtLeast(1), "cnn: height and width of the filters");
    s.Choice("pooling", &c.model.pooling, {"max", "mean", "none"}, "cnn: of 2 x 2, after each convolution");
    s.Flag("convolution_relu", &c.model.convolution_relu, "cnn: ReLU between convolution and pooling");
    s.Number("l2", &c.model.l2, AtLeast(0), "weight of (l2/2) times the squared norm");
    s.Choice("penalty", &c.model.penalty,
             {"none", "l1", "l1box", "box", "l2ball", "elastic-net", "l1ball", "simplex", "group-lasso"},
             "g: l1, l1 over the box [-radius, radius], elastic net, group lasso, or the indicator of a box, "
             "a ball or the simplex of sum radius");
    s.Number("weight", &c.model.weight, AtLeast(0), "weight of the l1 norm or of the groups' norms");
    s.Numbers("weights", &c.model.weights, AtLeast(0),
              "weights of the l1 norm, one per parameter; empty: weight everywhere");
    s.Number("radius", &c.model.radius, Above(0),
             "half the width of the box, the radius of the ball, or the sum on the simplex");
    s.Number("ridge", &c.model.ridge, AtLeast(0), "elastic-net: weight of half the squared norm within g");
    s.Count("group", &c.model.group, AtLeast(1), "group-lasso: so many neighbouring coordinates a group");
    s.Choice("weight_rule", &c.model.weight_rule, {"given", "data"},
             "weight as given, or 0.001/clients times the largest entry of |X'y|, from private data: methods "
             "without a server in paper mode, and epsilon is infinite");
  }
  {
    Section& s =
        all.emplace_back("privacy", "The promise. What is clipped, noised and charged follows from it.");
    s.Number("epsilon", &c.privacy.epsilon, kBudget, "epsilon of the whole run, for every client's unit");
    s.Number("delta", &c.privacy.delta, {.lower = 0, .upper = 1, .lower_open = true, .upper_open = true},
             "delta of the whole run; keep it well below 1/rows");
    s.Numbers("budgets", &c.privacy.budgets, kBudget,
              "epsilon of each client, where they differ; empty: epsilon for everyone");
    s.Choice("unit", &c.privacy.unit, {"record", "person", "client"},
             "what is hidden: one record, all records of one person (data.person_column), or all records of "
             "one client");
    s.Choice("person_bound", &c.privacy.person_bound, {"records", "sum"},
             "unit = person: the noise covers data.records_per_person records together, or the sum of a "
             "person's gradients at a client is clipped to clip");
    s.Choice("trust", &c.privacy.trust, {"local", "central", "masked"},
             "local: every client noises what it sends, nobody is trusted; central: clients send clipped "
             "updates to a server they trust, which noises their sum; masked: clients noise their sum "
             "together, and masks let the server learn that alone (mechanism = discrete_gaussian)");
    s.Count(
        "survivors", &c.privacy.survivors, {.lower = 0, .upper = 1e6},
        "masked: the fewest clients a sum may have, whose noise is what is charged for; more than half of "
        "those who do not collude; 0: all");
    s.Count("colluding", &c.privacy.colluding, {.lower = 0, .upper = 1e6},
            "masked: clients who may tell the server their own noise, and do not keep to the protocol; the "
            "others' noise is what is charged for");
    s.Choice("adjacency", &c.privacy.adjacency, {"replace-one", "add-remove", "zero-out"},
             "which data sets count as neighbours");
    s.Number("clip", &c.privacy.clip, kLength,
             "bound on the gradient of one record, or on the update of one client; certified mode clips to "
             "it, and so do papers with unit = client; paper mode otherwise assumes it");
    s.Number("clip_hessian", &c.privacy.clip_hessian, {.lower = 0, .upper = 1e9},
             "fcrn: bound on the Hessian of one record, in Frobenius norm; a term of the solver is clipped "
             "to clip + "
             "clip_hessian times the length of its step");
    s.Choice(
        "mechanism", &c.privacy.mechanism,
        {"lattice_gaussian", "gaussian", "discrete_gaussian", "priv-unit", "expose"},
        "how values are released: exact integers, doubles (with a caveat), integers whose noise adds up over "
        "clients (trust = masked), a client's update by PrivUnit and ScalarDP (pure epsilon; unit = client, "
        "trust = local), or without noise (epsilon infinite)");
    s.Number(
        "length_share", &c.privacy.length_share, {.lower = 0, .upper = 0.99},
        "priv-unit: part of a message's epsilon that goes to the update's length, the rest to its direction; "
        "0: the best for updates as long as the clip");
    s.Numbers(
        "split", &c.privacy.split, {.lower = 1e-6, .upper = 60},
        "priv-unit in paper mode: epsilon0 and epsilon1 of the direction and epsilon2 of the length, of one "
        "message");
    s.Choice(
        "cap", &c.privacy.cap, {"best", "printed"},
        "priv-unit in paper mode: the cap that estimates best at epsilon0 + epsilon1, or the printed rule");
    s.Choice(
        "noise", &c.privacy.noise, {"entropy", "replayable"},
        "noise from the operating system's entropy, or from experiment.seed (printed in the certificate)");
  }
  {
    Section& s = all.emplace_back("algorithm", "How it is solved.");
    std::vector<std::string> names;
    for (const AlgorithmEntry& a : Algorithms()) names.emplace_back(a.name);
    s.Choice("name", &c.algorithm.name, names, "the method");
    s.Choice("mode", &c.algorithm.mode, {"certified", "paper"},
             "certified: what the proof needs is enforced; paper: calibration as printed, the claim beside "
             "what can be proved");
    s.Count("rounds", &c.algorithm.rounds, {.lower = 1, .upper = 1e7}, "communication rounds T");
    s.Number("gamma", &c.algorithm.gamma, AtLeast(0),
             "step size; 0: the largest the theory allows, min{1/4, 1/L_f}, or gamma_EF with error feedback");
    s.Choice("allocation", &c.algorithm.allocation, {"dynamic", "static", "geometric", "late"},
             "noise over rounds: water-filling against the error after the last round (fcrn, dp-fed-sgd: as "
             "static), "
             "the same in every round, a variance that changes by ratio from round to round, or (fcrn) most "
             "of the "
             "budget on the last rounds, as Newton's second phase forgets");
    s.Number("ratio", &c.algorithm.ratio, {.lower = 0, .upper = 10, .lower_open = true},
             "allocation = geometric: variance of a round over that of the round before");
    s.Choice("factor", &c.algorithm.factor, {"auto", "sharp", "printed"},
             "contraction factor behind the dynamic allocation; auto: sharp in certified mode, printed in "
             "paper mode");
    s.Choice("scaling", &c.algorithm.scaling, {"printed", "times_n"},
             "objective as printed, with 1/n before every client's gradient, or multiplied by n");
    s.Number("strong_convexity", &c.algorithm.strong_convexity, AtLeast(-1),
             "mu_f for the allocation, a public constant; -1: model.l2 times the scaling");
    s.Number("initial_error", &c.algorithm.initial_error, AtLeast(0),
             "public guess of the initial error, for the number of rounds the theory asks; 0: none");
    s.Number("variance_cap", &c.algorithm.variance_cap, {.lower = 0, .upper = INFINITY, .lower_open = true},
             "largest variance of the noise on one released sum; inf: no cap");
    s.Count("local_steps", &c.algorithm.local_steps, {.lower = 1, .upper = 1e6},
            "federated averages: gradient steps of a client in a round, or passes over its records with "
            "batch");
    s.Number("local_rate", &c.algorithm.local_rate, {.lower = 0, .upper = 1e6, .lower_open = true},
             "federated averages: step size of the local steps; isrl-dp: of the server's, without strong "
             "convexity");
    s.Count("batch", &c.algorithm.batch, kAnyCount,
            "federated averages: records of a local step; with error feedback: of a gradient; 0: all records "
            "of the "
            "client");
    s.Number("server_rate", &c.algorithm.server_rate, {.lower = 0, .upper = 1e6, .lower_open = true},
             "dp-fedavg, dp-scaffold: global step size");
    s.Choice(
        "server_optimizer", &c.algorithm.server_optimizer, {"plain", "momentum", "adam"},
        "dp-fedavg, dp-scaffold: what the server makes of a released mean, for free: a step along it, with "
        "momentum (FedAvgM), or Adam (FedAdam)");
    s.Number("server_momentum", &c.algorithm.server_momentum, {.lower = 0, .upper = 1, .upper_open = true},
             "server_optimizer: part of the last direction that is kept");
    s.Number("server_second", &c.algorithm.server_second, {.lower = 0, .upper = 1, .upper_open = true},
             "adam: part of the mean of squares that is kept");
    s.Number("server_floor", &c.algorithm.server_floor, {.lower = 1e-12, .upper = 1e6},
             "adam: what is added to the root of the mean of squares");
    s.Number("clip_quantile", &c.algorithm.clip_quantile, {.lower = 0, .upper = 1, .upper_open = true},
             "dp-fedavg with unit = client: the clip starts at privacy.clip and follows this quantile of the "
             "updates' lengths, by private counts; 0: it is fixed");
    s.Number("clip_rate", &c.algorithm.clip_rate, {.lower = 0, .upper = 10, .lower_open = true},
             "clip_quantile: how fast the clip follows");
    s.Number("clip_share", &c.algorithm.clip_share, {.lower = 1e-6, .upper = 0.9},
             "clip_quantile: part of the budget (of mu squared) that the counts take");
    s.Choice("step", &c.algorithm.step, {"corrected", "naive"},
             "fedexp: global step from squared lengths without their noise, or with it");
    s.Count("last", &c.algorithm.last, {.lower = 0, .upper = 1000},
            "federated averages: the model is the mean of so many last iterates; 0: 2 for fedexp, else 1");
    s.Number(
        "proximal", &c.algorithm.proximal, AtLeast(0),
        "dp-fedavg, fedexp: weight of the squared distance to the global model in local steps (FedProx)");
    s.Choice(
        "sampling", &c.algorithm.sampling, {"full", "fixed", "poisson"},
        "unit = client: who takes part in a round: everyone, sample_clients of them, or each with "
        "probability sample_rate; secret and credited with trust = central, e.g. sampling = \"poisson\", "
        "sample_rate = 0.01");
    s.Number("sample_rate", &c.algorithm.sample_rate, Between(0, 1),
             "sampling = poisson: probability with which a client takes part in a round");
    s.Count("sample_clients", &c.algorithm.sample_clients, {.lower = 0, .upper = 0x1p28},
            "sampling = fixed: clients of a round");
    s.Count(
        "participations", &c.algorithm.participations, kAnyCount,
        "sampling with trust = local, where who answers is seen: rounds that a client takes part in at most, "
        "after which it stays away; its noise is for so many; 0: all rounds");
    s.Choice("weights", &c.algorithm.weights, {"uniform", "records"},
             "unit = client: weights of clients in a mean: all the same, or by their numbers of records, "
             "which are public then");
    s.Number(
        "noise_multiplier", &c.algorithm.noise_multiplier, AtLeast(0),
        "paper mode with unit = client: noise of a release divided by the clip, as these papers state it");
    s.Text("compressor", &c.algorithm.compressor,
           "dpd-ef21, dpd-ef21-2: what is done to a difference of gradients: identity, top:0.1, layers:0.1, "
           "rand:0.1, "
           "round:2, top:0.1+round:2, with /64, /32, /16 or /8 bits a value");
    s.Choice("state", &c.algorithm.state, {"noiseless", "mirrored"},
             "dp-clip21, clip21-sgd2m: what a client counts as sent: the clipped difference without noise, "
             "as published, "
             "or the message itself, as the server does");
    s.Choice(
        "schedule", &c.algorithm.schedule, {"geometric", "theorem", "levels", "lyapunov"},
        "dpd-ef21, dpd-ef21-2 in paper mode: variance of a round by (1 - gamma mu/4)^t, (1 - gamma mu/2)^t, "
        "Appendix D with level_ratio, or the private objective");
    s.Number("level_ratio", &c.algorithm.level_ratio, {.lower = 0, .upper = 1, .upper_open = true},
             "schedule = levels: q of Appendix D, between 1/h and 1; 0: the root of 1/h");
    s.Number("radius_ratio", &c.algorithm.radius_ratio, {.lower = 0, .upper = 1, .lower_open = true},
             "dpd-ef21 in certified mode: radius of a round over that of the round before; the first is "
             "privacy.clip");
    s.Choice(
        "radius_rule", &c.algorithm.radius_rule, {"planned", "trajectory"},
        "dpd-ef21 in certified mode: the radii of radius_ratio, or less where the iterates moved little");
    s.Number(
        "smoothness", &c.algorithm.smoothness, {.lower = 0, .upper = 1e100},
        "with error feedback: public smoothness constant L for the step and the radii; 0: of the model and "
        "data.row_bound");
    s.Number("first_gamma", &c.algorithm.first_gamma, AtLeast(0),
             "with error feedback: the first step, which grows by growth up to gamma; 0: gamma");
    s.Number("growth", &c.algorithm.growth, {.lower = 1, .upper = 2},
             "with error feedback: c_up, a step over the one before, at most");
    s.Number("beta", &c.algorithm.beta, {.lower = 0, .upper = 1, .lower_open = true},
             "clip21-sgd2m: weight of the newest gradient in a client's momentum");
    s.Number("beta_hat", &c.algorithm.beta_hat, {.lower = 0, .upper = 1, .lower_open = true},
             "clip21-sgd2m: part of a clipped difference that is added to the state");
    s.Number("target_error", &c.algorithm.target_error, AtLeast(0),
             "dpd-ef21, dpd-ef21-2: error to be reached, for the rounds that Corollary 1 asks; 0: none");
    s.Number("rho", &c.algorithm.rho, {.lower = 1e-12, .upper = 1e12},
             "zcdp-nfl, dp-nfl, p-admm: weight of the agreement along an edge");
    s.Number("eta", &c.algorithm.eta, {.lower = 1e-12, .upper = 1e12},
             "zcdp-nfl, dp-nfl: size of the linearised step; zcdp-grad-nfl: of the subgradient step");
    s.Choice("eta_rule", &c.algorithm.eta_rule, {"fixed", "sqrt"},
             "eta in every round, or eta divided by the square root of the round");
    s.Choice("output", &c.algorithm.output, {"last", "mean"},
             "without a server: a peer's model is its last note, or the mean of all its notes");
    s.Choice("composition", &c.algorithm.composition, {"basic", "advanced"},
             "dp-nfl: the composition theorem for (epsilon, delta) behind the noise");
    s.Choice(
        "design", &c.algorithm.design, {"subspace", "full", "once"},
        "fcrn: a noisy solver on coordinates that all clients share, the paper's on all coordinates of which "
        "each client sends some of its own, or gradient and Hessian released once and the model minimised "
        "exactly");
    s.Choice(
        "solve_at", &c.algorithm.solve_at, {"server", "client"},
        "design = once: who minimises: the server, the mean of the clients' models, or every client its own");
    s.Choice(
        "record_sampling", &c.algorithm.record_sampling, {"fixed", "poisson", "full", "cycle"},
        "fcrn, dp-fed-sgd: records of a client in a round, drawn anew and in secret: sample_records of them, "
        "each with a probability that makes so many in the mean, or all; cycle: in a fixed order, which is "
        "no "
        "sample (paper mode)");
    s.Count("sample_records", &c.algorithm.sample_records, {.lower = 1, .upper = 1e9},
            "fcrn, dp-fed-sgd: how many");
    s.Count(
        "coordinates", &c.algorithm.coordinates, kAnyCount,
        "fcrn, dp-fed-sgd: coordinates of a message, drawn anew in every round from experiment.seed; 0: all");
    s.Count("solver_steps", &c.algorithm.solver_steps, {.lower = 0, .upper = 1e6},
            "fcrn: tau of the solver, whose answer is the mean of tau points by tau - 1 noisy steps; 0: as "
            "(9), in "
            "paper mode");
    s.Number("cubic", &c.algorithm.cubic, AtLeast(-1),
             "fcrn: weight of the cubic term, how fast Hessians change at most; -1: from data.row_bound");
    s.Number("hessian_share", &c.algorithm.hessian_share, {.lower = 0.001, .upper = 0.999},
             "design = once: part of a round's budget (of mu squared) that the Hessian takes");
    s.Number("delta0", &c.algorithm.delta0, {.lower = 0, .upper = 1, .lower_open = true},
             "fcrn in paper mode: delta0 of (7) and (9)");
  }
  {
    Section& s = all.emplace_back(
        "network", "Who talks to whom where there is no server; clients are its peers. All of it is public.");
    s.Choice("topology", &c.network.topology,
             {"ring", "torus", "complete", "star", "erdos-renyi", "geometric", "regular", "file"},
             "the graph; random ones are functions of seed; file: a list of edges");
    s.Number("degree", &c.network.degree, {.lower = 0, .upper = 0x1p28, .lower_open = true},
             "erdos-renyi, geometric: mean number of neighbours; regular: of every peer");
    s.Number("radius", &c.network.radius, AtLeast(0),
             "geometric: peers in the unit square up to so far apart are neighbours; 0: by degree");
    s.Count("rows", &c.network.rows, kAnyCount,
            "torus: peers on one side; 0: as near to a square as their number allows");
    s.Count("seed", &c.network.seed, kAnyCount, "random graphs: their public seed");
    s.Count("attempts", &c.network.attempts, {.lower = 1, .upper = 1e6},
            "random graphs: the first connected one of so many draws");
    s.Text("file", &c.network.file,
           "topology = file: lines of two peers, from 0; what follows # is a comment");
    s.Texts(
        "away", &c.network.away,
        "peers that miss rounds, each written \"peer: from-to\", e.g. \"3: 10-20\"; their last notes stand");
    s.Texts(
        "leave", &c.network.leave,
        "peers that leave for good before a round, each written \"peer: round\"; their edges go with them");
  }
  {
    Section& s = all.emplace_back("runtime", "Where it runs; changes nothing in the result.");
    s.Choice("name", &c.runtime.name, {"threads"}, "in-process simulation on threads");
    s.Count("threads", &c.runtime.threads, {.lower = 0, .upper = 4096}, "number of threads; 0: one per core");
  }
  {
    Section& s = all.emplace_back("experiment", "What is kept.");
    s.Text("name", &c.experiment.name, "name of the run; empty: after the file", true);
    s.Text("output", &c.experiment.output, "folder that holds run folders");
    s.Count("seed", &c.experiment.seed, kAnyCount,
            "seed of splits, synthetic data and, if asked, replayable noise");
    s.Count("trace_every", &c.experiment.trace_every, kAnyCount,
            "rounds between trace points; 0: about a hundred points");
    s.Count("tail", &c.experiment.tail, kAnyCount,
            "trace every one of so many last rounds, and report accuracy and loss averaged over them");
    s.Flag("oracle", &c.experiment.oracle,
           "simulation only: also measure loss and distance to the optimum on the private data, and say so "
           "in the certificate");
    s.Count(
        "reserve", &c.experiment.reserve, AtLeast(1),
        "rounds whose budget is made durable ahead, at least; never more than as many again as were made");
    s.Number("checkpoint", &c.experiment.checkpoint, {.lower = 0, .upper = 86400},
             "seconds between checkpoints, from which a stopped run resumes; 0: after every round; the trace "
             "is written with them");
    s.Text("ledger", &c.experiment.ledger,
           "file in which the costs of all runs on a data set add up; empty: $TACIT_LEDGER, or ledger.db in "
           "experiment.output");
  }
  return all;
}

namespace {
// Describing takes longer than setting: whoever sets many keys describes once.
Status SetKeyOf(std::vector<Section>& sections, std::string_view full_key, const Value& value) {
  const std::size_t dot = full_key.find('.');
  const std::string_view table = full_key.substr(0, dot);
  for (Section& s : sections)
    if (s.name() == table && dot != std::string_view::npos) return s.Set(full_key.substr(dot + 1), value);
  std::vector<std::string> keys;
  for (Section& s : sections)
    for (const Option& o : s.options()) keys.push_back(s.name() + "." + o.key);
  std::string near = Nearest(full_key, keys);
  if (near.empty() && dot == std::string_view::npos) {
    for (const std::string& k : keys)
      if (k.substr(k.find('.') + 1) == full_key) near = k;
  }
  return Fail(Code::kInvalidArgument, "{}: unknown key; {}", full_key,
              near.empty() ? "keys are written table.key, and `tacit options` lists them"
                           : fmt::format("did you mean {}?", near));
}
}  // namespace

Status SetKey(Config& config, std::string_view full_key, const Value& value) {
  std::vector<Section> sections = Describe(config);
  return SetKeyOf(sections, full_key, value);
}

Result<Assignment> ParseAssignment(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return Fail(Code::kInvalidArgument,
                "--set {}: must look like table.key=value, e.g. --set privacy.epsilon=2", text);
  return Assignment{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Result<Config> ParseConfig(std::string_view text, const std::string& name,
                           const std::vector<Assignment>& sets) {
  Config config;
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return Fail(Code::kMalformed, "{}:{}: not valid TOML: {}", name, e.source().begin.line, e.description());
  }
  std::vector<Section> sections = Describe(config);
  for (const auto& [table, node] : root) {
    const std::string table_name(table.str());
    if (table_name == "sweep" || table_name == "quick" || table_name == "claim" || table_name == "about" ||
        table_name == "serve")
      continue;   // sweeps and jobs read these
    const toml::table* keys = node.as_table();
    if (keys == nullptr) {
      for (const Section& s : sections)
        if (s.name() == table_name)
          return At(name, node,
                    Fail(Code::kInvalidArgument, "{}: must be a table of keys; write [{}] and its keys below",
                         table_name, table_name));
      return At(name, node, SetKeyOf(sections, table_name, Value(false)).error());
    }
    if (keys->empty()) {      // a misspelt table without keys would go unnoticed
      std::vector<std::string> names;
      for (const Section& s : sections) names.push_back(s.name());
      if (std::find(names.begin(), names.end(), table_name) == names.end()) {
        const std::string near = Nearest(table_name, names);
        return At(
            name, node,
            Fail(Code::kInvalidArgument, "[{}]: unknown table; {}", table_name,
                 near.empty() ? "`tacit options` lists them" : fmt::format("did you mean [{}]?", near)));
      }
    }
    for (const auto& [key, value] : *keys) {
      const std::string full = table_name + "." + std::string(key.str());
      auto v = internal::ValueOf(value, full);
      if (!v.ok()) return At(name, value, v.error());
      if (Status s = SetKeyOf(sections, full, *v); !s.ok()) return At(name, value, s.error());
    }
  }
  for (const Assignment& a : sets)
    if (Status s = SetKeyOf(sections, a.key, ParseValue(a.value)); !s.ok())
      return Error{s.error().code, "--set " + s.error().message};
  return config;
}

Result<Config> LoadConfig(const std::filesystem::path& file, const std::vector<Assignment>& sets) {
  if (file.empty()) return ParseConfig("", "", sets);
  std::error_code ec;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file, ec))
    return Fail(Code::kNotFound,
                "{}: cannot be read; give the path of an experiment file, e.g. experiments/demo.toml",
                file.string());
  std::ostringstream text;
  text << in.rdbuf();
  TACIT_TRY(Config config, ParseConfig(text.str(), file.string(), sets));
  config.file = file;
  return config;
}

std::string ToToml(Config config) {
  std::string out;
  for (Section& s : Describe(config)) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", s.name());
    for (const Option& o : s.options()) out += fmt::format("{} = {}\n", o.key, ToText(o.get()));
  }
  return out;
}

std::string OptionsReference() {
  Config config;
  std::string out =
      "# Options\n\nThe keys of an experiment file, and of `--set table.key=value`. Of the tables that only "
      "some verbs read,\n`[serve]` is in [deployment.md](deployment.md#the-table-serve), `[sweep]` and "
      "`[quick]` in [cli.md](cli.md#sweeps), and\n`[[claim]]` in [cli.md](cli.md#figures). Generated by "
      "`tacit options --markdown`; each is declared once, in\n`src/experiment/config.cc`.\n";
  for (Section& s : Describe(config)) {
    out += fmt::format("\n## [{}]\n\n{}\n\n| key | default | may be | meaning |\n|---|---|---|---|\n",
                       s.name(), s.help());
    for (const Option& o : s.options())
      out += fmt::format("| `{}` | `{}` | {} | {} |\n", o.key, o.fallback, o.range.empty() ? o.type : o.range,
                         o.help);
  }
  return out;
}

}  // namespace tacit
