#pragma once

// Shared by the parsers of this folder; not an interface of it.
#include <string_view>

#include "core/result.h"
#include "data/bytes.h"
#include "data/dataset.h"
#include "data/load.h"

namespace tacit::internal {

// Above this a feature number is taken for damage: the model would not fit in memory.
inline constexpr std::uint64_t kMostFeatures = std::uint64_t{1} << 30;

enum class Number { kOk, kNotANumber, kNotFinite };

// The whole of text as a decimal number; one leading '+' is allowed. Independent of the locale;
// too small becomes 0 or subnormal, too large is kNotFinite.
Number ParseReal(std::string_view text, double& out);

inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }
std::string_view Trim(std::string_view);

// Fails if the file ended before options.rows rows, or had none. seen counts all rows passed.
Status CheckCount(const LoadOptions&, const std::string& name, std::size_t seen, std::size_t kept);

// Counts the rows a reader keeps, and hands them on in batches where the options ask for it.
class Batches {
 public:
  explicit Batches(const LoadOptions& options) : o_(options) {}
  std::size_t kept() const { return kept_; }
  bool full() const { return o_.rows != 0 && kept_ >= o_.rows; }
  // After each row, and after the last one.
  Status Kept(Dataset& data) {
    ++kept_;
    return o_.sink && data.rows() >= o_.batch ? HandOn(data) : Status(Ok{});
  }
  Status Finish(Dataset& data) { return o_.sink && data.rows() > 0 ? HandOn(data) : Status(Ok{}); }

 private:
  Status HandOn(Dataset& data);
  const LoadOptions& o_;
  std::size_t kept_ = 0;
};

Result<Dataset> ReadLibsvm(Input&, const LoadOptions&);
Result<Dataset> ReadCsv(Input&, const LoadOptions&);
Result<Dataset> ReadIdx(Input& images, Input& labels, const LoadOptions&);
Result<Dataset> ReadCifar(Input&, const LoadOptions&);
Result<Dataset> ReadNpyRows(Input& x, Input* labels, const LoadOptions&);
Result<Dataset> ReadNpz(const std::filesystem::path& file, const LoadOptions&);

}  // namespace tacit::internal
