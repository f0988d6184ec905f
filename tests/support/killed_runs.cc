#include "tests/support/killed_runs.h"

#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/soak.h"

namespace millrace::test {

int num_kills() { return static_cast<int>(number_from_environment("MILLRACE_KILLS").value_or(soaking() ? 100 : 10)); }

void KillHistogram::add(int64_t steps) {
  if (steps < 0 || steps >= length_) {
    ++after_;
  } else if (steps < first_state_) {
    ++before_;
  } else {
    ++tenths_[static_cast<size_t>(10 * steps / length_)];
  }
}

int KillHistogram::num_that_count() const { return std::accumulate(tenths_.begin(), tenths_.end(), 0); }

bool KillHistogram::has_enough() const {
  return num_that_count() >= num_kills() || before_ + num_that_count() + after_ >= 10 * num_kills();
}

std::string KillHistogram::to_string() const {
  return fmt::format("kills before the first state: {}; by tenth of the run: {}; after the end: {}", before_,
                     fmt::join(tenths_, " "), after_);
}

}  // namespace millrace::test
