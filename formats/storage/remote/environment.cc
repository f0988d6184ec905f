#include "millrace/formats/storage/remote/environment.h"

#include <cstdlib>

namespace millrace {

std::optional<std::string> process_environment(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace millrace
