#pragma once

// For tests: small runs with every option that changes what is computed or sent, which have the same model
// wherever their clients are: threads of one process, ranks under mpirun, or machines that talk over gRPC.
// Each program compares with a run in its own process on the same rows, seeds and noise.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "core/rng.h"

namespace tacit {

struct ConformanceCase {
  std::string name, text;
  std::vector<std::size_t> records = {};  // of each client; empty: as even as possible
  bool generated = false;  // rows are those that the text names, and not WriteConformanceRows's
  // What the error says where clients are on other machines, if that is refused by design.
  std::string refused = {};
};

inline constexpr std::uint64_t kConformanceNoise = 4711;
inline constexpr std::size_t kConformanceClients = 6;  // at most

inline bool WithoutServer(const Config& c) {
  for (const char* name : {"zcdp-nfl", "dp-nfl", "zcdp-grad-nfl", "p-admm"})
    if (c.algorithm.name == name) return true;
  return false;
}

inline std::string PlainName(const std::string& name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) out += c;
  return out;
}

inline std::vector<ConformanceCase> ConformanceCases() {
  // The price of a secret sample rests on nobody knowing who takes part, and who sees the network does.
  const std::string secret = "rests on nobody knowing who takes part";
  std::vector<ConformanceCase> all;
  for (const Subject& s : Subjects()) {
    all.push_back({s.name, s.text});
    if (s.name.find(", secret ") != std::string::npos && s.text.find("\"central\"") != std::string::npos)
      all.back().refused = secret;
  }
  struct Tables {
    std::string data = "", model = "name = \"least-squares\"\nl2 = 0.1", privacy = "epsilon = 4.0",
                algorithm = "", more = "";
  };
  const auto add = [&](const char* name, const Tables& t) -> ConformanceCase& {
    const auto usual = [](const char* key, const char* value, const std::string& own) {
      return ("\n" + own).find(fmt::format("\n{} =", key)) == std::string::npos
                 ? fmt::format("{} = {}\n", key, value)
                 : std::string();
    };
    all.push_back({name, fmt::format("[data]\n{}{}{}{}\n[model]\n{}\n[privacy]\ndelta = 1e-5\n{}\n"
                                     "[algorithm]\n{}{}\n{}",
                                     usual("rows", "15", t.data), usual("features", "4", t.data),
                                     usual("clients", "5", t.data), t.data, t.model, t.privacy,
                                     usual("rounds", "4", t.algorithm), t.algorithm, t.more)});
    return all.back();
  };
  const std::string local = "epsilon = 8.0\nunit = \"client\"", central = local + "\ntrust = \"central\"",
                    masked = local +
                             "\ntrust = \"masked\"\nmechanism = \"discrete_gaussian\"\nsurvivors = 4\n"
                             "colluding = 1",
                    bounded = "row_norm = \"clip\"\nrow_bound = 1.0",
                    fixed =
                        "\nsampling = \"fixed\"\nsample_clients = 2\nparticipations = 3\n"
                        "allocation = \"static\"\nrounds = 6",
                    coins =
                        "\nsampling = \"poisson\"\nsample_rate = 0.5\nparticipations = 3\n"
                        "allocation = \"static\"\nrounds = 6",
                    flat = "\nallocation = \"static\"";
  const std::vector<std::size_t> uneven = {1, 5, 2, 4, 3};
  const std::string by_site = "split = \"column\"\ngroup_column = \"site\"";

  // Samples that everybody sees: not everybody is asked.
  for (const char* method : {"dp-fedavg", "dp-scaffold", "fedexp", "dpd-ef21", "dpd-ef21-2"})
    for (const bool of_so_many : {true, false})
      add(fmt::format("{}, public {}", method, of_so_many ? "samples" : "coins").c_str(),
          {.data = bounded,
           .privacy = local,
           .algorithm = fmt::format("name = \"{}\"", method) + (of_so_many ? fixed : coins)});
  add("dp-scaffold, secret coins",
      {.privacy = central,
       .algorithm = "name = \"dp-scaffold\"\nsampling = \"poisson\"\nsample_rate = 0.5" + flat})
      .refused = secret;

  // Clients with other numbers of records, and with weights by them.
  for (const char* method : {"dp-fedavg", "dp-scaffold", "fedexp"}) {
    add(fmt::format("{}, local, by records", method).c_str(),
        {.data = by_site,
         .privacy = local,
         .algorithm = fmt::format("name = \"{}\"\nweights = \"records\"", method)})
        .records = uneven;
    add(fmt::format("{}, central, by records", method).c_str(),
        {.data = by_site,
         .privacy = central,
         .algorithm = fmt::format("name = \"{}\"\nweights = \"records\"", method)})
        .records = uneven;
  }
  add("fedexp, public samples by records",
      {.data = by_site, .privacy = local, .algorithm = "name = \"fedexp\"\nweights = \"records\"" + fixed})
      .records = uneven;
  add("dp-fedavg, local, other numbers of records",
      {.data = by_site, .privacy = local, .algorithm = "name = \"dp-fedavg\""})
      .records = uneven;
  // A simulation of records does not take it for public who has how many, but for equal parts.
  add("primal-dual, other numbers of records", {.data = "rows = 13", .algorithm = "name = \"primal-dual\""});

  // A budget each.
  const std::string budgets = "budgets = [1.0, 2.0, 4.0, 1.0, 2.0]";
  add("primal-dual, a budget each", {.privacy = budgets, .algorithm = "name = \"primal-dual\""});
  add("dp-fedavg, record, a budget each", {.privacy = budgets, .algorithm = "name = \"dp-fedavg\""});
  add("dpd-ef21-2, a budget each",
      {.data = bounded, .privacy = budgets, .algorithm = "name = \"dpd-ef21-2\""});

  // A clip that follows the updates' lengths.
  for (const auto& [trust, privacy] : {std::pair("local", local), {"masked", masked}})
    add(fmt::format("dp-fedavg, {}, moving clip", trust).c_str(),
        {.privacy = privacy, .algorithm = "name = \"dp-fedavg\"\nclip_quantile = 0.5" + flat});
  add("dp-fedavg, moving clip by public samples",
      {.privacy = local, .algorithm = "name = \"dp-fedavg\"\nclip_quantile = 0.5" + fixed});

  // What is done to a message.
  const char* kCompressors[] = {"identity",   "top:k=2",       "top:0.5/16",
                                "layers:0.5", "rand:0.5",      "unbiased-rand:0.75",
                                "round:2",    "round:1,1.5,2", "top:0.5+round:2"};
  for (std::size_t i = 0; i < std::size(kCompressors); ++i) {
    const char* method = i % 2 == 0 ? "dpd-ef21" : "dpd-ef21-2";
    add(fmt::format("{}, {}", method, kCompressors[i]).c_str(),
        {.data = bounded,
         .privacy = local,
         .algorithm = fmt::format("name = \"{}\"\ncompressor = \"{}\"", method, kCompressors[i])});
  }
  add("dpd-ef21-2, layers of a network",
      {.data = bounded,
       .model = "name = \"mlp\"\nhidden = [3]\nclasses = 3",
       .privacy = local,
       .algorithm = "name = \"dpd-ef21-2\"\ncompressor = \"layers:0.5,k=2\"\nsmoothness = 4.0"});

  // Models with several classes, and networks.
  for (const char* model :
       {"name = \"softmax\"\nclasses = 3",
        "name = \"mlp\"\nhidden = [3]\nclasses = 3\nactivation = \"sigmoid\"",
        "name = \"cnn\"\nimage = [1, 6, 6]\nfilters = [2]\nkernel = 3\nhidden = []\nclasses = 3"}) {
    const std::string of(model, 8, std::string(model).find('"', 8) - 8);
    const std::string data = of == "cnn" ? "features = 36" : "";
    for (const auto& [trust, privacy] : {std::pair("local", local), {"central", central}, {"masked", masked}})
      add(fmt::format("{}, dp-fedavg, {}", of, trust).c_str(),
          {.data = data, .model = model, .privacy = privacy, .algorithm = "name = \"dp-fedavg\"" + flat});
    add(fmt::format("{}, dp-scaffold, record", of).c_str(),
        {.data = data, .model = model, .algorithm = "name = \"dp-scaffold\"\nlocal_steps = 2"});
  }
  add("softmax, primal-dual", {.model = "name = \"softmax\"\nclasses = 3\nl2 = 0.1"});
  for (const char* loss : {"hinge", "smoothed-hinge", "huber", "absolute-deviation"})
    add(fmt::format("{}, isrl-dp", loss).c_str(),
        {.model = fmt::format("name = \"{}\"\nl2 = 0.1\npenalty = \"l2ball\"", loss),
         .algorithm = "name = \"isrl-dp\""});
  for (const char* penalty : {"l1", "elastic-net", "group-lasso", "l1ball", "simplex"})
    add(fmt::format("primal-dual, {}", penalty).c_str(),
        {.model = fmt::format("l2 = 0.1\npenalty = \"{}\"\nweight = 0.01\nridge = 0.1\ngroup = 2", penalty)});

  // What a server makes of a mean, and clients of their rows.
  for (const char* optimizer : {"momentum", "adam"})
    add(fmt::format("dp-scaffold, {}", optimizer).c_str(),
        {.privacy = local,
         .algorithm = fmt::format("name = \"dp-scaffold\"\nserver_optimizer = \"{}\"", optimizer)});
  add("fedexp, batches of local steps near the model",
      {.privacy = local,
       .algorithm = "name = \"fedexp\"\nbatch = 2\nlocal_steps = 3\nproximal = 0.5\nlast = 3"});
  add("dp-fedavg, zero-out, floats",
      {.privacy = central + "\nadjacency = \"zero-out\"\nmechanism = \"gaussian\"",
       .algorithm = "name = \"dp-fedavg\"\nallocation = \"geometric\"\nratio = 0.9"});
  add("primal-dual, features in public ranges",
      {.data = "lower = [-1.0]\nupper = [1.0]\nrange = \"positive\"\nscale = 0.5\nintercept = true\n"
               "row_norm = \"unit\"",
       .model = "name = \"logistic\"\nl2 = 0.1",
       .algorithm = "name = \"primal-dual\"\nallocation = \"geometric\"\nscaling = \"times_n\""});

  // Steps on samples of records.
  const std::string samples = bounded + "\nrows = 8\nclients = 2",
                    box =
                        "name = \"least-squares\"\npenalty = \"box\"\n"
                        "radius = 10.0\nl2 = 0.1";
  const auto newton = [&](const char* name, const std::string& algorithm) {
    add(name, {.data = samples, .model = box, .algorithm = algorithm + "\nrounds = 2"});
  };
  newton("fcrn, secret coins of records", "name = \"fcrn\"\nsolver_steps = 2\nrecord_sampling = \"poisson\"");
  newton("fcrn, all records, late",
         "name = \"fcrn\"\nsolver_steps = 2\nrecord_sampling = \"full\"\nallocation = \"late\"");
  newton("fcrn, some coordinates", "name = \"fcrn\"\nsolver_steps = 2\ncoordinates = 2");
  newton("fcrn, once at the clients",
         "name = \"fcrn\"\ndesign = \"once\"\nsolve_at = \"client\"\ncubic = 1.0");
  newton("dp-fed-sgd, some coordinates", "name = \"dp-fed-sgd\"\ncoordinates = 2");

  // Without a server.
  const std::string graph = "rows = 10";
  const auto peers = [&](const char* name, const std::string& privacy, const std::string& algorithm,
                         const std::string& network) {
    add(name, {.data = graph + "\n" + bounded,
               .privacy = privacy,
               .algorithm = algorithm,
               .more = "[network]\n" + network + "\n"});
  };
  peers("p-admm, a star", "epsilon = 8.0", "name = \"p-admm\"", "topology = \"star\"");
  peers("zcdp-nfl, peers away", "epsilon = 8.0", "name = \"zcdp-nfl\"\nrounds = 6\neta_rule = \"sqrt\"",
        "topology = \"complete\"\naway = [\"3: 2-4\", \"1: 3-3\"]");
  peers("zcdp-nfl, a budget each", budgets, "name = \"zcdp-nfl\"\nrho = 0.5", "topology = \"ring\"");
  peers("zcdp-grad-nfl, means of notes", "epsilon = 8.0",
        "name = \"zcdp-grad-nfl\"\noutput = \"mean\"\neta = 0.05",
        "topology = \"erdos-renyi\"\ndegree = 3.0\nattempts = 100");
  peers("dp-nfl, basic composition", "epsilon = 12.0", "name = \"dp-nfl\"\ncomposition = \"basic\"",
        "topology = \"regular\"\ndegree = 2.0\nattempts = 100");
  return all;
}

