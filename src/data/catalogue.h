#pragma once

// Data sets that are known by name: public facts about them, where their files lie, and how to fetch
// them. Files are looked for under the directory in the environment variable TACIT_DATA, and
// Fashion-MNIST also where Debian's package dataset-fashion-mnist puts it. A file may lie there plain or
// packed (.gz, .bz2, .xz).
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "data/load.h"
#include "data/preprocess.h"

namespace tacit {

enum class Part { kTrain, kTest };
enum class Task { kBinary, kMulticlass, kRegression };

struct KnownFile {
  std::string path = {};               // relative to TACIT_DATA
  std::uint64_t bytes = 0;             // unpacked
  std::string sha256 = {};             // of the unpacked content, lower-case hex
  std::vector<std::string> urls = {};  // upstream addresses of this file, packed or not, tried in order
};

struct KnownSet {
  std::string name = {};
  Task task = Task::kBinary;
  Format format = Format::kLibsvm;
  std::size_t features = 0;
  std::size_t classes = 2;             // as the file spells them
  std::size_t rows = 0, test_rows = 0; // test_rows = 0: no test part
  double positive = 1.0;               // binary: the label that becomes +1
  std::vector<std::string> columns = {};  // CSV: their names, the label last
  double scale = 1.0;                  // public factor usual for this set: 1/255 for pixels
  // IDX: images, labels. CIFAR: parts of one set. Otherwise one file, or several that are one client each.
  std::vector<KnownFile> train = {}, test = {};
  std::string citation = {};
  std::string licence = {};
  std::string note = {};
};

const std::vector<KnownSet>& Catalogue();               // sorted by name
const KnownSet* FindSet(std::string_view name);         // nullptr: unknown

// The file with this path under TACIT_DATA, or the same packed otherwise.
Result<std::filesystem::path> FindData(std::string_view relative);

// Where and how to load a part, with the public number of features. A file that is missing is an error
// that says where it was looked for and what to do.
Result<LoadOptions> LoadOptionsFor(const KnownSet&, Part);

// The labels, classes and scale of the set; row norm and intercept are the caller's.
PreprocessOptions PreprocessOptionsFor(const KnownSet&);

// Called now and then with the bytes done and expected of a file (0: unknown); false stops the fetch.
using FetchProgress = std::function<bool(std::string_view file, std::uint64_t done, std::uint64_t expected)>;

struct FetchOptions {
  bool file_urls = false;              // also file://, for tests
};

// Downloads what is missing of the set into dir, over https only. A file is moved into place in one
// step after the checksum of its content has been verified; one that fails leaves nothing behind.
// Returns a sentence that says what was done.
Result<std::string> Fetch(const KnownSet&, const std::filesystem::path& dir,
                          const FetchProgress& progress = {}, const FetchOptions& options = {});

// SHA-256 of the unpacked content of a file, and its length; stops with an error past most_bytes.
struct ContentHash {
  std::string sha256;
  std::uint64_t bytes = 0;
};
Result<ContentHash> HashContent(const std::filesystem::path& file, std::uint64_t most_bytes);

}  // namespace tacit
