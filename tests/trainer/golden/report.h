#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace millrace::test {

/// What comparisons with golden figures came to. Each has a name, and fails with one line that says where and by how
/// much.
class GoldenReport {
 public:
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

 private:
  size_t passed_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace millrace::test
