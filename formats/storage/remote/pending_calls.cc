#include "millrace/formats/storage/remote/pending_calls.h"

#include <utility>

namespace millrace {

void PendingCalls::begin() {
  const std::lock_guard lock(mutex_);
  ++in_flight_;
}

void PendingCalls::keep(const std::shared_ptr<RetriedCall>& call) {
  const std::lock_guard lock(mutex_);
  std::erase_if(calls_, [](const auto& one) { return one.expired(); });
  calls_.push_back(call);
}

void PendingCalls::end(std::string error) {
  const std::lock_guard lock(mutex_);
  --in_flight_;
  if (error_.empty()) error_ = std::move(error);
  ended_.notify_all();  // under the lock: whoever waits may be the last to have this
}

std::string PendingCalls::wait_for_most(int most) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return in_flight_ <= most || !error_.empty(); });
  return error_;
}

void PendingCalls::cancel() {
  std::vector<std::weak_ptr<RetriedCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(calls_);
  }
  for (const auto& one : calls) {
    if (const auto call = one.lock()) call->cancel();
  }
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return in_flight_ == 0; });
}

}  // namespace millrace
