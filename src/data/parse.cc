#include "data/parse.h"

#include <charconv>
#include <cmath>

namespace tacit::internal {

Number ParseReal(std::string_view text, double& out) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return Number::kNotANumber;
  }
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error == std::errc::invalid_argument || stop != end) return Number::kNotANumber;
  if (error == std::errc::result_out_of_range) {
    // Too large or too small: the wider type tells which.
    long double wide = 0;
    if (std::from_chars(text.data(), end, wide).ec != std::errc()) return Number::kNotFinite;
    out = static_cast<double>(wide);
  }
  return std::isfinite(out) ? Number::kOk : Number::kNotFinite;
}

std::string_view Trim(std::string_view s) {
  while (!s.empty() && IsBlank(s.front())) s.remove_prefix(1);
  while (!s.empty() && (IsBlank(s.back()) || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

Status CheckCount(const LoadOptions& o, const std::string& name, std::size_t seen, std::size_t kept) {
  if (seen == 0) return Fail(Code::kMalformed, "{}: has no rows; check that it is the right file", name);
  if (kept == 0)
    return Fail(Code::kInvalidArgument, "data.skip = {} passes over all {} rows of {}; lower data.skip",
                o.skip, seen, name);
  if (kept < o.rows)
    return Fail(Code::kInvalidArgument,
                "data.rows = {}: {} has {} rows after data.skip = {}; lower data.rows, or 0 for all", o.rows,
                name, kept, o.skip);
  return Ok{};
}

Status Batches::HandOn(Dataset& data) {
  Dataset next;
  next.name = data.name;
  next.features = data.features;
  next.group_name = data.group_name;
  next.lower = data.lower;
  next.upper = data.upper;
  if (data.sparse()) next.row_begin.push_back(0);
  TACIT_OK(o_.sink(std::move(data)));
  data = std::move(next);
  return Ok{};
}

}  // namespace tacit::internal
