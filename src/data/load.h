#pragma once

// From a file to a Dataset. Errors name the file, the line and the remedy, never the content of a
// row.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

enum class Format { kAuto, kLibsvm, kCsv, kIdx };

struct CsvLayout {
  bool header = false;
  std::string label;                         // column name, or 0-based number; default: the last column
  std::string group;                         // column that names the client; empty: none
  std::vector<std::string> drop;             // columns left out
  char separator = ',';
  double missing = 0.0;                      // public constant that stands for an empty field or "?"
};

struct LoadOptions {
  std::filesystem::path file;                // .gz, .bz2, .xz are unpacked on the way
  std::filesystem::path labels;              // IDX: the label file; default: images → labels in the name
  Format format = Format::kAuto;
  std::size_t features = 0;                  // 0: as many as the file shows
  std::size_t rows = 0;                      // 0: all; otherwise the first rows
  std::size_t skip = 0;                      // rows passed over before the first one
  CsvLayout csv;
};

Result<Dataset> Load(const LoadOptions&);

}  // namespace tacit
