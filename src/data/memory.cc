#include "data/memory.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/sha256.h"
#include "data/parse.h"

namespace tacit {
namespace {

constexpr std::string_view kPrefix = "memory:";

using Offers = std::map<std::string, MemoryRows, std::less<>>;
Offers& OffersHere() {
  thread_local Offers offers;
  return offers;
}

const MemoryRows* Find(std::string_view source) {
  const auto at = OffersHere().find(source);
  return at == OffersHere().end() ? nullptr : &at->second;
}

Status CheckShape(const std::string& source, const MemoryRows& m) {
  const auto bad = [&](const char* what) {
    return Fail(Code::kMalformed, "{}: {}; hand over features, labels and clients of the same rows", source,
                what);
  };
  if (m.features == 0 || m.features > internal::kMostFeatures) return bad("has no features, or too many");
  if (m.label.size() != m.rows) return bad("does not have one label a row");
  if (!m.group.empty() && m.group.size() != m.rows) return bad("does not have one client a row");
  if (!m.person.empty() && m.person.size() != m.rows) return bad("does not have one person a row");
  for (const std::uint32_t g : m.group)
    if (g >= m.group_name.size()) return bad("has a client without a name");
  if (m.row_begin.empty()) return m.value.size() == m.rows * m.features ? Status(Ok{}) : bad("is not whole");
  const bool ends = m.row_begin.size() == m.rows + 1 && m.row_begin.front() == 0 &&
                    m.row_begin.back() == static_cast<std::int64_t>(m.value.size()) &&
                    m.column.size() == m.value.size();
  if (!ends) return bad("is not a matrix of compressed rows");
  for (std::size_t i = 0; i < m.rows; ++i)
    if (m.row_begin[i] > m.row_begin[i + 1]) return bad("is not a matrix of compressed rows");
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::int64_t k = m.row_begin[i]; k < m.row_begin[i + 1]; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (m.column[at] < 0 || static_cast<std::size_t>(m.column[at]) >= m.features ||
          (k > m.row_begin[i] && m.column[at] <= m.column[at - 1]))
        return bad("has columns that are out of range or not ascending");
    }
  return Ok{};
}

}  // namespace

bool IsMemory(std::string_view source) { return source.starts_with(kPrefix); }
bool IsOffered(std::string_view source) { return Find(source) != nullptr; }

Result<OfferedRows> OfferedRows::Offer(std::string source, MemoryRows rows) {
  if (!IsMemory(source) || source.size() == kPrefix.size())
    return Fail(Code::kInvalidArgument, "{}: rows in memory are named memory:NAME; give them a name", source);
  TACIT_OK(CheckShape(source, rows));
  if (!OffersHere().emplace(source, std::move(rows)).second)
    return Fail(Code::kInvalidArgument, "{}: other rows have this name just now; give these another one",
                source);
  return OfferedRows(std::move(source));
}

OfferedRows::OfferedRows(OfferedRows&& other) noexcept : source_(std::move(other.source_)) {
  other.source_.clear();
}

OfferedRows::~OfferedRows() {
  if (!source_.empty()) OffersHere().erase(source_);
}

Result<Dataset> LoadMemory(const std::string& source, const MemoryOptions& o) {
  const MemoryRows* m = Find(source);
  if (m == nullptr)
    return Fail(
        Code::kNotFound,
        "{}: rows in memory are there only while the program that has them offers them; hand them over "
        "again, or train on a file",
        source);
  if (!std::isfinite(o.missing))
    return Fail(Code::kInvalidArgument, "data.missing = {}: must be finite", o.missing);
  const std::size_t there = m->rows - std::min(m->rows, o.skip), rows = o.rows != 0 ? o.rows : there;
  if (rows > there)
    return Fail(Code::kInvalidArgument, "data.rows = {}: {} has {} rows after data.skip; lower it", o.rows,
                source, there);
  // All is copied first and then checked: whoever offers rows may change them meanwhile, and what was checked
  // must be what is read.
  const auto bad = [&](const char* what) {
    return Fail(Code::kMalformed, "{}: {}; leave the rows alone while a run reads them", source, what);
  };
  Dataset d;
  d.name = source;
  d.features = m->features;
  const std::size_t end = o.skip + rows;
  std::size_t first = o.skip * m->features, last = end * m->features;
  if (!m->row_begin.empty()) {
    const auto begin = m->row_begin.subspan(o.skip, rows + 1);
    d.row_begin.assign(begin.begin(), begin.end());  // a negative one is a large one
    first = d.row_begin.front();
    last = d.row_begin.back();
    if (!std::is_sorted(d.row_begin.begin(), d.row_begin.end()) || last > m->column.size())
      return bad("is no matrix of compressed rows any more");
    const auto column = m->column.subspan(first, last - first);
    d.column.assign(column.begin(), column.end());
    for (std::uint64_t& at : d.row_begin) at -= first;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = d.row_begin[i]; k < d.row_begin[i + 1]; ++k)
        if (d.column[k] >= d.features || (k > d.row_begin[i] && d.column[k] <= d.column[k - 1]))
          return bad("has columns by now that are out of range or not ascending");
  }
  const auto copy = [](const auto& from, std::size_t at, std::size_t n, auto& to) {
    const auto part = from.empty() ? from : from.subspan(at, n);
    to.assign(part.begin(), part.end());
  };
  copy(m->value, first, last - first, d.value);
  copy(m->label, o.skip, rows, d.label);
  copy(m->group, o.skip, rows, d.group);
  copy(m->person, o.skip, rows, d.person);
  d.group_name = m->group_name;
  for (const std::uint32_t g : d.group)
    if (g >= d.group_name.size()) return bad("has a client without a name by now");
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t from = d.row_begin.empty() ? i * d.features : d.row_begin[i];
    const std::size_t to = d.row_begin.empty() ? from + d.features : d.row_begin[i + 1];
    for (std::size_t k = from; k < to; ++k) {
      if (std::isinf(d.value[k]))
        return Fail(Code::kMalformed, "{}: row {}: a value is not finite; correct it or remove the row",
                    source, o.skip + i);
      if (std::isnan(d.value[k])) d.value[k] = o.missing;
    }
    if (!std::isfinite(d.label[i]))
      return Fail(Code::kMalformed, "{}: row {}: the label is not finite; correct it or remove the row",
                  source, o.skip + i);
  }
  return d;
}

std::string MemoryDigest(std::string_view source) {
  const MemoryRows* m = Find(source);
  if (m == nullptr) return "";
  Sha256 hash;
  hash.Add(fmt::format("{} rows, {} features\n", m->rows, m->features));
  hash.Add(m->value);
  std::vector<std::uint64_t> wide(m->column.begin(), m->column.end());
  hash.Add(std::span<const std::uint64_t>(wide));
  wide.assign(m->row_begin.begin(), m->row_begin.end());
  hash.Add(std::span<const std::uint64_t>(wide));
  hash.Add(m->label);
  return Hex(hash.Finish());
}

}  // namespace tacit
