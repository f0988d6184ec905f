#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "millrace/formats/storage/range_reader.h"

namespace millrace {

/// Open files of a data set that nobody reads now, for whoever reads next: a file has one read in flight, so reading
/// one place after the other of many files needs several files of one path. Any thread.
class FilePool {
 public:
  /// For files numbered from 0 to `num_files` - 1. No more than `most` are kept.
  FilePool(size_t num_files, size_t most) : idle_(num_files), most_(most) {}

  /// An open file, which is the caller's until it is given back; null when none is idle.
  [[nodiscard]] std::shared_ptr<RangeReader> take(size_t file);
  /// Keeps a file without a read in flight, in the place of another one when there are too many.
  void give_back(size_t file, std::shared_ptr<RangeReader> reader);

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::shared_ptr<RangeReader>>> idle_;
  const size_t most_;
  size_t num_idle_ = 0;
  size_t next_closed_ = 0;  // where to look for one that makes place
};

}  // namespace millrace
