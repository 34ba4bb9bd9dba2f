// Training from the sources and units of docs/data.md: hospitals, persons, rows on disk.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/catalogue.h"
#include "data/memory.h"
#include "experiment/build.h"
#include "experiment/run.h"
#include "experiment/verify.h"
#include "privacy/data_ledger.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

class DataRuns : public testing::Test {
 protected:
  DataRuns() {
    std::string name = (fs::temp_directory_path() / "tacit-data-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~DataRuns() override { fs::remove_all(folder_); }
  fs::path Write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  Result<RunResult> Run(const std::string& toml, std::vector<Assignment> sets = {}, bool folder = false) {
    sets.push_back({"experiment.output", folder_.string()});
    TACIT_TRY(config_, ParseConfig(toml, "test.toml", sets));
    TrainHooks hooks;
    hooks.write_folder = folder;
    return Train(config_, hooks);
  }
  std::string Why(const std::string& toml, std::vector<Assignment> sets = {}) {
    const auto r = Run(toml, std::move(sets));
    return r.ok() ? "" : r.error().message;
  }
  fs::path folder_;
  Config config_;
};

// Patients with 1 to 4 visits, at three sites; somebody visits two of them.
std::string Visits(std::size_t patients = 60) {
  Stream rng({.seed = 9, .purpose = Purpose::kTest});
  std::string out = "patient,site,age,pulse,ward,sick\n";
  for (std::size_t p = 0; p < patients; ++p)
    for (std::size_t v = 0; v < 1 + p % 4; ++v) {
      const double age = 20 + static_cast<double>(rng.Below(60));
      const bool sick = rng.Uniform() < (age > 50 ? 0.8 : 0.2);
      out += fmt::format("p{},s{},{},{},{},{}\n", p, p == 7 ? v % 3 : p % 3, age,
                         rng.Uniform() < 0.2 ? std::string("?") : fmt::format("{}", 60 + rng.Below(40)),
                         rng.Uniform() < 0.1   ? "attic"
                         : rng.Uniform() < 0.5 ? "north"
                                               : "south",
                         sick ? 1 : 0);
    }
  return out;
}

std::string VisitsToml(const fs::path& file, std::size_t rows) {
  return fmt::format(R"(
[data]
source = "{}"
rows = {}
features = 3
clients = 3
header = true
label_column = "sick"
person_column = "patient"
drop = ["site"]
one_hot = ["ward: north | south | *"]
fill = ["pulse: 75"]
missing_indicator = ["pulse"]
bounds = ["age: 20 to 80", "pulse: 40 to 120"]
intercept = true
row_norm = "clip"
row_bound = 2
[model]
l2 = 0.1
penalty = "l2ball"
radius = 10
[privacy]
unit = "person"
epsilon = 20
noise = "replayable"
[algorithm]
rounds = 30
scaling = "times_n"
)",
                     file.string(), rows);
}

TEST_F(DataRuns, PersonsByRecordsAndBySum) {
  const auto file = Write("visits.csv", Visits());
  const std::string toml = VisitsToml(file, 150);
  for (const char* adjacency : {"replace-one", "add-remove"}) {
    const double two = std::string_view(adjacency) == "replace-one" ? 2 : 1;
    const auto records =
        Run(toml, {{"data.records_per_person", "3"}, {"privacy.adjacency", adjacency}}, true);
    ASSERT_TRUE(records.ok()) << records.error().message;
    EXPECT_EQ(records->model.size(), 1u + 2 + 3 + 1);      // age, pulse and its indicator, ward, intercept
    EXPECT_NEAR(records->plan.sensitivity, two * 3, 1e-9);
    EXPECT_GT(records->plan.sensitivity, two * 3);
    EXPECT_LE(records->certified_epsilon, 20);
    EXPECT_GT(records->certified_epsilon, 19.9);
    const auto json = nlohmann::json::parse(std::ifstream(records->folder / "certificate.json"));
    EXPECT_EQ(json["privacy"]["unit"], "person");
    EXPECT_EQ(json["privacy"]["records_per_person"], 3);
    EXPECT_NE(json["privacy"]["protects"].get<std::string>().find("one person"), std::string::npos);
    EXPECT_EQ(json["privacy"]["not_covered"].get<std::string>().find("several records"), std::string::npos);
    std::ifstream text(records->folder / "certificate.txt");
    std::stringstream all;
    all << text.rdbuf();
    EXPECT_NE(all.str().find("person (at most 3 records)"), std::string::npos) << all.str();
    const auto ledger = SqliteVault::Read(records->folder / "ledger.db");
    ASSERT_TRUE(ledger.ok());
    EXPECT_EQ((*ledger)[0].unit, "person (at most 3 records)");

    const auto verified = VerifyFolder(records->folder);
    ASSERT_TRUE(verified.ok()) << verified.error().message;
    for (const Finding& f : verified->findings) ADD_FAILURE() << f.figure << ": " << f.sentence;

    const auto sum = Run(toml, {{"privacy.person_bound", "sum"}, {"privacy.adjacency", adjacency}}, true);
    ASSERT_TRUE(sum.ok()) << sum.error().message;
    EXPECT_NEAR(sum->plan.sensitivity, two, 1e-9);
    EXPECT_GT(sum->plan.sensitivity, two);
    EXPECT_LE(sum->certified_epsilon, 20);
    EXPECT_GT(sum->certified_epsilon, 19.9);
    EXPECT_NE(sum->model, records->model);
    const auto also = VerifyFolder(sum->folder);
    ASSERT_TRUE(also.ok()) << also.error().message;
    for (const Finding& f : also->findings) ADD_FAILURE() << f.figure << ": " << f.sentence;
  }
}

// What is paid is read off public constants: a person's visits at the largest site or at another one leave
// the same figures in the trace, in both ledgers and in the certificate, to the last bit.
TEST_F(DataRuns, WhatIsPaidDoesNotTellWhereAPersonsRecordsAre) {
  const auto visits = [](int site) {
    std::string out = "patient,site,age,sick\n";
    for (int i = 0; i < 200; ++i)
      out += fmt::format("p{},s{},{},{}\n", i / 2,
                         i < 2     ? site
                         : i < 120 ? 0
                                   : 1 + i / 2 % 2,
                         20 + i % 60, i % 2);
    return out;
  };
  for (const char* adjacency : {"replace-one", "add-remove", "zero-out"}) {
    SCOPED_TRACE(adjacency);
    std::vector<std::string> told;
    for (const int site : {0, 1}) {
      const auto file = Write("visits.csv", visits(site));
      const auto r = Run(fmt::format(R"(
[data]
source = "{}"
rows = 200
features = 1
clients = 3
header = true
label_column = "sick"
person_column = "patient"
group_column = "site"
split = "column"
records_per_person = 2
bounds = ["age: 20 to 80"]
row_norm = "clip"
row_bound = 1
[model]
l2 = 0.1
[privacy]
unit = "person"
adjacency = "{}"
noise = "replayable"
[algorithm]
rounds = 8
scaling = "times_n"
[experiment]
trace_every = 1
)",
                                     file.string(), adjacency),
                         {}, true);
      ASSERT_TRUE(r.ok()) << r.error().message;
      std::string figures;
      std::ifstream trace(r->folder / "trace.jsonl");
      for (std::string line; std::getline(trace, line);)
        figures += nlohmann::json::parse(line)["epsilon"].dump() + " ";
      const auto ledger = SqliteVault::Read(r->folder / "ledger.db");
      ASSERT_TRUE(ledger.ok());
      for (const double spent : ledger->front().spent) figures += fmt::format("{:a} ", spent);
      const auto together = DataLedger::Read(folder_ / "ledger.db");
      ASSERT_TRUE(together.ok());
      figures += fmt::format("{:a} ", together->front().runs.back().mu_squared);
      const auto certificate = nlohmann::json::parse(std::ifstream(r->folder / "certificate.json"));
      figures += certificate["privacy"]["mu"].dump() + certificate["releases"].dump();
      told.push_back(figures);
      const auto verified = VerifyFolder(r->folder);
      ASSERT_TRUE(verified.ok()) << verified.error().message;
      for (const Finding& f : verified->findings) ADD_FAILURE() << f.figure << ": " << f.sentence;
    }
    EXPECT_EQ(told[0], told[1]);
  }
}

