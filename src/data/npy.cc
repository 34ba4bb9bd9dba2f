#include "data/npy.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

namespace tacit {
namespace {

static_assert(std::endian::native == std::endian::little, "the payload is written as it lies in memory");

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr std::size_t kAlign = 64;                  // NumPy aligns the payload so that it can be mapped

// The header is a Python dict literal; this reads the one shape NumPy writes, keys in any order.
class Header {
 public:
  explicit Header(std::string_view text) : rest_(text) {}

  bool Read(std::string& descr, bool& fortran, std::vector<std::size_t>& shape) {
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Take("{")) return false;
    while (!Take("}")) {
      std::string key;
      if (!Quoted(key) || !Take(":")) return false;
      if (key == "descr" && !has_descr)
        has_descr = Quoted(descr);
      else if (key == "fortran_order" && !has_order)
        has_order = Flag(fortran);
      else if (key == "shape" && !has_shape)
        has_shape = Tuple(shape);
      else
        return false;
      if (!Take(",")) {
        if (!Take("}")) return false;
        break;
      }
    }
    Skip();
    return has_descr && has_order && has_shape && rest_.empty();
  }

 private:
  void Skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  bool Take(std::string_view word) {
    Skip();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool Quoted(std::string& out) {
    Skip();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return false;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return false;
    out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool Flag(bool& out) {
    if (Take("True")) return out = true, true;
    return Take("False") && (out = false, true);
  }
  bool Count(std::size_t& out) {
    Skip();
    std::size_t digits = 0;
    out = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      if (digits == 18) return false;
      out = out * 10 + static_cast<std::size_t>(rest_[digits] - '0');
    }
    rest_.remove_prefix(digits);
    return digits > 0;
  }
  bool Tuple(std::vector<std::size_t>& out) {
    if (!Take("(")) return false;
    while (!Take(")")) {
      std::size_t n = 0;
      if (!Count(n)) return false;
      out.push_back(n);
      if (!Take(",")) return Take(")");
    }
    return true;
  }

  std::string_view rest_;
};

// Number of entries, or nothing if it does not fit in memory.
std::optional<std::size_t> Entries(const std::vector<std::size_t>& shape) {
  std::size_t n = 1;
  for (std::size_t side : shape) {
    if (side != 0 && n > std::numeric_limits<std::size_t>::max() / sizeof(double) / side) return std::nullopt;
    n *= side;
  }
  return n;
}

Error NotNpy(const std::string& name, std::string_view what) {
  return Fail(Code::kMalformed,
              "{}: {}; a model is a NumPy .npy file, version 1.0, of little-endian doubles in C order", name,
              what);
}

Status WriteAll(int fd, const char* bytes, std::size_t size, const std::string& name) {
  while (size > 0) {
    const ssize_t n = ::write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Fail(Code::kIo, "{}: cannot be written: {}", name, std::strerror(errno));
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return Ok{};
}

// An IEEE half as a double, exactly.
double Half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}

template <class T> void Widen(std::string_view bytes, Span out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T v;
    std::memcpy(&v, bytes.data() + i * sizeof v, sizeof v);
    out[i] = static_cast<double>(v);
  }
}

}  // namespace

std::size_t NpyHeader::each() const {
  std::size_t n = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

Result<NpyHeader> ReadNpyHeader(Input& in) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  char start[8], length[4] = {};
  const auto cut = [&] {
    return Fail(Code::kMalformed, "{}: ends within its NumPy header; write or fetch the file again",
                in.name());
  };
  TACIT_TRY(const std::size_t n, in.Read(start));
  if (n != sizeof start || std::string_view(start, 6) != kMagic.substr(0, 6) || start[6] < 1 || start[6] > 3)
    return Fail(Code::kMalformed, "{}: is not a NumPy array of version 1, 2 or 3; write it with numpy.save",
                in.name());
  const std::size_t digits = start[6] == 1 ? 2 : 4;
  TACIT_TRY(const std::size_t m, in.Read(std::span(length, digits)));
  if (m != digits) return cut();
  std::size_t size = 0;
  for (std::size_t i = digits; i-- > 0;) size = size << 8 | static_cast<unsigned char>(length[i]);
  if (size > kLongest)
    return Fail(Code::kMalformed, "{}: has a NumPy header of {} bytes; is this an array of numbers?",
                in.name(), size);
  std::string text(size, '\0');
  TACIT_TRY(const std::size_t read, in.Read(text));
  if (read != size) return cut();
  NpyHeader h;
  std::string descr;
  if (!Header(text).Read(descr, h.fortran, h.shape))
    return Fail(Code::kMalformed, "{}: has a NumPy header that cannot be read; write it with numpy.save",
                in.name());
  const bool known = descr.size() == 3 && (descr[0] == '<' || (descr[0] == '|' && descr[2] == '1')) &&
                     std::string_view("fiub").find(descr[1]) != std::string_view::npos &&
                     std::string_view("1248").find(descr[2]) != std::string_view::npos;
  h.kind = known ? descr[1] : '?';
  h.size = known ? static_cast<std::size_t>(descr[2] - '0') : 0;
  if (!known || (h.kind == 'f' && h.size == 1) || (h.kind == 'b' && h.size != 1))
    return Fail(Code::kUnsupported,
                "{}: holds values of type \"{}\"; convert it to little-endian integers or floating point of "
                "8 to 64 bits",
                in.name(), descr.substr(0, 20));
  if (!Entries(h.shape))
    return Fail(Code::kMalformed, "{}: has a shape beyond any memory; is this the right file?", in.name());
  return h;
}

