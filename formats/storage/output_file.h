#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace millrace {

/// A file, or an object of a store, that is written from its beginning to its end. What is there before `commit`, and
/// without it, each kind says. Every failure throws `kIo` and names it; after one only destruction is left. One thread
/// at a time.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  virtual void write(std::string_view bytes) = 0;
  /// Brings everything to where it stays and gives the file its final state. Nothing can be written after it.
  virtual void commit() = 0;

  /// After a `commit` that failed: whether what it would have written may be there all the same, now or later. Default:
  /// false
  [[nodiscard]] virtual bool may_be_there() const { return false; }

  const std::string& path() const { return path_; }

 protected:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace millrace
