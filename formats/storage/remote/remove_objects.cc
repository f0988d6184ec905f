#include "millrace/formats/storage/remote/remove_objects.h"

#include <memory>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/pending_calls.h"
#include "millrace/formats/storage/remote/store_request.h"

namespace millrace {
namespace {

constexpr int kMostInFlight = 32;

bool is_removed(const HttpResponse& response) { return response.head.status / 100 == 2 || response.head.status == 404; }

void check(const std::string& error) {
  if (!error.empty()) throw ErrorException({.code = ErrorCode::kIo, .message = "cannot remove objects: " + error});
}

}  // namespace

void remove_objects(const HttpCalls& calls, BucketStore& store, const std::vector<std::string>& urls) {
  const auto pending = std::make_shared<PendingCalls>();
  for (const std::string& url : urls) {
    check(pending->wait_for_most(kMostInFlight - 1));
    const auto call = std::make_shared<PendingCalls::Call>(pending);
    pending->keep(ask_store(calls,
                            {.call = store.call_of_object(url),
                             .request = [] { return small_request(HttpMethod::kDelete); },
                             .accepts = is_removed},
                            [call, url](const StoreAnswer& answer) {
                              call->end(answer.is_accepted ? "" : fmt::format("{}: {}", url, answer.error));
                            }));
  }
  check(pending->wait_for_most(0));
}

}  // namespace millrace
