#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/storage/output_file.h"

namespace millrace {

/// An `OutputFile` of the local disk: `write` hands the bytes to the operating system, `commit` brings them to the
/// disk. One at a URL is `kInvalidArgument`.
class LocalOutputFile : public OutputFile {
 public:
  void write(std::string_view bytes) final;

 protected:
  explicit LocalOutputFile(std::string path);

  // The error of the last system call; the file is given up first.
  [[noreturn]] void fail(std::string_view what);
  // Closes the file without having finished it.
  virtual void discard() noexcept = 0;

  int descriptor_ = -1;
};

}  // namespace millrace
