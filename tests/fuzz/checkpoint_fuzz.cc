#include <cstddef>
#include <cstdint>
#include <string>

#include "algorithms/ef21.h"
#include "algorithms/primal_dual.h"
#include "data/load.h"
#include "data/partition.h"
#include "experiment/checkpoint.h"

// The bytes as they are, and sealed as the body of a checkpoint whose magic, config and hash are right:
// whatever they are, they are read into the state of a server and two clients, and into that of a client in a
// process of its own who goes back, with what it sealed, or refused in words.
namespace {

struct Run {
  tacit::Partition partition;
  tacit::Problem problem;
  tacit::LatticeGaussian mechanism;
  tacit::PrimalDual::Options options;
  tacit::FeedbackOptions feedback;
  std::shared_ptr<const tacit::NoisePlan> noise = std::make_shared<const tacit::NoisePlan>();

  Run() {
    tacit::LoadOptions two;
    two.features = 2;
    auto data = tacit::ParseLibsvm("+1 1:1\n-1 2:1\n", two);
    tacit::PartitionOptions split;
    split.clients = 2;
    partition = *tacit::MakePartition(split, *std::move(data));
    problem.dim = 2;
    problem.clients = 2;
  }
};

void Try(Run& run, std::string_view bytes) {
  tacit::PrimalDual::Server server(run.problem, run.options);
  tacit::PrimalDual::Down down;
  std::vector<tacit::PrimalDual::Client> clients;
  for (std::uint32_t i = 0; i < 2; ++i)
    clients.emplace_back(tacit::Holding{i, 1, run.partition.shard(i), nullptr}, run.problem, run.mechanism,
                         run.options, run.noise);
  const auto at = tacit::Checkpoint::Parse<tacit::PrimalDual>(bytes, "fuzz.checkpoint", {}, clients.size(), 0,
                                                              server, down, clients);
  if (!at.ok()) {
    TACIT_CHECK(!at.error().message.empty());
    return;
  }
  TACIT_CHECK(at->spent.size() == 2);
  for (const auto& c : clients) TACIT_CHECK(c.iterate().size() == 2);
}
void TryAlone(Run& run, std::string_view bytes) {
  using Client = tacit::MirroredEf21::Client;
  for (const bool masked : {false, true}) {
    Client client(tacit::Holding{0, 1, run.partition.shard(0), nullptr}, run.problem, run.mechanism,
                  run.feedback, run.noise, false);
    tacit::Checkpoint::Past<Client> before;
    tacit::Masked sealed;
    const auto at = tacit::Checkpoint::ParseClient(bytes, "fuzz.checkpoint", {}, 0, client, before,
                                                   masked ? &sealed : nullptr);
    if (!at.ok()) {
      TACIT_CHECK(!at.error().message.empty());
      continue;
    }
    before.Return(client);
    TACIT_CHECK(std::get<0>(client.State()).size() == 2);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Run run;
  const std::string_view raw(reinterpret_cast<const char*>(data), size);
  Try(run, raw);
  TryAlone(run, raw);
  std::string sealed = "TCTCKPT1" + std::string(32, '\0') + std::string(raw);
  tacit::Sha256 hash;
  hash.Add(sealed);
  const tacit::Sha256::Digest digest = hash.Finish();
  sealed.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  Try(run, sealed);
  TryAlone(run, sealed);
  return 0;
}
