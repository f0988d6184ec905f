#include "millrace/formats/storage/folder_names.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

std::vector<std::string> names_in(const std::string& folder, std::error_code& error) {
  struct Close {
    void operator()(DIR* opened) const { ::closedir(opened); }
  };
  error.clear();
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Close> opened(::opendir(folder.c_str()));
  errno = opened == nullptr ? errno : 0;
  for (const dirent* entry; opened != nullptr && (entry = ::readdir(opened.get())) != nullptr; errno = 0) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) error.assign(errno, std::generic_category());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names = names_in(folder, error);
  if (!error) return names;
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("cannot read the folder: {}", error.message()), .shard = folder});
}

}  // namespace millrace
