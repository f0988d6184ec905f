#include "millrace/formats/storage/remote/gcs_upload.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/base64.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/remote/gcs_chunk.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Json = nlohmann::json;

constexpr size_t kPartBytes = 8 << 20;
constexpr const char* kMark = "millrace-upload";

// As it stands in the description of an object: base64 of the bytes, the highest first.
std::string crc_text(uint32_t crc) {
  const std::array<char, 4> bytes{static_cast<char>(crc >> 24), static_cast<char>(crc >> 16),
                                  static_cast<char>(crc >> 8), static_cast<char>(crc)};
  return encode_base64({bytes.data(), bytes.size()});
}

// Of the description of an object; empty where it does not say.
std::string text_in(const std::string& resource, const char* name, const char* in = nullptr) {
  Json document;
  try {
    document = parse_json<Json>(resource, "");
  } catch (const ErrorException&) {
    return {};
  }
  const Json* object = &document;
  for (const char* key : {in, name}) {
    if (key == nullptr) continue;
    if (!object->is_object() || !object->contains(key)) return {};
    object = &(*object)[key];
  }
  return object->is_string() ? object->get<std::string>() : std::string();
}

bool is_ok(const HttpResponse& response) { return response.head.status / 100 == 2; }

// It is there no more, or was never.
bool is_removed(const HttpResponse& response) {
  const int status = response.head.status;
  return is_ok(response) || status == 404 || status == 410 || status == 499;  // 499: what a session says
}

std::string location_in(const HttpResponse& response, const std::string& asked) {
  const std::string* const location = response.head.headers.find("Location");
  return location == nullptr ? std::string() : redirect_target(asked, *location).value_or("");
}

// What whoever sees it could write the object with.
std::vector<std::string> secrets_of(const std::string& session) {
  std::vector<std::string> secrets{session};
  constexpr std::string_view kId = "upload_id=";
  const size_t at = session.find(kId);
  if (at == std::string::npos) return secrets;
  secrets.push_back(session.substr(at + kId.size(), session.find('&', at) - at - kId.size()));
  return secrets;
}

}  // namespace

GcsUpload::GcsUpload(HttpCalls calls, GcsService service, ObjectUrl object, GcsCalls make_call,
                     const OutputOptions& options)
    : calls_(std::move(calls)),
      service_(std::move(service)),
      object_(std::move(object)),
      make_call_(std::move(make_call)),
      replaced_(options.if_absent ? "0" : options.if_version),
      refused_condition_(refused_condition(options)),
      part_bytes_(options.part_bytes == 0 ? kPartBytes : options.part_bytes) {
  if (part_bytes_ % kGranule != 0) {
    throw ErrorException(
        {.code = ErrorCode::kInvalidArgument,
         .message = fmt::format("part_bytes is {}, which is no multiple of {}, as Google's store has it", part_bytes_,
                                kGranule),
         .shard = url()});
  }
}

void GcsUpload::put(std::shared_ptr<const std::string> content) {
  crc_ = crc32c(*content);
  const Json resource{{"crc32c", crc_text(crc_)}, {"metadata", {{kMark, mark_}}}};
  auto body = std::make_shared<std::string>(
      fmt::format("--{0}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{1}\r\n--{0}\r\n"
                  "Content-Type: application/octet-stream\r\n\r\n",
                  mark_, resource.dump()));
  const std::string end = fmt::format("\r\n--{}--\r\n", mark_);
  body->reserve(body->size() + content->size() + end.size());
  body->append(*content).append(end);
  content.reset();
  HttpRequest request{.method = HttpMethod::kPost, .shared_body = {.buffer = body, .size = body->size()}};
  request.headers.add("Content-Type", "multipart/related; boundary=" + mark_);
  settle(ask_store_and_wait(calls_, {.call = make_call_(gcs_upload_url(service_, object_, "multipart", replaced_), {}),
                                     .request = [request] { return request; },
                                     .accepts = is_ok}));
}

void GcsUpload::add(std::shared_ptr<const std::string> part) {
  if (session_.empty()) begin();
  send(std::move(part), false);
}

void GcsUpload::finish(std::shared_ptr<const std::string> last) {
  send(std::move(last), true);
  static_cast<void>(pending_->wait_for_most(0));
  settle(*last_);
  session_.clear();
}

