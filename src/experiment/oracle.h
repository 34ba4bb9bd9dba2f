#pragma once

// The Oracle reads private data in the clear, to measure what an experimenter wants to know and a
// deployment could not: loss and accuracy on the training data, and the distance to its optimum. It
// exists in simulations only; every metric it answered is named in the certificate.
#include <string>
#include <vector>

#include "data/partition.h"
#include "experiment/run.h"
#include "models/objective.h"
#include "models/reference.h"
#include "models/regularizer.h"

namespace tacit {

class Oracle {
 public:
  // `key` names the problem (data and model); equal keys share one solution within a process.
  Oracle(const Partition&, const Objective&, const Regularizer&, double l2, std::string key);

  Status Prepare();  // solves for x*; one without l2 or a kink in every record has none
  // Fills the oracle's metrics for the mean model and the clients' distance from it:
  //   optimality = consensus + ‖x̄ − x*‖²/‖x*‖²,  consensus = (1/n) Σ‖x̄ − x_i‖²
  // Without a consensus the model is one for all, and the first term is left out.
  void Measure(View mean_model, std::optional<double> consensus, Metrics&);
  // Peers of a network, a consensus apart: the normalised error (1/K) Σ_k ‖w_k − x*‖²/‖x*‖², by Measure's
  // optimality of their mean.
  void MeasurePeers(double consensus, Metrics&);
  std::vector<std::string> answered() const;  // names of the metrics it gave
  const Solution* optimum() const { return has_optimum_ ? &optimum_ : nullptr; }

 private:
  std::vector<Shard> shards_;  // opened
  const Objective* f_;
  const Regularizer* g_;
  double l2_;
  std::string key_;
  Workspace work_;
  Solution optimum_;
  bool has_optimum_ = false, measured_ = false, accuracy_ = false, consensus_ = false, peers_ = false;
};

}  // namespace tacit
