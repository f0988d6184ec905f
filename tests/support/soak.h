#pragma once

#include <cstdint>
#include <optional>

namespace millrace::test {

// The whole number that an environment variable holds; nothing when it is not set. Throws for anything else.
[[nodiscard]] std::optional<int64_t> number_from_environment(const char* name);
// Whether this run is a long one: MILLRACE_SOAK is set and not 0.
[[nodiscard]] bool soaking();
// MILLRACE_SEED, or one of its own for each long run, or always the same.
[[nodiscard]] uint64_t seed_of_this_run();

}  // namespace millrace::test
