#include "millrace/trainer/checkpoint/numbered_directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/folder_names.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() >= prefix.size() + 8 &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

}  // namespace

std::string numbered_name(std::string_view prefix, int64_t step) { return fmt::format("{}{:08}", prefix, step); }

std::vector<std::string> numbered_directories(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> found;
  if (!fs::exists(folder)) return found;
  std::error_code code;
  for (const std::string& name : names_in(folder, code)) {
    if (is_numbered(name, prefix)) found.push_back((fs::path(folder) / name).string());
  }
  if (code) {
    throw ErrorException(ErrorCode::kIo, fmt::format("cannot read the folder {}: {}", folder, code.message()));
  }
  // Longer numbers are larger ones.
  std::ranges::sort(found, [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return found;
}

}  // namespace millrace
