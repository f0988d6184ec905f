#pragma once

#include "millrace/pipeline/dataset.h"

namespace millrace::test {

// The same elements after a stage that answers `kPending` at random moments, is woken from another thread up to
// `max_delay` later, and cuts blocks at random places. Moments and cuts are drawn from `seed` and the number of the
// call.
[[nodiscard]] Dataset with_pending(const Dataset& input, uint64_t seed,
                                   std::chrono::microseconds max_delay = std::chrono::microseconds(150));

// How often all such stages of this process have answered `kPending`: a test that wants it can see that it happened.
[[nodiscard]] int64_t num_injected_pending();

}  // namespace millrace::test
