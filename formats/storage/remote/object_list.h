#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/storage/remote/object_read.h"
#include "millrace/formats/storage/remote/object_store.h"

namespace millrace {

/// What asking for a page came to.
struct ListAnswer {
  std::string body = {};                   ///< of the page, for `BucketStore::parse_page`
  std::optional<StorageError> error = {};  ///< its shard is the prefix, as a URL
  std::shared_ptr<StoreCall> call = {};    ///< that was answered
  int status = 0;                          ///< of the last answer; 0: there was none
};

/// Asks for one page of a listing, with retries. `done` is called once, on the engine's thread, and must not throw.
/// Gives what cancels it.
[[nodiscard]] std::shared_ptr<RetriedCall> list_page(const HttpCalls& calls, BucketStore& store,
                                                     const ListRequest& request, std::function<void(ListAnswer)> done);

/// The URLs of all objects that begin with `prefix`, `s3://BUCKET/KEY…`, in the order of their keys. Blocks; not on the
/// engine's thread. Throws `kIo`.
[[nodiscard]] std::vector<std::string> list_all(const HttpCalls& calls, BucketStore& store, const std::string& prefix);

}  // namespace millrace
