#include "millrace/formats/storage/remote/pending_calls.h"

#include <utility>

namespace millrace {

PendingCalls::Call::Call(std::shared_ptr<PendingCalls> among) : among_(std::move(among)) {
  const std::lock_guard lock(among_->mutex_);
  ++among_->in_flight_;
}

void PendingCalls::Call::end(std::string error) {
  const std::shared_ptr<PendingCalls> among = std::exchange(among_, nullptr);
  if (among == nullptr) return;
  const std::lock_guard lock(among->mutex_);
  --among->in_flight_;
  if (among->error_.empty()) among->error_ = std::move(error);
  among->ended_.notify_all();
}

void PendingCalls::keep(const std::shared_ptr<RetriedCall>& call) {
  const std::lock_guard lock(mutex_);
  std::erase_if(calls_, [](const auto& one) { return one.expired(); });
  calls_.push_back(call);
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
