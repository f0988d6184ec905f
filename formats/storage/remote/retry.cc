#include "millrace/formats/storage/remote/retry.h"

#include <algorithm>
#include <utility>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/storage/remote/http_date.h"

namespace millrace {

using std::chrono::nanoseconds;

bool RetryBudget::take(int tokens) {
  const std::lock_guard lock(mutex_);
  if (left_ < tokens) return false;
  left_ -= tokens;
  return true;
}

void RetryBudget::give(int tokens) {
  const std::lock_guard lock(mutex_);
  left_ = std::min(left_ + tokens, kMost);
}

nanoseconds RetryBudget::jitter(nanoseconds longest) {
  const std::lock_guard lock(mutex_);
  return nanoseconds(std::uniform_int_distribution<int64_t>(0, longest.count())(random_));
}

std::optional<std::chrono::seconds> retry_after(const HttpHead& head, std::chrono::system_clock::time_point now) {
  using std::chrono::seconds;
  constexpr seconds kLongest = std::chrono::hours(1);
  const std::string* const field = head.headers.find("Retry-After");
  if (field == nullptr) return std::nullopt;
  if (const auto count = parse_count(*field)) {
    return seconds(std::min(*count, static_cast<uint64_t>(kLongest.count())));
  }
  const auto then = parse_http_date(*field);
  if (!then) return std::nullopt;
  // Whose clock is ahead asks for no longer wait.
  const std::string* const date = head.headers.find("Date");
  const auto said = date == nullptr ? std::nullopt : parse_http_date(*date);
  return std::clamp(*then - said.value_or(std::chrono::floor<seconds>(now)), seconds(0), kLongest);
}

PreparedRequest PreparedRequest::refused(std::string why) {
  PreparedRequest none;
  none.error = std::move(why);
  return none;
}

RetriedCall::RetriedCall(HttpCalls calls, Callbacks callbacks)
    : calls_(std::move(calls)), begun_at_(calls_.engine->now()), callbacks_(std::move(callbacks)) {}

std::shared_ptr<RetriedCall> RetriedCall::start(HttpCalls calls, Callbacks callbacks) {
  std::shared_ptr<RetriedCall> call(new RetriedCall(std::move(calls), std::move(callbacks)));
  call->ask();
  return call;
}

void RetriedCall::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (state_ == State::kAnswer) calls_.engine->cancel(call_);
  if (state_ == State::kRequest || state_ == State::kNextAttempt) {
    calls_.engine->call_after(nanoseconds(0), [self = shared_from_this()] { self->go_on(); });
  }
}

void RetriedCall::ask() {
  int attempt;
  {
    const std::lock_guard lock(mutex_);
    attempt = ++attempts_;
    state_ = State::kRequest;
  }
  if (calls_.engine->has_ended()) return take_request(attempt, PreparedRequest::refused("the process exits"));
  callbacks_.request([self = shared_from_this(), attempt, is_retry = failures_ > 0](PreparedRequest prepared) {
    prepared.request.is_retry = is_retry;
    self->take_request(attempt, std::move(prepared));
  });
  const std::lock_guard lock(mutex_);
  if (state_ != State::kRequest || attempts_ != attempt) return;
  // Also after a time in which the process stood still.
  const bool is_early = failures_ < RetryOptions::kLeastAttempts;
  const nanoseconds left = begun_at_ + calls_.retries.give_up_after - calls_.engine->now();
  calls_.engine->call_after(
      is_early ? nanoseconds(calls_.retries.give_up_after) : std::max(left, nanoseconds(0)),
      [weak = weak_from_this(), attempt] {
        if (const auto self = weak.lock()) {
          self->take_request(
              attempt, PreparedRequest::refused("what a request needs, credentials or a region, did not come in time"));
        }
      });
}

