#include "data/bytes.h"

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace tacit {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 17;
// A line longer than this is no data set of ours; without a limit a packed file of zeros would fill the
// memory.
constexpr std::size_t kLongestLine = std::size_t{1} << 28;

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  Result<std::size_t> Read(std::span<char> out) override {
    const std::size_t n = std::min(out.size(), bytes_.size());
    std::copy_n(bytes_.data(), n, out.data());
    bytes_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view bytes_;
};

class FileSource final : public ByteSource {
 public:
  FileSource(std::FILE* file, std::string name) : file_(file, &std::fclose), name_(std::move(name)) {}
  Result<std::size_t> Read(std::span<char> out) override {
    const std::size_t n = std::fread(out.data(), 1, out.size(), file_.get());
    if (n == 0 && std::ferror(file_.get()))
      return Fail(Code::kIo, "{}: cannot be read ({}); check the disk and that it is a file", name_,
                  std::strerror(errno));
    return n;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::string name_;
};

// The common half of the three decompressors: a block of packed bytes, refilled when used up.
class PackedSource : public ByteSource {
 public:
  PackedSource(std::unique_ptr<ByteSource> packed, std::string name, const char* kind)
      : packed_(std::move(packed)), name_(std::move(name)), kind_(kind), block_(kBlock) {}

  Result<std::size_t> Read(std::span<char> out) final {
    std::size_t done = 0;
    while (done == 0 && !finished_ && !out.empty()) {
      if (next_ == size_ && !end_) {
        TACIT_TRY(size_, packed_->Read(block_));
        next_ = 0;
        end_ = size_ == 0;
      }
      const std::size_t before = next_;
      TACIT_TRY(done, Decode(out));
      if (end_ && done == 0 && next_ == before && !finished_)
        return Fail(Code::kMalformed, "{}: ends in the middle of its {} stream; fetch the file again", name_,
                    kind_);
    }
    return done;
  }

 protected:
  // Consumes from [next_, size_) of block_, writes to out, sets finished_ after the last stream.
  virtual Result<std::size_t> Decode(std::span<char> out) = 0;
  Error Broken() const {
    return Fail(Code::kMalformed, "{}: the {} stream is damaged; fetch the file again", name_, kind_);
  }
  Error NoMemory() const { return Fail(Code::kIo, "{}: not enough memory to unpack it", name_); }

  std::unique_ptr<ByteSource> packed_;
  std::string name_;
  const char* kind_;
  std::vector<char> block_;
  std::size_t next_ = 0, size_ = 0;
  bool end_ = false, finished_ = false;
};

class GzipSource final : public PackedSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> packed, std::string name)
      : PackedSource(std::move(packed), std::move(name), "gzip") {}
  ~GzipSource() override {
    if (open_) inflateEnd(&z_);
  }

 private:
  Result<std::size_t> Decode(std::span<char> out) override {
    if (!open_) {
      if (inflateInit2(&z_, 15 + 16) != Z_OK) return NoMemory();
      open_ = true;
    }
    if (between_) {                      // another member may follow
      if (end_) {
        finished_ = true;
        return std::size_t{0};
      }
      if (inflateReset(&z_) != Z_OK) return Broken();
      between_ = false;
    }
    z_.next_in = reinterpret_cast<Bytef*>(block_.data() + next_);
    z_.avail_in = static_cast<uInt>(size_ - next_);
    z_.next_out = reinterpret_cast<Bytef*>(out.data());
    const uInt room = static_cast<uInt>(std::min(out.size(), kBlock));
    z_.avail_out = room;
    const int code = inflate(&z_, Z_NO_FLUSH);
    next_ = size_ - z_.avail_in;
    if (code == Z_STREAM_END)
      between_ = true;
    else if (code == Z_MEM_ERROR)
      return NoMemory();
    else if (code != Z_OK && code != Z_BUF_ERROR)
      return Broken();
    return static_cast<std::size_t>(room - z_.avail_out);
  }
  z_stream z_{};
  bool open_ = false, between_ = false;
};

class Bzip2Source final : public PackedSource {
 public:
  Bzip2Source(std::unique_ptr<ByteSource> packed, std::string name)
      : PackedSource(std::move(packed), std::move(name), "bzip2") {}
  ~Bzip2Source() override {
    if (open_) BZ2_bzDecompressEnd(&z_);
  }

