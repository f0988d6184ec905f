#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "millrace/formats/storage/remote/object_store.h"
#include "millrace/formats/storage/remote/object_version.h"
#include "millrace/formats/storage/remote/retry.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

/// What a read of an object came to.
struct ObjectAnswer {
  size_t bytes = 0;  ///< that came, also where there is an error
  /// Of the object; nothing where no answer came that says it.
  std::optional<ObjectVersion> version = {};
  std::optional<StorageError> error = {};
  bool is_changed = false;  ///< the error is that the object is of another version than the pin
  std::string target = {};  ///< where the URL was redirected to; empty: nowhere
};

/// One read of a range of an object: its redirects, its attempts, and whether what comes is of the range and of the
/// version asked for.
struct ObjectRequest {
  std::shared_ptr<ObjectStore> store = {};
  std::string url = {};
  std::string target = {};  ///< where it was redirected to before; empty: nowhere
  uint64_t offset = 0;
  /// The bytes go there, at least one; fewer come where the object ends before.
  std::span<std::byte> into = {};
  std::optional<ObjectVersion> pin = {};  ///< the version that it must be of. Default: any
  bool may_be_hedged = true;              ///< `HttpRequest::hedged_bytes`. Default: true
};

/// Starts it. `done` is called once, on the engine's thread, and must not throw. Gives what cancels it. Throws
/// `kInvalidArgument` where the URL names no object; then nobody is told.
[[nodiscard]] std::shared_ptr<RetriedCall> read_object(const HttpCalls& calls, ObjectRequest request,
                                                       std::function<void(ObjectAnswer)> done);

}  // namespace millrace
