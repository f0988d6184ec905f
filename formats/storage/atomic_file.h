#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/storage/output_file.h"

namespace millrace {

/// A file that has its name only when it is whole: written under a temporary name in the same folder, brought to the
/// disk, then renamed. Without `commit` nothing is left behind; a process that is killed leaves at most
/// `NAME.tmp-PID-N`.
///
///     AtomicFile file("model/config.json");
///     file.write(text);
///     file.commit();
class AtomicFile final : public OutputFile {
 public:
  explicit AtomicFile(std::string path);
  /// Removes what was written, unless it was committed.
  ~AtomicFile() override;

  /// Gives the file another final name, in the same folder: for names that hold what is known only at the end. Before
  /// `commit`.
  void set_path(std::string path) { path_ = std::move(path); }
  /// fsync of the file, rename, fsync of the folder.
  void commit() override;

 private:
  void discard() noexcept override;

  std::string temporary_path_;
};

/// Writes a whole file at once.
void write_atomically(std::string path, std::string_view bytes);

}  // namespace millrace
