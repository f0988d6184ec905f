#include "tests/support/killed_runs.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/soak.h"

namespace millrace::test {

int num_kills() { return soaking() ? 100 : 10; }

void KillHistogram::add(int64_t steps) {
  if (steps < 0 || steps >= length_) {
    ++after_;
  } else if (steps < first_state_) {
    ++before_;
  } else {
    ++tenths_[static_cast<size_t>(10 * steps / length_)];
  }
}

double KillHistogram::share_that_counts() const {
  const int between = std::accumulate(tenths_.begin(), tenths_.end(), 0);
  return static_cast<double>(between) / std::max(1, before_ + between + after_);
}

std::string KillHistogram::to_string() const {
  return fmt::format("kills before the first state: {}; by tenth of the run: {}; after the end: {}", before_,
                     fmt::join(tenths_, " "), after_);
}

}  // namespace millrace::test