TEST_F(DataRuns, APersonAtTwoClientsNeedsTheRecordsBound) {
  const auto file = Write("visits.csv", Visits());
  const std::string toml = VisitsToml(file, 150);
  const std::vector<Assignment> by_site = {
      {"data.drop", "[]"}, {"data.features", "3"}, {"data.group_column", "site"}, {"data.split", "column"}};
  auto sum = by_site, records = by_site;
  sum.push_back({"privacy.person_bound", "sum"});
  records.push_back({"data.records_per_person", "2"});
  EXPECT_NE(Why(toml, sum).find("two groups"), std::string::npos) << Why(toml, sum);
  EXPECT_EQ(Why(toml, records), "");
}

TEST_F(DataRuns, WhatThePersonUnitDoesNotCoverIsRefused) {
  const auto file = Write("visits.csv", Visits());
  const std::string toml = VisitsToml(file, 150);
  const struct {
    const char* why;
    std::vector<Assignment> sets;
    const char* message;
  } kCases[] = {
      {"no number of records", {}, "data.records_per_person is not set"},
      {"paper mode", {{"algorithm.mode", "paper"}}, "algorithm.mode"},
      {"own budgets",
       {{"data.records_per_person", "2"}, {"privacy.budgets", "[1, 2, 3]"}},
       "privacy.budgets"},
      {"rows cut", {{"data.records_per_person", "2"}, {"data.rows_per_client", "5"}}, "data.rows_per_client"},
      {"nobody named", {{"data.person_column", ""}, {"data.records_per_person", "2"}}, "data.person_column"},
      {"the shape of the file", {{"data.records_per_person", "2"}, {"data.rows", "0"}}, "data.rows"},
      {"synthetic rows",
       {{"data.source", "synthetic-logistic"}, {"data.records_per_person", "2"}},
       "does not say whose record"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const std::string why = Why(toml, c.sets);
    EXPECT_NE(why.find(c.message), std::string::npos) << why;
  }
}

TEST_F(DataRuns, TheTextsOfALayoutAreChecked) {
  const auto file = Write("visits.csv", Visits());
  const std::string toml = VisitsToml(file, 150);
  for (const auto& [key, value] : {std::pair("data.one_hot", "[\"ward\"]"),
                                   {"data.one_hot", "[\"ward: \"]"},
                                   {"data.one_hot", "[\"ward: a || b\"]"},
                                   {"data.one_hot", "[\"ward: *\"]"},
                                   {"data.fill", "[\"pulse: high\"]"},
                                   {"data.fill", "[\"pulse: inf\"]"},
                                   {"data.bounds", "[\"age: 80 to 20\"]"},
                                   {"data.bounds", "[\"age: 20\"]"}}) {
    SCOPED_TRACE(value);
    EXPECT_NE(Why(toml, {{"data.records_per_person", "2"}, {key, value}}).find("must look like"),
              std::string::npos);
  }
}

TEST_F(DataRuns, HeartDiseaseByHospital) {
  if (!LoadOptionsFor(*FindSet("heart_disease"), Part::kTrain).ok()) {
    std::printf("TACIT_SKIPPED: heart_disease is not under TACIT_DATA\n");
    GTEST_SKIP();
  }
  std::ifstream in(fs::path(TACIT_SOURCE_DIR) / "experiments" / "heart.toml");
  std::stringstream text;
  text << in.rdbuf();
  ASSERT_FALSE(text.str().empty());
  const auto r = Run(text.str(), {{"privacy.noise", "replayable"}});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->plan.clients, 4u);
  EXPECT_EQ(r->plan.rows, 920u);
  EXPECT_EQ(r->model.size(), 28u);
  ASSERT_TRUE(r->metrics.train_accuracy.has_value());
  EXPECT_GT(*r->metrics.train_accuracy, 0.75);      // 0.82 without noise; always "healthy" is 0.45
}

