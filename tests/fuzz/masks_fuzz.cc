#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <thread>

#include "core/sha256.h"
#include "now_and_then.h"
#include "privacy/mechanism.h"
#include "runtime/mask_round.h"

// A masked round of three clients is played once. The input is then, in place of what a client is asked in a
// step, or of what a client or the server finds in its file, or of what a client answers in a step: either
// bytes of its own, under a header that is right, or changes to the true ones. Whatever it is, it is answered
// or refused in words, and the server ends the round. Every answer is judged as the server judges it before
// it takes it; one in 64 is also played through from the first step to the last, which costs the keys of
// three clients, and all of steps 4 and 5 from the server's file on, which does not.
namespace {

using namespace tacit;

constexpr std::uint32_t kClients = 3;
constexpr std::size_t kDim = 4;

// Who signs is whom everybody believes by a hash: signatures are not what is looked for here.
class HashNotary final : public Notary {
 public:
  explicit HashNotary(std::uint32_t own) : own_(own) {}
  std::string job() const override { return "job"; }
  Bytes certificate() const override { return {std::byte(own_)}; }
  Result<Bytes> Sign(std::span<const std::byte> message) const override { return Hash(own_, message); }
  Status Verify(std::uint32_t client, std::span<const std::byte> certificate,
                std::span<const std::byte> message, std::span<const std::byte> signature) const override {
    if (certificate.size() == 1 && certificate[0] == std::byte(client) &&
        std::ranges::equal(signature, Hash(client, message)))
      return Ok{};
    return Fail(Code::kInvalidArgument, "another's");
  }

 private:
  static Bytes Hash(std::uint32_t who, std::span<const std::byte> message) {
    Sha256 hash;
    hash.Add(std::as_bytes(std::span(&who, 1)));
    hash.Add(message);
    const auto digest = hash.Finish();
    const auto raw = std::as_bytes(std::span(digest));
    return {raw.begin(), raw.end()};
  }
  std::uint32_t own_;
};

struct Start {
  Public<std::uint32_t> t;
  auto Fields() { return std::tie(t); }
};

class World final : public Link {
 public:
  World() : sum_(*SecureSum::Make(quorum_, NoiseStd::Proven(0.5), L2Bound{1.0})) {
    Accountant plan(Adjacency::kReplaceOne);
    TACIT_CHECK(plan.Compose(sum_.EventFor(L2Bound{2.0}, true, kDim), 1).ok());
    LedgerBook book(1, plan);
    Private<Vec> v(Vec(kDim, 0.1));
    NoiseRng rng = NoiseRng::Replayable({3, Purpose::kNoise, 0, 1});
    NoiseBuffer noise;
    TACIT_CHECK(sum_.Seal(Bounded::Clip(v, L2Bound{1.0}), book.account(0), rng, noise, input_).ok());
    TACIT_CHECK(Round());
  }

  // The round with the server, in which `spoil_` has the last word on an answer.
  bool Round() {
    for (Bytes& k : kept_) k.clear();
    Start start;
    const Bytes frame = Codec::Encode(start);
    MaskedLink link(*this, quorum_, sum_.bits(), [this](const Bytes& bytes) -> Status {
      server_ = bytes;
      return Ok{};
    });
    const std::vector<std::uint32_t> who = {0, 1, 2};
    std::vector<Bytes> answers;
    return link
        .Ask({.round = 1,
              .who = who,
              .frame = frame,
              .most_bytes = 4096,
              .check = [](std::span<const std::byte> bytes) -> Status {
                TACIT_TRY([[maybe_unused]] const auto m, Codec::Decode<MaskedMessage>(bytes));
                return Ok{};
              }},
             answers)
        .ok();
  }
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    if (replay_ != 0) return Replay(q, answers);
    if (q.step == 1 && ++attempts_ > 2) return Fail(Code::kInterrupted, "enough");
    if (q.step == park_) {
      parked_.set_value(&q);
      std::promise<void>().get_future().wait();
    }
    answers.assign(q.who.size(), {});
    for (std::size_t k = 0; k < q.who.size(); ++k) {
      const std::uint32_t i = q.who[k];
      Bytes question(q.frame.begin(), q.frame.end());
      if (!q.personal.empty()) question.insert(question.end(), q.personal[k].begin(), q.personal[k].end());
      const Bytes before = kept_[i];
      auto answer = Answer(i, q.step, question, kept_[i]);
      if (i == 0 && !spoil_) asked_[q.step - 1] = question, before_[q.step - 1] = before;
      if (!answer.ok()) continue;
      if (!spoil_) answered_[q.step - 1][i] = *answer;
      if (i == 0 && spoil_) spoil_(q.step, *answer);
      Status fits = q.check(*answer);
      if (fits.ok() && q.check_from) fits = q.check_from(i, *answer);
      if (fits.ok()) answers[k] = *std::move(answer);
    }
    return Ok{};
  }
  const Roster* roster() const override { return &notary_[0]; }

