#include "privacy/event_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <vector>

namespace tacit {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestFile = std::size_t{64} << 20, kMostKinds = 10000;
constexpr std::size_t kDeepest = 8;

// Every type with the keys it may have. All may have count, adjacency and note as well.
struct Type {
  const char* name;
  std::vector<std::string> keys;
};
const std::vector<Type>& Types() {
  static const std::vector<Type> types = {
      {"gaussian", {"noise_multiplier", "mu", "sigma", "sensitivity"}},
      {"joint-gaussian", {"noise_multiplier", "mu"}},
      {"poisson-gaussian", {"rate", "noise_multiplier", "mu", "sigma", "sensitivity"}},
      {"fixed-size-gaussian", {"rate", "noise_multiplier", "mu", "sigma", "sensitivity"}},
      {"discrete-gaussian", {"sigma", "sensitivity", "dimension"}},
      {"distributed-discrete-gaussian", {"sigma", "clients", "sensitivity", "dimension"}},
      {"laplace", {"epsilon", "scale", "sensitivity"}},
      {"discrete-laplace", {"epsilon_per_step", "sensitivity"}},
      {"randomised-response", {"epsilon", "categories"}},
      {"priv-unit", {"epsilon", "dimension", "p", "q"}},
      {"scalar-dp", {"epsilon"}},
      {"pure", {"epsilon"}},
      {"approximate", {"epsilon", "delta"}},
      {"zcdp", {"rho"}},
      {"renyi", {"orders", "epsilons"}},
      {"non-private", {}}};
  return types;
}

std::string Listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

// Text from a file in a message: short, and no control characters.
std::string Quoted(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return "\"" + out + (text.size() > 40 ? "…\"" : "\"");
}

// The fields of one event. `place` says which, for messages.
class Fields {
 public:
  Fields(const json& event, const std::string& place) : event_(event), place_(place) {}

  bool Has(const char* key) const { return event_.contains(key); }
  Result<double> Number(const char* key) const {
    const auto at = event_.find(key);
    if (at == event_.end()) return Fail(Code::kMalformed, "{} needs the number \"{}\"", place_, key);
    if (at->is_number()) return at->get<double>();
    if (*at == "inf") return kInf;
    return Fail(Code::kMalformed, "{}: \"{}\" must be a number, or \"inf\"", place_, key);
  }
  template <class Unit>
  Result<Unit> As(const char* key) const {
    TACIT_TRY(const double v, Number(key));
    return Placed(Unit::Of(v), key);
  }
  // A whole number from `least` to `most`; `otherwise` if it is not there.
  Result<std::uint64_t> Whole(const char* key, double least, double most,
                              std::optional<std::uint64_t> otherwise) const {
    if (!Has(key) && otherwise) return *otherwise;
    TACIT_TRY(const double v, Number(key));
    if (!(v >= least && v <= most && v == std::floor(v)))
      return Fail(Code::kMalformed, "{}: \"{}\" = {} must be a whole number in [{}, {}]", place_, key, v,
                  least, most);
    return static_cast<std::uint64_t>(v);
  }
  Result<std::vector<double>> List(const char* key) const {
    const auto at = event_.find(key);
    if (at == event_.end() || !at->is_array())
      return Fail(Code::kMalformed, "{} needs the list of numbers \"{}\"", place_, key);
    std::vector<double> out;
    for (const json& item : *at) {
      if (!item.is_number() && item != "inf")
        return Fail(Code::kMalformed, "{}: \"{}\" must be a list of numbers", place_, key);
      out.push_back(item.is_number() ? item.get<double>() : kInf);
    }
    return out;
  }
  Result<Mu> Strength() const {
    const bool sigma = Has("sigma") || Has("sensitivity");
    if ((Has("mu") ? 1 : 0) + (Has("noise_multiplier") ? 1 : 0) + (sigma ? 1 : 0) != 1)
      return Fail(Code::kMalformed,
                  "{} needs one of \"noise_multiplier\", \"mu\", or \"sigma\" with \"sensitivity\"", place_);
    if (Has("mu")) return As<Mu>("mu");
    if (Has("noise_multiplier")) {
      TACIT_TRY(const NoiseMultiplier z, As<NoiseMultiplier>("noise_multiplier"));
      return Mu::Of(DivUp(1, z.value()));
    }
    TACIT_TRY(const NoiseStd std, As<NoiseStd>("sigma"));
    TACIT_TRY(const L2Bound bound, As<L2Bound>("sensitivity"));
    return Mu::Of(DivUp(bound.value(), std.value()));
  }
  template <class T>
  Result<T> Placed(Result<T> r, const char* key) const {
    if (r.ok()) return r;
    return Error{Code::kMalformed, fmt::format("{}: \"{}\": {}", place_, key, r.error().message)};
  }
  const std::string& place() const { return place_; }

