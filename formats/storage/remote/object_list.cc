#include "millrace/formats/storage/remote/object_list.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/store_request.h"

namespace millrace {

std::shared_ptr<RetriedCall> list_page(const HttpCalls& calls, BucketStore& store, const ListRequest& request,
                                       std::function<void(ListAnswer)> done) {
  const std::string url = fmt::format("{}://{}/{}", store.scheme(), request.bucket, request.prefix);
  const std::shared_ptr<StoreCall> call = store.list(request);
  const auto take = [call, url, done = std::move(done)](StoreAnswer said) {
    ListAnswer answer{.asked = call->asked(), .status = said.response.head.status};
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

}  // namespace millrace
