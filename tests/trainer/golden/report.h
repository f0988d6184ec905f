#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace millrace::test {

/// Checks that belong together.
struct GoldenGroup {
  /// `NAME: 120 checks, largest difference 0.31 of its limit`, with `, 2 failed` where some did.
  std::string line() const;

  std::string name;
  size_t checks = 0;
  size_t failed = 0;
  /// Of comparisons: the largest difference divided by its limit, infinite for one that is no number or where there is
  /// no room for any. Empty: there was no comparison.
  std::optional<double> largest;
};

/// What comparisons with golden figures came to. Each has a name, and fails with one line that says where and by how
/// much.
class GoldenReport {
 public:
  /// Checks from here on belong to the group of this name, which may have been begun before. Default: "checks".
  void begin_group(const std::string& name);
  /// Passes when `|found[i] - expected[i]| <= relative * max |expected| + absolute` for all i, of which there must be
  /// some.
  void compare(const std::string& name, const std::vector<double>& found, const std::vector<double>& expected,
               double relative, double absolute);
  template <typename A, typename B>
  void compare(const std::string& name, const A* found, const std::vector<B>& expected, double relative,
               double absolute) {
    compare(name, std::vector<double>(found, found + expected.size()),
            std::vector<double>(expected.begin(), expected.end()), relative, absolute);
  }
  void expect(const std::string& name, bool holds, const std::string& otherwise);
  /// Runs a part; what it throws is a failure of that name, and so is a part that compares nothing.
  void guard(const std::string& name, const std::function<void()>& part);

  size_t passed() const { return passed_; }
  const std::vector<std::string>& failures() const { return failures_; }
  /// Those that have checks, in the order in which they were begun.
  std::vector<GoldenGroup> groups() const;

 private:
  GoldenGroup& group();

  size_t passed_ = 0;
  std::vector<std::string> failures_;
  std::vector<GoldenGroup> groups_;
  size_t group_ = 0;  // of groups_
};

}  // namespace millrace::test
