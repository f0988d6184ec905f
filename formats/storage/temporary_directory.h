#pragma once

#include <string>

namespace millrace {

/// A new folder in the system's folder of temporary files (TMPDIR), which is removed with all that is in it.
class TemporaryDirectory {
 public:
  /// Throws `kIo`.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace millrace
