#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/google_server.h"

namespace millrace::test {

/// Of a process that reaches a server of Google's store, and in whose environment there is only the metadata server;
/// what else it does is as given.
[[nodiscard]] inline RemoteOptions google_options(const GoogleServer& server, RemoteOptions options = hasty()) {
  options.gcs.endpoint = server.endpoint();
  options.gcs.credentials.is_emulator = false;
  options.listed = std::make_shared<ListedObjects>();
  options.environment = [host = server.host()](std::string_view name) {
    return name == "GCE_METADATA_HOST" ? std::optional(host) : std::nullopt;
  };
  return options;
}

}  // namespace millrace::test