// The rows of a case: all.csv, and rows0.csv, rows1.csv, … of its clients, which are returned. The header
// names a person where the case has persons, of two rows each, and a site where clients are uneven.
inline std::vector<std::string> WriteConformanceRows(const ConformanceCase& of, const Config& config,
                                                     const std::filesystem::path& folder) {
  const auto& data = config.data;
  const std::size_t features = data.features, clients = data.clients;
  const bool persons = !data.person_column.empty(), sites = !of.records.empty();
  std::string header = "label";
  for (std::size_t j = 0; j < features; ++j) header += fmt::format(",x{}", j);
  header += fmt::format("{}{}\n", persons ? ",person" : "", sites ? ",site" : "");
  Stream coins({99, Purpose::kData, 0, 0});
  std::ofstream whole(folder / "all.csv");
  whole << header;
  std::vector<std::string> files;
  for (std::size_t c = 0; c < clients; ++c) {
    files.push_back((folder / fmt::format("rows{}.csv", c)).string());
    std::ofstream part(files.back());
    part << header;
    const std::size_t rows = sites ? of.records[c] : data.rows / clients + (c < data.rows % clients ? 1 : 0);
    for (std::size_t k = 0; k < rows; ++k) {
      std::string line = config.model.classes != 0 ? std::to_string(coins() % config.model.classes)
                         : coins() % 2 == 0        ? "-1"
                                                   : "1";
      for (std::size_t j = 0; j < features; ++j)
        line += fmt::format(",{}", static_cast<double>(coins() % 2001) / 1000 - 1);
      if (persons) line += fmt::format(",p{}", 100 * c + k / 2);
      if (sites) line += fmt::format(",s{}", c);
      whole << line << "\n";
      part << line << "\n";
    }
  }
  return files;
}

// How its rows are read, and its noise is drawn, by all programs alike.
inline std::vector<Assignment> ConformanceSettings(const std::filesystem::path& folder) {
  return {{"data.source", (folder / "all.csv").string()},
          {"data.format", "csv"},
          {"data.label_column", "0"},
          {"data.header", "true"},
          {"privacy.noise", "replayable"},
          {"experiment.trace_every", "1"}};
}

}  // namespace tacit
