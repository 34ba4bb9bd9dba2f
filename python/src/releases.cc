// For algorithms that are written in Python: the engine clips, adds up, charges, noises; Python gets what was
// paid for.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "data/preprocess.h"
#include "experiment/json_number.h"
#include "experiment/plan.h"
#include "models/objective.h"
#include "privacy/data_ledger.h"
#include "privacy/gdp.h"
#include "privacy/mechanism.h"
#include "rows.h"

namespace tacit::python {
namespace {

using nlohmann::json;

struct ReleasesOptions {
  std::vector<std::size_t> records = {};  // of every client: public
  std::size_t dim = 1;
  double clip = 1, epsilon = 1, delta = 1e-5;
  std::size_t rounds = 1;
  std::string mechanism = "lattice_gaussian";
  std::string folder = {}, ledger = {}, data = {}, digest = {};
};

// The accounts of all clients of one program, and the only way through them: Σ clip_C(g_l) over the gradients
// of one client's records, with noise. One record of one client, replaced by another, is what is hidden.
//
// The gradients are handed over as the rows of a least-squares problem whose gradients they are: with x = 0
// and y = −1, ∇½(aᵀx − y)² = a. So what is released here goes through the same clipping, the same ledger and
// the same mechanism as the engine's own algorithms.
class Releases {
 public:
  explicit Releases(ReleasesOptions o) : o_(std::move(o)) {
    clip_ = Value(L2Bound::Of(o_.clip));
    const Delta delta = Value(Delta::Of(o_.delta));
    const Mu mu = GdpMu(Value(Epsilon::Of(o_.epsilon)), delta);
    if (!(o_.clip > 0) || !(mu.value() > 0) || o_.rounds == 0 || o_.dim == 0 || o_.records.empty())
      throw EngineError(
          Fail(Code::kInvalidArgument,
               "clip = {}, epsilon = {}, rounds = {}, dimension = {}: all must be above 0, and there "
               "must be a client",
               o_.clip, o_.epsilon, o_.rounds, o_.dim));
    mechanism_ = Value(MakeMechanism(o_.mechanism));
    gradient_ = Value(MakeObjective(ModelSpec{.loss = Loss::kLeastSquares}));
    for (const std::size_t n : o_.records) most_ = std::max(most_, n);
    sensitivity_ = Bounded::Sensitivity(kAdjacency, clip_, most_, gradient_->Roundings(most_));
    const MuSquared budget = BudgetOf(mu);
    sigma_ = Noise(budget);
    Check(mechanism_->CheckRange(static_cast<double>(most_) * o_.clip, NoiseStd::Proven(sigma_)));
    const std::vector<MuSquared> budgets(o_.records.size(), budget);
    book_ = std::make_unique<LedgerBook>(budgets, kAdjacency);
    OpenLedgers(budget, budgets);
  }

  double sigma() const { return sigma_; }

  nb::ndarray<nb::numpy, const double, nb::ndim<1>> Release(std::uint32_t client, const Matrix& gradients,
                                                            std::optional<double> sigma) {
    if (client >= o_.records.size())
      throw EngineError(Fail(Code::kInvalidArgument, "client {}: there are {}", client, o_.records.size()));
    if (gradients.shape(1) != o_.dim || gradients.shape(0) > o_.records[client])
      throw EngineError(
          Fail(Code::kInvalidArgument,
               "gradients of client {}: are {} x {}, and must have {} columns and at most {} rows, one "
               "a record",
               client, gradients.shape(0), gradients.shape(1), o_.dim, o_.records[client]));
    auto out = std::make_unique<Vec>();
    {
      const nb::gil_scoped_release free;
      const std::lock_guard lock(mutex_);
      if (closed_) throw EngineError(Fail(Code::kBudget, "the session is closed; open another one"));
      Dataset rows;
      rows.features = o_.dim;
      rows.value.assign(gradients.data(), gradients.data() + gradients.size());
      rows.label.assign(gradients.shape(0), -1.0);
      rows.charged_terms = most_;  // every client is charged as the one with the most records
      PreprocessOptions as_they_are;
      as_they_are.labels = LabelKind::kReal;
      Check(Preprocess(as_they_are, rows));
      const Vec zero(o_.dim, 0.0);
      Released<Vec> released;
      const Private<Shard> own(Shard(rows, 0, rows.rows()));
      Check(mechanism_->Release(Bounded::ClippedSum(own, *gradient_, zero, clip_, space_),
                                sigma ? Value(NoiseStd::Of(*sigma)) : NoiseStd::Proven(sigma_),
                                book_->account(client), rng_, noise_, released));
      *out = *released;
    }
    const double* data = out->data();
    const std::size_t size = out->size();
    const nb::capsule owner(out.release(), [](void* p) noexcept { delete static_cast<Vec*>(p); });
    return {data, {size}, owner};
  }

  double Spent() const { return GdpEpsilon(Root(book_->largest_spent()), Delta::Proven(o_.delta)).upper; }

