#include "millrace/formats/storage/file_pool.h"

#include <utility>

namespace millrace {

std::shared_ptr<RangeReader> FilePool::take(size_t file) {
  const std::lock_guard lock(mutex_);
  if (idle_[file].empty()) return nullptr;
  std::shared_ptr<RangeReader> reader = std::move(idle_[file].back());
  idle_[file].pop_back();
  --num_idle_;
  return reader;
}

void FilePool::give_back(size_t file, std::shared_ptr<RangeReader> reader) {
  std::shared_ptr<RangeReader> closed;  // outside the lock
  const std::lock_guard lock(mutex_);
  if (most_ == 0) return;
  if (num_idle_ == most_) {
    while (idle_[next_closed_].empty()) next_closed_ = (next_closed_ + 1) % idle_.size();
    closed = std::move(idle_[next_closed_].back());
    idle_[next_closed_].pop_back();
    --num_idle_;
    next_closed_ = (next_closed_ + 1) % idle_.size();
  }
  idle_[file].push_back(std::move(reader));
  ++num_idle_;
}

}  // namespace millrace
