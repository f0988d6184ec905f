#include "millrace/formats/storage/remote/object_now.h"

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/http_date.h"
#include "millrace/formats/storage/remote/store_request.h"

namespace millrace {

std::optional<std::chrono::seconds> age_by(const HttpHead& head) {
  const std::string* const date = head.headers.find("Date");
  const std::string* const modified = head.headers.find("Last-Modified");
  if (date == nullptr || modified == nullptr) return std::nullopt;
  const auto now = parse_http_date(*date);
  const auto then = parse_http_date(*modified);
  if (!now || !then) return std::nullopt;
  return *now - *then;
}

std::optional<ObjectNow> look_at_object(const HttpCalls& calls, BucketStore& store, const std::string& url,
                                        size_t most_bytes) {
  const std::shared_ptr<StoreCall> call = store.read(url, std::nullopt);
  bool is_missing = false;
  const auto accepts = [&](const HttpResponse& response) {
    if (response.head.status == 404) is_missing = call->judge(response).kind == StoreOutcome::Kind::kNotFound;
    return response.head.status == 200 || is_missing;
  };
  const auto request = [most_bytes] {
    HttpRequest get = small_request(HttpMethod::kGet);
    get.most_body = most_bytes;
    get.deadlines.whole += std::chrono::milliseconds(most_bytes >> 10);
    return get;
  };
  StoreAnswer answer = ask_store_and_wait(calls, {.call = call, .request = request, .accepts = accepts});
  if (!answer.is_accepted) {
    throw ErrorException({.code = ErrorCode::kIo, .message = "cannot read it: " + answer.error, .shard = url});
  }
  if (is_missing) return std::nullopt;
  ObjectNow now{.bytes = std::move(answer.response.body), .age = age_by(answer.response.head)};
  const ObjectVersion version = call->version(answer.response.head, now.bytes.size());
  now.version = version.generation.empty() ? version.tag : version.generation;
  return now;
}

}  // namespace millrace
