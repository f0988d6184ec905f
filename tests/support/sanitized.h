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

/// Of the places of a stream where it can be saved and resumed, each so manieth is tried, the last ones always. Coprime
/// to the small numbers by which tests choose what they do at a place.
constexpr size_t kPlacesApart = kThreadSanitized ? 7 : 1;

}  // namespace millrace::test
