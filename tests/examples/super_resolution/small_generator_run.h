#pragma once

#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

/// Pictures that are drawn, pairs of their crops in `shards`, and trainings of tiny generators on them.
class SmallGeneratorRun {
 public:
  SmallGeneratorRun();

  std::string path(const std::string& name) const { return folder_.path(name); }
  /// The command of `program`; what is given later counts.
  std::vector<std::string> training(const char* program, const std::string& out,
                                    const std::vector<std::string>& more = {}) const;
  /// The same, of other data than `shards`: their options.
  std::vector<std::string> training_on(const std::vector<std::string>& data, const char* program,
                                       const std::string& out) const;

 private:
  TemporaryFolder folder_;
};

}  // namespace millrace::test
