#include "net/state_files.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "net/server.h"

namespace tacit {
namespace {

// The words of a line, which one space divides; false: there are not exactly so many.
template <std::size_t N>
bool Words(std::string_view line, std::string_view (&words)[N]) {
  for (std::size_t k = 0; k < N; ++k) {
    const std::size_t end = line.find(' ');
    if ((end == line.npos) != (k + 1 == N)) return false;
    words[k] = line.substr(0, end);
    if (k + 1 < N) line.remove_prefix(end + 1);
  }
  return true;
}
bool Number(std::string_view text, std::uint32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string AnsweredLine(std::uint32_t round, const std::string& client, const std::string& folder) {
  return fmt::format("{} {} {}\n", round, client, folder.empty() ? "-" : folder);
}

bool TakeAnswered(std::string_view text, const Job& job, std::vector<std::uint32_t>& round,
                  std::vector<std::string>& folder) {
  auto rounds = round;
  auto folders = folder;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    std::string_view words[3];
    std::uint32_t number = 0;
    if (!Words(text.substr(0, end), words) || !Number(words[0], number)) return false;
    const auto client = ClientOf(job, std::string(words[1]));
    const bool none = words[2] == "-" && number == 0;
    if (!client.ok() || number > job.config.algorithm.rounds || (!none && !IsHex(words[2], kSessionPart)))
      return false;
    rounds[*client] = std::max(rounds[*client], number);
    if (!none) folders[*client] = words[2];
    text.remove_prefix(end + 1);
  }
  round = std::move(rounds);
  folder = std::move(folders);
  return true;
}

std::string PlaceLine(const Place& place) { return fmt::format("{} {}\n", place.name, place.starts); }

std::optional<Place> ParsePlace(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string_view words[2];
  Place place;
  if (!Words(text, words) || !IsHex(words[0], kSessionPart) || !Number(words[1], place.starts) ||
      place.starts == std::numeric_limits<std::uint32_t>::max())  // one more has begun
    return std::nullopt;
  place.name = words[0];
  return place;
}

}  // namespace tacit
