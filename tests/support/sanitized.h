#pragma once

namespace millrace::test {

/// Whether AddressSanitizer or ThreadSanitizer watches the program: everything takes longer, and malloc is theirs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace millrace::test
