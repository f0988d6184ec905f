#include "millrace/formats/storage/opened_files.h"

namespace millrace {

void OpenedFiles::add(std::span<const std::string> paths) {
  {
    const std::lock_guard lock(mutex_);
    paths_.insert(paths.begin(), paths.end());
  }
  if (outer_ != nullptr) outer_->add(paths);
}

std::vector<std::string> OpenedFiles::paths() const {
  const std::lock_guard lock(mutex_);
  return {paths_.begin(), paths_.end()};
}

}  // namespace millrace
