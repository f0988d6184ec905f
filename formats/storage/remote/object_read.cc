#include "millrace/formats/storage/remote/object_read.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {
namespace {

constexpr int kMostRedirects = 5;
constexpr size_t kMostOfSmall = 64 << 10;

std::string changed(const ObjectVersion& was, const std::string& is) {
  return fmt::format("it was changed while it was read: was {}, is {}", one_line(was.to_string()), one_line(is));
}

std::optional<uint64_t> length_of(const HttpHead& head) {
  const std::string* const field = head.headers.find("Content-Length");
  return field == nullptr ? std::nullopt : parse_count(*field);
}

// How the body is encoded; null: not at all.
const std::string* encoding_of(const HttpHead& head) {
  const std::string* const field = head.headers.find("Content-Encoding");
  return field == nullptr || *field == "identity" ? nullptr : field;
}

class Read final : public std::enable_shared_from_this<Read> {
 public:
  Read(ObjectRequest request, std::function<void(ObjectAnswer)> done)
      : request_(std::move(request)),
        done_(std::move(done)),
        call_(request_.store->read(request_.url, request_.pin)),
        target_(request_.target) {}

  std::shared_ptr<RetriedCall> start(const HttpCalls& calls) {
    const auto self = shared_from_this();
    return RetriedCall::start(
        calls, {.request = [self](StoreCall::Ready ready) { self->call_->prepare(self->request(), std::move(ready)); },
                .outcome = [self](const HttpResponse& response) { return self->outcome(response); },
                .done = [self](const HttpResponse& response,
                               int attempts) { self->done_(self->answer(response, attempts)); }});
  }

 private:
  HttpRequest request() {
    HttpRequest request{.url = target_, .is_small = request_.into.size() <= kMostOfSmall};
    request.deadlines.whole += std::chrono::milliseconds(request_.into.size() >> 10);
    request.headers.add("Range", range_field({.offset = request_.offset, .size = request_.into.size()}));
    if (request_.may_be_hedged) request.hedged_bytes = request_.into.size();
    request.most_body = std::max<size_t>(request_.into.size(), 1 << 20);  // what is encoded, and pages of errors
    request.plan = [self = shared_from_this()](const HttpHead& head) { return self->plan(head); };
    return request;
  }

  // Of the range that was asked for, or nothing is read.
  HttpBodyPlan plan(const HttpHead& head) {
    if (head.status != 200 && head.status != 206) return {};
    const std::string* const field = head.headers.find("Content-Range");
    // Some stores send a part with status 200, which else is the whole object.
    if (head.status == 200 && field == nullptr) return plan_of_whole(head);
    const auto content = field == nullptr ? std::nullopt : parse_content_range(*field);
    if (!content || !content->range || !content->object_size) {
      return {.refusal =
                  fmt::format("its Content-Range '{}' cannot be read", field == nullptr ? "" : one_line(*field))};
    }
    if (content->range->offset != request_.offset || content->range->size > request_.into.size()) {
      return {.refusal = fmt::format("it answers with other bytes, '{}', than were asked for, {} from {} on",
                                     one_line(*field), request_.into.size(), request_.offset)};
    }
    promised_ = content->range->size;
    const auto length = length_of(head);
    const bool is_encoded = encoding_of(head) != nullptr;
    if (is_encoded && length && *length != promised_) return {.refusal = encoded_otherwise(head)};
    HttpBodyPlan plan = take(head, *content->object_size, content->range->size);
    if (is_encoded && !length) plan.into.reset();
    return plan;
  }

  // Ranges of an object that is kept encoded are of the bytes that are kept. Of others some proxies encode the range
  // itself, which then has another length: https://github.com/mtrudel/bandit/pull/677. Where the head does not say how
  // long it is, what came does, and only at its end: until then the bytes are in the body, since in their place are
  // those of a second request, too, and what is left of an answer that breaks off is asked for again.
  std::string encoded_otherwise(const HttpHead& head) const {
    return fmt::format("what it sends is encoded as '{}', and not the {} bytes of its Content-Range",
                       one_line(*encoding_of(head)), promised_);
  }
  bool is_encoded_otherwise(const HttpResponse& response) const {
    if (encoding_of(response.head) == nullptr) return false;
    const size_t bytes = bytes_of(response);
    return response.failure == HttpFailure::kTooLong ||
           (response.failure == HttpFailure::kNone && bytes > 0 && bytes != promised_);
  }
  // What came of the range; in a body only with its end.
  static size_t bytes_of(const HttpResponse& response) {
    const int status = response.head.status;
    const bool is_whole = response.failure == HttpFailure::kNone && (status == 200 || status == 206);
    return response.bytes + (is_whole ? response.body.size() : 0);
  }

