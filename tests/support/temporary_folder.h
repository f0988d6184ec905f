#pragma once

#include <map>
#include <string>

namespace millrace::test {

/// A folder of its own for a test, removed at the end with all that is in it.
class TemporaryFolder {
 public:
  /// Throws std::system_error when it cannot be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }

 private:
  std::string path_;
};

/// The bytes of a file; empty when there is none.
std::string read_file(const std::string& path);

/// Writes a file, or replaces it.
void write_file(const std::string& path, const std::string& bytes);

/// Every regular file below a folder, by its path in it, with its bytes.
std::map<std::string, std::string> files_below(const std::string& folder);

}  // namespace millrace::test
