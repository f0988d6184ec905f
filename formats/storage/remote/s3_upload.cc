#include "millrace/formats/storage/remote/s3_upload.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/object_version.h"
#include "millrace/formats/storage/remote/s3_error.h"
#include "millrace/formats/storage/remote/s3_multipart.h"
#include "millrace/formats/storage/remote/s3_signature.h"

namespace millrace {
namespace {

constexpr size_t kPartBytes = 8 << 20;
constexpr int kMostAborts = 4;
constexpr const char* kMark = "x-amz-meta-millrace-upload";

bool is_created(const HttpResponse& response) { return response.head.status == 200; }

}  // namespace

// The entity tags of the parts, as far as they are there.
class S3Upload::Tags {
 public:
  void set(size_t part, std::string tag) {
    const std::lock_guard lock(mutex_);
    if (tags_.size() <= part) tags_.resize(part + 1);
    tags_[part] = std::move(tag);
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return tags_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> tags_;
};

S3Upload::S3Upload(HttpCalls calls, std::string url, S3Calls make_call, bool hashes,
                   std::shared_ptr<S3Conditions> conditions, const OutputOptions& options, size_t most_parts)
    : calls_(std::move(calls)),
      url_(std::move(url)),
      make_call_(std::move(make_call)),
      hashes_(hashes),
      conditions_(std::move(conditions)),
      if_absent_(options.if_absent),
      if_version_(options.if_version),
      refused_condition_(refused_condition(options)),
      part_bytes_(options.part_bytes == 0 ? kPartBytes : options.part_bytes),
      most_in_flight_(options.in_flight),
      most_parts_(most_parts),
      tags_(std::make_shared<Tags>()) {
  if (most_in_flight_ < 1) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = fmt::format("in_flight is {}, less than 1", most_in_flight_),
                          .shard = url_});
  }
}

S3Upload::~S3Upload() = default;

void S3Upload::put(std::shared_ptr<const std::string> content) {
  bytes_ = content->size();
  content_ = content;
  HttpRequest request = request_with(content);
  request.headers.add(kMark, mark_);
  settle(ask_on_condition([this] { return make_call_("", {}); }, request, is_created));
}

void S3Upload::add(std::shared_ptr<const std::string> part) {
  if (id_.empty()) begin();
  if (num_parts_ == most_parts_) {
    throw upload_error(url_, fmt::format("it has more than {} parts of {} bytes, which is all that S3 takes: "
                                         "OutputOptions::part_bytes makes them larger",
                                         most_parts_, part_bytes_));
  }
  if (const std::string error = pending_->wait_for_most(most_in_flight_ - 1); !error.empty()) {
    throw upload_error(url_, error);
  }
  bytes_ += part->size();
  const size_t index = num_parts_++;
  const auto accepts = [](const HttpResponse& response) {
    return response.head.status == 200 && response.head.headers.find("ETag") != nullptr;
  };
  const auto call = std::make_shared<PendingCalls::Call>(pending_);
  const auto done = [call, tags = tags_, index](const StoreAnswer& answer) {
    if (answer.is_accepted) tags->set(index, *answer.response.head.headers.find("ETag"));
    call->end(answer.is_accepted ? "" : fmt::format("part {}: {}", index + 1, answer.error));
  };
  pending_->keep(ask_store(calls_,
                           {.call = call_of_upload(fmt::format("partNumber={}&", index + 1)),
                            .request = [request = request_with(part)] { return request; },
                            .accepts = accepts},
                           done));
}

void S3Upload::finish(std::shared_ptr<const std::string> last) {
  add(std::move(last));
  if (const std::string error = pending_->wait_for_most(0); !error.empty()) throw upload_error(url_, error);
  const auto accepts = [](const HttpResponse& response) {
    return response.head.status == 200 && is_s3_completed(response.body);
  };
  settle(ask_on_condition([this] { return call_of_upload(""); }, request_to_complete(), accepts));
  id_.clear();
}

void S3Upload::abort() noexcept {
  // In the child of a fork there is nobody who would answer, and the upload is that of the parent.
  if (calls_.engine->is_of_other_process()) return;
  try {
    pending_->cancel();
    if (id_.empty()) return;
    // A part that was in flight may come after one abort
    // (https://docs.aws.amazon.com/AmazonS3/latest/API/API_AbortMultipartUpload.html).
    bool is_gone = false;
    const auto accepts = [&is_gone](const HttpResponse& response) {
      is_gone = response.head.status == 404;
      return is_gone || response.head.status / 100 == 2;
    };
    for (int i = 0; i < kMostAborts && !is_gone; ++i) {
      if (!ask_to_remove(calls_, call_of_upload(""), accepts)) break;
    }
    id_.clear();
  } catch (...) {  // it stays, as that of a writer that was killed
  }
}