  // A server without ranges, or one that gives a small object as a whole.
  HttpBodyPlan plan_of_whole(const HttpHead& head) {
    const auto size = length_of(head);
    if (!size) return {.refusal = "it sends no ranges, and does not say how long the object is"};
    if (const std::string* const encoding = encoding_of(head)) {
      return {.refusal = fmt::format("it sends no ranges, and what it sends is encoded as '{}'", one_line(*encoding))};
    }
    if (request_.offset != 0 || *size > request_.into.size()) {
      return {.refusal = fmt::format("it sends no ranges: of an object of {} bytes nothing can be read alone", *size)};
    }
    return take(head, *size, *size);
  }

  HttpBodyPlan take(const HttpHead& head, uint64_t object_size, uint64_t bytes) {
    ObjectVersion version = linked_ ? *linked_ : call_->version(head, object_size);
    if (linked_ && linked_->size != object_size) {
      return {.refusal = fmt::format("it has {} bytes where it was redirected to, and {} by the redirect", object_size,
                                     linked_->size)};
    }
    version.size = object_size;
    if (refused_pin_) {  // the store knows better what is another than an answer may tell
      is_changed_ = true;
      const std::string is = version.to_string();
      return {.refusal = changed(*request_.pin, is == request_.pin->to_string() ? "another" : is)};
    }
    // Of who was asked at once all that can be compared is the size.
    const bool is_known_link = request_.pin && request_.pin->is_linked && !linked_;
    if (is_known_link && object_size == request_.pin->size) version = *request_.pin;
    const std::optional<ObjectVersion>& pin = request_.pin ? request_.pin : version_;
    if (pin && !version.may_be(*pin)) {
      is_changed_ = true;
      return {.refusal = changed(*pin, version.to_string())};
    }
    version_ = std::move(version);
    return {.into = request_.into.first(bytes)};
  }

  AttemptOutcome outcome(const HttpResponse& response) {
    const int status = response.head.status;
    if (response.failure == HttpFailure::kRefused) return AttemptOutcome::kAnswered;
    if (is_encoded_otherwise(response) || response.failure == HttpFailure::kTooLong) return AttemptOutcome::kAnswered;
    if (const size_t bytes = bytes_of(response); bytes > 0) {
      if (response.bytes == 0) std::memcpy(request_.into.data(), response.body.data(), bytes);
      num_read_ += bytes;
      if (!request_.pin) request_.pin = version_;  // of the rest
      request_.offset += bytes;
      request_.into = request_.into.subspan(bytes);
      if (response.failure == HttpFailure::kNone || request_.into.empty() || !expects_bytes())
        return AttemptOutcome::kAnswered;
      return bytes >= HttpDeadlines().least_bytes ? AttemptOutcome::kPartial : AttemptOutcome::kTransport;
    }
    if (!request_.pin) version_.reset();  // nothing of it was kept
    if (response.failure != HttpFailure::kNone) return AttemptOutcome::kTransport;
    if (status == 206 || status == 200) {
      judged_ = {.text = plan(response.head).refusal};  // nobody has asked for it: there is no body
      if (!judged_.text.empty() || !expects_bytes()) return AttemptOutcome::kAnswered;
      judged_.text = fmt::format("status {} without the bytes that were asked for", status);
      return AttemptOutcome::kTransport;
    }
    if (status == 416 && size_beyond_which(response.head)) return AttemptOutcome::kAnswered;
    const bool is_stale = !request_.target.empty() && target_ == request_.target && status >= 400 && status < 500;
    if (is_stale && status != 412 && status != 408 && status != 429) {  // a link that has expired
      request_.target.clear();
      target_.clear();
      return AttemptOutcome::kAgain;
    }
    judged_ = call_->judge(response);
    switch (judged_.kind) {
      case StoreOutcome::Kind::kBusy: return AttemptOutcome::kBusy;
      case StoreOutcome::Kind::kAgain: return AttemptOutcome::kAgain;
      case StoreOutcome::Kind::kRedirect:
        return follow(response.head) ? AttemptOutcome::kAgain : AttemptOutcome::kAnswered;
      case StoreOutcome::Kind::kChanged: return ask_what_is_there();
      default: return AttemptOutcome::kAnswered;
    }
  }

  // Once more without a condition: the error names both.
  AttemptOutcome ask_what_is_there() {
    refused_pin_ = true;
    call_ = request_.store->read(request_.url, std::nullopt);
    return AttemptOutcome::kAgain;
  }

  bool expects_bytes() const { return request_.offset < version_->size; }

