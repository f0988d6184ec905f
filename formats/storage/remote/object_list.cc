#include "millrace/formats/storage/remote/object_list.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/blocking_result.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/store_request.h"

namespace millrace {

std::shared_ptr<RetriedCall> list_page(const HttpCalls& calls, BucketStore& store, const ListRequest& request,
                                       std::function<void(ListAnswer)> done) {
  const std::string url = fmt::format("{}://{}/{}", store.scheme(), request.bucket, request.prefix);
  const std::shared_ptr<StoreCall> call = store.list(request);
  const auto take = [call, url, done = std::move(done)](StoreAnswer said) {
    ListAnswer answer{.call = call, .status = said.response.head.status};
    if (said.is_accepted) {
      answer.body = std::move(said.response.body);
    } else {
      answer.error =
          StorageError{.error = {.code = ErrorCode::kIo, .message = "cannot list it: " + said.error, .shard = url}};
    }
    done(std::move(answer));
  };
  return ask_store(
      calls, {.call = call, .accepts = [call](const HttpResponse& response) { return call->is_page(response); }}, take);
}

std::vector<std::string> list_all(const HttpCalls& calls, BucketStore& store, const std::string& prefix) {
  ObjectUrl url = parse_object_url(prefix);
  std::vector<std::string> urls;
  std::string place;
  do {
    const auto result = std::make_shared<BlockingResult<ListAnswer>>();
    const ListRequest request{.bucket = url.bucket, .prefix = url.key, .page = place};
    const auto call = list_page(calls, store, request, [result](ListAnswer answer) { result->set(std::move(answer)); });
    ListAnswer answer = result->wait();
    if (answer.error) throw ErrorException(std::move(answer.error->error));
    const auto fail = [&](const std::string& why) {
      throw ErrorException({.code = ErrorCode::kIo, .message = "cannot list it: " + why, .shard = prefix});
    };
    ListedPage page;
    try {
      page = store.parse_page(answer.body);
    } catch (const ErrorException& exception) {
      fail(unreadable_answer(*answer.call, exception.error().message, answer.body));
    }
    if (!page.next.empty() && page.next == place) fail("a page leads to itself" + answer.call->asked());
    for (ListedObject& object : page.objects) {
      urls.push_back(ObjectUrl{.scheme = url.scheme, .bucket = url.bucket, .key = std::move(object.key)}.to_string());
    }
    place = std::move(page.next);
  } while (!place.empty());
  return urls;
}

}  // namespace millrace