TEST_F(DataRuns, RowsOnDiskTrainTheSameModel) {
  const char* kToml = R"(
[data]
source = "synthetic-logistic"
test = "synthetic-logistic"
rows = 3000
features = 21
clients = 7
density = 1.0
intercept = true
row_norm = "clip"
[model]
l2 = 0.1
penalty = "box"
[privacy]
epsilon = 5
noise = "replayable"
[algorithm]
rounds = 20
[experiment]
oracle = true
)";
  for (const char* split : {"blocks", "iid", "label"}) {
    const auto memory = Run(kToml, {{"data.split", split}, {"privacy.mechanism", "expose"}});
    const auto disk = Run(kToml, {{"data.split", split},
                                  {"privacy.mechanism", "expose"},
                                  {"data.store", "disk"},
                                  {"data.scratch", folder_.string()}});
    ASSERT_TRUE(memory.ok() && disk.ok()) << disk.error().message;
    EXPECT_EQ(memory->model, disk->model);      // bit for bit
    EXPECT_EQ(memory->metrics.loss, disk->metrics.loss);
    EXPECT_EQ(memory->metrics.train_loss, disk->metrics.train_loss);
  }
  const auto once = Run(kToml, {{"data.store", "disk"}, {"data.scratch", folder_.string()}});
  const auto twice = Run(kToml, {{"data.store", "disk"}, {"data.scratch", folder_.string()}});
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(once->model, twice->model);      // replayable noise hashes the rows in the file too
  EXPECT_NE(Why(kToml, {{"data.store", "disk"}, {"data.scratch", "/nonexistent"}}).find("data.scratch"),
            std::string::npos);
}

