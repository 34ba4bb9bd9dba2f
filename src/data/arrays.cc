// Rows from NumPy's arrays: .npy files, and .npz, which is a zip of them.
#include <zip.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <unordered_map>

#include "data/npy.h"
#include "data/parse.h"

namespace tacit {
namespace internal {
namespace {

// An array that is read row by row, in C order whatever its own order is.
class RowReader {
 public:
  static Result<RowReader> Open(Input& in) {
    RowReader r(in);
    TACIT_TRY(r.header_, ReadNpyHeader(in));
    if (r.header_.shape.empty())
      return Fail(Code::kMalformed, "{}: holds a single number; an array with one row a record is needed",
                  in.name());
    if (r.each() == 0 || r.each() > kMostFeatures)
      return Fail(Code::kMalformed, "{}: has {} numbers a row; is this the right array?", in.name(),
                  r.each());
    if (r.header_.fortran && r.header_.shape.size() > 1) TACIT_OK(r.ReadWhole());
    return r;
  }
  std::size_t rows() const { return header_.rows(); }
  std::size_t each() const { return header_.each(); }
  const std::string& name() const { return in_->name(); }

  // out: each() numbers.
  Status Next(Vec& out) {
    if (whole_.empty()) {
      TACIT_OK(Fill(bytes_, each() * header_.size));
    } else {
      const std::size_t size = header_.size;
      bytes_.resize(each() * size);
      for (std::size_t j = 0; j < offset_.size(); ++j)
        std::copy_n(whole_.data() + (next_ + offset_[j]) * size, size, bytes_.data() + j * size);
    }
    ++next_;
    out.resize(each());
    DecodeNpy(header_, {bytes_.data(), bytes_.size()}, out);
    return Ok{};
  }
  // Nothing may follow the last row.
  Status AtEnd() {
    TACIT_TRY(const std::string_view rest, in_->Peek(1));
    if (next_ == rows() && !rest.empty())
      return Fail(Code::kMalformed, "{}: goes on after its {} rows; write or fetch it again", name(), rows());
    return Ok{};
  }

 private:
  explicit RowReader(Input& in) : in_(&in) {}
  Error Short() const {
    return Fail(Code::kMalformed, "{}: ends within row {} of {}; write or fetch it again", name(), next_,
                rows());
  }

  // The next `size` bytes. What is not there yet grows with what is really read, not with what is promised.
  Status Fill(std::vector<char>& bytes, std::size_t size) {
    constexpr std::size_t kStep = std::size_t{1} << 20;
    for (std::size_t at = 0; at < size;) {
      const std::size_t want = std::min(kStep, size - at);
      if (bytes.size() < at + want) bytes.resize(at + want);
      TACIT_TRY(const std::size_t n, in_->Read(std::span(bytes).subspan(at, want)));
      if (n != want) return Short();
      at += want;
    }
    return Ok{};
  }

  // Fortran order: entry (i, j₁, j₂, …) lies at i + n₀(j₁ + n₁(j₂ + …)).
  Status ReadWhole() {
    TACIT_OK(Fill(whole_, rows() * each() * header_.size));
    const std::vector<std::size_t>& shape = header_.shape;
    offset_.resize(rows() == 0 ? 0 : each());
    for (std::size_t j = 0; j < offset_.size(); ++j) {
      std::size_t rest = j, divisor = each(), stride = rows();
      for (std::size_t k = 1; k < shape.size(); ++k) {
        divisor /= shape[k];
        offset_[j] += rest / divisor * stride;
        rest %= divisor;
        stride *= shape[k];
      }
    }
    return Ok{};
  }

  Input* in_;
  NpyHeader header_;
  std::vector<char> bytes_, whole_;
  std::vector<std::size_t> offset_;
  std::size_t next_ = 0;
};

// Numbers that stand for names: 0, 1, … in the order in which they appear.
class Names {
 public:
  std::uint32_t Number(double value) {
    const auto [at, fresh] =
        seen_.emplace(value == 0 ? 0.0 : value, static_cast<std::uint32_t>(seen_.size()));
    fresh_ = fresh;
    return at->second;
  }
  bool fresh() const { return fresh_; }

