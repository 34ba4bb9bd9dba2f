// Clients that send what cannot be added, or nothing: the round goes on with the others, divides by those
// who are left, and says how many are not; who released has paid.
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/adaptive_clip.h"
#include "algorithms/fed_exp.h"
#include "algorithms/isrl_dp.h"
#include "algorithms/primal_dual.h"
#include "algorithms/scaffold.h"
#include "models/test_data.h"
#include "runtime/threads.h"

namespace tacit {
namespace {

enum class Act { kHonest, kNan, kInfinite, kShort, kLong, kPaysAndIsGone, kIsGone };

// Who fails how. The clients of a faulty algorithm are those of the true one, up to what they send.
using Script = std::function<Act(std::uint32_t client, std::uint32_t round)>;

inline void Spoil(Released<Vec>& v, Act act) {
  switch (act) {
    case Act::kNan:
      return v
          .Into<[](const Vec&, Vec& to) { to[to.size() / 2] = std::numeric_limits<double>::quiet_NaN(); }>(v);
    case Act::kInfinite:
      return v.Into<[](const Vec&, Vec& to) { to.back() = -std::numeric_limits<double>::infinity(); }>(v);
    case Act::kShort: return v.Into<[](const Vec&, Vec& to) { to.pop_back(); }>(v);
    case Act::kLong: return v.Into<[](const Vec&, Vec& to) { to.push_back(0.0); }>(v);
    default: return ClearField(v);
  }
}
// What is entrusted is finite by its type; a wrong length or nothing can be made.
inline void Spoil(Entrusted& v, Act act) {
  const std::size_t dim = v.dim();
  Private<Vec> other(Vec(act == Act::kShort ? dim - 1 : dim + 1, 0.25));
  if (act == Act::kShort || act == Act::kLong) return Bounded::Clip(other, L2Bound{1.0}).Entrust(v);
  v.Clear();
}

template <class A>
struct Faulty : A {
  class Client : public A::Client {
   public:
    Client(typename A::Client honest, std::uint32_t id, const Script& script)
        : A::Client(std::move(honest)), id_(id), script_(&script) {}
    Status Round(const typename A::Down& in, typename A::Up& up, Scratch& s) const requires Stateless<A> {
      const Act act = (*script_)(id_, *in.t);
      if (act == Act::kIsGone) return Ok{};
      TACIT_OK(A::Client::Round(in, up, s));
      if (act != Act::kHonest) Spoil(std::get<0>(up.Fields()), act);
      return Ok{};
    }
    Status Round(const typename A::Down& in, typename A::Up& up, Scratch& s) requires(!Stateless<A>) {
      const Act act = (*script_)(id_, *in.t);
      if (act == Act::kIsGone) return Ok{};
      TACIT_OK(A::Client::Round(in, up, s));
      if (act != Act::kHonest) Spoil(std::get<0>(up.Fields()), act);
      return Ok{};
    }