void DecodeNpy(const NpyHeader& h, std::string_view bytes, Span out) {
  TACIT_CHECK(bytes.size() == out.size() * h.size);
  if (h.kind == 'f') {
    if (h.size == 8) return Widen<double>(bytes, out);
    if (h.size == 4) return Widen<float>(bytes, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint16_t v;
      std::memcpy(&v, bytes.data() + 2 * i, sizeof v);
      out[i] = Half(v);
    }
    return;
  }
  const bool sign = h.kind == 'i';
  switch (h.size) {
    case 1: return sign ? Widen<std::int8_t>(bytes, out) : Widen<std::uint8_t>(bytes, out);
    case 2: return sign ? Widen<std::int16_t>(bytes, out) : Widen<std::uint16_t>(bytes, out);
    case 4: return sign ? Widen<std::int32_t>(bytes, out) : Widen<std::uint32_t>(bytes, out);
    default: return sign ? Widen<std::int64_t>(bytes, out) : Widen<std::uint64_t>(bytes, out);
  }
}

std::string NpyBytes(const std::vector<std::size_t>& shape, View values) {
  TACIT_CHECK(Entries(shape) == values.size());
  std::string sides;
  for (std::size_t side : shape) sides += fmt::format("{}{},", sides.empty() ? "" : " ", side);
  if (shape.size() > 1) sides.pop_back();
  std::string header = fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}), }}", sides);
  while ((kMagic.size() + 2 + header.size() + 1) % kAlign != 0) header += ' ';
  header += '\n';
  std::string bytes(kMagic);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  if (!values.empty()) bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

Status WriteNpy(const std::filesystem::path& file, const std::vector<std::size_t>& shape, View values) {
  const std::string bytes = NpyBytes(shape, values);
  // Written beside its place and renamed, so that a reader sees the whole file or none.
  const std::filesystem::path part = file.string() + ".part";
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Fail(Code::kIo, "{}: cannot be created: {}", part.string(), std::strerror(errno));
  Status written = WriteAll(fd, bytes.data(), bytes.size(), part.string());
  const bool synced = ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (written.ok() && !synced)
    written = Fail(Code::kIo, "{}: cannot be written: {}", part.string(), std::strerror(error));
  if (written.ok() && ::rename(part.c_str(), file.c_str()) != 0)
    written = Fail(Code::kIo, "{}: cannot be put in place: {}", file.string(), std::strerror(errno));
  if (!written.ok()) ::unlink(part.c_str());
  return written;
}

Result<NpyArray> ParseNpy(std::string_view bytes, const std::string& name) {
  if (bytes.size() < kMagic.size() + 2 || !bytes.starts_with(kMagic))
    return NotNpy(name, "does not start like one");
  const auto low = static_cast<unsigned char>(bytes[8]), high = static_cast<unsigned char>(bytes[9]);
  const std::size_t length = low + 256u * high;
  bytes.remove_prefix(kMagic.size() + 2);
  if (bytes.size() < length) return NotNpy(name, "ends within its header");
  std::string descr;
  bool fortran = false;
  NpyArray array;
  if (!Header(bytes.substr(0, length)).Read(descr, fortran, array.shape))
    return NotNpy(name, "has a header that cannot be read");
  bytes.remove_prefix(length);
  if (descr != "<f8") return NotNpy(name, fmt::format("holds values of type \"{}\"", descr.substr(0, 20)));
  if (fortran && array.shape.size() > 1) return NotNpy(name, "is in Fortran order");
  const auto entries = Entries(array.shape);
  if (!entries || bytes.size() != *entries * sizeof(double))
    return NotNpy(name,
                  fmt::format("holds {} bytes of values, which is not what its shape says", bytes.size()));
  array.values.resize(*entries);
  if (!bytes.empty()) std::memcpy(array.values.data(), bytes.data(), bytes.size());
  return array;
}

Result<NpyArray> ReadNpy(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file, ignored))
    return Fail(Code::kNotFound, "{}: cannot be read; give the folder of a finished run", file.string());
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return ParseNpy(bytes, file.string());
}

}  // namespace tacit