 private:
  std::unordered_map<double, std::uint32_t> seen_;
  bool fresh_ = false;
};

struct Columns {
  RowReader* x;
  RowReader* label = nullptr;  // nullptr: column label_column of x
  RowReader* group = nullptr;
  RowReader* person = nullptr;
  std::size_t label_column = 0;
};

Status CheckList(const RowReader& list, const RowReader& x) {
  if (list.each() != 1)
    return Fail(Code::kMalformed, "{}: has {} numbers a row where one is needed; name another array",
                list.name(), list.each());
  if (list.rows() != x.rows())
    return Fail(Code::kMalformed, "{} has {} rows and {} has {}; they must belong together", x.name(),
                x.rows(), list.name(), list.rows());
  return Ok{};
}

Result<Dataset> ReadRows(const Columns& c, const LoadOptions& o) {
  if (!std::isfinite(o.array.missing))
    return Fail(Code::kInvalidArgument, "data.missing = {}: must be finite", o.array.missing);
  RowReader& x = *c.x;
  const std::size_t features = c.label != nullptr ? x.each() : x.each() - 1;
  for (const RowReader* list : {c.label, c.group, c.person})
    if (list != nullptr) TACIT_OK(CheckList(*list, x));
  if (features == 0)
    return Fail(Code::kMalformed, "{}: has one number a row and no labels; name them with data.labels_file",
                x.name());
  if (o.features != 0 && o.features != features)
    return Fail(Code::kInvalidArgument,
                "data.features = {}: {} has {} features; correct data.features or leave it out", o.features,
                x.name(), features);
  Dataset data;
  data.features = features;
  Batches batches(o);
  Vec row, single;
  Names groups, persons;
  const auto one = [&single](RowReader& list, double& v) -> Status {
    TACIT_OK(list.Next(single));
    v = single.front();
    return Ok{};
  };
  std::size_t seen = 0;
  for (; seen < x.rows() && !batches.full(); ++seen) {
    double y = 0, group = 0, person = 0;
    TACIT_OK(x.Next(row));
    if (c.label != nullptr) TACIT_OK(one(*c.label, y));
    if (c.group != nullptr) TACIT_OK(one(*c.group, group));
    if (c.person != nullptr) TACIT_OK(one(*c.person, person));
    if (c.label == nullptr) y = row[c.label_column];
    if (seen < o.skip) continue;
    const auto bad = [&](const RowReader& in, const char* what) {
      return Fail(Code::kMalformed, "{}: row {}: {}; correct it or remove the row", in.name(), seen, what);
    };
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (c.label == nullptr && j == c.label_column) continue;
      if (std::isinf(row[j])) return bad(x, "a value is not finite");
      data.value.push_back(std::isnan(row[j]) ? o.array.missing : row[j]);
    }
    if (!std::isfinite(y)) return bad(c.label != nullptr ? *c.label : x, "the label is not finite");
    data.label.push_back(y);
    if (c.group != nullptr) {
      if (!std::isfinite(group)) return bad(*c.group, "the group is not finite");
      data.group.push_back(groups.Number(group));
      if (groups.fresh()) data.group_name.push_back(fmt::format("{}", group));
    }
    if (c.person != nullptr) {
      if (!std::isfinite(person)) return bad(*c.person, "the person is not finite");
      data.person.push_back(persons.Number(person));
    }
    TACIT_OK(batches.Kept(data));
  }
  TACIT_OK(CheckCount(o, x.name(), seen, batches.kept()));
  for (RowReader* list : {c.x, c.label, c.group, c.person})
    if (list != nullptr && seen == x.rows()) TACIT_OK(list->AtEnd());
  TACIT_OK(batches.Finish(data));
  return data;
}

using ZipFile = std::unique_ptr<zip_t, void (*)(zip_t*)>;

// One member of an archive, which must outlive it.
class MemberSource final : public ByteSource {
 public:
  MemberSource(zip_file_t* file, std::string name) : file_(file), name_(std::move(name)) {}
  ~MemberSource() override { zip_fclose(file_); }
  Result<std::size_t> Read(std::span<char> out) override {
    const zip_int64_t n = zip_fread(file_, out.data(), out.size());
    if (n < 0) return Fail(Code::kMalformed, "{}: the archive is damaged; write or fetch it again", name_);
    return static_cast<std::size_t>(n);
  }

