#pragma once

// From a file to a Dataset. Errors name the file, the line and the remedy, never the content of a
// row.
//
// Formats
//   LIBSVM  label index:value …   indices from 1, ascending; '#' starts a comment; sparse
//   CSV     RFC 4180: header or not, quoted fields, any one-byte separator; dense
//   IDX     big-endian arrays of bytes (the MNIST family): images N × …, labels N; dense, values 0 … 255
//   CIFAR   CIFAR-10's binary version: records of a label and 3 × 32 × 32 bytes; dense, values 0 … 255
//   NumPy   .npy: features N × … beside a file of N labels, or N × d with a column of labels;
//           .npz: arrays told by name; sides after the first are flattened in C order; dense
//
// Every value must be finite: an infinity or, but for NumPy, where it means missing, NaN is an error.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

enum class Format { kAuto, kLibsvm, kCsv, kIdx, kCifar, kNpy, kNpz };

// How the columns of a CSV become features, by public constants alone. A column keeps its place: one number,
// or one per category, then, if asked, a 1 where the value is missing (otherwise 0).
struct OneHot {
  std::string column = {};
  std::vector<std::string> categories = {};  // equal as text, or as numbers: 1 is 1.0
  bool other = false;                        // one more feature for whatever is none of them, or missing
};
struct ColumnFill {
  std::string column = {};
  double value = 0;
};
struct ColumnRange {
  std::string column = {};
  double lower = 0, upper = 0;
};

struct CsvLayout {
  bool header = false;
  std::vector<std::string> names = {};       // of the columns, where there is no header
  std::string label = {};                    // column name, or 0-based number; default: the last column
  std::string group = {};                    // column that names the client; empty: none
  std::vector<std::string> drop = {};        // columns left out
  char separator = ',';
  double missing = 0.0;                      // public constant that stands for an empty field or "?"
  std::string person = {};                   // column that names the person; empty: none
  std::vector<OneHot> one_hot = {};          // an unknown or missing category is all zeros, or `other`
  std::vector<ColumnFill> fill = {};  // columns with a constant of their own for what is missing
  std::vector<std::string> indicator = {};  // columns with a feature for being missing; "*": all numbers
  std::vector<ColumnRange> range = {};  // public ranges, for Preprocess

  bool encodes() const { return !(one_hot.empty() && fill.empty() && indicator.empty() && range.empty()); }
  // How many features so many columns of features become.
  std::size_t Features(std::size_t columns) const;
};

// NumPy: which array is what. label: a member of an .npz, or the 0-based column of an .npy without a file of
// labels (empty: the last).
struct ArrayLayout {
  std::string features = "x", label = {}, group = {}, person = {};
  double missing = 0.0;  // public constant that stands for NaN
};

struct LoadOptions {
  std::filesystem::path file = {};  // .gz, .bz2, .xz are unpacked on the way
  std::filesystem::path labels = {};  // IDX, .npy: the labels; IDX's default: images → labels in the name
  // Further files of the same layout. If there are any, each file (file first) is one group named
  // after it, and rows and skip must be 0. CIFAR: the files are one, without groups.
  std::vector<std::filesystem::path> more = {};
  Format format = Format::kAuto;
  // 0: as many as the file shows. That number then depends on the rows: where they are private, give it.
  // CSV: after encoding.
  std::size_t features = 0;
  std::size_t rows = 0;  // 0: all; otherwise exactly so many, the first ones
  std::size_t skip = 0;  // rows passed over before the first one
  CsvLayout csv = {};
  ArrayLayout array = {};
  // If set, rows are handed on in batches of `batch` rows (the last one may be shorter) and none are kept:
  // Load returns a Dataset without rows. LIBSVM then needs `features`, and there may be one file only.
  std::function<Status(Dataset&&)> sink = {};
  std::size_t batch = 4096;
};

// Text without a name that says more is CSV if its first line has the separator and no colon.
Result<Dataset> Load(const LoadOptions&);

// The same from memory, unpacked text; name stands for the file in messages. Total on any bytes.
// Of the options only features, rows, skip, csv, array, sink and batch are used.
Result<Dataset> ParseLibsvm(std::string_view text, const LoadOptions& options = {},
                            std::string name = "text");
Result<Dataset> ParseCsv(std::string_view text, const LoadOptions& options = {}, std::string name = "text");
Result<Dataset> ParseIdx(std::string_view images, std::string_view labels, const LoadOptions& options = {},
                         std::string name = "images", std::string labels_name = "labels");
Result<Dataset> ParseCifar(std::string_view bytes, const LoadOptions& options = {},
                           std::string name = "images");
// labels may be empty: then a column of x is the label.
Result<Dataset> ParseNpyRows(std::string_view x, std::string_view labels, const LoadOptions& options = {},
                             std::string name = "x.npy", std::string labels_name = "y.npy");
Result<Dataset> ParseNpz(std::string_view bytes, const LoadOptions& options = {},
                         std::string name = "arrays.npz");

}  // namespace tacit
