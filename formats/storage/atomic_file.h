#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/storage/local_output_file.h"

namespace millrace {

/// A file that has its name only when it is whole: written under a temporary name in the same folder, brought to the
/// disk, then renamed. Without `commit` nothing is left behind. A process that is killed leaves at most
/// `NAME.tmp-PID-N`, which the next process that writes NAME removes: while the writer lives it holds a lock of it
/// (flock). One that cannot be known to be dead, where a file system has no locks, is passed over; where each host has
/// locks of its own (NFS mounted with `nolock` or `local_lock`), processes of several hosts must not write one NAME. Of
/// a NAME that is as long as a name may be, the temporary one has the beginning.
///
///     AtomicFile file("model/config.json");
///     file.write(text);
///     file.commit();
class AtomicFile final : public LocalOutputFile {
 public:
  explicit AtomicFile(std::string path);
  /// Removes what was written, unless it was committed.
  ~AtomicFile() override;

  /// Gives the file another final name, in the same folder: for names that hold what is known only at the end. Before
  /// `commit`. Throws `kInvalidArgument` for another folder.
  void set_path(std::string path);
  /// fsync of the file, rename, fsync of the folder.
  void commit() override;

 private:
  void discard() noexcept override;

  std::string temporary_path_;
};

/// NAME, or as much of it as there is room for, of `NAME.tmp-PID-N`; empty for another name.
[[nodiscard]] std::string_view written_name(std::string_view temporary);

/// Writes a whole file at once.
void write_atomically(std::string path, std::string_view bytes);

}  // namespace millrace
