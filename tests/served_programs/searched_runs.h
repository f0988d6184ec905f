#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

/// Programs that are run with secrets in their environment, and a search for these in all that they leave: standard
/// output, standard error, files below a folder, which all their outputs go to, and what the test shows of other
/// places. One thread.
class SearchedRuns {
 public:
  /// `NAME=value`, for all runs. HOME is an empty folder, and no variable of the test's own environment says where
  /// credentials are.
  void set(const std::string& name, const std::string& value) { environment_[name] = value; }
  [[nodiscard]] std::string home(const std::string& name = "") const { return home_.path(name); }
  /// Where programs write to.
  [[nodiscard]] std::string out(const std::string& name = "") const { return out_.path(name); }
  ChildResult run(const std::vector<std::string>& arguments);
  /// Kills it (SIGKILL) as soon as `is_due`: what is there then is what was there while it ran.
  ChildResult run_until(const std::vector<std::string>& arguments, const std::function<bool()>& is_due);
  /// Something that is left elsewhere, as an object of a bucket. What was shown of the same place before is replaced.
  void show(const std::string& place, const std::string& text) { texts_[place] = text; }
  /// A text that must be nowhere. Those shorter than 8 bytes would be found by chance: refused.
  void add_mark(const std::string& mark);
  /// Where a mark is: `MARK in PLACE`, one for each line; empty: nowhere.
  [[nodiscard]] std::string found() const;

 private:
  [[nodiscard]] ChildOptions options() const;
  ChildResult note(const std::vector<std::string>& arguments, ChildResult result);

  TemporaryFolder home_;
  TemporaryFolder out_;
  std::map<std::string, std::string> environment_;
  std::map<std::string, std::string> texts_;  // by who printed them, or where they are
  int num_runs_ = 0;
  std::set<std::string> marks_;
};

}  // namespace millrace::test