 private:
  const json& event_;
  std::string place_;
};

Result<PrivacyEvent> GaussianOf(const Fields& f) {
  if (!f.Has("sigma") || !f.Has("sensitivity") || f.Has("noise_multiplier")) {
    TACIT_TRY(const Mu mu, f.Strength());
    return PrivacyEvent(JointGaussianEvent{mu});
  }
  TACIT_TRY(const NoiseStd sigma, f.As<NoiseStd>("sigma"));
  TACIT_TRY(const L2Bound sensitivity, f.As<L2Bound>("sensitivity"));
  double mu = DivUp(sensitivity.value(), sigma.value());
  if (f.Has("mu")) {  // all three: what was charged may have been rounded up by more
    TACIT_TRY(const Mu stated, f.As<Mu>("mu"));
    if (!(stated.value() >= mu * (1 - 1e-12)))
      return Fail(Code::kMalformed, "{}: \"mu\" = {} is less than sensitivity/sigma = {}; leave it out",
                  f.place(), stated.value(), mu);
    mu = std::max(mu, stated.value());
  }
  return PrivacyEvent(GaussianEvent{Mu::Proven(mu), sensitivity, sigma});
}

Result<PrivacyEvent> SampledOf(const Fields& f, bool poisson) {
  TACIT_TRY(const Mu mu, f.Strength());
  TACIT_TRY(const Probability rate, f.As<Probability>("rate"));
  if (rate.value() == 0)
    return Fail(Code::kMalformed, "{}: \"rate\" = 0 samples nobody; it must be in (0, 1]", f.place());
  if (poisson) return PrivacyEvent(PoissonGaussianEvent{rate, mu});
  return PrivacyEvent(FixedSizeGaussianEvent{rate, mu});
}

Result<PrivacyEvent> LatticeOf(const Fields& f, const std::string& type) {
  constexpr double kMost = 4294967295.0;
  if (type == "discrete-laplace") {
    TACIT_TRY(const Epsilon step, f.As<Epsilon>("epsilon_per_step"));
    TACIT_TRY(const std::uint64_t sensitivity, f.Whole("sensitivity", 1, kMost, 1));
    return PrivacyEvent(DiscreteLaplaceEvent{step, static_cast<std::uint32_t>(sensitivity)});
  }
  TACIT_TRY(const NoiseStd sigma, f.As<NoiseStd>("sigma"));
  if (type == "discrete-gaussian") {
    TACIT_TRY(const std::uint64_t sensitivity, f.Whole("sensitivity", 1, kMost, 1));
    TACIT_TRY(const std::uint64_t dimension, f.Whole("dimension", 1, kMost, 1));
    return PrivacyEvent(DiscreteGaussianEvent{sigma, static_cast<std::uint32_t>(sensitivity),
                                              static_cast<std::uint32_t>(dimension)});
  }
  TACIT_TRY(const L2Bound sensitivity, f.As<L2Bound>("sensitivity"));
  TACIT_TRY(const std::uint64_t clients, f.Whole("clients", 1, 1e15, std::nullopt));
  TACIT_TRY(const std::uint64_t dimension, f.Whole("dimension", 1, 1e15, 1));
  return PrivacyEvent(DistributedDiscreteGaussianEvent{sigma, clients, sensitivity, dimension});
}

Result<PrivacyEvent> LaplaceOf(const Fields& f) {
  const bool scaled = f.Has("scale") || f.Has("sensitivity");
  if (f.Has("epsilon") == scaled)
    return Fail(Code::kMalformed, "{} needs either \"epsilon\", or \"scale\" with \"sensitivity\"",
                f.place());
  if (!scaled) {
    TACIT_TRY(const Epsilon epsilon, f.As<Epsilon>("epsilon"));
    return PrivacyEvent(LaplaceEvent{epsilon});
  }
  TACIT_TRY(const NoiseStd scale, f.As<NoiseStd>("scale"));
  TACIT_TRY(const L2Bound sensitivity, f.As<L2Bound>("sensitivity"));
  TACIT_TRY(const Epsilon epsilon, Epsilon::Of(DivUp(sensitivity.value(), scale.value())));
  return PrivacyEvent(LaplaceEvent{epsilon});
}

Result<PrivacyEvent> PrivUnitOf(const Fields& f) {
  const bool cap = f.Has("p") || f.Has("q"), asked = f.Has("epsilon") || f.Has("dimension");
  if (cap == asked)
    return Fail(Code::kMalformed, "{} needs either \"epsilon\" with \"dimension\", or \"p\" with \"q\"",
                f.place());
  if (cap) {
    TACIT_TRY(const Probability p, f.As<Probability>("p"));
    TACIT_TRY(const Probability q, f.As<Probability>("q"));
    return PrivacyEvent(PrivUnitEvent{p, q});
  }
  TACIT_TRY(const Epsilon epsilon, f.As<Epsilon>("epsilon"));
  TACIT_TRY(const std::uint64_t dimension, f.Whole("dimension", 2, 1e9, std::nullopt));
  TACIT_TRY(const PrivUnitEvent unit, f.Placed(OptimalPrivUnit(epsilon, dimension), "epsilon"));
  return PrivacyEvent(unit);
}

Result<PrivacyEvent> EventOf(const Fields& f, const std::string& type) {
  if (type == "gaussian") return GaussianOf(f);
  if (type == "joint-gaussian") {
    TACIT_TRY(const Mu mu, f.Strength());
    return PrivacyEvent(JointGaussianEvent{mu});
  }
  if (type == "poisson-gaussian" || type == "fixed-size-gaussian")
    return SampledOf(f, type == "poisson-gaussian");
  if (type.find("discrete") != std::string::npos) return LatticeOf(f, type);
  if (type == "laplace") return LaplaceOf(f);
  if (type == "priv-unit") return PrivUnitOf(f);
  if (type == "zcdp") {
    TACIT_TRY(const Rho rho, f.As<Rho>("rho"));
    return PrivacyEvent(ZcdpEvent{rho});
  }
  if (type == "renyi") {
    TACIT_TRY(const std::vector<double> orders, f.List("orders"));
    TACIT_TRY(const std::vector<double> epsilons, f.List("epsilons"));
    if (orders.size() != epsilons.size())
      return Fail(Code::kMalformed, "{}: has {} \"orders\" and {} \"epsilons\"; give one for each", f.place(),
                  orders.size(), epsilons.size());
    RenyiEvent out;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      TACIT_TRY(const Epsilon epsilon, f.Placed(Epsilon::Of(epsilons[i]), "epsilons"));
      out.curve.push_back({orders[i], epsilon});
    }
    return PrivacyEvent(std::move(out));
  }
  if (type == "non-private") return PrivacyEvent(NonPrivateEvent{});
  TACIT_TRY(const Epsilon epsilon, f.As<Epsilon>("epsilon"));
  if (type == "randomised-response") {
    TACIT_TRY(const std::uint64_t categories, f.Whole("categories", 2, 0x1p50, 2));
    return PrivacyEvent(RandomizedResponseEvent{epsilon, categories});
  }
  if (type == "approximate") {
    TACIT_TRY(const Delta delta, f.As<Delta>("delta"));
    return PrivacyEvent(ApproximateEvent{epsilon, delta});
  }
  if (type == "scalar-dp") return PrivacyEvent(ScalarDpEvent{epsilon});
  return PrivacyEvent(PureEvent{epsilon});
}

