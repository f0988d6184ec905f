#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::test {

/// How many real processes a test kills: 10, or 100 in a long run.
[[nodiscard]] int num_kills();

/// Where kills fell in a run of `length` steps whose first state was saved after `first_state` of them.
class KillHistogram {
 public:
  KillHistogram(int64_t first_state, int64_t length) : first_state_(first_state), length_(length), tenths_(10) {}
  /// A process that was killed when it had done `steps`; negative: it had ended before.
  void add(int64_t steps);
  /// The share of kills behind the first state and before the end.
  double share_that_counts() const;
  /// One line.
  std::string to_string() const;

 private:
  int64_t first_state_;
  int64_t length_;
  int before_ = 0;
  int after_ = 0;
  std::vector<int> tenths_;
};

}  // namespace millrace::test
