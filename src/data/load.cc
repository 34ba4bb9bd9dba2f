#include "data/load.h"

#include <algorithm>
#include <new>

#include "data/parse.h"

namespace tacit {
namespace {

// The file name without .gz, .bz2 or .xz.
std::string BareName(const std::filesystem::path& file) {
  const auto suffix = file.extension();
  return suffix == ".gz" || suffix == ".bz2" || suffix == ".xz" ? file.stem().string()
                                                                : file.filename().string();
}

Result<Format> Detect(Input& input, const LoadOptions& o) {
  using namespace std::string_view_literals;
  if (o.format != Format::kAuto) return o.format;
  TACIT_TRY(const std::string_view head, input.Peek(1 << 12));
  const std::string name = BareName(o.file);
  if (head.starts_with("\x93NUMPY"sv)) return Format::kNpy;
  if (head.starts_with("PK"sv) && name.ends_with(".npz")) return Format::kNpz;
  if (name.ends_with(".bin")) return Format::kCifar;
  if (head.starts_with("\0\0"sv) && head.size() >= 4) return Format::kIdx;
  if (name.ends_with(".csv") || name.ends_with(".tsv")) return Format::kCsv;
  if (name.ends_with(".svm") || name.ends_with(".libsvm") || name.ends_with(".svmlight"))
    return Format::kLibsvm;
  std::string_view rest = head;
  while (!rest.empty()) {
    const std::size_t stop = std::min(rest.find('\n'), rest.size());
    const std::string_view line = internal::Trim(rest.substr(0, stop));
    if (!line.empty() && line.front() != '#')
      return line.find(':') == line.npos && line.find(o.csv.separator) != line.npos ? Format::kCsv
                                                                                    : Format::kLibsvm;
    rest.remove_prefix(std::min(stop + 1, rest.size()));
  }
  return Format::kLibsvm;
}

// train-images-idx3-ubyte.gz → train-labels-idx1-ubyte.gz
std::filesystem::path LabelsBeside(const std::filesystem::path& images) {
  std::string name = images.filename().string();
  const auto replace = [&](std::string_view from, std::string_view to) {
    if (const std::size_t at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
  };
  replace("images", "labels");
  replace("idx3", "idx1");
  return images.parent_path() / name;
}

Result<Dataset> LoadOne(const LoadOptions& o) {
  if (o.format == Format::kCifar && !o.more.empty()) {      // records without a head: the files are one
    std::vector<std::filesystem::path> files = {o.file};
    files.insert(files.end(), o.more.begin(), o.more.end());
    Input all(FromFiles(std::move(files)), o.file.string());
    return internal::ReadCifar(all, o);
  }
  TACIT_TRY(Input input, OpenInput(o.file));
  TACIT_TRY(const Format format, Detect(input, o));
  if (format != Format::kCsv && (o.csv.encodes() || !o.csv.names.empty()))
    return Fail(Code::kUnsupported,
                "{}: data.one_hot, fill, missing_indicator, bounds and columns are about columns of a CSV; "
                "leave them out, or set data.format = \"csv\"",
                o.file.string());
  if (format == Format::kLibsvm || format == Format::kIdx || format == Format::kCifar)
    if (!o.csv.person.empty())
      return Fail(Code::kUnsupported, "data.person_column = '{}': {} has no columns; use CSV or .npz",
                  o.csv.person, o.file.string());
  switch (format) {
    case Format::kAuto:
    case Format::kLibsvm: return internal::ReadLibsvm(input, o);
    case Format::kCsv: {
      if (!BareName(o.file).ends_with(".tsv") || o.csv.separator != ',') return internal::ReadCsv(input, o);
      LoadOptions tabs = o;
      tabs.csv.separator = '\t';
      return internal::ReadCsv(input, tabs);
    }
    case Format::kCifar: return internal::ReadCifar(input, o);
    case Format::kNpz: return internal::ReadNpz(o.file, o);
    case Format::kNpy: {
      if (o.labels.empty()) return internal::ReadNpyRows(input, nullptr, o);
      TACIT_TRY(Input labels, OpenInput(o.labels));
      return internal::ReadNpyRows(input, &labels, o);
    }
    case Format::kIdx: break;
  }
  const std::filesystem::path beside = o.labels.empty() ? LabelsBeside(o.file) : o.labels;
  if (beside == o.file)
    return Fail(Code::kInvalidArgument,
                "{}: an IDX file of images needs its labels; name them with data.labels_file",
                o.file.string());
  TACIT_TRY(Input labels, OpenInput(beside));
  return internal::ReadIdx(input, labels, o);
}

Status Append(const Dataset& from, Dataset& to) {
  if (from.sparse() != to.sparse() || (!from.sparse() && from.features != to.features))
    return Fail(Code::kMalformed,
                "{} has {} features and {} has {}; files loaded together must have one layout", from.name,
                from.features, to.name, to.features);
  const std::uint64_t offset = to.value.size();
  to.features = std::max(to.features, from.features);
  to.value.insert(to.value.end(), from.value.begin(), from.value.end());
  to.column.insert(to.column.end(), from.column.begin(), from.column.end());
  for (std::size_t i = 1; i < from.row_begin.size(); ++i) to.row_begin.push_back(offset + from.row_begin[i]);
  to.label.insert(to.label.end(), from.label.begin(), from.label.end());
  return Ok{};
}

Result<Dataset> LoadAll(const LoadOptions& o) {
  TACIT_TRY(Dataset data, LoadOne(o));
  data.name = BareName(o.file);
  if (o.more.empty() || o.format == Format::kCifar) return data;
  if (o.sink)
    return Fail(Code::kUnsupported,
                "{}: several files are kept in memory; set data.store = \"memory\", or join them",
                o.file.string());
  if (o.rows != 0 || o.skip != 0 || !o.csv.group.empty() || !o.csv.person.empty())
    return Fail(Code::kInvalidArgument,
                "data.rows, data.skip, data.group_column and data.person_column cannot be combined with "
                "several files; leave them out");
  data.group_name = {data.name};
  for (const auto& file : o.more) {
    LoadOptions one = o;
    one.file = file;
    one.labels.clear();
    TACIT_TRY(Dataset next, LoadOne(one));
    next.name = BareName(file);
    data.group.resize(data.rows(), static_cast<std::uint32_t>(data.group_name.size() - 1));
    data.group_name.push_back(next.name);
    TACIT_OK(Append(next, data));
  }
  data.group.resize(data.rows(), static_cast<std::uint32_t>(data.group_name.size() - 1));
  return data;
}

}  // namespace

Result<Dataset> Load(const LoadOptions& o) {
  if (o.file.empty())
    return Fail(Code::kInvalidArgument,
                "no data file is named; set data.source to a file or the name of a data set");
  if (o.features > internal::kMostFeatures)
    return Fail(Code::kInvalidArgument, "data.features = {}: at most {}", o.features,
                internal::kMostFeatures);
  try {
    return LoadAll(o);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kIo, "{}: does not fit in memory; load fewer with data.rows", o.file.string());
  }
}

}  // namespace tacit
