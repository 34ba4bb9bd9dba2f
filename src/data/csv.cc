#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "data/parse.h"

namespace tacit {
namespace internal {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Field {
  std::string text;
  bool quoted = false;
};

// A column that becomes features.
struct Source {
  std::size_t column = 0;
  const OneHot* one_hot = nullptr;
  std::vector<double> numbers = {};          // of the categories; NaN where a category is not a number
  double missing = 0;
  bool indicator = false;
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
    for (std::size_t j = 0; j < std::min(columns_, o_.csv.names.size()); ++j)
      if (o_.csv.names[j] == name) return j;
    std::size_t j = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), j);
    if (error == std::errc() && stop == name.data() + name.size()) {
      if (j < columns_) return j;
      return Fail(Code::kInvalidArgument, "{} = {}: {} has columns 0 to {}", option, name, input_.name(),
                  columns_ - 1);
    }
    return Fail(Code::kInvalidArgument, "{} = '{}': {} has no such column; {}", option, name, input_.name(),
                o_.csv.header           ? "check the name against the first line"
                : !o_.csv.names.empty() ? "check the name against data.columns"
                                        : "give a 0-based number, or data.header = true");
  }

  // From the first record: which column is what.
  Status Plan() {
    columns_ = used_;
    if (!o_.csv.header && !o_.csv.names.empty() && o_.csv.names.size() != columns_)
      return Fail(Code::kInvalidArgument, "data.columns has {} names and {} has {} columns; name each",
                  o_.csv.names.size(), input_.name(), columns_);
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
    if (!o_.csv.person.empty()) {
      TACIT_TRY(person_, Column(o_.csv.person, "data.person_column"));
      if (person_ == label_)
        return Fail(Code::kInvalidArgument,
                    "data.person_column: column {} is also the label; name two different columns", label_);
    }
    std::vector<bool> dropped(columns_);
    for (const std::string& name : o_.csv.drop) {
      TACIT_TRY(const std::size_t j, Column(name, "data.drop"));
      if (j == label_ || j == group_ || j == person_)
        return Fail(Code::kInvalidArgument,
                    "data.drop = '{}': is the label, the group or the person column; drop another", name);
      dropped[j] = true;
    }
    for (std::size_t j = 0; j < columns_; ++j)
      if (j != label_ && j != group_ && j != person_ && !dropped[j])
        kept_.push_back({.column = j, .missing = o_.csv.missing});
    if (kept_.empty())
      return Fail(Code::kMalformed,
                  "{}: no column is left for the features; check data.separator and data.drop",
                  input_.name());
    TACIT_OK(PlanEncoding());
    data_.features = o_.csv.Features(kept_.size());
    if (o_.features != 0 && o_.features != data_.features && !o_.csv.encodes())
      return Fail(Code::kInvalidArgument,
                  "data.features = {}: {} has {} feature columns; correct data.features or data.drop",
                  o_.features, input_.name(), kept_.size());
    if (o_.features != 0 && o_.features != data_.features)
      return Fail(Code::kInvalidArgument,
                  "data.features: {} features are expected, and {} has {} feature columns, which make {}; "
                  "correct data.features or data.drop",
                  o_.features, input_.name(), kept_.size(), data_.features);
    return Ok{};
  }

  // The place among the kept columns.
  Result<std::size_t> Kept(const std::string& name, const char* option) const {
    TACIT_TRY(const std::size_t j, Column(name, option));
    for (std::size_t k = 0; k < kept_.size(); ++k)
      if (kept_[k].column == j) return k;
    return Fail(Code::kInvalidArgument, "{} = '{}': is not a column of features; name another", option, name);
  }

  Status PlanEncoding() {
    const auto twice = [](const char* option, const std::string& name) {
      return Fail(Code::kInvalidArgument, "{} = '{}': the column is named twice; name it once", option, name);
    };
    for (const OneHot& h : o_.csv.one_hot) {
      TACIT_TRY(const std::size_t k, Kept(h.column, "data.one_hot"));
      if (kept_[k].one_hot != nullptr) return twice("data.one_hot", h.column);
      kept_[k].one_hot = &h;
      for (const std::string& c : h.categories) {
        double v;
        kept_[k].numbers.push_back(ParseReal(c, v) == Number::kOk ? v : kNan);
      }
    }
    std::vector<bool> filled(kept_.size()), ranged(kept_.size());
    for (const ColumnFill& f : o_.csv.fill) {
      TACIT_TRY(const std::size_t k, Kept(f.column, "data.fill"));
      if (filled[k] || kept_[k].one_hot != nullptr)
        return Fail(Code::kInvalidArgument,
                    "data.fill = '{}': the column is named twice or is one-hot, where missing is no category",
                    f.column);
      filled[k] = true;
      kept_[k].missing = f.value;
    }
    for (const std::string& name : o_.csv.indicator) {
      if (name == "*") {
        for (Source& s : kept_) s.indicator = s.one_hot == nullptr;
        continue;
      }
      TACIT_TRY(const std::size_t k, Kept(name, "data.missing_indicator"));
      if (kept_[k].indicator) return twice("data.missing_indicator", name);
      if (kept_[k].one_hot != nullptr)
        return Fail(Code::kInvalidArgument,
                    "data.missing_indicator = '{}': is one-hot; let its categories end with * instead", name);
      kept_[k].indicator = true;
    }
    if (o_.csv.range.empty()) return Ok{};
    std::vector<std::size_t> first;                    // feature of each kept column
    std::size_t at = 0;
    for (const Source& s : kept_) {
      first.push_back(at);
      at += Width(s);
    }
    data_.lower.assign(at, -std::numeric_limits<double>::infinity());
    data_.upper.assign(at, std::numeric_limits<double>::infinity());
    for (const ColumnRange& r : o_.csv.range) {
      TACIT_TRY(const std::size_t k, Kept(r.column, "data.bounds"));
      if (ranged[k] || kept_[k].one_hot != nullptr)
        return Fail(Code::kInvalidArgument,
                    "data.bounds = '{}': the column is named twice or is one-hot; name others", r.column);
      ranged[k] = true;
      data_.lower[first[k]] = r.lower;
      data_.upper[first[k]] = r.upper;
    }
    return Ok{};
  }

  static std::size_t Width(const Source& s) {
    if (s.one_hot != nullptr) return s.one_hot->categories.size() + (s.one_hot->other ? 1 : 0);
    return s.indicator ? 2 : 1;
  }

  // A category that is not listed is a defined value: no entry, or the one for all others.
  void Categories(const Source& s, const Field& f) {
    const std::size_t at = data_.value.size(), n = s.numbers.size();
    data_.value.resize(at + Width(s), 0.0);
    std::size_t found = n;
    const std::string_view text = Trim(f.text);
    double v = 0;
    const bool number = !Missing(f) && ParseReal(text, v) == Number::kOk;
    for (std::size_t k = 0; k < n && found == n && !Missing(f); ++k)
      if (text == s.one_hot->categories[k] || (number && v == s.numbers[k])) found = k;
    if (found < n || s.one_hot->other) data_.value[at + found] = 1.0;
  }

  static bool Missing(const Field& f) { return f.text.empty() || f.text == "?"; }

  Error BadField(std::size_t j, const char* what, const char* remedy) const {
    const std::string named = o_.csv.header ? fmt::format(" ('{}')", names_[j]) : std::string();
    return Fail(Code::kMalformed, "{}: line {}, column {}{}: {}; {}", input_.name(), line_, j, named, what,
                remedy);
  }

  Status Row() {
    for (const Source& s : kept_) {
      const std::size_t j = s.column;
      if (s.one_hot != nullptr) {
        Categories(s, fields_[j]);
        continue;
      }
      double v = s.missing;
      if (!Missing(fields_[j])) {
        const Number n = ParseReal(Trim(fields_[j].text), v);
        if (n == Number::kNotFinite)
          return BadField(j, "the value is not finite", "values must be finite: write ? for a missing one");
        if (n != Number::kOk)
          return BadField(
              j, "the value is not a number",
              batches_.kept() == 0 && !o_.csv.header
                  ? "if this is a line of names say data.header = true, otherwise drop or encode the column"
                  : "drop the column (data.drop) or encode it (data.one_hot)");
      }
      data_.value.push_back(v);
      if (s.indicator) data_.value.push_back(Missing(fields_[j]) ? 1.0 : 0.0);
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
    if (person_ != kNone) {
      if (fields_[person_].text.empty()) return BadField(person_, "the person is missing", "fill it in");
      data_.person.push_back(
          persons_.emplace(fields_[person_].text, static_cast<std::uint32_t>(persons_.size())).first->second);
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
  std::size_t used_ = 0, line_ = 0, columns_ = 0, label_ = 0, group_ = kNone, person_ = kNone;
  std::vector<std::string> names_;
  std::vector<Source> kept_;
  std::unordered_map<std::string, std::uint32_t> groups_, persons_;
};

}  // namespace

Result<Dataset> ReadCsv(Input& input, const LoadOptions& options) { return CsvReader(input, options).Run(); }

}  // namespace internal

std::size_t CsvLayout::Features(std::size_t columns) const {
  std::size_t n = columns;
  for (const OneHot& h : one_hot) n += h.categories.size() + (h.other ? 1 : 0) - 1;
  const bool all = std::find(indicator.begin(), indicator.end(), "*") != indicator.end();
  return n + (all ? columns - std::min(columns, one_hot.size()) : indicator.size());
}

Result<Dataset> ParseCsv(std::string_view text, const LoadOptions& options, std::string name) {
  Input input(FromMemory(text), std::move(name));
  return internal::ReadCsv(input, options);
}

}  // namespace tacit