// The type of an event, once its keys are known ones.
Result<std::string> TypeOf(const json& e, const std::string& place) {
  if (!e.is_object() || !e.contains("type") || !e["type"].is_string())
    return Fail(Code::kMalformed,
                "{}: an event is an object with a \"type\", e.g. {{\"type\": \"gaussian\", "
                "\"noise_multiplier\": 2, \"count\": 10}}",
                place);
  const std::string type = e["type"].get<std::string>();
  const auto known =
      std::find_if(Types().begin(), Types().end(), [&](const Type& t) { return type == t.name; });
  if (known == Types().end()) {
    std::vector<std::string> names;
    for (const Type& t : Types()) names.emplace_back(t.name);
    return Fail(Code::kMalformed, "{}: type {} is unknown; known are {}", place, Quoted(type), Listed(names));
  }
  std::vector<std::string> keys = known->keys;
  keys.insert(keys.end(), {"count", "adjacency", "note"});
  for (const auto& [key, value] : e.items())
    if (key != "type" && std::find(keys.begin(), keys.end(), key) == keys.end())
      return Fail(Code::kMalformed, "{}: {} has no key {}; known are {}", place, type, Quoted(key),
                  Listed(keys));
  return type;
}

// A first pass over the text, for what a reader and a program might see differently and for depths that no
// file needs. (The parser's own callback would look at all earlier events again for each.)
class Scan : public nlohmann::json_sax<json> {
 public:
  std::string twice, error;
  bool deep = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Enter(); }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    twice = name;
    return false;
  }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    error = e.what();
    return false;
  }

 private:
  bool Enter() {
    open_.emplace_back();
    deep = open_.size() > kDeepest;
    return !deep;
  }
  bool Leave() {
    open_.pop_back();
    return true;
  }
  std::vector<std::set<std::string>> open_;
};