void S3Upload::begin() {
  HttpRequest request = small_request(HttpMethod::kPost);
  request.headers.add("Content-Type", "application/octet-stream");
  request.headers.add(kMark, mark_);
  const auto accepts = [](const HttpResponse& response) {
    return response.head.status == 200 && !parse_s3_upload_id(response.body).empty();
  };
  const StoreAnswer answer = ask_store_and_wait(
      calls_, {.call = make_call_("uploads", {}), .request = [request] { return request; }, .accepts = accepts});
  if (!answer.is_accepted) throw upload_error(url_, answer.error);
  id_ = parse_s3_upload_id(answer.response.body);
}

HttpRequest S3Upload::request_to_complete() const {
  HttpRequest request{.method = HttpMethod::kPost, .body = s3_complete_body(tags_->all()), .is_small = true};
  request.headers.add("Content-Type", "application/xml");
  // The store puts the parts together meanwhile, and sends a blank now and then.
  request.deadlines = {.first_byte = std::chrono::minutes(1),
                       .stall = std::chrono::minutes(1),
                       .least_bytes = 1,
                       .whole = std::chrono::minutes(15)};
  return request;
}

// The request that makes the object.
StoreAnswer S3Upload::ask_on_condition(const std::function<std::shared_ptr<StoreCall>()>& make_call,
                                       const HttpRequest& request,
                                       const std::function<bool(const HttpResponse&)>& accepts) const {
  const auto ask = [&](const HttpRequest& asked) {
    return ask_store_and_wait(calls_, {.call = make_call(), .request = [asked] { return asked; }, .accepts = accepts});
  };
  if (!if_absent_ && if_version_.empty()) return ask(request);
  std::atomic<bool>& is_known = if_absent_ ? conditions_->if_none_match : conditions_->if_match;
  if (!is_known) {
    require_condition();
    return ask(request);
  }
  HttpRequest conditional = request;
  if (if_absent_) {
    conditional.headers.add("If-None-Match", "*");
  } else {
    conditional.headers.add("If-Match", '"' + if_version_ + '"');
  }
  StoreAnswer answer = ask(conditional);
  if (answer.is_accepted || parse_s3_error(answer.response).code != "NotImplemented") return answer;
  require_condition();
  answer = ask(request);
  if (answer.is_accepted) is_known = false;
  return answer;
}

// In place of a store that implements no conditions: only of two that write in the same moment both may.
void S3Upload::require_condition() const {
  const StoreAnswer there = ask_for_head();
  if (!there.is_accepted && there.response.head.status != 404)
    throw upload_error(url_, "whether it is there cannot be seen: " + there.error);
  const std::string* const tag = there.response.head.headers.find("ETag");
  const bool is_replaced = there.is_accepted && tag != nullptr && strong_tag(*tag) == if_version_;
  if (if_absent_ ? there.is_accepted : !is_replaced) {
    throw upload_error(url_, refused_condition_ + "the store implements no conditions, it was looked at before");
  }
}

StoreAnswer S3Upload::ask_for_head() const {
  return ask_store_and_wait(
      calls_,
      {.call = make_call_("", {}), .request = [] { return small_request(HttpMethod::kHead); }, .accepts = is_created});
}

// Returns where the object is there.
void S3Upload::settle(const StoreAnswer& answer) {
  if (answer.is_accepted) return;
  may_be_there_ = answer.may_be_done;
  std::string why = answer.error;
  if (answer.may_be_done) {
    std::string why_unknown;
    const There there = look(why_unknown);
    if (there == There::kThis) return;
    if (there == There::kUnknown) why += "; whether it is there cannot be seen: " + why_unknown;
  }
  if (answer.response.head.status == 412) why = refused_condition_ + why;
  throw upload_error(url_, why);
}

S3Upload::There S3Upload::look(std::string& why) const {
  const StoreAnswer answer = ask_for_head();
  why = answer.error;
  const HttpHead& head = answer.response.head;
  if (!answer.is_accepted) return head.status == 404 ? There::kNot : There::kUnknown;
  if (const std::string* mark = head.headers.find(kMark)) return *mark == mark_ ? There::kThis : There::kNot;
  // A store that keeps no marks.
  const std::string* const tag = head.headers.find("ETag");
  const std::string* const length = head.headers.find("Content-Length");
  const std::string expected = content_ != nullptr ? s3_tag_of(*content_) : s3_tag_of_parts(tags_->all());
  const bool is_this = tag != nullptr && !expected.empty() && strong_tag(*tag) == expected && length != nullptr &&
                       parse_count(*length) == bytes_;
  return is_this ? There::kThis : There::kNot;
}

HttpRequest S3Upload::request_with(const std::shared_ptr<const std::string>& content) const {
  HttpRequest request{.method = HttpMethod::kPut, .shared_body = {.buffer = content, .size = content->size()}};
  request.headers.add("Content-Type", "application/octet-stream");
  // Here, and not where the request is signed: on the thread that writes, and once for all attempts.
  if (hashes_) request.headers.add("x-amz-content-sha256", sha256_hex(*content));
  return request;
}

std::shared_ptr<StoreCall> S3Upload::call_of_upload(const std::string& query) const {
  const std::string encoded = percent_encoded(id_);
  return make_call_(fmt::format("{}uploadId={}", query, encoded), {id_, encoded});
}

}  // namespace millrace
