#pragma once

// Hand-offs between threads that pass through oneTBB. Debian's libtbb is not instrumented, so ThreadSanitizer cannot
// see that a task runs after whatever was done before it was put; these two marks say so. Without ThreadSanitizer they
// are nothing. Besides, reports about oneTBB's own frames are suppressed (tests/tsan.supp says which), never about
// ours.

#include <utility>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace millrace {

/// Before `try_put`, `enqueue` or `run`, and at the end of a body.
inline void handoff_release([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(address));
#endif
}

/// The first statement of a body, and after `wait_for_all`.
inline void handoff_acquire([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(address));
#endif
}

/// A body, or a part of one, from its acquire to its release, also when it throws.
class HandoffScope {
 public:
  explicit HandoffScope(const void* address) : address_(address) { handoff_acquire(address); }
  ~HandoffScope() { handoff_release(address_); }
  HandoffScope(const HandoffScope&) = delete;
  HandoffScope& operator=(const HandoffScope&) = delete;

 private:
  const void* address_;
};

/// A function that oneTBB copies into its own memory and calls on other threads. The copy, each call and the reuse of
/// the memory are hand-offs too: the function's own captures are read before its body could acquire anything.
template <typename Function>
class TbbHandoff {
 public:
  explicit TbbHandoff(Function function) : function_(std::move(function)) { handoff_release(this); }
  TbbHandoff(const TbbHandoff& other) : function_((handoff_acquire(this), other.function_)) { handoff_release(this); }
  TbbHandoff& operator=(const TbbHandoff&) = delete;
  ~TbbHandoff() = default;

  template <typename... Arguments>
  auto operator()(Arguments... arguments) const {
    const HandoffScope scope(this);
    return function_(arguments...);
  }

 private:
  Function function_;
};

}  // namespace millrace