Result<json> Document(std::string_view text, const std::string& name) {
  if (text.size() > kLargestFile)
    return Fail(Code::kMalformed, "{}: holds {} bytes, more than 64 MiB; join equal events by their count",
                name, text.size());
  Scan scan;
  try {
    if (json::sax_parse(text, &scan)) return json::parse(text);
  } catch (const json::exception& e) {
    scan.error = e.what();
  }
  if (scan.deep)
    return Fail(Code::kMalformed, "{}: is nested too deeply; events are a list of plain objects", name);
  if (!scan.twice.empty())
    return Fail(Code::kMalformed, "{}: has the key {} twice in one object; remove one", name,
                Quoted(scan.twice));
  std::string_view why = scan.error;
  if (const auto end = why.find("] "); end != std::string_view::npos) why.remove_prefix(end + 2);
  std::string plain(why.substr(0, 160));
  for (char& c : plain)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  return Fail(Code::kMalformed, "{}: is not JSON ({}); see docs/events.md for a sample", name, plain);
}

// What a file that names no adjacency means.
Result<Adjacency> Usual(const json& events, const std::string& name) {
  bool poisson = false, other = false;
  for (const json& e : events)
    (e.is_object() && e.contains("type") && e["type"] == "poisson-gaussian" ? poisson : other) = true;
  if (poisson && other)
    return Fail(Code::kMalformed,
                "{}: mixes Poisson samples with other releases; name the \"adjacency\" that their "
                "sensitivities are for: replace-one, add-remove or zero-out",
                name);
  return poisson ? Adjacency::kAddOrRemove : Adjacency::kReplaceOne;
}

json NumberJson(double v) { return std::isfinite(v) ? json(v) : json("inf"); }

