#include <algorithm>

#include "data/parse.h"

namespace tacit {
namespace internal {
namespace {

constexpr std::size_t kMostPixels = std::size_t{1} << 24;     // per image; more is taken for damage
constexpr std::size_t kStep = std::size_t{1} << 12;  // of an image is read at first

struct Shape {
  std::size_t count = 0;      // first dimension
  std::size_t each = 1;       // product of the others
};

Result<std::uint32_t> BigEndian(Input& in) {
  char b[4];
  TACIT_TRY(const std::size_t n, in.Read(b));
  if (n != 4)
    return Fail(Code::kMalformed, "{}: ends within its IDX header; fetch the file again", in.name());
  std::uint32_t v = 0;
  for (const char c : b) v = v << 8 | static_cast<unsigned char>(c);
  return v;
}

// Magic: 0, 0, element type, number of dimensions; then the dimensions.
Result<Shape> Header(Input& in, bool labels) {
  TACIT_TRY(const std::uint32_t magic, BigEndian(in));
  if (magic >> 16 != 0)
    return Fail(Code::kMalformed, "{}: does not start with an IDX magic number; check that it is an IDX file",
                in.name());
  const std::uint32_t type = magic >> 8 & 0xff, dimensions = magic & 0xff;
  if (type != 0x08)
    return Fail(Code::kUnsupported, "{}: IDX element type 0x{:02x}; only unsigned bytes (0x08) are read",
                in.name(), type);
  if (labels ? dimensions != 1 : dimensions < 2)
    return Fail(Code::kMalformed,
                "{}: has {} dimension(s), and {} expected; check that images and labels are not swapped",
                in.name(), dimensions, labels ? "labels have 1" : "images have 2 or more");
  Shape s;
  for (std::uint32_t k = 0; k < dimensions; ++k) {
    TACIT_TRY(const std::size_t size, BigEndian(in));
    if (k == 0) {
      s.count = size;
    } else {
      if (size == 0 || size > kMostPixels / s.each)
        return Fail(Code::kMalformed,
                    "{}: the IDX header states no features, or more than {}; fetch the file again", in.name(),
                    kMostPixels);
      s.each *= size;
    }
  }
  return s;
}

// Every byte of the count announced must be there, and nothing more.
Error Truncated(const Input& in, std::size_t row, std::size_t count) {
  return Fail(Code::kMalformed, "{}: ends within item {} of the {} its header states; fetch the file again",
              in.name(), row + 1, count);
}

Status AtEnd(Input& in, std::size_t count) {
  char extra;
  TACIT_TRY(const std::size_t n, in.Read(std::span(&extra, 1)));
  if (n != 0)
    return Fail(Code::kMalformed, "{}: goes on after the {} items its header states; fetch the file again",
                in.name(), count);
  return Ok{};
}

}  // namespace

Result<Dataset> ReadIdx(Input& images, Input& labels, const LoadOptions& o) {
  TACIT_TRY(const Shape x, Header(images, false));
  TACIT_TRY(const Shape y, Header(labels, true));
  if (x.count != y.count)
    return Fail(Code::kMalformed, "{} has {} images and {} has {} labels; use the two files of the same part",
                images.name(), x.count, labels.name(), y.count);
  if (o.features != 0 && o.features != x.each)
    return Fail(Code::kInvalidArgument,
                "data.features = {}: {} has {} features; correct data.features or leave it out", o.features,
                images.name(), x.each);
  const std::size_t first = std::min(o.skip, x.count);
  const std::size_t rows = o.rows == 0 ? x.count - first : std::min(o.rows, x.count - first);
  TACIT_OK(CheckCount(o, images.name(), x.count, rows));

  Dataset data;
  Batches batches(o);
  data.features = x.each;
  // Both grow with what is really there: a damaged header must not claim the memory.
  std::vector<char> row(std::min(x.each, kStep));
  const std::size_t total = rows * x.each;
  for (std::size_t i = 0; i < first + rows; ++i) {
    for (std::size_t got = 0; got < x.each;) {
      if (got == row.size()) row.resize(std::min(x.each, 2 * got));
      TACIT_TRY(const std::size_t n, images.Read(std::span(row).subspan(got)));
      got += n;
      if (got != row.size()) return Truncated(images, i, x.count);
    }
    char label;
    TACIT_TRY(const std::size_t m, labels.Read(std::span(&label, 1)));
    if (m != 1) return Truncated(labels, i, y.count);
    if (i < first) continue;
    const std::size_t at = data.value.size();
    if (!o.sink && at + row.size() > data.value.capacity())
      data.value.reserve(std::min(total, 4 * (at + row.size())));
    data.value.resize(at + row.size());
    for (std::size_t j = 0; j < row.size(); ++j) data.value[at + j] = static_cast<unsigned char>(row[j]);
    data.label.push_back(static_cast<unsigned char>(label));
    TACIT_OK(batches.Kept(data));
  }
  TACIT_OK(batches.Finish(data));
  if (first + rows == x.count) {
    TACIT_OK(AtEnd(images, x.count));
    TACIT_OK(AtEnd(labels, y.count));
  }
  return data;
}

}  // namespace internal

Result<Dataset> ParseIdx(std::string_view images, std::string_view labels, const LoadOptions& options,
                         std::string name, std::string labels_name) {
  Input x(FromMemory(images), std::move(name)), y(FromMemory(labels), std::move(labels_name));
  return internal::ReadIdx(x, y, options);
}

}  // namespace tacit
