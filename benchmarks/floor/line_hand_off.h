#pragma once

namespace millrace {

/// Nanoseconds until a core sees what another one has stored, of those two among up to eight pairs of the process's
/// cores that are furthest from each other: some 25 where they share a third-level cache, above 100 where they do not.
/// 0 where the process may use one core only. Takes a few milliseconds, on threads of its own.
[[nodiscard]] double line_hand_off_ns();

}  // namespace millrace
