#include "millrace/command_line/given_options.h"

#include <filesystem>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {

bool was_given(const boost::program_options::variables_map& given, const char* option) {
  return given.contains(option) && !given[option].defaulted();
}

void require(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

void refuse_given(const boost::program_options::variables_map& given, std::initializer_list<const char*> options,
                  const std::string& why) {
  for (const char* const option : options) require(!was_given(given, option), fmt::format("--{} {}", option, why));
}

void require_different_files(std::initializer_list<std::pair<const char*, std::string>> files) {
  namespace fs = std::filesystem;
  std::map<fs::path, const char*> options;
  for (const auto& [option, file] : files) {
    if (file.empty()) continue;
    std::error_code unknown;
    const fs::path place = fs::weakly_canonical(fs::absolute(file, unknown), unknown);
    const auto [other, is_new] = options.emplace(place.empty() ? fs::path(file) : place, option);
    require(is_new, fmt::format("--{} and --{} are both {}", other->second, option, shown_url(file)));
  }
}

}  // namespace millrace
