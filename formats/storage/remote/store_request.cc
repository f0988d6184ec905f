#include "millrace/formats/storage/remote/store_request.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/blocking_result.h"

namespace millrace {
namespace {

class Asking final : public std::enable_shared_from_this<Asking> {
 public:
  Asking(StoreRequest request, std::function<void(StoreAnswer)> done)
      : request_(std::move(request)), done_(std::move(done)) {}

  std::shared_ptr<RetriedCall> start(const HttpCalls& calls) {
    const auto self = shared_from_this();
    const auto make = [self] { return self->request_.request ? self->request_.request() : HttpRequest(); };
    return RetriedCall::start(
        calls,
        {.request = [self, make](StoreCall::Ready ready) { self->request_.call->prepare(make(), std::move(ready)); },
         .outcome = [self](const HttpResponse& response) { return self->outcome(response); },
         .done = [self](HttpResponse response, int attempts) { self->end(std::move(response), attempts); }});
  }

 private:
  AttemptOutcome outcome(const HttpResponse& response) {
    judged_.reset();
    is_accepted_ = false;
    if (response.failure == HttpFailure::kRefused || response.failure == HttpFailure::kTooLong) {
      return AttemptOutcome::kAnswered;
    }
    if (response.failure != HttpFailure::kNone) {
      may_be_done_ = true;
      return AttemptOutcome::kTransport;
    }
    is_accepted_ = request_.accepts(response);
    if (is_accepted_) return AttemptOutcome::kAnswered;
    judged_ = request_.call->judge(response);
    const bool is_busy = judged_->kind == StoreOutcome::Kind::kBusy;
    may_be_done_ = may_be_done_ || is_busy || response.head.status / 100 == 2;
    if (is_busy) return AttemptOutcome::kBusy;
    return judged_->kind == StoreOutcome::Kind::kAgain ? AttemptOutcome::kAgain : AttemptOutcome::kAnswered;
  }

  void end(HttpResponse response, int attempts) {
    StoreAnswer answer{.is_accepted = response.failure == HttpFailure::kNone && is_accepted_,
                       .may_be_done = may_be_done_};
    if (!answer.is_accepted) answer.error = store_error(*request_.call, response, judged_, attempts);
    answer.response = std::move(response);
    done_(std::move(answer));
  }

  const StoreRequest request_;
  const std::function<void(StoreAnswer)> done_;
  // Of the engine's thread.
  bool is_accepted_ = false;            // the last answer
  std::optional<StoreOutcome> judged_;  // the same, of one that is not
  bool may_be_done_ = false;
};

}  // namespace

std::shared_ptr<RetriedCall> ask_store(const HttpCalls& calls, StoreRequest request,
                                       std::function<void(StoreAnswer)> done) {
  return std::make_shared<Asking>(std::move(request), std::move(done))->start(calls);
}

StoreAnswer ask_store_and_wait(const HttpCalls& calls, StoreRequest request) {
  const auto result = std::make_shared<BlockingResult<StoreAnswer>>();
  ask_store(calls, std::move(request), [result](StoreAnswer answer) { result->set(std::move(answer)); });
  return result->wait();
}

HttpRequest small_request(HttpMethod method) {
  HttpRequest request;
  request.method = method;
  request.is_small = true;
  return request;
}

bool ask_to_remove(HttpCalls calls, std::shared_ptr<StoreCall> call, std::function<bool(const HttpResponse&)> accepts) {
  constexpr std::chrono::milliseconds kLongest(5000);
  calls.retries.give_up_after = std::min(calls.retries.give_up_after, kLongest);
  HttpRequest request = small_request(HttpMethod::kDelete);
  request.deadlines.first_byte = std::min(request.deadlines.first_byte, kLongest);
  return ask_store_and_wait(
             calls, {.call = std::move(call), .request = [request] { return request; }, .accepts = std::move(accepts)})
      .is_accepted;
}

std::string unreadable_answer(const StoreCall& call, std::string_view why, const std::string& body) {
  return fmt::format("{} in '{}'{}", one_line(call.shown(std::string(why))), one_line(call.shown(body)), call.asked());
}

std::string store_error(const StoreCall& call, const HttpResponse& response, const std::optional<StoreOutcome>& judged,
                        int attempts) {
  std::string text = response.failure == HttpFailure::kNone && judged ? judged->text : response.reason;
  if (text.empty()) text = fmt::format("status {}", response.head.status);
  if (attempts > 1) text += fmt::format(" (after {} attempts)", attempts);
  return text + call.asked();
}

}  // namespace millrace
