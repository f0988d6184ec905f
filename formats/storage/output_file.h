#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// A local file that is written from its beginning to its end. Every failure throws `kIo` and names the file. One
/// thread at a time.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Hands the bytes to the operating system. After a failure only destruction is left.
  void write(std::string_view bytes);
  /// Brings everything to the disk and gives the file its final state. Nothing can be written after it.
  virtual void commit() = 0;

  const std::string& path() const { return path_; }

 protected:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}

  // The error of the last system call; the file is given up first.
  [[noreturn]] void fail(std::string_view what);
  // Closes the file without having finished it.
  virtual void discard() noexcept = 0;

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace millrace
