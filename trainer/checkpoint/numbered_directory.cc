#include "millrace/trainer/checkpoint/numbered_directory.h"

#include <fmt/format.h>

namespace millrace {

std::string numbered_name(std::string_view prefix, int64_t step) { return fmt::format("{}{:08}", prefix, step); }

bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() >= prefix.size() + 8 &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

}  // namespace millrace
