#pragma once

#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace millrace {

/// The files that datasets opened which a function has made while a pipeline runs: nobody knows them before. Any
/// thread.
class OpenedFiles {
 public:
  /// What is added goes to `outer`, too, which outlives this one; null: nowhere else.
  explicit OpenedFiles(OpenedFiles* outer) : outer_(outer) {}

  void add(std::span<const std::string> paths);
  /// Each once, in order of their bytes.
  [[nodiscard]] std::vector<std::string> paths() const;

 private:
  OpenedFiles* const outer_;
  mutable std::mutex mutex_;
  std::set<std::string> paths_;
};

}  // namespace millrace
