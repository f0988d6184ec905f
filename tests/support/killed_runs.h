#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::test {

/// How many real processes a test kills between the first state and the end: what the environment's MILLRACE_KILLS
/// says, else 10, or 100 in a long run.
[[nodiscard]] int num_kills();

/// Where kills fell in a run of `length` steps whose first state was saved after `first_state` of them. Kills come when
/// the system lets them, so one that came too early or too late is not counted, and the test goes on:
///
///     while (!histogram.has_enough()) {
///       …
///       histogram.add(steps);
///     }
///     EXPECT_GE(histogram.num_that_count(), num_kills());
class KillHistogram {
 public:
  KillHistogram(int64_t first_state, int64_t length) : first_state_(first_state), length_(length), tenths_(10) {}
  /// A process that was killed when it had done `steps`; negative: it had ended before.
  void add(int64_t steps);
  /// Kills after the first state and before the end.
  [[nodiscard]] int num_that_count() const;
  /// Whether `num_kills` of them count, or so many more were made that something else must be wrong.
  [[nodiscard]] bool has_enough() const;
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
