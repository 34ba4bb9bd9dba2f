#pragma once

// From a file to a Dataset. Errors name the file, the line and the remedy, never the content of a
// row.
//
// Formats
//   LIBSVM  label index:value …   indices from 1, ascending; '#' starts a comment; sparse
//   CSV     RFC 4180: header or not, quoted fields, any one-byte separator; dense
//   IDX     big-endian arrays of bytes (the MNIST family): images N × …, labels N; dense, values 0 … 255
//
// Every value must be finite: NaN or an infinity in a file is an error.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

enum class Format { kAuto, kLibsvm, kCsv, kIdx };

struct CsvLayout {
  bool header = false;
  std::string label = {};                    // column name, or 0-based number; default: the last column
  std::string group = {};                    // column that names the client; empty: none
  std::vector<std::string> drop = {};        // columns left out
  char separator = ',';
  double missing = 0.0;                      // public constant that stands for an empty field or "?"
};

struct LoadOptions {
  std::filesystem::path file = {};           // .gz, .bz2, .xz are unpacked on the way
  std::filesystem::path labels = {};         // IDX: the label file; default: images → labels in the name
  // Further files of the same layout. If there are any, each file (file first) is one group named
  // after it, and rows and skip must be 0.
  std::vector<std::filesystem::path> more = {};
  Format format = Format::kAuto;
  // 0: as many as the file shows. That number then depends on the rows: where they are private, give it.
  std::size_t features = 0;
  std::size_t rows = 0;                      // 0: all; otherwise exactly so many, the first ones
  std::size_t skip = 0;                      // rows passed over before the first one
  CsvLayout csv = {};
};

// Text without a name that says more is CSV if its first line has the separator and no colon.
Result<Dataset> Load(const LoadOptions&);

// The same from memory, unpacked text; name stands for the file in messages. Total on any bytes.
// Of the options only features, rows, skip and csv are used.
Result<Dataset> ParseLibsvm(std::string_view text, const LoadOptions& options = {},
                            std::string name = "text");
Result<Dataset> ParseCsv(std::string_view text, const LoadOptions& options = {}, std::string name = "text");
Result<Dataset> ParseIdx(std::string_view images, std::string_view labels, const LoadOptions& options = {},
                         std::string name = "images", std::string labels_name = "labels");

}  // namespace tacit