 private:
  Result<std::size_t> Decode(std::span<char> out) override {
    if (!open_) {
      if (started_ && end_) {
        finished_ = true;
        return std::size_t{0};
      }
      z_ = {};
      if (BZ2_bzDecompressInit(&z_, 0, 0) != BZ_OK) return NoMemory();
      open_ = started_ = true;
    }
    z_.next_in = block_.data() + next_;
    z_.avail_in = static_cast<unsigned>(size_ - next_);
    z_.next_out = out.data();
    const unsigned room = static_cast<unsigned>(std::min(out.size(), kBlock));
    z_.avail_out = room;
    const int code = BZ2_bzDecompress(&z_);
    next_ = size_ - z_.avail_in;
    const std::size_t done = room - z_.avail_out;
    if (code == BZ_STREAM_END) {
      BZ2_bzDecompressEnd(&z_);
      open_ = false;
    } else if (code == BZ_MEM_ERROR) {
      return NoMemory();
    } else if (code != BZ_OK) {
      return Broken();
    }
    return done;
  }
  bz_stream z_{};
  bool open_ = false, started_ = false;
};

class XzSource final : public PackedSource {
 public:
  XzSource(std::unique_ptr<ByteSource> packed, std::string name)
      : PackedSource(std::move(packed), std::move(name), "xz") {}
  ~XzSource() override { lzma_end(&z_); }

 private:
  Result<std::size_t> Decode(std::span<char> out) override {
    if (!open_) {
      constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;       // xz -9 needs 65 MiB
      if (lzma_stream_decoder(&z_, kMemory, LZMA_CONCATENATED) != LZMA_OK) return NoMemory();
      open_ = true;
    }
    z_.next_in = reinterpret_cast<const std::uint8_t*>(block_.data() + next_);
    z_.avail_in = size_ - next_;
    z_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    z_.avail_out = out.size();
    const lzma_ret code = lzma_code(&z_, end_ ? LZMA_FINISH : LZMA_RUN);
    next_ = size_ - z_.avail_in;
    if (code == LZMA_STREAM_END)
      finished_ = true;
    else if (code == LZMA_MEM_ERROR || code == LZMA_MEMLIMIT_ERROR)
      return NoMemory();
    else if (code != LZMA_OK && code != LZMA_BUF_ERROR)
      return Broken();
    return out.size() - z_.avail_out;
  }
  lzma_stream z_ = LZMA_STREAM_INIT;
  bool open_ = false;
};

// What was peeked at to find the kind, then the rest.
class PrefixedSource final : public ByteSource {
 public:
  PrefixedSource(std::string prefix, std::unique_ptr<ByteSource> rest)
      : prefix_(std::move(prefix)), rest_(std::move(rest)) {}
  Result<std::size_t> Read(std::span<char> out) override {
    if (at_ == prefix_.size()) return rest_->Read(out);
    const std::size_t n = std::min(out.size(), prefix_.size() - at_);
    std::copy_n(prefix_.data() + at_, n, out.data());
    at_ += n;
    return n;
  }

 private:
  std::string prefix_;
  std::size_t at_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

class JoinedSource final : public ByteSource {
 public:
  explicit JoinedSource(std::vector<std::filesystem::path> files) : files_(std::move(files)) {}
  Result<std::size_t> Read(std::span<char> out) override {
    while (!out.empty()) {
      if (!open_) {
        if (next_ == files_.size()) break;
        TACIT_TRY(auto raw, FromFile(files_[next_]));
        TACIT_TRY(open_, Unpacked(std::move(raw), files_[next_].string()));
        ++next_;
      }
      TACIT_TRY(const std::size_t n, open_->Read(out));
      if (n != 0) return n;
      open_.reset();
    }
    return std::size_t{0};
  }

