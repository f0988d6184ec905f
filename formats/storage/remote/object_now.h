#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "millrace/formats/storage/remote/object_store.h"
#include "millrace/formats/storage/remote/retry.h"

namespace millrace {

/// An object that is read as a whole, as it is now.
struct ObjectNow {
  std::string bytes = {};
  std::string version = {};  ///< as `OutputOptions::if_version`; empty: the store gives none
  /// How long ago it was written, by the store's clock; nothing where it does not say.
  std::optional<std::chrono::seconds> age = {};
};

/// Asks for it. Nothing where there is none. Blocks; not on the engine's thread. Throws `kIo`, also where it has more
/// than `most_bytes`.
[[nodiscard]] std::optional<ObjectNow> look_at_object(const HttpCalls& calls, BucketStore& store,
                                                      const std::string& url, size_t most_bytes);

/// `Date` less `Last-Modified` of an answer (RFC 9110, 6.6.1, 8.8.2).
[[nodiscard]] std::optional<std::chrono::seconds> age_by(const HttpHead& head);

}  // namespace millrace
