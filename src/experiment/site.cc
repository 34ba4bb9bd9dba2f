#include "experiment/site.h"

#include "experiment/files.h"
#include "experiment/second_order_plan.h"

namespace tacit {

Status KeepSecret(const std::filesystem::path& file, const Bytes& bytes) {
  TACIT_TRY(AtomicFile out, AtomicFile::Create(file, AtomicFile::Access::kOwnerOnly));
  TACIT_OK(out.Write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return out.Commit();
}

Site::Site(Session& s) : OwnRounds(s), shape_{.dim = s.plan.dim} {
  if (s.plan.second_order) shape_.other = s.plan.second_order->options.BroadcastLength(s.plan.dim);
}

std::size_t Site::most_bytes() const {
  const std::size_t lengths[] = {s_.plan.dim, s_.plan.dim, 0, 0};      // no broadcast has more vectors
  // Under masks keys, certificates and signatures of all clients, and a letter from each.
  return MostBytes(lengths, 0) + (s_.plan.secure ? (std::size_t{1} << 14) * (s_.plan.clients + 1) : 0);
}

std::string Site::Pack(const Stored& one) {
  std::string out(sizeof one.round + one.down.size() + one.reply.size(), '\0');
  std::memcpy(out.data(), &one.round, sizeof one.round);
  std::memcpy(out.data() + sizeof one.round, one.down.data(), one.down.size());
  if (!one.reply.empty())
    std::memcpy(out.data() + sizeof one.round + one.down.size(), one.reply.data(), one.reply.size());
  return out;
}

Result<Site::Stored> Site::Unpack(const std::string& text) {
  Stored one;
  const std::size_t head = sizeof one.round + one.down.size();
  if (text.size() < head) return Fail(Code::kMalformed, "the checkpoint holds no answer");
  std::memcpy(&one.round, text.data(), sizeof one.round);
  std::memcpy(one.down.data(), text.data() + sizeof one.round, one.down.size());
  one.reply.resize(text.size() - head);
  if (!one.reply.empty()) std::memcpy(one.reply.data(), text.data() + head, one.reply.size());
  return one;
}

Status Site::BeginMasks() {
  if (kept() == nullptr) return Ok{};
  if (s_.notary == nullptr)
    return Fail(Code::kUnsupported,
                "privacy.trust = \"masked\": clients must know each other by certificates; use `tacit join`");
  const std::filesystem::path file = s_.folder / "masks";
  masks_ = std::make_unique<MaskClient>(s_.site, s_.plan.secure->quorum(), *s_.notary,
                                        [file](const Bytes& bytes) { return KeepSecret(file, bytes); });
  auto held = ReadWhole(file);
  if (!held.ok()) return held.error().code == Code::kNotFound ? Status(Ok{}) : held.error();
  const Status restored = masks_->Restore(std::as_bytes(std::span(*held)));
  Wipe(std::as_writable_bytes(std::span(*held)));
  return restored;
}

Status Site::Begin() {
  TACIT_OK(BeginMasks());
  auto found = Load(planned());
  if (found.ok()) {
    TACIT_TRY(answered_, Unpack(found->held));
  }
  // A round's first step is durable before its update is sealed.
  if (masks_ != nullptr && masks_->round() < answered_.round)
    return Fail(
        Code::kInvalidArgument,
        "{}: is gone, or older than the checkpoint of round {}, and a sum could be opened twice; put the "
        "newest back, or leave this job",
        (s_.folder / "masks").string(), answered_.round);
  return GoOn(std::move(found));
}

Result<Bytes> Site::Answer(std::uint32_t round, std::span<const std::byte> down, std::uint32_t counted) {
  Sha256 hash;
  hash.Add(down);
  const Sha256::Digest digest = hash.Finish();
  if (round == answered_.round && digest == answered_.down) return answered_.reply;
  if (round <= answered_.round)
    return Fail(Code::kBudget,
                "the server asks for round {} {}, and round {} was answered already; answering twice would "
                "be a release that nobody planned",
                round, round == answered_.round ? "with another broadcast" : "again", answered_.round);
  std::uint32_t place = 0;
  while (place < s_.plan.schedule.size() && s_.plan.schedule[place].round != round) ++place;
  if (place == s_.plan.schedule.size())
    return Fail(Code::kMalformed, "the server asks for round {}, which is not in the plan", round);
  TACIT_OK(Reserve());
  if (answered_.round != 0 && counted < answered_.round) GoBack();
  TACIT_TRY(Bytes reply, Compute(place, down));
  Stored stored{round, digest, std::move(reply)};
  TACIT_OK(
      Keep(Pack(stored), stored.reply.size(), down.size(), [&](const Standing& next) { return Save(next); }));
  answered_ = std::move(stored);
  return answered_.reply;
}

Result<Bytes> Site::Answer(std::uint32_t round, std::uint32_t step, std::span<const std::byte> question,
                           std::uint32_t counted) {
  if (step == 0 && masks_ != nullptr)
    return Fail(Code::kMalformed,
                "the server asks for an update without masks, and this job has masked sums; refused");
  if (step != 0 && masks_ == nullptr)
    return Fail(Code::kMalformed, "the server asks for a masked update, and this job has none; refused");
  if (step == 0) return Answer(round, question, counted);
  return masks_->Answer(round, step, question, [&](std::span<const std::byte> down) -> Result<Masked> {
    // computed, paid and kept, once; of updates under masks no client goes back
    TACIT_TRY([[maybe_unused]] const Bytes none, Answer(round, down, counted));
    return *kept();
  });
}

// A server that was killed after the last round asks for that again, so what it says in the end is not kept.
Result<Bytes> Site::Leave(std::span<const std::byte> down) {
  if (rounds() > 0)
    if (const auto back = Load(planned()); !back.ok()) return back.error();
  return Depart(down);
}

}  // namespace tacit
