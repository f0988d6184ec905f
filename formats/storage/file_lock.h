#pragma once

#include <memory>
#include <string>

namespace millrace {

/// Says that a file is in use, to other processes and to other users in this one; it goes with the process, however
/// that ends. Where a file system has no locks, everybody gets them.
class FileLock {
 public:
  /// One that others may have too; waits for whoever has the file alone. Null: there is no such file, or it was removed
  /// while this was waiting. Throws `kIo`.
  [[nodiscard]] static std::unique_ptr<FileLock> share(const std::string& path);
  /// One that nobody else has; null: somebody has. Of a file that is not there everybody can have it. The file need
  /// not be writable. Throws `kIo`.
  [[nodiscard]] static std::unique_ptr<FileLock> try_alone(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  FileLock(const std::string& path, int flags);

  int descriptor_ = -1;  // -1: there is no such file
};

}  // namespace millrace