struct Writer {
  json operator()(const GaussianEvent& e) const {
    return {{"type", "gaussian"},
            {"mu", NumberJson(e.mu.value())},
            {"sensitivity", e.sensitivity.value()},
            {"sigma", e.sigma.value()}};
  }
  json operator()(const JointGaussianEvent& e) const {
    return {{"type", "joint-gaussian"}, {"mu", NumberJson(e.mu.value())}};
  }
  json operator()(const DiscreteGaussianEvent& e) const {
    return {{"type", "discrete-gaussian"},
            {"sigma", e.sigma.value()},
            {"sensitivity", e.sensitivity},
            {"dimension", e.dimension}};
  }
  json operator()(const DistributedDiscreteGaussianEvent& e) const {
    return {{"type", "distributed-discrete-gaussian"},
            {"sigma", e.sigma.value()},
            {"clients", e.clients},
            {"sensitivity", e.sensitivity.value()},
            {"dimension", e.dimension}};
  }
  json operator()(const LaplaceEvent& e) const { return OfEpsilon("laplace", e.epsilon); }
  json operator()(const DiscreteLaplaceEvent& e) const {
    return {{"type", "discrete-laplace"},
            {"epsilon_per_step", NumberJson(e.epsilon_per_step.value())},
            {"sensitivity", e.sensitivity}};
  }
  json operator()(const RandomizedResponseEvent& e) const {
    json out = OfEpsilon("randomised-response", e.epsilon);
    out["categories"] = e.categories;
    return out;
  }
  json operator()(const PrivUnitEvent& e) const {
    return {{"type", "priv-unit"}, {"p", e.p.value()}, {"q", e.q.value()}};
  }
  json operator()(const ScalarDpEvent& e) const { return OfEpsilon("scalar-dp", e.epsilon); }
  json operator()(const PureEvent& e) const { return OfEpsilon("pure", e.epsilon); }
  json operator()(const ApproximateEvent& e) const {
    json out = OfEpsilon("approximate", e.epsilon);
    out["delta"] = e.delta.value();
    return out;
  }
  json operator()(const ZcdpEvent& e) const { return {{"type", "zcdp"}, {"rho", NumberJson(e.rho.value())}}; }
  json operator()(const PoissonGaussianEvent& e) const {
    return {{"type", "poisson-gaussian"}, {"rate", e.rate.value()}, {"mu", NumberJson(e.mu.value())}};
  }
  json operator()(const FixedSizeGaussianEvent& e) const {
    return {{"type", "fixed-size-gaussian"}, {"rate", e.rate.value()}, {"mu", NumberJson(e.mu.value())}};
  }
  json operator()(const RenyiEvent& e) const {
    json orders = json::array(), epsilons = json::array();
    for (const RenyiEvent::Point& p : e.curve) {
      orders.push_back(NumberJson(p.order));
      epsilons.push_back(NumberJson(p.epsilon.value()));
    }
    return {{"type", "renyi"}, {"orders", orders}, {"epsilons", epsilons}};
  }
  json operator()(const NonPrivateEvent&) const { return {{"type", "non-private"}}; }

 private:
  static json OfEpsilon(const char* type, Epsilon epsilon) {
    return {{"type", type}, {"epsilon", NumberJson(epsilon.value())}};
  }
};

}  // namespace

Result<Adjacency> ParseAdjacency(std::string_view name) {
  for (const Adjacency a : {Adjacency::kReplaceOne, Adjacency::kAddOrRemove, Adjacency::kZeroOut})
    if (name == Name(a)) return a;
  return Fail(Code::kInvalidArgument, "adjacency = {}: must be replace-one, add-remove or zero-out",
              Quoted(std::string(name)));
}

Result<std::uint64_t> ParseCount(double count, const char* name) {
  if (!(count >= 1 && count <= 1e15 && count == std::floor(count)))
    return Fail(Code::kInvalidArgument, "{} = {}: must be a whole number in [1, 1e15]", name, count);
  return static_cast<std::uint64_t>(count);
}