TEST_F(DataRuns, RowsOnDiskFromTextAndWithPersons) {
  const auto file = Write("visits.csv", Visits(3000));
  std::string toml = VisitsToml(file, 7500);
  for (const char* bound : {"records", "sum"}) {
    const std::vector<Assignment> sets = {
        {"data.records_per_person", "2"}, {"privacy.person_bound", bound}, {"privacy.mechanism", "expose"}};
    auto on_disk = sets;
    on_disk.push_back({"data.store", "disk"});
    on_disk.push_back({"data.scratch", folder_.string()});
    const auto memory = Run(toml, sets), disk = Run(toml, on_disk);
    ASSERT_TRUE(memory.ok()) << memory.error().message;
    ASSERT_TRUE(disk.ok()) << disk.error().message;
    EXPECT_EQ(memory->model, disk->model);
  }
}

// Kilobytes of this process: VmHWM is the peak of resident memory since it was reset.
std::size_t Kilobytes(const char* key) {
  std::ifstream in("/proc/self/status");
  std::string word;
  std::size_t value = 0;
  while (in >> word)
    if (word == key && in >> value) return value;
  return 0;
}

TEST_F(DataRuns, ResidentMemoryIsThatOfTheBlocksInUse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::printf("TACIT_SKIPPED: a sanitizer's own memory hides the peak\n");
  GTEST_SKIP();
#endif
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;
  if (!reset) {
    std::printf("TACIT_SKIPPED: the peak of resident memory cannot be reset here\n");
    GTEST_SKIP();
  }
  const std::size_t before = Kilobytes("VmRSS:");
  const auto r = Run(fmt::format(R"(
data      = {{ source = "synthetic-logistic", rows = 60000, features = 500, density = 1.0, clients = 6, row_norm = "clip", store = "disk", scratch = "{}" }}
model     = {{ l2 = 0.1, penalty = "box" }}
privacy   = {{ epsilon = 5 }}
algorithm = {{ rounds = 2 }}
runtime   = {{ threads = 2 }}
)",
                                 folder_.string()));
  ASSERT_TRUE(r.ok()) << r.error().message;
  const std::size_t peak = Kilobytes("VmHWM:") - before;
  // The rows are 240,000 kB. Resident: two blocks of 8 MB, a batch of 16 MB, vectors.
  EXPECT_LT(peak, 60000u);
  std::printf("peak %zu kB for rows of 240000 kB\n", peak);
}

// Sixty rows in memory, and the same as a file.
struct Offered {
  std::vector<double> x, y;
  std::string csv;
  Offered() {
    Stream rng({.seed = 4, .purpose = Purpose::kTest});
    for (std::size_t i = 0; i < 60; ++i) {
      for (int j = 0; j < 3; ++j) {
        x.push_back(static_cast<double>(rng.Below(100)) / 64);
        csv += fmt::format("{},", x.back());
      }
      y.push_back(x[3 * i] > x[3 * i + 1] ? 1 : 0);
      csv += fmt::format("{}\n", y.back());
    }
  }
  MemoryRows rows() const { return {.rows = 60, .features = 3, .value = x, .label = y}; }
};
const char* const kInMemory =
    "[data]\nsource = \"memory:mine\"\nclients = 3\nrow_norm = \"clip\"\n[algorithm]\nrounds = 5\n";

TEST_F(DataRuns, RowsInMemoryTrainTheModelOfTheSameFile) {
  const Offered all;
  const fs::path file = Write("mine.csv", all.csv);
  const std::vector<Assignment> open = {{"privacy.mechanism", "expose"}};
  const auto offer = OfferedRows::Offer("memory:mine", all.rows());
  const auto memory = Run(kInMemory, open);
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  auto sets = open;
  sets.push_back({"data.source", file.string()});
  const auto read = Run(kInMemory, sets);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(memory->model, read->model);
  EXPECT_NE(Why(kInMemory, {{"data.store", "disk"}}).find("in memory already"), std::string::npos);
  EXPECT_NE(Why(kInMemory, {{"privacy.adjacency", "add-remove"}}).find("data.rows"), std::string::npos);
}

TEST_F(DataRuns, TheLedgerKnowsRowsInMemoryByWhatTheyAre) {
  const Offered all;
  for (const char* source : {"memory:mine", "memory:yours"}) {
    const auto offer = OfferedRows::Offer(source, all.rows());
    const auto run = Run(kInMemory, {{"data.source", source}}, true);
    ASSERT_TRUE(run.ok()) << run.error().message;
    std::ifstream config(run->folder / "config.toml"), certificate(run->folder / "certificate.json");
    std::ostringstream text;
    text << config.rdbuf() << certificate.rdbuf();
    EXPECT_EQ(text.str().find(MemoryDigest(source)), std::string::npos);
  }
  const auto sets = DataLedger::Read(folder_ / "ledger.db");
  ASSERT_TRUE(sets.ok());
  ASSERT_EQ(sets->size(), 1U);
  EXPECT_EQ(sets->front().runs.size(), 2U);
  EXPECT_NE(Why(kInMemory).find("hand them over again"), std::string::npos);
}

}  // namespace
}  // namespace tacit
