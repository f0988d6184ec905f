#include "millrace/formats/storage/remote/object_list.h"

#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

class Page final : public std::enable_shared_from_this<Page> {
 public:
  Page(std::shared_ptr<StoreCall> call, std::string url, std::function<void(ListAnswer)> done)
      : call_(std::move(call)), url_(std::move(url)), done_(std::move(done)) {}

  std::shared_ptr<RetriedCall> start(const HttpCalls& calls) {
    const auto self = shared_from_this();
    return RetriedCall::start(
        calls, {.request = [self](StoreCall::Ready ready) { self->call_->prepare({}, std::move(ready)); },
                .outcome = [self](const HttpResponse& response) { return self->outcome(response); },
                .done = [self](HttpResponse response, int attempts) { self->end(std::move(response), attempts); }});
  }

 private:
  AttemptOutcome outcome(const HttpResponse& response) {
    judged_.reset();
    if (response.failure == HttpFailure::kRefused || response.failure == HttpFailure::kTooLong) {
      return AttemptOutcome::kAnswered;
    }
    if (response.failure != HttpFailure::kNone) return AttemptOutcome::kTransport;
    if (call_->is_page(response)) return AttemptOutcome::kAnswered;
    judged_ = call_->judge(response);
    if (judged_->kind == StoreOutcome::Kind::kBusy) return AttemptOutcome::kBusy;
    return judged_->kind == StoreOutcome::Kind::kAgain ? AttemptOutcome::kAgain : AttemptOutcome::kAnswered;
  }

  void end(HttpResponse response, int attempts) {
    ListAnswer answer{.asked = call_->asked(), .status = response.head.status};
    if (response.failure == HttpFailure::kNone && !judged_) {
      answer.body = std::move(response.body);
    } else {
      std::string message = "cannot list it: ";
      message += response.failure == HttpFailure::kNone ? judged_->text : response.reason;
      if (attempts > 1) message += fmt::format(" (after {} attempts)", attempts);
      message += answer.asked;
      answer.error = StorageError{.error = {.code = ErrorCode::kIo, .message = std::move(message), .shard = url_}};
    }
    done_(std::move(answer));
  }

  const std::shared_ptr<StoreCall> call_;
  const std::string url_;
  const std::function<void(ListAnswer)> done_;
  std::optional<StoreOutcome> judged_;  // of the engine's thread
};

}  // namespace

std::shared_ptr<RetriedCall> list_page(const HttpCalls& calls, BucketStore& store, const ListRequest& request,
                                       std::function<void(ListAnswer)> done) {
  const std::string url = fmt::format("{}://{}/{}", store.scheme(), request.bucket, request.prefix);
  return std::make_shared<Page>(store.list(request), url, std::move(done))->start(calls);
}

}  // namespace millrace
