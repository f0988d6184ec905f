#include "tests/fuzz/answer_head_fuzz.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "millrace/formats/storage/blocking_result.h"
#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/storage/remote/gcs_chunk.h"
#include "millrace/formats/storage/remote/gcs_store.h"
#include "millrace/formats/storage/remote/http_engine.h"
#include "millrace/formats/storage/remote/http_store.h"
#include "millrace/formats/storage/remote/object_read.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/s3_store.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr size_t kRoom = 64;  // bytes of an object that are asked for at a time

// Passes when the engine would sleep: nothing comes from elsewhere.
class JumpingClock final : public HttpClock {
 public:
  nanoseconds now() const override { return nanoseconds(now_.load()); }
  nanoseconds sleep_for(nanoseconds wait) const override {
    now_ += wait.count();
    return nanoseconds(0);
  }
  std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);
  }

 private:
  mutable std::atomic<int64_t> now_{0};
};

struct Message {
  HttpHead head;
  std::string body;
};

Message parse_message(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (line.empty() || line == "\r") break;
    message.head.add_line(line);
  }
  message.body = bytes;
  // Others are no answers for libcurl, or not the last.
  if (message.head.status < 200 || message.head.status > 599) message.head.status = 206;
  return message;
}

void check_fields(const HttpHead& head) {
  for (const auto& [name, value] : head.headers.fields()) {
    require(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    const auto content = parse_content_range(value);
    if (!content || !content->range) continue;
    const ByteRange& range = *content->range;
    require(range.size > 0 && range.offset + range.size > range.offset);
    require(!content->object_size || range.offset + range.size <= *content->object_size);
  }
  const auto asked = retry_after(head, JumpingClock().wall_now());
  require(!asked || (*asked >= seconds(0) && *asked <= std::chrono::hours(1)));
}

void check_error(std::string_view message) {
  constexpr size_t kLongest = 4000;
  require(!message.empty() && message.size() <= kLongest);
  require(std::ranges::none_of(message, [](unsigned char c) { return c < ' '; }));
}

// One call whose attempts are all answered with the same message. Of the engine's thread.
class Answered : public std::enable_shared_from_this<Answered> {
 public:
  Answered(HttpEngine& engine, const Message& message) : engine_(engine), message_(message) {}

  template <typename Answer, typename Start>
  Answer run(Start start) {
    const auto result = std::make_shared<BlockingResult<Answer>>();
    engine_.call_after(nanoseconds(0), [self = shared_from_this(), start = std::move(start), result] {
      self->begun_at_ = self->engine_.now();
      self->call_ = start([self, result](Answer answer) {
        self->note_end();
        result->set(std::move(answer));
      });
    });
    return result->wait();
  }

  std::span<std::byte> room() { return room_; }

  // What the engine would be asked to send.
  void sent(const HttpRequest& request) {
    constexpr int kMostRequests = 500;
    require(++num_requests_ <= kMostRequests);
    check(request);
    engine_.call_after(nanoseconds(0), [self = shared_from_this(), request] {
      const std::shared_ptr<RetriedCall> call = self->call_;
      if (call != nullptr) call->answered(self->answer_to(request));
    });
  }

 private:
  void note_end() {
    require(!std::exchange(is_done_, true));
    require(engine_.now() - begun_at_ <= seconds(200));
    call_ = nullptr;
  }

  static void check(const HttpRequest& request) noexcept {
    const HttpUrl url = parse_http_url(request.url);
    require(url.origin.starts_with("https://"));  // as it was asked first
    const std::string* const whom = request.headers.find("Authorization");
    if (whom != nullptr && whom->starts_with("Bearer ")) require(url.host == "storage.googleapis.com");
    if (whom != nullptr && whom->starts_with("AWS4-")) {
      require(url.host.ends_with(".amazonaws.com") || url.host.ends_with(".amazonaws.com.cn"));
    }
    for (const auto& [name, value] : request.headers.fields()) {
      require(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    }
  }

  // As libcurl and the engine would have it.
  HttpResponse answer_to(const HttpRequest& request) {
    HttpResponse response{.head = message_.head};
    const std::string& body = message_.body;
    if (body.empty()) return response;
    const HttpBodyPlan plan = request.plan ? request.plan(message_.head) : HttpBodyPlan();
    if (!plan.refusal.empty()) {
      response.failure = HttpFailure::kRefused;
      response.reason = plan.refusal;
    } else if (!plan.into) {
      response.body = body;
    } else {
      const auto asked = parse_content_range("bytes " + request.headers.find("Range")->substr(6) + "/*");
      require(plan.into->size() <= asked->range->size && plan.into->data() >= room_.data() &&
              plan.into->data() + plan.into->size() <= room_.data() + room_.size());
      response.bytes = std::min(body.size(), plan.into->size());
      if (response.bytes > 0) std::memcpy(plan.into->data(), body.data(), response.bytes);
      if (body.size() > plan.into->size()) response.failure = HttpFailure::kTooLong;
      if (body.size() < plan.into->size()) response.failure = HttpFailure::kTransport;
      response.reason = "the body has another length";
    }
    return response;
  }

  HttpEngine& engine_;
  const Message message_;
  std::array<std::byte, kRoom> room_{};
  std::shared_ptr<RetriedCall> call_;  // null: it has come to its end
  nanoseconds begun_at_{0};
  int num_requests_ = 0;
  bool is_done_ = false;
};

// Makes its requests, and tells them instead of sending them.
class AnsweredCall final : public StoreCall {
 public:
  AnsweredCall(std::shared_ptr<StoreCall> call, std::shared_ptr<Answered> answered)
      : call_(std::move(call)), answered_(std::move(answered)) {}

  void prepare(HttpRequest request, Ready ready) override {
    call_->prepare(std::move(request), [ready = std::move(ready), answered = answered_](PreparedRequest prepared) {
      if (!prepared.error.empty()) return ready(std::move(prepared));
      answered->sent(prepared.request);
    });
  }
  StoreOutcome judge(const HttpResponse& response) override { return call_->judge(response); }
  std::string asked() const override { return call_->asked(); }
  ObjectVersion version(const HttpHead& head, uint64_t size) const override { return call_->version(head, size); }

 private:
  const std::shared_ptr<StoreCall> call_;
  const std::shared_ptr<Answered> answered_;
};

class AnsweredStore final : public ObjectStore {
 public:
  AnsweredStore(std::shared_ptr<ObjectStore> store, std::shared_ptr<Answered> answered)
      : store_(std::move(store)), answered_(std::move(answered)) {}

  std::shared_ptr<StoreCall> read(const std::string& url, const std::optional<ObjectVersion>& pin) override {
    return std::make_shared<AnsweredCall>(store_->read(url, pin), answered_);
  }

 private:
  const std::shared_ptr<ObjectStore> store_;
  const std::shared_ptr<Answered> answered_;
};

ObjectAnswer read_range(const HttpCalls& calls, const Message& message, const std::shared_ptr<ObjectStore>& store,
                        const std::string& url, uint64_t offset, const std::optional<ObjectVersion>& pin) {
  const auto answered = std::make_shared<Answered>(*calls.engine, message);
  ObjectAnswer answer = answered->run<ObjectAnswer>([=](std::function<void(ObjectAnswer)> done) {
    return read_object(calls,
                       {.store = std::make_shared<AnsweredStore>(store, answered),
                        .url = url,
                        .offset = offset,
                        .into = answered->room(),
                        .pin = pin},
                       std::move(done));
  });
  require(answer.bytes <= kRoom && (answer.target.empty() || answer.target.starts_with("https://")));
  if (answer.error) {
    require(answer.error->error.code == ErrorCode::kIo && answer.error->error.shard == url);
    check_error(answer.error->error.message);
  } else {
    const uint64_t size = answer.version.value().size;
    require(answer.bytes > 0 ? offset + answer.bytes <= size : size <= offset);
    require(!pin || answer.version->may_be(*pin));
  }
  return answer;
}

// The beginning of an object, then what comes behind it, of the same version.
void read_twice(const HttpCalls& calls, const Message& message, const std::shared_ptr<ObjectStore>& store,
                const std::string& url) {
  const ObjectAnswer first = read_range(calls, message, store, url, 0, std::nullopt);
  if (!first.error) read_range(calls, message, store, url, first.bytes, first.version);
}

void send_part(const HttpCalls& calls, const Message& message, GcsStore& store, bool is_last) {
  const auto answered = std::make_shared<Answered>(*calls.engine, message);
  const StoreAnswer answer = answered->run<StoreAnswer>([=, &store](std::function<void(StoreAnswer)> done) {
    return send_chunk(calls,
                      {.call = std::make_shared<AnsweredCall>(store.call_of_object("gs://bucket/a"), answered),
                       .offset = 512,
                       .content = std::make_shared<const std::string>(kRoom, 'x'),
                       .is_last = is_last,
                       .crc = "AAAAAA=="},
                      std::move(done));
  });
  require(answer.is_accepted == answer.error.empty());
  if (!answer.is_accepted) check_error(answer.error);
}

}  // namespace

void fuzz_answer_head(std::string_view bytes) {
  const Message message = parse_message(bytes);
  check_fields(message.head);
  const auto engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = std::make_shared<JumpingClock>()});
  const HttpCalls calls{.engine = engine, .budget = std::make_shared<RetryBudget>()};
  const Environment environment = [](std::string_view) { return std::nullopt; };
  S3Options s3{.region = "eu-west-1"};
  s3.fetch_credentials = [](const std::function<void(Refreshed<AwsCredentials>::Fetched)>& fetched) {
    fetched({.value = std::make_shared<AwsCredentials>(
                 AwsCredentials{.access_key_id = "AKIAKEY", .secret_access_key = "secret"})});
  };
  GcsOptions gcs;
  gcs.credentials.access_token = "ya29.token";
  const auto google = std::make_shared<GcsStore>(gcs, calls, environment);
  read_twice(calls, message, std::make_shared<HttpStore>(), "https://host.example/a");
  read_twice(calls, message, std::make_shared<S3Store>(s3, calls, environment), "s3://bucket/a");
  read_twice(calls, message, google, "gs://bucket/a");
  for (const bool is_last : {false, true}) send_part(calls, message, *google, is_last);
}

}  // namespace millrace::test
