#include "millrace/formats/storage/remote/gcs_chunk.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/byte_range.h"

namespace millrace {
namespace {

// `bytes=0-1234`, of an answer; nothing where it is another.
std::optional<uint64_t> parse_kept(std::string_view field) {
  constexpr std::string_view kBegin = "bytes=0-";
  if (!field.starts_with(kBegin)) return std::nullopt;
  const auto last = parse_count(field.substr(kBegin.size()));
  return last ? std::optional<uint64_t>(*last + 1) : std::nullopt;
}

class Sending final : public std::enable_shared_from_this<Sending> {
 public:
  Sending(GcsChunk chunk, std::function<void(StoreAnswer)> done)
      : chunk_(std::move(chunk)),
        end_(chunk_.offset + chunk_.content->size()),
        done_(std::move(done)),
        kept_(chunk_.offset) {}

  std::shared_ptr<RetriedCall> start(const HttpCalls& calls) {
    const auto self = shared_from_this();
    return RetriedCall::start(
        calls,
        {.request = [self](StoreCall::Ready ready) { self->chunk_.call->prepare(self->request(), std::move(ready)); },
         .outcome = [self](const HttpResponse& response) { return self->outcome(response); },
         .done = [self](HttpResponse response, int attempts) { self->end(std::move(response), attempts); }});
  }

 private:
  // With a progress of less than this a store could keep a run busy forever.
  static constexpr uint64_t kLeastProgress = 256 << 10;

  HttpRequest request() const {
    HttpRequest request = asks_ ? question() : rest();
    // https://cloud.google.com/storage/docs/data-validation
    if (chunk_.is_last) request.headers.add("x-goog-hash", "crc32c=" + chunk_.crc);
    return request;
  }

  std::string total() const { return chunk_.is_last ? fmt::format("{}", end_) : "*"; }

  HttpRequest question() const {
    HttpRequest question = small_request(HttpMethod::kPut);
    question.headers.add("Content-Range", "bytes */" + total());
    return question;
  }

  HttpRequest rest() const {
    HttpRequest request{
        .method = HttpMethod::kPut,
        .shared_body = {.buffer = chunk_.content, .begin = kept_ - chunk_.offset, .size = end_ - kept_}};
    request.headers.add("Content-Type", "application/octet-stream");
    request.headers.add("Content-Range", fmt::format("bytes {}-{}/{}", kept_, end_ - 1, total()));
    return request;
  }

  AttemptOutcome outcome(const HttpResponse& response) {
    judged_.reset();
    is_accepted_ = false;
    const int status = response.head.status;
    if (response.failure == HttpFailure::kRefused || response.failure == HttpFailure::kTooLong) {
      return AttemptOutcome::kAnswered;
    }
    if (response.failure != HttpFailure::kNone) {
      may_be_done_ = asks_ = true;
      return AttemptOutcome::kTransport;
    }
    if (status == 308) return outcome_of_kept(response.head);
    if (status == 200 || status == 201) {
      is_accepted_ = chunk_.is_last;
      if (!is_accepted_) refuse(fmt::format("status {}: it ends the upload before its end", status));
      return AttemptOutcome::kAnswered;
    }
    judged_ = chunk_.call->judge(response);
    if (judged_->kind == StoreOutcome::Kind::kAgain) return AttemptOutcome::kAgain;
    if (judged_->kind != StoreOutcome::Kind::kBusy) return AttemptOutcome::kAnswered;
    may_be_done_ = asks_ = true;
    return AttemptOutcome::kBusy;
  }

  AttemptOutcome outcome_of_kept(const HttpHead& head) {
    const std::string* const field = head.headers.find("Range");
    const auto kept = field == nullptr ? std::optional<uint64_t>(0) : parse_kept(*field);
    if (!kept || *kept < kept_ || *kept > end_) {
      refuse(fmt::format("status 308: it has kept '{}' of the bytes up to {}, after it had kept {}",
                         field == nullptr ? "" : one_line(*field), end_, kept_));
      return AttemptOutcome::kAnswered;
    }
    const bool was_asked = std::exchange(asks_, false);
    const uint64_t progress = *kept - std::exchange(kept_, *kept);
    if (kept_ == end_ && !chunk_.is_last) {
      is_accepted_ = true;
      return AttemptOutcome::kAnswered;
    }
    judged_ = StoreOutcome{.text = fmt::format("status 308: it has kept {} of {} bytes", kept_, end_)};
    if (kept_ == end_) {  // all is there, and the object is not yet
      asks_ = true;
      return AttemptOutcome::kBusy;
    }
    if (progress >= kLeastProgress) return AttemptOutcome::kPartial;
    return was_asked ? AttemptOutcome::kAgain : AttemptOutcome::kBusy;
  }

  void refuse(std::string why) { judged_ = StoreOutcome{.text = std::move(why)}; }

  void end(HttpResponse response, int attempts) {
    StoreAnswer answer{.is_accepted = response.failure == HttpFailure::kNone && is_accepted_,
                       .may_be_done = may_be_done_};
    if (!answer.is_accepted) answer.error = store_error(*chunk_.call, response, judged_, attempts);
    answer.response = std::move(response);
    done_(std::move(answer));
  }

  const GcsChunk chunk_;
  const uint64_t end_;
  const std::function<void(StoreAnswer)> done_;
  // Of one attempt after the other.
  uint64_t kept_;      // bytes of the object
  bool asks_ = false;  // the next attempt asks what is kept
  bool is_accepted_ = false;
  bool may_be_done_ = false;
  std::optional<StoreOutcome> judged_;
};

}  // namespace

std::shared_ptr<RetriedCall> send_chunk(const HttpCalls& calls, GcsChunk chunk, std::function<void(StoreAnswer)> done) {
  return std::make_shared<Sending>(std::move(chunk), std::move(done))->start(calls);
}

}  // namespace millrace
