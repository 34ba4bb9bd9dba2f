#pragma once

#include <string>
#include <string_view>

namespace tacit {

std::string Sha256(std::string_view bytes);  // 64 hexadecimal digits

}  // namespace tacit
