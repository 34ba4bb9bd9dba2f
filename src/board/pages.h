#pragma once

// The files of the page, as the build made them from web/.
#include <string_view>

namespace tacit {

struct WebPages {
  std::string_view index, login, script, style;
};
WebPages BuiltPages();

}  // namespace tacit