 private:
  std::vector<std::filesystem::path> files_;
  std::unique_ptr<ByteSource> open_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> FromFiles(std::vector<std::filesystem::path> files) {
  return std::make_unique<JoinedSource>(std::move(files));
}

std::unique_ptr<ByteSource> FromMemory(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

Result<std::unique_ptr<ByteSource>> FromFile(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    return Fail(Code::kInvalidArgument, "{}: is a directory; name a file in it", file.string());
  std::FILE* f = std::fopen(file.c_str(), "rb");
  if (f == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR)
      return Fail(Code::kNotFound, "{}: there is no such file; check the path", file.string());
    return Fail(Code::kIo, "{}: cannot be opened ({})", file.string(), std::strerror(errno));
  }
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(f, file.string()));
}

std::string_view SuffixOf(std::string_view b) {
  using namespace std::string_view_literals;
  if (b.starts_with("\x1f\x8b"sv)) return ".gz";
  if (b.size() >= 10 && b.starts_with("BZh"sv) && b[3] >= '1' && b[3] <= '9' &&
      (b.substr(4, 6) == "\x31\x41\x59\x26\x53\x59"sv || b.substr(4, 6) == "\x17\x72\x45\x38\x50\x90"sv))
    return ".bz2";
  if (b.starts_with("\xfd\x37\x7a\x58\x5a\x00"sv)) return ".xz";
  return "";
}

Result<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> packed, std::string name) {
  constexpr std::size_t kMagic = 10;
  std::string first(kMagic, '\0');
  std::size_t have = 0;
  while (have < kMagic) {
    TACIT_TRY(const std::size_t n, packed->Read(std::span(first).subspan(have)));
    if (n == 0) break;
    have += n;
  }
  first.resize(have);
  const std::string_view suffix = SuffixOf(first);
  std::unique_ptr<ByteSource> whole = std::make_unique<PrefixedSource>(std::move(first), std::move(packed));
  if (suffix == ".gz")
    whole = std::make_unique<GzipSource>(std::move(whole), std::move(name));
  else if (suffix == ".bz2")
    whole = std::make_unique<Bzip2Source>(std::move(whole), std::move(name));
  else if (suffix == ".xz")
    whole = std::make_unique<XzSource>(std::move(whole), std::move(name));
  return whole;
}

Result<bool> Input::More() {
  if (end_) return false;
  if (at_ > 0) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  const std::size_t old = buffer_.size();
  buffer_.resize(old + step_);      // small files need little, and long ones soon read whole blocks
  step_ = std::min(2 * step_, kBlock);
  auto n = source_->Read(std::span(buffer_).subspan(old));
  buffer_.resize(old + (n.ok() ? *n : 0));
  if (!n.ok()) return n.error();
  end_ = *n == 0;
  return !end_;
}

Result<std::string_view> Input::Peek(std::size_t n) {
  while (buffer_.size() - at_ < n) {
    TACIT_TRY(const bool more, More());
    if (!more) break;
  }
  return std::string_view(buffer_).substr(at_, n);
}

Result<bool> Input::Line(std::string_view& line) {
  std::size_t searched = 0;
  for (;;) {
    const std::size_t stop = buffer_.find('\n', at_ + searched);
    if (stop != std::string::npos) {
      line = std::string_view(buffer_).substr(at_, stop - at_);
      at_ = stop + 1;
      break;
    }
    searched = buffer_.size() - at_;
    if (searched > kLongestLine)
      return Fail(Code::kMalformed, "{}: line {}: longer than {} bytes; is this a text file?", name_,
                  line_number_ + 1, kLongestLine);
    TACIT_TRY(const bool more, More());
    if (more) continue;
    if (searched == 0) return false;
    line = std::string_view(buffer_).substr(at_);      // the last line has no end
    at_ = buffer_.size();
    break;
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line_number_++ == 0 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);   // byte order mark
  return true;
}

Result<std::size_t> Input::Read(std::span<char> out) {
  std::size_t done = std::min(out.size(), buffer_.size() - at_);
  std::copy_n(buffer_.data() + at_, done, out.data());
  at_ += done;
  while (done < out.size()) {
    TACIT_TRY(const std::size_t n, source_->Read(out.subspan(done)));
    if (n == 0) break;
    done += n;
  }
  return done;
}

Result<Input> OpenInput(const std::filesystem::path& file) {
  TACIT_TRY(auto raw, FromFile(file));
  TACIT_TRY(auto unpacked, Unpacked(std::move(raw), file.string()));
  return Input(std::move(unpacked), file.string());
}

}  // namespace tacit
