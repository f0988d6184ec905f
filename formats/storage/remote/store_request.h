#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/object_store.h"
#include "millrace/formats/storage/remote/retry.h"

namespace millrace {

/// A request to a store whose answer is taken as a whole.
struct StoreRequest {
  std::shared_ptr<StoreCall> call = {};
  /// What `StoreCall::prepare` gets, of each attempt. Default: null, a GET
  std::function<HttpRequest()> request = nullptr;
  /// Whether an answer is the one that was asked for.
  std::function<bool(const HttpResponse&)> accepts = nullptr;
};

/// What it came to.
struct StoreAnswer {
  HttpResponse response = {};  ///< the last one
  bool is_accepted = false;
  std::string error = {};  ///< where it is not: as `store_error`
  /// An attempt may have done what it asked for without saying so: no answer came, or the error of a server that was
  /// at it.
  bool may_be_done = false;
};

/// Asks with retries. `done` is called once, on the engine's thread, and must not throw. Gives what cancels it.
std::shared_ptr<RetriedCall> ask_store(const HttpCalls& calls, StoreRequest request,
                                       std::function<void(StoreAnswer)> done);
/// The same, and waits; not on the engine's thread.
[[nodiscard]] StoreAnswer ask_store_and_wait(const HttpCalls& calls, StoreRequest request);

/// A request of next to nothing, which need not wait for large ones.
[[nodiscard]] HttpRequest small_request(HttpMethod method);
/// Asks a store to remove something, for somebody who has failed already and should not wait for long: a store that
/// does not answer is given up after some seconds. Whether it did.
bool ask_to_remove(HttpCalls calls, std::shared_ptr<StoreCall> call, std::function<bool(const HttpResponse&)> accepts);

/// `the answer is no listing: … in '<html>…'; asked of https://…`, of an answer that is accepted and cannot be read.
/// Never a secret.
[[nodiscard]] std::string unreadable_answer(const StoreCall& call, std::string_view why, const std::string& body);

/// `status 503, SlowDown: … (request …) (after 3 attempts); asked of https://…`. `judged`: the last answer; none: there
/// was none. Never a secret.
[[nodiscard]] std::string store_error(const StoreCall& call, const HttpResponse& response,
                                      const std::optional<StoreOutcome>& judged, int attempts);

}  // namespace millrace