 private:
  zip_file_t* file_;
  std::string name_;
};

Result<Input> Member(zip_t* zip, const std::string& archive, const std::string& name, const char* key) {
  const std::string full = fmt::format("{}[{}]", archive, name);
  zip_file_t* file = zip_fopen(zip, (name + ".npy").c_str(), 0);
  if (file == nullptr) file = zip_fopen(zip, name.c_str(), 0);
  if (file == nullptr)
    return Fail(Code::kInvalidArgument, "{} = '{}': {} has no such array that can be read; name another", key,
                name, archive);
  return Input(std::make_unique<MemberSource>(file, full), full);
}

Result<Dataset> ReadArchive(ZipFile zip, const std::string& name, const LoadOptions& o) {
  TACIT_TRY(Input x_input, Member(zip.get(), name, o.array.features, "data.array"));
  TACIT_TRY(Input y_input,
            Member(zip.get(), name, o.array.label.empty() ? "y" : o.array.label, "data.label_column"));
  TACIT_TRY(RowReader x, RowReader::Open(x_input));
  TACIT_TRY(RowReader y, RowReader::Open(y_input));
  std::optional<Input> group_input, person_input;
  std::optional<RowReader> group, person;
  if (!o.array.group.empty()) {
    TACIT_TRY(group_input, Member(zip.get(), name, o.array.group, "data.group_column"));
    TACIT_TRY(group, RowReader::Open(*group_input));
  }
  if (!o.array.person.empty()) {
    TACIT_TRY(person_input, Member(zip.get(), name, o.array.person, "data.person_column"));
    TACIT_TRY(person, RowReader::Open(*person_input));
  }
  return ReadRows(
      {.x = &x, .label = &y, .group = group ? &*group : nullptr, .person = person ? &*person : nullptr}, o);
}

Error NotZip(const std::string& name) {
  return Fail(Code::kMalformed, "{}: is not an archive that can be read; write it with numpy.savez", name);
}

}  // namespace

Result<Dataset> ReadNpyRows(Input& x_input, Input* labels, const LoadOptions& o) {
  TACIT_TRY(RowReader x, RowReader::Open(x_input));
  if (!o.array.group.empty() || !o.array.person.empty())
    return Fail(Code::kUnsupported,
                "data.group_column and data.person_column name arrays of an .npz; save {} as one", x.name());
  if (labels != nullptr) {
    TACIT_TRY(RowReader y, RowReader::Open(*labels));
    return ReadRows({.x = &x, .label = &y}, o);
  }
  std::size_t column = x.each() - 1;
  if (!o.array.label.empty()) {
    const std::string& text = o.array.label;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), column);
    if (error != std::errc() || stop != text.data() + text.size() || column >= x.each())
      return Fail(Code::kInvalidArgument, "data.label_column = '{}': {} has columns 0 to {}", text, x.name(),
                  x.each() - 1);
  }
  return ReadRows({.x = &x, .label_column = column}, o);
}

Result<Dataset> ReadNpz(const std::filesystem::path& file, const LoadOptions& o) {
  int error = 0;
  ZipFile zip(zip_open(file.c_str(), ZIP_RDONLY, &error), &zip_discard);
  if (!zip) return NotZip(file.string());
  return ReadArchive(std::move(zip), file.string(), o);
}

}  // namespace internal

Result<Dataset> ParseNpyRows(std::string_view x, std::string_view labels, const LoadOptions& options,
                             std::string name, std::string labels_name) {
  Input features(FromMemory(x), std::move(name)), y(FromMemory(labels), std::move(labels_name));
  return internal::ReadNpyRows(features, labels.empty() ? nullptr : &y, options);
}

Result<Dataset> ParseNpz(std::string_view bytes, const LoadOptions& options, std::string name) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* zip = source != nullptr ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr;
  zip_error_fini(&error);
  if (zip == nullptr) {
    zip_source_free(source);
    return internal::NotZip(name);
  }
  return internal::ReadArchive(internal::ZipFile(zip, &zip_discard), name, options);
}

}  // namespace tacit
