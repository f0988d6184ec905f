#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// A directory that has its name only when all in it is whole: filled under a temporary name in the same folder
/// (`.tmp-NAME.N`), brought to the disk, then renamed. One that has the name already is exchanged in one call where the
/// file system can, so the name always stands for a whole directory. Without `commit` nothing is left behind. A process
/// that is killed leaves at most one such directory, which the next that writes NAME removes: while the writer lives it
/// holds a lock of it (flock). One that cannot be known to be dead, where a file system has no locks, is passed over;
/// where each host has locks of its own (NFS), processes of several hosts must not write one NAME. One thread at a
/// time.
///
///     AtomicDirectory directory("out/model");
///     save_model(directory.temporary_path());
///     directory.commit();
class AtomicDirectory {
 public:
  /// The folder that it is in must exist. What killed processes left of NAME is removed, where that may be. Throws
  /// `kIo` naming the directory, `kInvalidArgument` for a URL.
  explicit AtomicDirectory(std::string path);
  /// Removes what was written, unless it was committed.
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::string& temporary_path() const { return temporary_path_; }
  /// fsync of all that is in it, rename, fsync of the folder. Throws `kIo` naming what could not be written.
  void commit();

 private:
  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;  // holds the lock
  bool committed_ = false;
};

/// Makes a folder and those that it is in, where they are not there yet. Throws `kIo` naming it, and
/// `kInvalidArgument` for a URL.
void make_folder(const std::string& path);

/// Removes a directory that may be known by its name: it is renamed first (`.removed-NAME.N`), so that a removal cut
/// short leaves no half of it under that name. Nothing happens when there is none. Throws `kIo` naming it.
void remove_directory(const std::string& path);

/// Removes what killed processes left of directories whose names begin with `prefix`; what cannot be removed stays.
/// Throws `kIo` for a folder that cannot be read.
void remove_unfinished_directories(const std::string& folder, std::string_view prefix);

}  // namespace millrace