   private:
    std::uint32_t id_;
    const Script* script_;
  };
};

constexpr std::size_t kClients = 150, kRecords = 3, kDim = 4;
constexpr std::uint32_t kRounds = 4;
const LatticeGaussian kLattice{};

struct World {
  World()
      : data(test::RandomData(Loss::kLogistic, 2, kClients * kRecords, kDim, 1.0, 3)),
        f(MakeObjective(Loss::kLogistic, 2)),
        g(*MakeRegularizer({})),
        book(std::vector<MuSquared>(kClients, MuSquared{1e6}), Adjacency::kReplaceOne) {
    test::FillNorms(data);
    problem = {.f = f.get(), .g = g.get(), .l2 = 0, .dim = kDim, .clients = kClients};
    problem.start.assign(kDim, 0.0);
    sigma = std::make_shared<const NoisePlan>(kRounds, NoiseStd{2.0});
    for (std::uint32_t t = 1; t <= kRounds; ++t) rounds.push_back(t);
  }
  Holding Own(std::uint32_t i) {
    return {i, kRecords, Private<Shard>(Shard(data, i * kRecords, kRecords)), &book.account(i)};
  }
  Dataset data;
  std::unique_ptr<Objective> f;
  std::unique_ptr<Regularizer> g;
  LedgerBook book;
  Problem problem;
  std::shared_ptr<const NoisePlan> sigma;
  std::vector<std::uint32_t> rounds;
};

struct Seen {
  Vec model;
  std::vector<Answers> answers;
  std::vector<std::size_t> bytes_up;
  std::vector<std::uint64_t> charges;
};

template <class A>
typename A::Options OptionsOf(const World& w) {
  typename A::Options o;
  o.rounds = w.rounds;
  if constexpr (requires { o.noise; }) {
    o.local = {.rate = 0.2, .steps = 2};
    o.noise.clip = L2Bound{1.0};
    o.noise.mechanism = &kLattice;
    o.noise.sigma = w.sigma;
    if constexpr (requires { o.clip.quantile; }) o.noise.indicator = 0.5;
    o.noise.variance = std::make_shared<const Vec>(kRounds, 4.0);
  }
  return o;
}

// A run of a faulty algorithm, `among` all clients or only those that the script lets live.
template <class A>
Seen Run(const Script& script, unsigned threads, const std::vector<std::uint32_t>* among = nullptr) {
  using F = Faulty<A>;
  World w;
  const auto o = OptionsOf<A>(w);
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < kClients; ++i) ids.push_back(i);
  if (among != nullptr) ids = *among;
  const auto make = [&](std::uint32_t i) {
    if constexpr (requires { o.noise; })
      return typename F::Client(typename A::Client(w.Own(i), w.problem, o), i, script);
    else
      return typename F::Client(typename A::Client(w.Own(i), w.problem, kLattice, o, w.sigma), i, script);
  };
  auto server = [&] {
    if constexpr (requires { o.noise; })
      return typename A::Server(w.problem, o, w.book);
    else
      return typename A::Server(w.problem, o);
  }();
  Seen seen;
  const Watcher watcher{.before = [](std::uint32_t) -> Status { return Ok{}; },
                        .after = [&](const RoundReport& r) -> Status {
                          seen.answers.push_back(r.answers);
                          seen.bytes_up.push_back(r.bytes_up);
                          EXPECT_EQ(server.answered(), r.answers.taken);
                          return Ok{};
                        }};
  ThreadRuntime<F> runtime(threads, {.replay_seed = 17});
  if constexpr (Stateless<A>) {
    struct Source {
      const std::vector<std::uint32_t>* ids;
      const decltype(make)* make_client;
      std::size_t Begin(std::uint32_t) { return ids->size(); }
      std::uint32_t Id(std::size_t i) const { return (*ids)[i]; }
      typename F::Client Make(std::size_t i) const { return (*make_client)((*ids)[i]); }
    } source{&ids, &make};
    EXPECT_TRUE(runtime.Run(server, source, watcher).ok());
    seen.model.assign(server.model().begin(), server.model().end());
  } else {
    std::vector<typename F::Client> clients;
    for (const std::uint32_t i : ids) clients.push_back(make(i));
    EXPECT_TRUE(runtime.Run(server, clients, watcher).ok());
    if constexpr (HasModel<typename A::Server>) {
      seen.model.assign(server.model().begin(), server.model().end());
    } else {
      for (const auto& c : clients)
        seen.model.insert(seen.model.end(), c.iterate().begin(), c.iterate().end());
    }
  }
  for (std::uint32_t i = 0; i < kClients; ++i) seen.charges.push_back(w.book.account(i).charges());
  return seen;
}

template <class A> class Failures : public testing::Test {};
using Algorithms =
    testing::Types<FedAvg<LocalNoise>, FedExp<LocalNoise>, FedAvg<TrustedServer>, FedExp<TrustedServer>,
                   Scaffold<LocalNoise>, Scaffold<TrustedServer>, AdaptiveFedAvg<LocalNoise>,
                   AdaptiveFedAvg<TrustedServer>, IsrlDp, PrimalDual>;
TYPED_TEST_SUITE(Failures, Algorithms);

template <class A>
constexpr bool kTrusted = requires(typename A::Up up) { up.update.Clear(); };

Act SomeFail(std::uint32_t client, std::uint32_t round) {
  const std::uint32_t k = (client + round) % 10;
  return k == 1   ? Act::kNan
         : k == 3 ? Act::kShort
         : k == 4 ? Act::kLong
         : k == 6 ? Act::kPaysAndIsGone
         : k == 7 ? Act::kIsGone
         : k == 8 ? Act::kInfinite
                  : Act::kHonest;
}

TYPED_TEST(Failures, TheRoundGoesOnWithTheOthersAndSaysHowMany) {
  Seen want;
  for (const unsigned threads : {1u, 2u, 3u, 8u}) {
    const Seen seen = Run<TypeParam>(SomeFail, threads);
    for (const Answers& a : seen.answers) {
      EXPECT_EQ(a.taken, 4 * kClients / 10);
      EXPECT_EQ(a.wrong_length, 2 * kClients / 10);
      if (kTrusted<TypeParam>) {      // where NaN cannot be made, the script makes nothing
        EXPECT_EQ(a.absent, 4 * kClients / 10);
        EXPECT_EQ(a.not_finite, 0u);
      } else {
        EXPECT_EQ(a.absent, 2 * kClients / 10);
        EXPECT_EQ(a.not_finite, 2 * kClients / 10);
      }
    }
    for (const double v : seen.model) EXPECT_TRUE(std::isfinite(v));
    for (std::uint32_t i = 0; i < kClients; ++i) {
      std::uint64_t paid = 0;      // who released pays; with a trusted server all do
      for (std::uint32_t t = 0; t < kRounds; ++t)
        paid += kTrusted<TypeParam> || SomeFail(i, t) != Act::kIsGone;
      EXPECT_EQ(seen.charges[i], paid) << i;
    }
    if (threads == 1) want = seen;
    EXPECT_EQ(seen.model, want.model);      // bit for bit
    EXPECT_EQ(seen.bytes_up, want.bytes_up);
  }
}

// Whoever fails in every round might as well not be there: the same sums over the same clients. Chunks depend
// on how many are asked, so the additions may be grouped otherwise.
TYPED_TEST(Failures, TheDenominatorIsOfThoseWhoAreLeft) {
  const Script script = [](std::uint32_t i, std::uint32_t) {
    return i < 50 ? Act::kHonest : i % 2 == 1 ? Act::kShort : Act::kPaysAndIsGone;
  };
  std::vector<std::uint32_t> left;
  for (std::uint32_t i = 0; i < 50; ++i) left.push_back(i);
  const Seen all = Run<TypeParam>(script, 2), few = Run<TypeParam>(script, 2, &left);
  ASSERT_LE(few.model.size(), all.model.size());
  for (std::size_t j = 0; j < few.model.size(); ++j) EXPECT_NEAR(all.model[j], few.model[j], 1e-12);
  EXPECT_EQ(few.answers[0].taken, all.answers[0].taken);
}

TYPED_TEST(Failures, NobodyIsNoStep) {
  const Script gone = [](std::uint32_t, std::uint32_t round) {
    return round == 1 ? Act::kIsGone : Act::kHonest;
  };
  const Script all_gone = [](std::uint32_t, std::uint32_t) { return Act::kShort; };
  const Seen none = Run<TypeParam>(all_gone, 2), one = Run<TypeParam>(gone, 2);
  for (const double v : none.model) EXPECT_EQ(v, 0.0);  // the start
  EXPECT_EQ(one.answers[1].taken, 0u);
  EXPECT_EQ(one.answers[1].absent, kClients);
  EXPECT_EQ(one.bytes_up[1], 0u);
  EXPECT_EQ(one.answers[2].taken, kClients);
  for (const double v : one.model) EXPECT_TRUE(std::isfinite(v));
  EXPECT_NE(Norm(one.model), 0.0);
  for (const std::uint64_t c : one.charges) EXPECT_EQ(c, kRounds - 1);  // nothing was released in round 2
  for (const std::uint64_t c : none.charges) EXPECT_EQ(c, kTrusted<TypeParam> ? 0u : kRounds);
}

TEST(AllFinite, FindsOneAmongMany) {
  for (std::size_t n = 0; n < 70; ++n) {
    Vec v(n, 1e308);
    EXPECT_TRUE(AllFinite(v));
    for (std::size_t k = 0; k < n; ++k)
      for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInf, -kInf}) {
        v[k] = bad;
        EXPECT_FALSE(AllFinite(v));
        v[k] = -1e308;
        EXPECT_TRUE(AllFinite(v));
      }
  }
}

}  // namespace
}  // namespace tacit