void GcsUpload::abort() noexcept {
  // In the child of a fork there is nobody who would answer, and the session is that of the parent.
  if (calls_.engine->is_of_other_process()) return;
  try {
    pending_->cancel();
    if (session_.empty()) return;
    // What the store made an object before its end.
    if (!last_->is_accepted && is_ok(last_->response)) remove(last_->response.body);
    ask_to_remove(calls_, make_call_(session_, secrets_), is_removed);
    session_.clear();
  } catch (...) {  // it ends by itself after a week
  }
}

void GcsUpload::begin() {
  const std::string asked = gcs_upload_url(service_, object_, "resumable", replaced_);
  HttpRequest request = small_request(HttpMethod::kPost);
  request.body = Json{{"metadata", {{kMark, mark_}}}}.dump();
  request.headers.add("Content-Type", "application/json; charset=UTF-8");
  request.headers.add("X-Upload-Content-Type", "application/octet-stream");
  const auto accepts = [asked](const HttpResponse& response) {
    return is_ok(response) && !location_in(response, asked).empty();
  };
  const StoreAnswer answer = ask_store_and_wait(
      calls_, {.call = make_call_(asked, {}), .request = [request] { return request; }, .accepts = accepts});
  if (answer.is_accepted) {
    session_ = location_in(answer.response, asked);
    secrets_ = secrets_of(session_);
    return;
  }
  const bool is_refused = answer.response.head.status == 412;
  const bool is_begun = answer.response.failure == HttpFailure::kNone && is_ok(answer.response);
  throw upload_error(url(), (is_refused ? refused_condition_
                             : is_begun ? "it began, and its Location is no URL that can be written to: "
                                        : "") +
                                answer.error);
}

void GcsUpload::send(std::shared_ptr<const std::string> content, bool is_last) {
  if (const std::string error = pending_->wait_for_most(0); !error.empty()) throw upload_error(url(), error);
  *last_ = {};
  const uint64_t offset = std::exchange(bytes_, bytes_ + content->size());
  crc_ = crc32c(*content, crc_);
  const auto call = std::make_shared<PendingCalls::Call>(pending_);
  pending_->keep(send_chunk(calls_,
                            {.call = make_call_(session_, secrets_),
                             .offset = offset,
                             .content = std::move(content),
                             .is_last = is_last,
                             .crc = crc_text(crc_)},
                            [call, last = last_](StoreAnswer answer) {
                              std::string error = answer.error;
                              *last = std::move(answer);
                              call->end(std::move(error));
                            }));
}

// Returns where the object is there.
void GcsUpload::settle(const StoreAnswer& answer) {
  if (answer.is_accepted) return check(answer.response.body);
  may_be_there_ = answer.may_be_done;
  std::string why = answer.error;
  if (answer.may_be_done) {
    const StoreAnswer now = ask_store_and_wait(calls_, {.call = make_call_(gcs_resource_url(service_, object_), {}),
                                                        .request = [] { return small_request(HttpMethod::kGet); },
                                                        .accepts = is_ok});
    if (now.is_accepted && text_in(now.response.body, kMark, "metadata") == mark_) return check(now.response.body);
    if (!now.is_accepted && now.response.head.status != 404) {
      why += "; whether it is there cannot be seen: " + now.error;
    }
  }
  if (answer.response.head.status == 412) why = refused_condition_ + why;
  throw upload_error(url(), why);
}

void GcsUpload::check(const std::string& resource) {
  const std::string crc = text_in(resource, "crc32c");
  if (crc.empty() || crc == crc_text(crc_)) return;
  // It is there, and nobody should read it: of a store that did not compare it itself.
  const bool is_gone = remove(resource);
  throw upload_error(url(), fmt::format("the CRC32C of what came there is {}, and of what was sent {}; it {} removed",
                                        excerpt(printable(crc)), crc_text(crc_), is_gone ? "was" : "could not be"));
}

// Whether it did.
bool GcsUpload::remove(const std::string& resource) {
  const std::string generation = text_in(resource, "generation");
  return !generation.empty() &&
         ask_to_remove(calls_, make_call_(gcs_generation_url(service_, object_, generation), {}), is_removed);
}

}  // namespace millrace
