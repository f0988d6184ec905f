#pragma once

#include <cstddef>

// GCC defines a macro for each sanitizer, clang answers a question.
#if defined(__SANITIZE_ADDRESS__)
#define MILLRACE_ADDRESS_SANITIZED
#endif
#if defined(__SANITIZE_THREAD__)
#define MILLRACE_THREAD_SANITIZED
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MILLRACE_ADDRESS_SANITIZED
#endif
#if __has_feature(thread_sanitizer)
#define MILLRACE_THREAD_SANITIZED
#endif
#endif

namespace millrace::test {

/// Whether ThreadSanitizer watches the program: everything takes ten times as long and more, and what one thread does
/// by itself gives it nothing to find.
#if defined(MILLRACE_THREAD_SANITIZED)
constexpr bool kThreadSanitized = true;
#else
constexpr bool kThreadSanitized = false;
#endif

/// Whether AddressSanitizer or ThreadSanitizer watches the program: everything takes longer, and malloc is theirs.
#if defined(MILLRACE_ADDRESS_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kThreadSanitized;
#endif

/// The step of loops over places or numbers that are many and alike: the sanitizers see much the same with every fifth.
/// Prime, since tests choose by the remainders of smaller numbers and of 8 what they do. Not for lists that go by
/// fives.
constexpr size_t kStride = kSanitized ? 5 : 1;

/// Whether a stream of so many elements is saved after the first `place` of them and resumed: everywhere, but by
/// ThreadSanitizer every seventh place and the last ones of a long stream. Seven, since tests choose by the remainders
/// of smaller numbers what they do at a place.
constexpr bool is_tried(size_t place, size_t num_elements) {
  return !kThreadSanitized || num_elements <= 20 || place % 7 == 0 || place >= num_elements;
}

}  // namespace millrace::test
