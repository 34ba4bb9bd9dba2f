#pragma once

// Bytes on their way from a file to a parser, unpacked as they flow.
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tacit {

// Read fills at most out.size() bytes and returns how many; 0 means the end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual Result<std::size_t> Read(std::span<char> out) = 0;
};

std::unique_ptr<ByteSource> FromMemory(std::string_view bytes);      // bytes must outlive the source
Result<std::unique_ptr<ByteSource>> FromFile(const std::filesystem::path& file);

// gzip, bzip2 or xz, told by the first bytes and not by the name; anything else passes unchanged.
// Concatenated streams are one stream. name is for messages.
Result<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> packed, std::string name);

// The content of these files, each unpacked, one after the other. A file is opened when it is reached.
std::unique_ptr<ByteSource> FromFiles(std::vector<std::filesystem::path> files);

// The suffix (".gz", ".bz2", ".xz" or "") that belongs to a file with these first bytes.
std::string_view SuffixOf(std::string_view first_bytes);

// A source read by lines or by blocks.
class Input {
 public:
  Input(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  // The next n bytes (fewer at the end) without consuming them; valid until the next call.
  Result<std::string_view> Peek(std::size_t n);
  // The next line without its end (\n or \r\n); false at the end. Valid until the next call.
  Result<bool> Line(std::string_view& line);
  std::size_t line_number() const { return line_number_; }           // of the line just read, from 1
  // Reads exactly out.size() bytes unless the end comes first; returns how many.
  Result<std::size_t> Read(std::span<char> out);

 private:
  Result<bool> More();                    // appends to the buffer; false at the end
  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::string buffer_;
  std::size_t at_ = 0;                    // consumed so far
  std::size_t step_ = 4096;               // to read at once, next
  std::size_t line_number_ = 0;
  bool end_ = false;
};

// Opens and unpacks.
Result<Input> OpenInput(const std::filesystem::path& file);

}  // namespace tacit