Result<EventFile> ParseEvents(std::string_view text, const std::string& name,
                              std::optional<Adjacency> adjacency) {
  const bool asked = adjacency.has_value();
  TACIT_TRY(const json all, Document(text, name));
  if (!all.is_object() || !all.contains("events") || !all["events"].is_array())
    return Fail(Code::kMalformed, "{}: must be a JSON object with the list \"events\"", name);
  for (const auto& [key, value] : all.items())
    if (key != "events" && key != "adjacency" && key != "delta" && key != "note")
      return Fail(Code::kMalformed, "{}: has the unknown key {}; known are adjacency, delta, events, note",
                  name, Quoted(key));
  const json& events = all["events"];
  if (events.empty())
    return Fail(Code::kMalformed, "{}: \"events\" is empty; list at least one release", name);
  std::optional<Delta> delta;
  if (all.contains("delta")) {
    TACIT_TRY(delta, Fields(all, name).As<Delta>("delta"));
  }
  if (all.contains("adjacency")) {
    if (!all["adjacency"].is_string())
      return Fail(Code::kMalformed, "{}: \"adjacency\" must be replace-one, add-remove or zero-out", name);
    const auto stated = ParseAdjacency(all["adjacency"].get<std::string>());
    if (!stated.ok()) return Error{Code::kMalformed, name + ": " + stated.error().message};
    if (adjacency && *adjacency != *stated)
      return Fail(
          Code::kInvalidArgument,
          "{}: its sensitivities are for {} adjacency, and {} was asked for; leave that out, or give a "
          "file for it",
          name, Name(*stated), Name(*adjacency));
    adjacency = *stated;
  } else if (!adjacency) {
    TACIT_TRY(adjacency, Usual(events, name));
  }
  EventFile out{Accountant(*adjacency), delta};
  // What does not go with an adjacency that was asked for is the fault of who asked; all else is the file's.
  const Code mismatch = asked && !all.contains("adjacency") ? Code::kInvalidArgument : Code::kMalformed;
  std::size_t number = 0;
  for (const json& e : events) {
    const std::string where = fmt::format("{}: event {}", name, ++number);
    TACIT_TRY(const std::string type, TypeOf(e, where));
    if (e.contains("adjacency") && e["adjacency"] != Name(*adjacency))
      return Fail(mismatch, "{}: has another adjacency than the file's {}; account for them apart", where,
                  Name(*adjacency));
    const Fields fields(e, fmt::format("{} ({})", where, type));
    const Result<PrivacyEvent> read = EventOf(fields, type);
    if (!read.ok() && read.error().code == Code::kInvalidArgument)
      return Error{Code::kMalformed, where + ": " + read.error().message};
    TACIT_TRY(const PrivacyEvent event, read);
    TACIT_TRY(const std::uint64_t count, fields.Whole("count", 1, 1e15, 1));
    if (const Status s = out.account.Compose(event, count); !s.ok())
      return Error{s.error().code != Code::kInvalidArgument                ? s.error().code
                   : std::holds_alternative<FixedSizeGaussianEvent>(event) ? mismatch
                                                                           : Code::kMalformed,
                   where + ": " + s.error().message};
    if (out.account.lines().size() > kMostKinds)
      return Fail(Code::kUnsupported, "{}: more than {} different releases; make some equal and give a count",
                  name, kMostKinds);
  }
  return out;
}

std::string WriteEvents(const Accountant& account, std::optional<Delta> delta) {
  json events = json::array();
  for (const Accountant::Line& line : account.lines()) {
    json e = std::visit(Writer(), line.event);
    e["count"] = line.count;
    events.push_back(std::move(e));
  }
  json out = {{"adjacency", Name(account.adjacency())}, {"events", std::move(events)}};
  if (delta) out["delta"] = delta->value();
  return out.dump(1) + "\n";
}

}  // namespace tacit
