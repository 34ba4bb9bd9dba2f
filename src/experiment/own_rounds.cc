#include "experiment/own_rounds.h"

#include <algorithm>

namespace tacit {

OwnRounds::OwnRounds(Session& s)
    : s_(s),
      noise_(s.config.privacy.noise == "replayable" ? NoiseSource{.replay_seed = ReplaySeed(s)}
                                                    : NoiseSource{}) {
  const auto all = PlannedCharges(s);
  if (!all.empty()) charges_ = all[s.plan.noise_of[s.site]];
  at_.spent.assign(1, MuSquared{0.0});
  at_.replay_seed = noise_.replay_seed.value_or(0);
}

std::filesystem::path OwnRounds::File() const { return s_.folder / "checkpoint"; }
std::size_t OwnRounds::planned() const {
  return s_.book->plan() != nullptr ? s_.book->plan()->left().size() : 0;
}

Status OwnRounds::GoOn(Result<Standing> found) {
  if (!found.ok() && found.error().code != Code::kNotFound) return found.error();
  if (found.ok()) {
    if (found->replay_seed != at_.replay_seed)
      return Fail(Code::kInvalidArgument, "{}: belongs to another seed of replayable noise", File().string());
    at_ = *std::move(found);
  }
  // What leaves is in both ledgers before, and its checkpoint is durable before that.
  const std::uint64_t left = std::max(s_.run_vault->rounds_released(), s_.data_ledger->rounds_released());
  if (at_.rounds_done < left)
    return Fail(Code::kInvalidArgument,
                "{}: {} answers have left by the ledger, and the checkpoint knows of {}: it is gone or an "
                "older one, and rounds would be released again; put the newest back, or leave this job",
                File().string(), left, at_.rounds_done);
  // Nothing has left beyond the checkpoint, so what a process that died had reserved is free again.
  reserved_until_ = rounds();
  TACIT_OK(s_.book->Resume(s_.vault.get(), at_.spent, at_.left));
  return CountReleased(at_.rounds_done);  // a process may have died between the checkpoint and this
}

Status OwnRounds::CountReleased(std::uint64_t rounds) {
  TACIT_OK(s_.data_ledger->CountReleased(rounds));
  return s_.run_vault->CountReleased(rounds);
}

Status OwnRounds::Reserve() {
  if (s_.plan.account || rounds() < reserved_until_) return Ok{};
  reserved_until_ = rounds() + std::max(s_.config.experiment.reserve, rounds());
  MuSquared ahead{0.0};
  for (std::size_t k = rounds(); k < std::min(charges_.size(), reserved_until_); ++k)
    ahead = ahead + charges_[k];
  return s_.book->Reserve({&ahead, 1});
}

Status OwnRounds::Keep(std::string held, std::size_t bytes_up, std::size_t bytes_down,
                       const std::function<Status(const Standing&)>& save) {
  Standing next = at_;
  ++next.rounds_done;
  next.bytes_up += bytes_up;
  next.bytes_down += bytes_down;
  next.held = std::move(held);
  next.spent.assign(1, s_.book->account(0).spent());
  if (s_.book->plan() != nullptr)
    next.left.assign(s_.book->plan()->left().begin(), s_.book->plan()->left().end());
  TACIT_OK(save(next));
  TACIT_OK(CountReleased(next.rounds_done));
  at_ = std::move(next);
  return Ok{};
}

}  // namespace tacit
