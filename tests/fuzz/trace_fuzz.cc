#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "core/check.h"
#include "view/trace.h"

// A trace as it is shown: lines of a file that anybody may have written to. Its columns are equally long, and
// reading it in two goes, the second from where the first one ended, is the same as in one. The first byte
// says where the first one ends.
namespace {

void Sound(const tacit::Trace& t) {
  TACIT_CHECK(t.names.size() == t.columns.size());
  TACIT_CHECK(std::set<std::string>(t.names.begin(), t.names.end()).size() == t.names.size());
  for (const auto& column : t.columns) TACIT_CHECK(column.size() == t.rows());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const tacit::Trace whole = tacit::ParseTrace(text);
  Sound(whole);
  TACIT_CHECK(whole.next_offset == text.substr(0, text.rfind('\n') + 1).size());
  tacit::Trace first = tacit::ParseTrace(text.substr(0, text.size() * data[0] / 255));
  tacit::Trace more = tacit::ParseTrace(text.substr(first.next_offset));
  Sound(first);
  Sound(more);
  more.next_offset += first.next_offset;
  if (more.last_line.empty()) more.last_line = first.last_line;
  tacit::Append(first, more);
  Sound(first);
  TACIT_CHECK(first.next_offset == whole.next_offset && first.last_line == whole.last_line);
  TACIT_CHECK(first.names == whole.names && first.rows() == whole.rows());
  for (std::size_t k = 0; k < whole.columns.size(); ++k)
    for (std::size_t i = 0; i < whole.rows(); ++i)
      TACIT_CHECK(std::bit_cast<std::uint64_t>(first.columns[k][i]) ==
                  std::bit_cast<std::uint64_t>(whole.columns[k][i]));
  return 0;
}
