#pragma once

#include <cstddef>

namespace millrace::test {

/// Whether ThreadSanitizer watches the program: everything takes ten times as long and more, and what one thread does
/// by itself gives it nothing to find.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitized = true;
#else
constexpr bool kThreadSanitized = false;
#endif

/// Whether AddressSanitizer or ThreadSanitizer watches the program: everything takes longer, and malloc is theirs.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kThreadSanitized;
#endif

/// Whether a stream of so many elements is saved after the first `place` of them and resumed: everywhere, but by
/// ThreadSanitizer every seventh place and the last ones of a long stream. Seven, since tests choose by the remainders
/// of smaller numbers what they do at a place.
constexpr bool is_tried(size_t place, size_t num_elements) {
  return !kThreadSanitized || num_elements <= 20 || place % 7 == 0 || place >= num_elements;
}

}  // namespace millrace::test
