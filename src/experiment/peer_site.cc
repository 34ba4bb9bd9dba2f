#include "experiment/peer_site.h"

#include <cstring>

namespace tacit {

std::string PeerSite::Pack(const Held& held) {
  const auto text = [](const Bytes& b) {
    return std::string(reinterpret_cast<const char*>(b.data()), b.size());
  };
  const std::uint64_t size = held.before.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + text(held.before) + text(held.last);
}

Result<PeerSite::Held> PeerSite::Unpack(const std::string& text) {
  std::uint64_t size = 0;
  if (text.size() < sizeof size) return Fail(Code::kMalformed, "the checkpoint holds no notes");
  std::memcpy(&size, text.data(), sizeof size);
  const auto all = std::as_bytes(std::span(text)).subspan(sizeof size);
  if (size > all.size()) return Fail(Code::kMalformed, "the checkpoint holds no notes");
  const auto before = all.first(static_cast<std::size_t>(size)), last = all.subspan(before.size());
  return Held{{before.begin(), before.end()}, {last.begin(), last.end()}};
}

}  // namespace tacit
