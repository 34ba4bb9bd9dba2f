#include "experiment/finished.h"

#include <nlohmann/json.hpp>

#include "experiment/files.h"

namespace tacit {

Result<bool> IsFinished(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "result.json";
  std::error_code ec;
  if (std::filesystem::exists(folder / "checkpoint", ec) || !std::filesystem::exists(file, ec)) return false;
  TACIT_TRY(const std::string text, ReadWhole(file));
  const auto result = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (result.is_object())
    if (const auto stopped = result.find("interrupted"); stopped != result.end() && stopped->is_boolean())
      return !stopped->get<bool>();
  return Fail(Code::kMalformed, "{}: is not the result of a run; put it back", file.string());
}

}  // namespace tacit
