#include <algorithm>
#include <charconv>

#include "data/parse.h"

namespace tacit {
namespace internal {
namespace {

// The token that starts at p; ends at a blank or at the end of the line.
std::string_view Token(const char* p, const char* end) {
  const char* q = p;
  while (q != end && !IsBlank(*q)) ++q;
  return {p, static_cast<std::size_t>(q - p)};
}

class LibsvmReader {
 public:
  LibsvmReader(Input& input, const LoadOptions& options) : input_(input), o_(options) {
    data_.row_begin.push_back(0);
    data_.features = o_.features;
  }

  Result<Dataset> Run() {
    if (o_.sink && o_.features == 0)
      return Fail(Code::kInvalidArgument,
                  "data.features is not set: rows of {} that are not kept in memory need it; give the number "
                  "of features",
                  input_.name());
    std::size_t seen = 0;
    std::string_view line;
    while (!batches_.full()) {
      TACIT_TRY(const bool more, input_.Line(line));
      if (!more) break;
      line = Trim(line.substr(0, line.find('#')));
      if (line.empty()) continue;
      if (seen++ < o_.skip) continue;
      TACIT_OK(Parse(line));
      TACIT_OK(batches_.Kept(data_));
    }
    TACIT_OK(CheckCount(o_, input_.name(), seen, batches_.kept()));
    TACIT_OK(batches_.Finish(data_));
    data_.features = o_.features != 0 ? o_.features : largest_;
    return std::move(data_);
  }

 private:
  Error Bad(const char* what) const {
    return Fail(Code::kMalformed, "{}: line {}: {}", input_.name(), input_.line_number(), what);
  }

  Status Parse(std::string_view line) {
    const char* p = line.data();
    const char* const end = p + line.size();
    const std::string_view label = Token(p, end);
    double y;
    if (const Number n = ParseReal(label, y); n != Number::kOk) {
      if (label.find(',') != label.npos)
        return Bad(
            "the label is a list; keep one label per row, or say data.format = \"csv\" if this is a CSV "
            "file");
      if (label.find(':') != label.npos) return Bad("the label is missing; a line is 'label index:value …'");
      return n == Number::kNotFinite ? Bad("the label is not finite; correct it or remove the row")
                                     : Bad("the label is not a number; a line is 'label index:value …'");
    }
    p += label.size();
    std::uint64_t previous = 0;
    for (;;) {
      while (p != end && IsBlank(*p)) ++p;
      if (p == end) break;
      std::uint64_t index = 0;
      const auto [q, error] = std::from_chars(p, end, index);
      if (q == p || q == end || *q != ':') return BadIndex(Token(p, end));
      if (index == 0 && error == std::errc())
        return Bad("a feature index is 0; indices start at 1, so add 1 to each");
      if (error != std::errc() || index > kMostFeatures)
        return Fail(Code::kMalformed, "{}: line {}: a feature index is above {}; is this a LIBSVM file?",
                    input_.name(), input_.line_number(), kMostFeatures);
      if (index <= previous)
        return Bad("feature indices do not ascend; sort them within the row and write each once");
      if (o_.features != 0 && index > o_.features)
        return Fail(
            Code::kMalformed,
            "{}: line {}: a feature index is above data.features = {}; raise data.features or leave it out",
            input_.name(), input_.line_number(), o_.features);
      previous = index;
      p = q + 1;
      double v;
      if (p != end && *p == '1' &&
          (p + 1 == end || IsBlank(p[1]))) {     // nearly every value of the binary sets
        v = 1;
        ++p;
      } else {
        const std::string_view value = Token(p, end);
        if (value.empty()) return Bad("a value is missing after ':'; write index:value without blanks");
        if (const Number n = ParseReal(value, v); n != Number::kOk)
          return n == Number::kNotFinite
                     ? Bad("a value is not finite; values must be finite: correct it or leave the feature "
                           "out")
                     : Bad("a value is not a number; write index:value with a decimal value");
        p += value.size();
      }
      data_.column.push_back(static_cast<std::uint32_t>(index - 1));
      data_.value.push_back(v);
    }
    largest_ = std::max(largest_, static_cast<std::size_t>(previous));
    data_.label.push_back(y);
    data_.row_begin.push_back(data_.value.size());
    return Ok{};
  }

  Error BadIndex(std::string_view token) const {
    if (token.starts_with("qid:"))
      return Bad("has a qid: token (ranking data), which is not supported; remove the qid: column");
    if (token.find(':') == token.npos)
      return Bad("a token after the label has no ':'; features are written index:value");
    return Bad("a feature index is not a whole number from 1 upwards");
  }

  Input& input_;
  const LoadOptions& o_;
  Dataset data_;
  Batches batches_{o_};
  std::size_t largest_ = 0;
};

}  // namespace

Result<Dataset> ReadLibsvm(Input& input, const LoadOptions& options) {
  return LibsvmReader(input, options).Run();
}

}  // namespace internal

Result<Dataset> ParseLibsvm(std::string_view text, const LoadOptions& options, std::string name) {
  Input input(FromMemory(text), std::move(name));
  return internal::ReadLibsvm(input, options);
}

}  // namespace tacit
