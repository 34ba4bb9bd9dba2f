#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "data/parse.h"

namespace tacit {
namespace internal {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

struct Field {
  std::string text;
  bool quoted = false;
};

class CsvReader {
 public:
  CsvReader(Input& input, const LoadOptions& options) : input_(input), o_(options) {}

  Result<Dataset> Run() {
    if (o_.csv.separator == '"' || o_.csv.separator == '\n' || o_.csv.separator == '\r')
      return Fail(Code::kInvalidArgument,
                  "data.separator: a quote or a line end cannot separate fields; use ',' or ';'");
    if (!std::isfinite(o_.csv.missing))
      return Fail(Code::kInvalidArgument, "data.missing = {}: must be finite", o_.csv.missing);
    std::size_t seen = 0;
    bool planned = false;
    while (!batches_.full()) {
      TACIT_TRY(const bool more, Record());
      if (!more) break;
      if (!planned) {
        TACIT_OK(Plan());
        planned = true;
        if (o_.csv.header) continue;
      }
      if (used_ != columns_)
        return Fail(Code::kMalformed,
                    "{}: line {}: {} fields where the first line has {}; check quotes and separators",
                    input_.name(), line_, used_, columns_);
      if (seen++ < o_.skip) continue;
      TACIT_OK(Row());
      TACIT_OK(batches_.Kept(data_));
    }
    TACIT_OK(CheckCount(o_, input_.name(), seen, batches_.kept()));
    TACIT_OK(batches_.Finish(data_));
    return std::move(data_);
  }

 private:
  // One record into fields_[0, used_); a quoted field may run over line ends. False at the end.
  Result<bool> Record() {
    std::string_view line;
    do {
      TACIT_TRY(const bool more, input_.Line(line));
      if (!more) return false;
    } while (Trim(line).empty());
    line_ = input_.line_number();
    used_ = 0;
    std::size_t i = 0;
    for (;;) {
      if (used_ == fields_.size()) fields_.emplace_back();
      Field& f = fields_[used_++];
      f.text.clear();
      f.quoted = false;
      while (i < line.size() && line[i] == ' ') ++i;
      if (i < line.size() && line[i] == '"') {
        f.quoted = true;
        ++i;
        for (;;) {
          const std::size_t quote = line.find('"', i);
          if (quote == line.npos) {                             // goes on in the next line
            f.text.append(line.substr(i)).push_back('\n');
            TACIT_TRY(const bool more, input_.Line(line));
            if (!more || f.text.size() > kLongestField)
              return Fail(Code::kMalformed, "{}: line {}: a quote is opened and never closed; close it",
                          input_.name(), line_);
            i = 0;
            continue;
          }
          f.text.append(line.substr(i, quote - i));
          i = quote + 1;
          if (i >= line.size() || line[i] != '"') break;
          f.text.push_back('"');                                // "" inside quotes
          ++i;
        }
        while (i < line.size() && line[i] == ' ') ++i;
        if (i < line.size() && line[i] != o_.csv.separator)
          return Fail(Code::kMalformed,
                      "{}: line {}: text follows a closing quote; double the quotes inside a field",
                      input_.name(), line_);
      } else {
        const std::size_t stop = std::min(line.find(o_.csv.separator, i), line.size());
        f.text.assign(Trim(line.substr(i, stop - i)));
        i = stop;
      }
      if (i >= line.size()) return true;
      ++i;
    }
  }

  // The number of a column given by name (if there is a header) or by 0-based number.
  Result<std::size_t> Column(const std::string& name, const char* option) const {
    if (o_.csv.header) {
      for (std::size_t j = 0; j < columns_; ++j)
        if (names_[j] == name) return j;
    }
    std::size_t j = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), j);
    if (error == std::errc() && stop == name.data() + name.size()) {
      if (j < columns_) return j;
      return Fail(Code::kInvalidArgument, "{} = {}: {} has columns 0 to {}", option, name, input_.name(),
                  columns_ - 1);
    }
    return Fail(Code::kInvalidArgument, "{} = '{}': {} has no such column; {}", option, name, input_.name(),
                o_.csv.header ? "check the name against the first line"
                              : "give a 0-based number, or data.header = true");
  }

