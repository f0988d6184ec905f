#pragma once

// Hand-offs between threads that pass through oneTBB. Debian's libtbb is not instrumented, so ThreadSanitizer cannot
// see that a task runs after whatever was done before it was put; these two marks say so. Without ThreadSanitizer they
// are nothing. Only oneTBB's own frames are suppressed besides (tests/tsan.supp), never ours.

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace millrace {

/// Before `try_put`, `enqueue` or `run`, and at the end of a body.
inline void handoff_release([[maybe_unused]] void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(address);
#endif
}

/// The first statement of a body, and after `wait_for_all`.
inline void handoff_acquire([[maybe_unused]] void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(address);
#endif
}

}  // namespace millrace
