// The program under mpirun.
#include "cluster_runs.h"

namespace tacit {
namespace {

using Cluster = ClusterTest;

TEST_F(Cluster, TrainsTheModelOfOneProcess) {
  const std::string file = Small();
  const json alone = json::parse(Together(0, {"train", file, "--json"}).out);
  EXPECT_EQ(alone["ranks"], 1);
  for (const int n : {2, 3}) {
    const Outcome o = Together(n, {"train", file, "--json"});
    ASSERT_EQ(o.code, 0) << o.err;
    const json together = json::parse(o.out, nullptr, false);      // one document: rank 0 alone prints
    ASSERT_FALSE(together.is_discarded()) << o.out;
    EXPECT_EQ(together["ranks"], n);
    for (const char* key : {"model_sha256", "bytes_up", "bytes_down", "rounds", "metrics"})
      EXPECT_EQ(together[key], alone[key]) << key;
    EXPECT_EQ(together["privacy"], alone["privacy"]);
  }
}

TEST_F(Cluster, SaysThingsOnce) {
  const Outcome o = Together(3, {"train", Small()});
  ASSERT_EQ(o.code, 0) << o.err;
  const std::size_t at = o.out.find("PRIVACY CERTIFICATE");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(o.out.find("PRIVACY CERTIFICATE", at + 1), std::string::npos);
  EXPECT_NE(o.out.find("at each of 3 ranks"), std::string::npos) << o.out;
}

TEST_F(Cluster, OtherVerbsActOnce) {
  const Outcome o = Together(3, {"plan", Small(), "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_FALSE(json::parse(o.out, nullptr, false).is_discarded()) << o.out;
}

TEST_F(Cluster, SharesTheRunsOfASweep) {
  const std::string file = Small("sweep = { seeds = 3, grid = { privacy.epsilon = [1.0, 2.0] } }\n");
  const json alone =
      json::parse(Together(0, {"sweep", file, "--json", "--set", "experiment.output=alone"}).out);
  const Outcome o =
      Together(3, {"sweep", file, "--json", "--jobs", "1", "--set", "experiment.output=shared"});
  ASSERT_EQ(o.code, 0) << o.err;
  json shared = json::parse(o.out, nullptr, false);
  ASSERT_FALSE(shared.is_discarded()) << o.out;
  EXPECT_EQ(shared["ran"], 6);
  ASSERT_EQ(shared["points"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    for (const char* metric : {"accuracy", "loss", "certified_epsilon"})
      EXPECT_EQ(shared["points"][i]["metrics"].value(metric, json()),
                alone["points"][i]["metrics"].value(metric, json()));
  // And goes on from what is there.
  const json again =
      json::parse(Together(2, {"sweep", file, "--json", "--set", "experiment.output=shared"}).out);
  EXPECT_EQ(again["ran"], 0);
  EXPECT_EQ(again["resumed"], 6);
}

TEST_F(Cluster, RefusesRanksWithOtherExperiments) {
  const std::string file = Small();
  const Outcome o = Wait(BeginBy({"-n", "1", tacit_, "train", file, "--quiet", ":", "-n", "1", tacit_,
                                  "train", file, "--quiet", "--set", "privacy.epsilon=3"}));
  EXPECT_EQ(o.code, 2) << o.out << o.err;
  EXPECT_NE(o.err.find("rank 1 of 2: is of another version, or has another experiment"), std::string::npos)
      << o.err;
  EXPECT_FALSE(fs::exists(home_ / "runs"));
}

TEST_F(Cluster, AnErrorIsToldOnce) {
  const Outcome o = Together(3, {"train", "nowhere.toml", "--json"});
  EXPECT_EQ(o.code, 3) << o.err;
  const json error = json::parse(o.out, nullptr, false);
  ASSERT_FALSE(error.is_discarded()) << o.out;
  EXPECT_EQ(error["error"]["code"], 3);
}

// A rank that cannot read what the others can.
TEST_F(Cluster, AnErrorOfOneRankIsToldByTheFirst) {
  const std::string file = Small();
  const Outcome o = Wait(BeginBy({"-n", "1", tacit_, "train", file, "--quiet", ":", "-n", "1", tacit_,
                                  "train", "nowhere.toml", "--quiet"}));
  EXPECT_EQ(o.code, 3) << o.out << o.err;
  EXPECT_NE(o.err.find("rank 1 of 2: nowhere.toml"), std::string::npos) << o.err;
}

TEST_F(Cluster, ABuildWithoutMpiSaysSo) {
  fs::create_directories(home_ / "bare");
  fs::copy_file(tacit_, home_ / "bare" / "tacit");
  tacit_ = (home_ / "bare" / "tacit").string();
  const Outcome o = Together(2, {"train", Small(), "--quiet"});
  EXPECT_EQ(o.code, 7) << o.out << o.err;
  const std::size_t at = o.err.find("mpirun has started 2 processes, and this build of tacit has no MPI");
  ASSERT_NE(at, std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("mpirun has started", at + 1), std::string::npos) << o.err;
  EXPECT_FALSE(fs::exists(home_ / "runs"));
  EXPECT_EQ(Together(1, {"train", Small(), "--quiet"}).code, 0);      // one process needs none
}

TEST_F(Cluster, ADeadRankIsNamedAndTheRunGoesOn) {
  const std::string file = Long();
  ASSERT_EQ(Together(0, {"train", file, "--quiet", "--set", "experiment.output=alone"}).code, 0);
  const pid_t child = Begin(3, {"train", file, "--quiet", "--set", "experiment.output=together"});
  while (!Ended(child) && Slurp(Folder("together") / "trace.jsonl").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_FALSE(Ended(child));
  const std::vector<pid_t> ranks = RanksOf(child, 3);
  ASSERT_NE(ranks[1], 0);
  ::kill(ranks[1], SIGKILL);
  const Outcome o = Wait(child);
  EXPECT_NE(o.code, 0);
  EXPECT_NE(o.err.find("does not answer"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("tacit resume together/run-"), std::string::npos) << o.err;
  const Outcome on = Together(2, {"resume", Folder("together").string(), "--quiet"});
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(Slurp(Folder("together") / "model.npy"), Slurp(Folder("alone") / "model.npy"));
}

// SIGUSR1 is what mpirun passes on, and what Slurm can send before the time is up.
TEST_F(Cluster, StopsWhenAsked) {
  const std::string file = Long();
  ASSERT_EQ(Together(0, {"train", file, "--quiet", "--set", "experiment.output=alone"}).code, 0);
  const pid_t child = Begin(2, {"train", file, "--set", "experiment.output=together"});
  while (!Ended(child) && Slurp(Folder("together") / "trace.jsonl").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_FALSE(Ended(child));
  ::kill(child, SIGUSR1);
  const Outcome o = Wait(child);
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_NE(o.out.find("Go on with: tacit resume"), std::string::npos) << o.out;
  ASSERT_EQ(Together(0, {"resume", Folder("together").string(), "--quiet"}).code, 0);
  EXPECT_EQ(Slurp(Folder("together") / "model.npy"), Slurp(Folder("alone") / "model.npy"));
}

}  // namespace
}  // namespace tacit
