#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

/// A package of Debian, as its lists describe it.
struct Package {
  std::string name = {};
  std::string source = {};             ///< the package that it was built from, with others mostly
  std::string section = {};            ///< `games`, `libdevel`, ...
  std::vector<std::string> tags = {};  ///< `role::program`, ...; none where nobody tagged it
  std::string synopsis = {};
  std::vector<std::string> paragraphs = {};  ///< of the long description, each as one line without surplus spaces

  /// All paragraphs but the first, as one line.
  [[nodiscard]] std::string answer() const;
};

/// Reads what `examples/packages/fetch.sh` writes, package by package. One thread at a time.
class PackageReader {
 public:
  /// `lines`: gives the lines of the file, as `TextCorpus::next` does. `path`: named in errors.
  PackageReader(std::function<bool(std::string&)> lines, std::string path);

  /// The next package; false at the end. Throws `kParse` with the line where the file is no such list, or is cut, and
  /// where there is no package in it.
  bool next(Package& package);

 private:
  [[noreturn]] void refuse(const std::string& what) const;

  std::function<bool(std::string&)> lines_;
  std::string path_;
  std::string line_;
  int64_t num_lines_ = 0;
};

/// All packages of a file, which may be a gzip file. Throws as TextFiles and PackageReader do.
[[nodiscard]] std::vector<Package> read_packages(const std::string& path);

}  // namespace millrace
