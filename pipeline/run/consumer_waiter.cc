#include "millrace/pipeline/run/consumer_waiter.h"

#include <utility>

#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

void ConsumerWaiter::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    if (reserved_slot_ != nullptr && reserved_slot_->caller_works_) return reserved_slot_->caller_session_.end();
  }
  changed_.notify_one();
}

bool ConsumerWaiter::wait_until_woken(const std::chrono::nanoseconds* most) {
  const auto is_woken = [this] { return woken_; };
  const int64_t begin = now_ns();
  std::unique_lock lock(mutex_);
  if (reserved_slot_ != nullptr) {
    ++reserved_slot_->moves_;
    reserved_slot_->look_at(begin);
  }
  bool woken = woken_ || work(lock);
  if (!woken && most == nullptr) changed_.wait(lock, is_woken);
  woken = woken || most == nullptr || changed_.wait_for(lock, *most, is_woken);
  if (woken) woken_ = false;
  if (reserved_slot_ != nullptr) {
    ++reserved_slot_->moves_;
    reserved_slot_->waited_ns_ += now_ns() - begin;
  }
  return woken;
}

// Where the reserved slot is the caller's. False when it was taken from it before it was woken, or there is no memory
// to begin.
bool ConsumerWaiter::work(std::unique_lock<std::mutex>& lock) {
  if (reserved_slot_ == nullptr || reserved_slot_->owner_ != ReservedSlot::Owner::kCaller ||
      reserved_slot_->thread_works_)
    return false;
  if (!reserved_slot_->caller_session_.begin()) return false;
  reserved_slot_->caller_works_ = true;
  lock.unlock();
  reserved_slot_->caller_session_.work();
  lock.lock();
  reserved_slot_->caller_works_ = false;
  reserved_slot_->changed_.wait(lock, [this] { return !reserved_slot_->is_polling_; });
  if (reserved_slot_->owner_ == ReservedSlot::Owner::kThread) reserved_slot_->changed_.notify_one();
  if (reserved_slot_->thrown_) std::rethrow_exception(std::exchange(reserved_slot_->thrown_, nullptr));
  return woken_;
}

ConsumerWaiter::ReservedSlot::ReservedSlot(ConsumerWaiter& caller, Executor& executor, Polling polling,
                                           const HelpingPolicy& limits)
    : caller_(caller),
      polling_(std::move(polling)),
      limits_(limits),
      thread_session_(executor),
      caller_session_(executor),
      begin_ns_(now_ns()),
      thread_([this] { run(); }) {
  const std::lock_guard lock(caller_.mutex_);
  caller_.reserved_slot_ = this;
}

ConsumerWaiter::ReservedSlot::~ReservedSlot() {
  {
    const std::lock_guard lock(caller_.mutex_);
    caller_.reserved_slot_ = nullptr;
    stopping_ = true;
    thread_session_.end();
  }
  changed_.notify_one();
  thread_.join();
}

bool ConsumerWaiter::ReservedSlot::is_callers() const {
  const std::lock_guard lock(caller_.mutex_);
  return owner_ == Owner::kCaller;
}

void ConsumerWaiter::ReservedSlot::run() {
  std::unique_lock lock(caller_.mutex_);
  while (!stopping_) {
    if (owner_ == Owner::kThread && !caller_works_) {
      if (!work(lock)) changed_.wait_for(lock, limits_.still);
    } else if (owner_ == Owner::kThread) {
      wait_for_caller(lock);
    } else {
      const uint64_t seen = moves_;
      changed_.wait_for(lock, limits_.still, [this] { return stopping_ || owner_ == Owner::kThread; });
      if (owner_ == Owner::kCaller && moves_ == seen) give_to(Owner::kThread);
    }
  }
}

// False when there is no memory to begin.
bool ConsumerWaiter::ReservedSlot::work(std::unique_lock<std::mutex>& lock) {
  if (!thread_session_.begin()) return false;
  thread_works_ = true;
  lock.unlock();
  thread_session_.work();
  lock.lock();
  thread_works_ = false;
  return true;
}

// The caller is to leave its work. Where that hangs nobody else looks.
void ConsumerWaiter::ReservedSlot::wait_for_caller(std::unique_lock<std::mutex>& lock) {
  const auto is_out = [this] { return stopping_ || !caller_works_ || owner_ == Owner::kCaller; };
  if (!polling_.on_poll) return changed_.wait(lock, is_out);
  if (changed_.wait_for(lock, polling_.poll_interval, is_out)) return;
  is_polling_ = true;
  lock.unlock();
  std::exception_ptr thrown;
  try {
    polling_.on_poll();
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  is_polling_ = false;
  if (!thrown_) thrown_ = std::move(thrown);
  changed_.notify_one();
}

// When the caller begins to wait.
void ConsumerWaiter::ReservedSlot::look_at(int64_t now) {
  if (++waits_ < HelpingPolicy::kWaits) return;
  const int64_t elapsed = now - begin_ns_;
  const int64_t away = elapsed - waited_ns_;
  const auto is_within = [&](int64_t longest, int64_t away_limit) {
    return elapsed <= HelpingPolicy::kWaits * longest && away * away_limit <= elapsed;
  };
  const bool may_get = is_within(limits_.longest_to_get_ns, limits_.away_to_get);
  const bool may_keep = is_within(limits_.longest_to_keep_ns, limits_.away_to_keep);
  if (owner_ == Owner::kThread && may_get) {
    give_to(Owner::kCaller);
  } else if (owner_ == Owner::kCaller && !may_keep) {
    give_to(Owner::kThread);
  }
  waits_ = 0;
  waited_ns_ = 0;
  begin_ns_ = now;
}

void ConsumerWaiter::ReservedSlot::give_to(Owner owner) {
  owner_ = owner;
  if (owner == Owner::kCaller) return thread_session_.end();
  if (caller_works_) caller_session_.end();
  changed_.notify_one();
}

}  // namespace millrace
