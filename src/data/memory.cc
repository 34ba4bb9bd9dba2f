#include "data/memory.h"

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
  Dataset d;
  d.name = source;
  d.features = m->features;
  const bool sparse = !m->row_begin.empty();
  const std::size_t end = o.skip + rows;
  const auto begin_of = [&](std::size_t i) {
    return sparse ? static_cast<std::size_t>(m->row_begin[i]) : i * m->features;
  };
  const std::size_t first = begin_of(o.skip), last = begin_of(end);
  d.value.assign(m->value.begin() + static_cast<std::ptrdiff_t>(first),
                 m->value.begin() + static_cast<std::ptrdiff_t>(last));
  if (sparse) {
    d.column.reserve(last - first);
    for (std::size_t k = first; k < last; ++k) d.column.push_back(static_cast<std::uint32_t>(m->column[k]));
    d.row_begin.reserve(rows + 1);
    for (std::size_t i = o.skip; i <= end; ++i) d.row_begin.push_back(begin_of(i) - first);
  }
  for (std::size_t i = o.skip; i < end; ++i) {
    for (std::size_t k = begin_of(i); k < begin_of(i + 1); ++k) {
      if (std::isinf(m->value[k]))
        return Fail(Code::kMalformed, "{}: row {}: a value is not finite; correct it or remove the row",
                    source, i);
      if (std::isnan(m->value[k])) d.value[k - first] = o.missing;
    }
    if (!std::isfinite(m->label[i]))
      return Fail(Code::kMalformed, "{}: row {}: the label is not finite; correct it or remove the row",
                  source, i);
    d.label.push_back(m->label[i]);
    if (!m->group.empty()) d.group.push_back(m->group[i]);
    if (!m->person.empty()) d.person.push_back(m->person[i]);
  }
  d.group_name = m->group_name;
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
