#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// A file that has its name only when it is whole: written under a temporary name in the same folder, brought to the
/// disk, then renamed. Without `commit` nothing is left behind. One thread at a time.
///
///     AtomicFile file("model/config.json");
///     file.write(text);
///     file.commit();
class AtomicFile {
 public:
  /// Throws `kIo` naming the file.
  explicit AtomicFile(std::string path);
  /// Removes what was written, unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws `kIo` naming the file; it is then removed.
  void write(std::string_view bytes);
  /// fsync of the file, rename, fsync of the folder.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view what);
  void discard() noexcept;

  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;
};

}  // namespace millrace
