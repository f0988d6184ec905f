#pragma once

#include <optional>
#include <string>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/storage.h"

namespace millrace::test {

/// Bytes that depend on their number alone.
[[nodiscard]] std::string content_of(size_t bytes);

/// With waits of next to nothing between attempts, and 4 reads of 100,000 bytes in flight.
[[nodiscard]] RemoteOptions hasty();

struct Fetched {
  std::string bytes;
  std::optional<Error> error;
};

/// All of a file, as a reader of shards takes it.
[[nodiscard]] Fetched fetch(Storage& storage, const std::string& url);

}  // namespace millrace::test