  bool follow(const HttpHead& head) {
    const std::string* const location = head.headers.find("Location");
    if (location == nullptr || ++redirects_ > kMostRedirects) return false;
    const auto target = redirect_target(target_.empty() ? request_.url : target_, *location);
    if (!target) return false;
    target_ = *target;
    // Hugging Face's Hub says whose content the other host sends.
    const std::string* const tag = head.headers.find("X-Linked-Etag");
    const std::string* const size = head.headers.find("X-Linked-Size");
    if (tag != nullptr && size != nullptr) {
      if (const auto bytes = parse_count(*size))
        linked_ = ObjectVersion{.tag = strong_tag(*tag), .size = *bytes, .is_linked = true};
    }
    return true;
  }

  ObjectAnswer answer(const HttpResponse& response, int attempts) {
    ObjectAnswer answer{.bytes = num_read_, .version = version_, .target = target_};
    const int status = response.head.status;
    const bool has_answer = response.failure == HttpFailure::kNone && !is_encoded_otherwise(response);
    const bool is_whole = num_read_ > 0 && (request_.into.empty() || !expects_bytes());
    const bool is_good = has_answer && (status == 200 || status == 206) && version_;
    if (is_whole || (is_good && (bytes_of(response) > 0 || !expects_bytes()))) return answer;
    if (has_answer && status == 416) {
      if (const auto size = size_beyond_which(response.head)) {
        answer.version = call_->version(response.head, *size);
        if (!request_.pin || answer.version->may_be(*request_.pin)) return answer;
        is_changed_ = true;
        answer.error = error_of(changed(*request_.pin, answer.version->to_string()), attempts);
      }
    }
    if (!answer.error) answer.error = error_of(reason_of(response), attempts);
    answer.error->not_found = has_answer && !refused_pin_ && judged_.kind == StoreOutcome::Kind::kNotFound;
    answer.error->is_denied = has_answer && (status == 401 || status == 403);
    answer.is_changed = is_changed_ || refused_pin_;
    return answer;
  }

  // Of an answer that the object ends before. Not every store says where: of no object then, but an empty one, there
  // are no bytes from its beginning on.
  std::optional<uint64_t> size_beyond_which(const HttpHead& head) const {
    const std::string* const field = head.headers.find("Content-Range");
    const auto content = field == nullptr ? std::nullopt : parse_content_range(*field);
    if (content && content->object_size) {
      return *content->object_size <= request_.offset ? content->object_size : std::nullopt;
    }
    return request_.offset == 0 ? std::optional<uint64_t>(0) : std::nullopt;
  }

  std::string reason_of(const HttpResponse& response) const {
    if (refused_pin_ && !is_changed_) {
      const bool is_gone = response.failure == HttpFailure::kNone && judged_.kind == StoreOutcome::Kind::kNotFound;
      return changed(*request_.pin, is_gone ? "no longer there" : "another");
    }
    if (is_encoded_otherwise(response)) return encoded_otherwise(response.head);
    if (response.failure != HttpFailure::kNone) return response.reason;
    if (judged_.kind == StoreOutcome::Kind::kRedirect) {
      return redirects_ > kMostRedirects ? fmt::format("more than {} redirects", kMostRedirects)
                                         : fmt::format("status {}, which leads nowhere", response.head.status);
    }
    return judged_.text.empty() ? fmt::format("status {}", response.head.status) : judged_.text;
  }

  StorageError error_of(const std::string& reason, int attempts) const {
    std::string message = "cannot read it: " + reason;
    if (attempts > 1) message += fmt::format(" (after {} attempts)", attempts);
    // Targets have signatures in their queries.
    if (!target_.empty()) message += fmt::format(", where it was redirected to {}", one_line(origin_of(target_)));
    message += call_->asked();
    return {.error = {.code = ErrorCode::kIo, .message = std::move(message), .shard = shown_url(request_.url)}};
  }

  ObjectRequest request_;
  const std::function<void(ObjectAnswer)> done_;
  std::shared_ptr<StoreCall> call_;
  // Of the engine's thread. `offset` and `into` of the request are those of what is missing.
  size_t num_read_ = 0;
  uint64_t promised_ = 0;  // bytes of the range of the last answer
  std::string target_;
  int redirects_ = 0;
  std::optional<ObjectVersion> linked_;   // what a redirect says of the content
  std::optional<ObjectVersion> version_;  // of the answer that was read
  StoreOutcome judged_;                   // the last answer that was neither
  bool is_changed_ = false;
  bool refused_pin_ = false;  // the store has another version
};

}  // namespace

std::shared_ptr<RetriedCall> read_object(const HttpCalls& calls, ObjectRequest request,
                                         std::function<void(ObjectAnswer)> done) {
  return std::make_shared<Read>(std::move(request), std::move(done))->start(calls);
}

}  // namespace millrace