  std::string CertificateJson() const {
    json clients = json::array();
    for (std::uint32_t i = 0; i < o_.records.size(); ++i) {
      const Ledger& account = book_->account(i);
      const Interval e = GdpEpsilon(Root(account.spent()), Delta::Proven(o_.delta));
      clients.push_back({{"records", o_.records[i]},
                         {"releases", account.charges()},
                         {"mu", Number(Root(account.spent()).value())},
                         {"epsilon", Number(e.upper)}});
    }
    return json{
        {"format", "tacit-releases-1"},
        {"version", TACIT_VERSION},
        {"privacy",
         {{"unit", "record"},
          {"adjacency", Name(kAdjacency)},
          {"delta", o_.delta},
          {"certified_epsilon", Number(Spent())},
          {"budget_epsilon", o_.epsilon},
          {"mechanism", mechanism_->name()},
          {"clip", o_.clip},
          {"sensitivity", sensitivity_.value()},
          {"sigma", sigma_},
          {"protects", "one record of one client, in everything that was released for that client"},
          {"assumes",
           "every row handed over is the gradient of one record and depends on no other record but through "
           "what was released; what the program shows of its rows by other ways is not covered"}}},
        {"data", o_.data},
        {"clients", clients}}
        .dump(2);
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    if (!vault_) return;
    Check(run_->Settle(*book_));
    Check(data_->Settle(book_->largest_spent()));
  }

 private:
  static constexpr Adjacency kAdjacency = Adjacency::kReplaceOne;

  // The smallest σ, nearly, with which so many releases keep the budget, every charge rounded up.
  double Noise(MuSquared budget) const {
    const double each = std::sqrt(budget.value() / static_cast<double>(o_.rounds));
    double sigma = sensitivity_.value() / each, step = 0x1p-40;
    for (;; sigma *= 1 + step, step *= 2) {
      const MuSquared cost = Cost(mechanism_->EventFor(sensitivity_, Value(NoiseStd::Of(sigma)), o_.dim));
      MuSquared sum{0.0};
      for (std::size_t k = 0; k < o_.rounds && sum <= budget; ++k) sum = sum + cost;
      if (sum <= budget) return sigma;
    }
  }

  void OpenLedgers(MuSquared budget, const std::vector<MuSquared>& budgets) {
    if (o_.folder.empty()) return;
    const std::filesystem::path folder = o_.folder;
    run_ = Value(SqliteVault::Open(folder / "ledger.db",
                                   {.run = folder.filename().string(),
                                    .data = o_.data,
                                    .unit = "record",
                                    .mode = "certified",
                                    .adjacency = kAdjacency,
                                    .delta = o_.delta},
                                   budgets));
    data_ = Value(DataLedger::Open(o_.ledger, {.name = o_.data, .digest = o_.digest},
                                   {.run = std::filesystem::absolute(folder).lexically_normal().string(),
                                    .unit = "record",
                                    .mode = "certified",
                                    .adjacency = kAdjacency,
                                    .delta = o_.delta},
                                   budget));
    vault_ = std::make_unique<CumulativeVault>(*run_, *data_);
    book_->Attach(vault_.get());
  }

  ReleasesOptions o_;
  L2Bound clip_{1.0}, sensitivity_{1.0};
  std::size_t most_ = 0;
  double sigma_ = 0;
  std::unique_ptr<Mechanism> mechanism_;
  std::unique_ptr<Objective> gradient_;
  std::unique_ptr<SqliteVault> run_;
  std::unique_ptr<DataLedger> data_;
  std::unique_ptr<Vault> vault_;
  std::unique_ptr<LedgerBook> book_;
  ClipSpace space_;
  NoiseBuffer noise_;
  NoiseRng rng_ = NoiseRng::FromEntropy();
  mutable std::mutex mutex_;
  bool closed_ = false;
};

}  // namespace

void AddReleases(nb::module_& m) {
  nb::class_<Releases>(m, "Releases", "Clipped sums with noise, paid for before they are handed out.")
      .def(
          "__init__",
          [](Releases* self, std::vector<std::size_t> records, std::size_t dimension, double clip,
             double epsilon, double delta, std::size_t rounds, std::string mechanism, std::string folder,
             std::string ledger, std::string data, const Rows* rows) {
            ReleasesOptions o{.records = std::move(records),
                              .dim = dimension,
                              .clip = clip,
                              .epsilon = epsilon,
                              .delta = delta,
                              .rounds = rounds,
                              .mechanism = std::move(mechanism),
                              .folder = std::move(folder),
                              .ledger = std::move(ledger),
                              .data = std::move(data)};
            if (rows != nullptr) {
              const OfferedRows offer = Value(OfferedRows::Offer("memory:digest", rows->view()));
              o.digest = MemoryDigest("memory:digest");
            }
            new (self) Releases(std::move(o));
          },
          nb::arg("records"), nb::arg("dimension"), nb::arg("clip"), nb::arg("epsilon"), nb::arg("delta"),
          nb::arg("rounds"), nb::arg("mechanism"), nb::arg("folder"), nb::arg("ledger"), nb::arg("data"),
          nb::arg("rows").none())
      .def_prop_ro("sigma", &Releases::sigma)
      .def("release", &Releases::Release, nb::arg("client"), nb::arg("gradients"), nb::arg("sigma").none())
      .def_prop_ro("spent", &Releases::Spent)
      .def_prop_ro("certificate", &Releases::CertificateJson)
      .def("close", &Releases::Close);
}

}  // namespace tacit::python
