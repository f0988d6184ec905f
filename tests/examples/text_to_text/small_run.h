#pragma once

#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

/// Rows of questions, with a tokenizer that was learnt from them, and trainings of a tiny T5 on them.
class SmallRun {
 public:
  /// Prepares `num_rows` questions in `rows`.
  explicit SmallRun(int num_rows = 300);

  std::string path(const std::string& name) const { return folder_.path(name); }
  /// What is given later counts.
  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more = {}) const;
  std::vector<std::string> prediction(const std::string& model, const std::vector<std::string>& more) const;

 private:
  TemporaryFolder folder_;
};

}  // namespace millrace::test
