#include "experiment/checkpoint.h"

namespace tacit {
namespace {
constexpr std::string_view kMagic = "TCTCKPT1";
}

Result<Checkpoint::Writer> Checkpoint::Writer::Create(const std::filesystem::path& path) {
  TACIT_TRY(AtomicFile made, AtomicFile::Create(path, AtomicFile::Access::kOwnerOnly));
  return Writer{.file = std::move(made), .hash = {}, .status = Ok{}};
}

void Checkpoint::Writer::Bytes(const void* data, std::size_t size) {
  if (!status.ok() || size == 0) return;
  const std::string_view bytes(static_cast<const char*>(data), size);
  hash.Add(bytes);
  status = file.Write(bytes);
}

void Checkpoint::Writer::Header(const Sha256::Digest& config, const Standing& at) {
  Bytes(kMagic.data(), kMagic.size());
  Bytes(config.data(), config.size());
  Put(at.rounds_done);
  Put(at.bytes_up);
  Put(at.bytes_down);
  for (const std::uint64_t n :
       {at.answers.taken, at.answers.absent, at.answers.wrong_length, at.answers.not_finite})
    Put(n);
  Put(at.trace_bytes);
  Put(at.replay_seed);
  Put(at.seconds);
  Put(at.finished);
  Put(std::vector<char>(at.held.begin(), at.held.end()));
  // Runs of equal figures: a million equal accounts are one pair.
  const auto put = [this](const auto& all, auto value) {
    std::vector<std::uint64_t> counts;
    std::vector<decltype(value(all[0]))> figures;
    for (const auto& m : all) {
      if (figures.empty() || value(m) != figures.back()) figures.push_back(value(m)), counts.push_back(0);
      ++counts.back();
    }
    Put(counts);
    Put(figures);
  };
  put(at.spent, [](MuSquared m) { return m.value(); });
  if (!at.left.empty()) put(at.left, [](std::uint64_t n) { return n; });
}

Status Checkpoint::Writer::Commit() {
  TACIT_OK(status);
  const Sha256::Digest digest = hash.Finish();
  TACIT_OK(file.Write(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size())));
  return file.Commit();
}

Result<Standing> Checkpoint::Reader::Open(std::string_view bytes, const std::string& name,
                                          const Sha256::Digest& config, std::size_t clients,
                                          std::size_t planned) {
  const Error broken =
      Fail(Code::kMalformed,
           "{}: is not a whole checkpoint; it was changed or cut: start again with `tacit train`", name);
  Sha256::Digest found{};
  if (bytes.size() < kMagic.size() + config.size() + found.size() || !bytes.starts_with(kMagic))
    return broken;
  std::memcpy(found.data(), bytes.data() + bytes.size() - found.size(), found.size());
  bytes.remove_suffix(found.size());
  Sha256 hash;
  hash.Add(bytes);
  if (hash.Finish() != found) return broken;
  bytes.remove_prefix(kMagic.size());
  if (std::memcmp(bytes.data(), config.data(), config.size()) != 0)
    return Fail(Code::kInvalidArgument,
                "{}: belongs to another config than the config.toml beside it; put that file back as it was, "
                "or start again with `tacit train`",
                name);
  bytes.remove_prefix(config.size());
  rest = bytes;
  Standing at;
  std::uint8_t finished = 0;
  std::vector<std::uint64_t> counts;
  std::vector<double> figures;
  std::vector<char> held;
  if (!Get(at.rounds_done) || !Get(at.bytes_up) || !Get(at.bytes_down) || !Get(at.answers.taken) ||
      !Get(at.answers.absent) || !Get(at.answers.wrong_length) || !Get(at.answers.not_finite) ||
      !Get(at.trace_bytes) || !Get(at.replay_seed) || !Get(at.seconds) || !Get(finished) || finished > 1 ||
      !Get(held) || !Get(counts) || !Get(figures) || counts.size() != figures.size())
    return broken;
  at.finished = finished == 1;
  at.held.assign(held.begin(), held.end());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > clients - at.spent.size() || !(figures[i] >= 0)) return broken;
    at.spent.insert(at.spent.end(), static_cast<std::size_t>(counts[i]), MuSquared::Proven(figures[i]));
  }
  if (at.spent.size() != clients) return broken;
  if (planned == 0) return at;
  std::vector<std::uint64_t> left;
  counts.clear();
  if (!Get(counts) || !Get(left) || counts.size() != left.size()) return broken;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > planned - at.left.size()) return broken;
    at.left.insert(at.left.end(), static_cast<std::size_t>(counts[i]), left[i]);
  }
  if (at.left.size() != planned) return broken;
  return at;
}

}  // namespace tacit