  // From the first record: which column is what.
  Status Plan() {
    columns_ = used_;
    if (o_.csv.header)
      for (std::size_t j = 0; j < columns_; ++j) names_.push_back(fields_[j].text);
    label_ = columns_ - 1;
    if (!o_.csv.label.empty()) {
      TACIT_TRY(label_, Column(o_.csv.label, "data.label_column"));
    }
    if (!o_.csv.group.empty()) {
      TACIT_TRY(group_, Column(o_.csv.group, "data.group_column"));
    }
    if (group_ == label_)
      return Fail(Code::kInvalidArgument,
                  "data.group_column: column {} is also the label; name two different columns", label_);
    std::vector<bool> dropped(columns_);
    for (const std::string& name : o_.csv.drop) {
      TACIT_TRY(const std::size_t j, Column(name, "data.drop"));
      if (j == label_ || j == group_)
        return Fail(Code::kInvalidArgument,
                    "data.drop = '{}': is the label or the group column; drop another", name);
      dropped[j] = true;
    }
    for (std::size_t j = 0; j < columns_; ++j)
      if (j != label_ && j != group_ && !dropped[j]) kept_.push_back(j);
    if (kept_.empty())
      return Fail(Code::kMalformed,
                  "{}: no column is left for the features; check data.separator and data.drop",
                  input_.name());
    if (o_.features != 0 && o_.features != kept_.size())
      return Fail(Code::kInvalidArgument,
                  "data.features = {}: {} has {} feature columns; correct data.features or data.drop",
                  o_.features, input_.name(), kept_.size());
    data_.features = kept_.size();
    return Ok{};
  }

  static bool Missing(const Field& f) { return f.text.empty() || f.text == "?"; }

  Error BadField(std::size_t j, const char* what, const char* remedy) const {
    const std::string named = o_.csv.header ? fmt::format(" ('{}')", names_[j]) : std::string();
    return Fail(Code::kMalformed, "{}: line {}, column {}{}: {}; {}", input_.name(), line_, j, named, what,
                remedy);
  }

  Status Row() {
    for (const std::size_t j : kept_) {
      double v = o_.csv.missing;
      if (!Missing(fields_[j])) {
        const Number n = ParseReal(Trim(fields_[j].text), v);
        if (n == Number::kNotFinite)
          return BadField(j, "the value is not finite", "values must be finite: write ? for a missing one");
        if (n != Number::kOk)
          return BadField(
              j, "the value is not a number",
              batches_.kept() == 0 && !o_.csv.header
                  ? "if this is a line of names say data.header = true, otherwise drop or encode the column"
                  : "drop the column (data.drop) or encode it as numbers");
      }
      data_.value.push_back(v);
    }
    double y;
    if (Missing(fields_[label_]))
      return BadField(label_, "the label is missing", "remove the row or fill it in");
    const Number n = ParseReal(Trim(fields_[label_].text), y);
    if (n != Number::kOk)
      return BadField(label_,
                      n == Number::kNotFinite ? "the label is not finite" : "the label is not a number",
                      "encode labels as numbers, or choose another column with data.label_column");
    if (group_ != kNone) {
      if (fields_[group_].text.empty()) return BadField(group_, "the group is missing", "fill it in");
      const auto [it, fresh] =
          groups_.emplace(fields_[group_].text, static_cast<std::uint32_t>(data_.group_name.size()));
      if (fresh) data_.group_name.push_back(it->first);
      data_.group.push_back(it->second);
    }
    data_.label.push_back(y);
    return Ok{};
  }

  static constexpr std::size_t kLongestField = std::size_t{1} << 20;
  Input& input_;
  const LoadOptions& o_;
  Dataset data_;
  Batches batches_{o_};
  std::vector<Field> fields_;          // reused from record to record
  std::size_t used_ = 0, line_ = 0, columns_ = 0, label_ = 0, group_ = kNone;
  std::vector<std::string> names_;
  std::vector<std::size_t> kept_;
  std::unordered_map<std::string, std::uint32_t> groups_;
};

}  // namespace

Result<Dataset> ReadCsv(Input& input, const LoadOptions& options) { return CsvReader(input, options).Run(); }

}  // namespace internal

Result<Dataset> ParseCsv(std::string_view text, const LoadOptions& options, std::string name) {
  Input input(FromMemory(text), std::move(name));
  return internal::ReadCsv(input, options);
}

}  // namespace tacit