  Result<Bytes> Answer(std::uint32_t i, std::uint32_t step, const Bytes& question, Bytes& kept) const {
    MaskClient client(i, quorum_, notary_[i], [&kept](const Bytes& bytes) -> Status {
      kept = bytes;
      return Ok{};
    });
    if (!kept.empty()) TACIT_OK(client.Restore(kept));
    return client.Answer(1, step, question,
                         [&](std::span<const std::byte>) -> Result<Masked> { return input_; });
  }
  // A client that stands before this step is asked this.
  void Client(std::uint32_t step, const Bytes& question) const {
    Bytes kept = before_[step - 1];
    const auto answer = Answer(0, step, question, kept);
    if (!answer.ok()) TACIT_CHECK(!answer.error().message.empty());
  }
  // A client or a server whose file is this.
  void Files(std::uint32_t step, const Bytes& file) {
    Bytes kept = file;
    (void)Answer(0, step, asked_[step - 1], kept).ok();
    MaskedLink link(*this, quorum_, sum_.bits(), [](const Bytes&) -> Status { return Ok{}; });
    (void)link.Restore(file).ok();
  }
  void Server(std::uint32_t step, const std::function<void(Bytes&)>& change) {
    attempts_ = 0;
    spoil_ = [&](std::uint32_t now, Bytes& answer) {
      if (now == step) change(answer);
    };
    (void)Round();
    spoil_ = {};
  }
  // The question of this step, of a round that waits in it for ever: by what an answer is judged.
  const Question& Park(std::uint32_t step) {
    attempts_ = 0;
    park_ = step;
    std::thread([this] { (void)Round(); }).detach();
    return *parked_.get_future().get();
  }
  // A server that goes on from its file, with the true answers to steps 4 and 5 but for one.
  void GoOn(std::uint32_t step, const Bytes& answer) {
    MaskedLink link(*this, quorum_, sum_.bits(), [](const Bytes&) -> Status { return Ok{}; });
    TACIT_CHECK(link.Restore(server_).ok());
    replay_ = step, replaced_ = answer;
    std::vector<Bytes> answers;
    const std::vector<std::uint32_t> who = {0, 1, 2};
    const Status done = link.Ask({.round = 1, .who = who, .frame = {}, .check = {}}, answers);
    replay_ = 0;
    if (!done.ok()) TACIT_CHECK(!done.error().message.empty());
    TACIT_CHECK(!done.ok() || answers.size() == kClients);
  }
  const Bytes& answered(std::uint32_t step) const { return answered_[step - 1][0]; }
  const Bytes& asked(std::uint32_t step) const { return asked_[step - 1]; }
  const Bytes& file(std::uint32_t step) const { return step % 2 == 0 ? server_ : before_[step - 1]; }

 private:
  Status Replay(const Question& q, std::vector<Bytes>& answers) const {
    answers.assign(q.who.size(), {});
    for (std::size_t k = 0; k < q.who.size(); ++k) {
      const std::uint32_t i = q.who[k];
      const Bytes& answer = i == 0 && q.step == replay_ ? replaced_ : answered_[q.step - 1][i];
      Status fits = q.check(answer);
      if (fits.ok() && q.check_from) fits = q.check_from(i, answer);
      if (fits.ok()) answers[k] = answer;
    }
    return Ok{};
  }
  std::function<void(std::uint32_t, Bytes&)> spoil_;
  std::uint32_t park_ = 0, replay_ = 0;  // steps; 0: none
  std::promise<const Question*> parked_;
  Bytes replaced_;
  const Quorum quorum_ = {kClients, kClients, 0};
  const SecureSum sum_;
  const HashNotary notary_[kClients] = {HashNotary(0), HashNotary(1), HashNotary(2)};
  Masked input_;
  Bytes kept_[kClients], server_;
  Bytes asked_[kMaskSteps], before_[kMaskSteps], answered_[kMaskSteps][kClients];
  std::uint32_t attempts_ = 0;
};

void Reseal(Bytes& frame, std::size_t size) {
  const std::uint64_t length = size - kFrameHeader;
  const std::uint32_t crc = Crc32(std::span(frame).subspan(kFrameHeader, length));
  std::memcpy(frame.data(), "TCT1", 4);
  std::memcpy(frame.data() + 4, &crc, 4);
  std::memcpy(frame.data() + 8, &length, 8);
}
// Changes of three bytes each, to a frame (and what follows it) whose header is made right again.
void Edit(Bytes& frame, std::span<const std::uint8_t> by) {
  if (frame.size() < kFrameHeader) return;
  std::uint64_t length = 0;
  std::memcpy(&length, frame.data() + 8, 8);
  const std::size_t first = std::min<std::size_t>(frame.size(), kFrameHeader + length);
  for (; by.size() >= 3; by = by.subspan(3)) frame[(by[0] + 256u * by[1]) % frame.size()] ^= std::byte(by[2]);
  Reseal(frame, first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Nothing of this is destroyed: rounds wait in it.
  static World& world = *new World;
  static const std::vector<const Question*> judges = [] {
    std::vector<const Question*> all;
    for (std::uint32_t step = 1; step <= kMaskSteps; ++step) all.push_back(&(new World)->Park(step));
    return all;
  }();
  if (size < 2) return 0;
  const std::uint32_t step = 1 + data[0] % kMaskSteps;
  const std::span rest(data + 2, size - 2);
  Bytes own(kFrameHeader + rest.size());
  if (!rest.empty()) std::memcpy(own.data() + kFrameHeader, rest.data(), rest.size());
  Reseal(own, own.size());
  const auto change = [&](Bytes& from) {
    if (data[1] % 2 == 0)
      from = own;
    else
      Edit(from, rest);
  };
  if (data[1] >= 240) {
    Bytes answer = world.answered(step);
    change(answer);
    const Question& q = *judges[step - 1];
    Status fits = q.check(answer);
    if (fits.ok() && q.check_from) fits = q.check_from(0, answer);
    if (!fits.ok()) TACIT_CHECK(!fits.error().message.empty());
    if (step > 3) world.GoOn(step, answer);
    if (NowAndThen(data, size)) world.Server(step, change);
  } else if (data[1] >= 128) {
    Bytes file = world.file(step);
    change(file);
    world.Files(step, file);
  } else {
    Bytes question = world.asked(step);
    change(question);
    world.Client(step, question);
  }
  return 0;
}
