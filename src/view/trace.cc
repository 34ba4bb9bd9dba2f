#include "view/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "view/run_file.h"

namespace tacit {
namespace {

constexpr const char* kTrace = "trace.jsonl";
constexpr std::size_t kLongestLine = std::size_t{1} << 24;  // of bytes; a line has a few hundred

Error TooLong(const std::filesystem::path& folder) {
  return Fail(Code::kMalformed, "{}: has a line of more than {} bytes, which no run writes",
              (folder / kTrace).string(), kLongestLine);
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// A line is an object of numbers and, nested, of more of them. Parsed by hand, for a trace may have a million
// lines; every line has the keys of the line before in the same order, as a rule, so that a key is looked up
// where it was then.
class Parser {
 public:
  explicit Parser(Trace& into) : into_(into) {}

  // Every whole line; what is left of a line without an end.
  std::string_view Lines(std::string_view text) {
    for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      Line(text.substr(0, end));
      into_.last_line.assign(text.substr(0, end + 1));
      text.remove_prefix(end + 1);
    }
    return text;
  }
  void Line(std::string_view line) {
    at_ = line.data();
    end_ = at_ + line.size();
    found_.clear();
    prefix_.clear();
    place_ = 0;
    Space();
    if (!Object(0)) return;
    Space();
    if (at_ != end_ || found_.empty()) return;
    const std::size_t rows = into_.rows();
    for (auto& column : into_.columns) column.push_back(kNone);
    for (const auto& [name, value] : found_) Column(name, rows).back() = value;
  }

 private:
  static constexpr int kDeepest = 8;

  std::vector<double>& Column(const std::string& name, std::size_t rows) {
    const std::size_t guess = place_ < order_.size() ? order_[place_] : into_.names.size();
    if (guess < into_.names.size() && into_.names[guess] == name) {
      ++place_;
      return into_.columns[guess];
    }
    const auto [it, fresh] = index_.try_emplace(name, into_.names.size());
    if (fresh) {
      into_.names.push_back(name);
      into_.columns.emplace_back(rows + 1, kNone);
    }
    if (place_ < order_.size())
      order_[place_] = it->second;
    else
      order_.push_back(it->second);
    ++place_;
    return into_.columns[it->second];
  }

  void Space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool Take(char c) {
    Space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool Text(std::string_view& out) {
    if (!Take('"')) return false;
    const char* from = at_;
    while (at_ != end_ && *at_ != '"') at_ += *at_ == '\\' && at_ + 1 != end_ ? 2 : 1;
    if (at_ == end_) return false;
    out = std::string_view(from, static_cast<std::size_t>(at_ - from));
    ++at_;
    return true;
  }
  bool Object(int depth) {
    if (depth > kDeepest || !Take('{')) return false;
    if (Take('}')) return true;
    do {
      std::string_view key;
      if (!Text(key) || !Take(':')) return false;
      Space();
      if (at_ == end_) return false;
      if (*at_ == '{') {
        const std::size_t length = prefix_.size();
        if (key != "metrics") prefix_.append(key).append(".");
        if (!Object(depth + 1)) return false;
        prefix_.resize(length);
      } else if (!Value(key, depth)) {
        return false;
      }
    } while (Take(','));
    return Take('}');
  }
  bool Value(std::string_view key, int depth) {
    double value = kNone;
    if (*at_ == '"') {
      std::string_view text;
      if (!Text(text)) return false;
      if (text == "inf") value = std::numeric_limits<double>::infinity();
      if (text == "-inf") value = -std::numeric_limits<double>::infinity();
      if (text != "inf" && text != "-inf" && text != "nan") return true;  // no figure
    } else if (*at_ == '[') {  // no figure either
      return List(depth);
    } else if (std::string_view word = Word(); !word.empty()) {
      return word == "null" || word == "true" || word == "false";
    } else {
      const auto [to, error] = std::from_chars(at_, end_, value);
      if (error == std::errc::invalid_argument) return false;
      at_ = to;
    }
    found_.emplace_back(prefix_ + std::string(key), value);
    return true;
  }
  bool List(int depth) {
    if (depth > kDeepest || !Take('[')) return false;
    if (Take(']')) return true;
    do {
      Space();
      if (at_ == end_) return false;
      std::string_view text;
      if (*at_ == '"') {
        if (!Text(text)) return false;
      } else if (*at_ == '[') {
        if (!List(depth + 1)) return false;
      } else if (Word().empty()) {
        double number = 0;
        const auto [to, error] = std::from_chars(at_, end_, number);
        if (error == std::errc::invalid_argument) return false;
        at_ = to;
      }
    } while (Take(','));
    return Take(']');
  }
  std::string_view Word() {
    const char* from = at_;
    while (at_ != end_ && *at_ >= 'a' && *at_ <= 'z') ++at_;
    return {from, static_cast<std::size_t>(at_ - from)};
  }

  Trace& into_;
  const char *at_ = nullptr, *end_ = nullptr;
  std::string prefix_;
  std::vector<std::pair<std::string, double>> found_;
  std::size_t place_ = 0;
  std::vector<std::size_t> order_;  // columns in the order of the keys of the last line
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace

const std::vector<double>* Trace::column(std::string_view name) const {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? nullptr : &columns[static_cast<std::size_t>(at - names.begin())];
}

Trace ParseTrace(std::string_view lines) {
  Trace trace;
  trace.next_offset = lines.size() - Parser(trace).Lines(lines).size();
  return trace;
}

Result<Trace> ReadTrace(const std::filesystem::path& folder, const Trace& before) {
  Trace trace;
  const auto opened = RunFile::Open(folder, kTrace);
  if (!opened.ok() && opened.error().code == Code::kNotFound) return trace;
  if (!opened.ok()) return opened.error();
  const RunFile& in = *opened;
  std::uint64_t offset = before.next_offset;
  if (const std::string& last = before.last_line; offset > 0) {
    std::string there(last.size(), '\0');
    TACIT_TRY(const std::size_t n, in.ReadAt(offset - last.size(), there.data(), there.size()));
    if (n < there.size() || there != last) offset = 0;
  }
  trace.from_start = offset == 0;
  Parser parser(trace);
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::string buffer;
  std::size_t kept = 0;  // of a line whose end is in the next block
  for (bool end_of_file = false; !end_of_file;) {
    if (kept > kLongestLine) return TooLong(folder);
    buffer.resize(kept + kBlock);
    TACIT_TRY(const std::size_t more, in.ReadAt(offset + kept, buffer.data() + kept, kBlock));
    end_of_file = more < kBlock;
    const std::size_t have = kept + more;
    std::string_view rest(buffer.data(), have);
    rest = parser.Lines(rest);
    offset += have - rest.size();
    kept = rest.size();
    buffer.erase(0, have - kept);
  }
  trace.next_offset = offset;
  if (trace.last_line.empty() && !trace.from_start) trace.last_line = before.last_line;
  return trace;
}

void Append(Trace& trace, const Trace& more) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::size_t before = trace.rows(), rows = before + more.rows();
  for (const std::string& name : more.names)
    if (trace.column(name) == nullptr) {
      trace.names.push_back(name);
      trace.columns.emplace_back(before, none);
    }
  for (std::size_t k = 0; k < trace.names.size(); ++k) {
    const std::vector<double>* from = more.column(trace.names[k]);
    if (from != nullptr)
      trace.columns[k].insert(trace.columns[k].end(), from->begin(), from->end());
    else
      trace.columns[k].resize(rows, none);
  }
  trace.next_offset = more.next_offset;
  trace.last_line = more.last_line;
}

Result<Trace> ReadLastOfTrace(const std::filesystem::path& folder) {
  const auto opened = RunFile::Open(folder, kTrace);
  if (!opened.ok() && opened.error().code == Code::kNotFound) return Trace{};
  if (!opened.ok()) return opened.error();
  const RunFile& in = *opened;
  const std::uint64_t size = in.size();
  for (std::uint64_t back = 4096;; back *= 4) {
    if (back > 4 * kLongestLine) return TooLong(folder);
    const std::uint64_t from = size > back ? size - back : 0;
    std::string tail(static_cast<std::size_t>(size - from), '\0');
    TACIT_TRY(const std::size_t n, in.ReadAt(from, tail.data(), tail.size()));
    tail.resize(n);  // less where it was cut back meanwhile
    const auto end = tail.rfind('\n');
    const auto begin = end == std::string::npos || end == 0 ? std::string::npos : tail.rfind('\n', end - 1);
    if (begin == std::string::npos && from > 0) continue;
    Trace trace;
    trace.from_start = false;
    if (end == std::string::npos) return trace;
    Parser(trace).Line(std::string_view(tail).substr(begin == std::string::npos ? 0 : begin + 1,
                                                     end - (begin == std::string::npos ? 0 : begin + 1)));
    trace.next_offset = from + end + 1;
    return trace;
  }
}

}  // namespace tacit
