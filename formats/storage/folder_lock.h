#pragma once

#include <memory>
#include <string>

namespace millrace {

/// While it lives, no other process holds a lock on the folder that has the name. It goes with the process, however
/// that ends. Some network file systems have no locks, and some, as NFS, lock folders for one host only: there two
/// writers at once are the user's own risk.
class FolderLock {
 public:
  /// Throws `kIo` when the folder cannot be opened, `kInvalidArgument` when another process holds it: "another process
  /// is `doing` 'FOLDER'".
  FolderLock(const std::string& folder, const std::string& doing);
  /// Null when somebody else, in this process or another one, holds it. Throws `kIo`.
  [[nodiscard]] static std::unique_ptr<FolderLock> try_lock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Brings the names in the folder to the disk, where its file system can. Throws `kIo`, also when the folder has lost
  /// its name since.
  void sync();

 private:
  explicit FolderLock(const std::string& folder);
  void open();
  bool lock();

  std::string folder_;
  int descriptor_ = -1;
};

}  // namespace millrace
