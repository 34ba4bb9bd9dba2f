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

Result<Dataset> ReadLibsvm(Input&, const LoadOptions&);
Result<Dataset> ReadCsv(Input&, const LoadOptions&);
Result<Dataset> ReadIdx(Input& images, Input& labels, const LoadOptions&);

}  // namespace tacit::internal