void RetriedCall::take_request(int attempt, PreparedRequest prepared) noexcept {
  try {
    // Under the lock, so that whoever cancels finds the number, or is found.
    const std::lock_guard lock(mutex_);
    if (state_ != State::kRequest || attempts_ != attempt) return;  // it came too late
    if (prepared.error.empty()) {
      call_ = calls_.engine->start(std::move(prepared.request), shared_from_this());
      state_ = State::kAnswer;
      if (cancelled_) calls_.engine->cancel(call_);
      return;
    }
    state_ = State::kEnd;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    state_ = State::kEnd;
    prepared.error = current_exception_as_error().message;
  }
  end_soon({.failure = HttpFailure::kRefused, .reason = std::move(prepared.error)});
}

// After a wait, or when it was cancelled meanwhile.
void RetriedCall::go_on() noexcept {
  bool cancelled;
  {
    const std::lock_guard lock(mutex_);
    cancelled = cancelled_;
    const bool is_due = state_ == State::kNextAttempt || (state_ == State::kRequest && cancelled);
    if (!is_due) return;
    if (cancelled) state_ = State::kEnd;
  }
  if (cancelled) return end({.failure = HttpFailure::kCancelled, .reason = "it was cancelled"});
  try {
    ask();
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(state_, State::kEnd) == State::kEnd) return;
    }
    end({.failure = HttpFailure::kRefused, .reason = current_exception_as_error().message});
  }
}

void RetriedCall::answered(HttpResponse response) noexcept {
  begun_at_ += response.waited;
  try {
    nanoseconds wait{0};
    if (is_to_wait(response, wait)) {
      const std::lock_guard lock(mutex_);
      calls_.engine->call_after(cancelled_ ? nanoseconds(0) : wait, [self = shared_from_this()] { self->go_on(); });
      state_ = State::kNextAttempt;
      return;
    }
  } catch (...) {  // the answer that there is must do
  }
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kEnd;
  }
  end(std::move(response));
}

// On the engine's thread, where memory is left to ask for it.
void RetriedCall::end_soon(HttpResponse response) noexcept {
  std::shared_ptr<HttpResponse> kept;
  try {
    kept = std::make_shared<HttpResponse>(std::move(response));
    calls_.engine->call_after(nanoseconds(0), [self = shared_from_this(), kept] { self->end(std::move(*kept)); });
  } catch (...) {
    end(kept == nullptr ? std::move(response) : std::move(*kept));
  }
}

void RetriedCall::end(HttpResponse response) noexcept { callbacks_.done(std::move(response), attempts_); }

bool RetriedCall::is_to_wait(const HttpResponse& response, nanoseconds& wait) {
  const AttemptOutcome outcome =
      response.failure == HttpFailure::kCancelled ? AttemptOutcome::kAnswered : callbacks_.outcome(response);
  if (outcome == AttemptOutcome::kAnswered) {
    calls_.budget->give(RetryBudget::kOfSuccess);
    return false;
  }
  if (outcome == AttemptOutcome::kAgain) return true;
  const nanoseconds now = calls_.engine->now();
  if (outcome == AttemptOutcome::kPartial) {
    begun_at_ = now;
    failures_ = 0;
  }
  const nanoseconds left = begun_at_ + calls_.retries.give_up_after - now;
  const nanoseconds longest = calls_.retries.longest_wait;
  const int doublings = std::min(failures_++, 30);
  wait = calls_.budget->jitter(std::min<nanoseconds>(calls_.retries.first_wait * (int64_t{1} << doublings), longest));
  if (const std::optional<nanoseconds> asked = retry_after(response.head, calls_.engine->wall_now())) {
    if (left > nanoseconds(0) && *asked >= left) return false;
    wait = std::max(wait, *asked);
  }
  if (!calls_.budget->take(outcome == AttemptOutcome::kTransport ? RetryBudget::kOfTransport : RetryBudget::kOfRetry)) {
    wait = std::max(wait, longest / 2 + calls_.budget->jitter(longest / 2));
  }
  if (wait < left) return true;
  // A process that stood still, or a clock that was set, has seen no server fail.
  if (failures_ >= RetryOptions::kLeastAttempts) return false;
  wait = std::min(wait, longest);
  return true;
}

}  // namespace millrace
