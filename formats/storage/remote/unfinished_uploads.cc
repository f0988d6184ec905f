#include "millrace/formats/storage/remote/unfinished_uploads.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/s3_error.h"
#include "millrace/formats/storage/remote/s3_multipart.h"
#include "millrace/formats/storage/remote/store_request.h"

namespace millrace {
namespace {

[[noreturn]] void fail(const std::string& url, const std::string& why) {
  throw ErrorException({.code = ErrorCode::kIo, .message = why, .shard = url});
}

}  // namespace

std::vector<UnfinishedUpload> list_unfinished_uploads(const HttpCalls& calls, S3Store& store, const std::string& prefix,
                                                      std::chrono::seconds older_than) {
  const ObjectUrl url = parse_object_url(prefix);
  std::vector<UnfinishedUpload> found;
  std::string place;
  do {
    const std::shared_ptr<StoreCall> call = store.list_uploads(url, place);
    const StoreAnswer answer = ask_store_and_wait(
        calls, {.call = call, .accepts = [call](const HttpResponse& response) { return call->is_page(response); }});
    // What rclone says where there are none.
    const bool are_none = answer.response.head.status == 404 && parse_s3_error(answer.response).code == "NoSuchUpload";
    if (are_none && !answer.is_accepted) break;
    if (!answer.is_accepted) fail(prefix, "cannot list its uploads: " + answer.error);
    S3UploadPage page;
    try {
      page = parse_s3_uploads(url.bucket, answer.response.body);
    } catch (const ErrorException& exception) {
      fail(prefix,
           "cannot list its uploads: " + unreadable_answer(*call, exception.error().message, answer.response.body));
    }
    for (UnfinishedUpload& upload : page.uploads) {
      if (std::chrono::floor<std::chrono::seconds>(store.now() - upload.begun) >= older_than)
        found.push_back(std::move(upload));
    }
    if (page.next == place && !place.empty()) fail(prefix, "cannot list its uploads: a page names itself as the next");
    place = std::move(page.next);
  } while (!place.empty());
  return found;
}

void abort_unfinished_upload(const HttpCalls& calls, S3Store& store, const UnfinishedUpload& upload) {
  const auto accepts = [](const HttpResponse& response) {
    return response.head.status / 100 == 2 || response.head.status == 404;
  };
  const StoreAnswer answer = ask_store_and_wait(calls, {.call = store.call_of_upload(upload),
                                                        .request = [] { return small_request(HttpMethod::kDelete); },
                                                        .accepts = accepts});
  if (!answer.is_accepted) fail(upload.url, "cannot end its upload: " + answer.error);
}

}  // namespace millrace
