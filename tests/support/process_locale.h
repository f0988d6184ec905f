#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace millrace::test {

/// What a program sets that calls `setlocale(LC_ALL, "")` and `std::locale::global`, where its user has chosen another
/// language, while one is alive: for the whole process, whose other threads must not be at work then. Compiles the
/// locale with `localedef`, from Debian's package locales.
///
///     const test::ProcessLocale german("de_DE");  // 1.234,5
class ProcessLocale {
 public:
  /// Throws std::runtime_error when there is no such locale.
  explicit ProcessLocale(const std::string& name);
  ~ProcessLocale();
  ProcessLocale(const ProcessLocale&) = delete;
  ProcessLocale& operator=(const ProcessLocale&) = delete;

  /// The variables that give a program the same locale: `LOCPATH=FOLDER` and `LC_ALL=NAME`.
  std::vector<std::string> environment() const;

 private:
  TemporaryFolder folder_;
  std::string name_;
};

}  // namespace millrace::test
