#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/storage/remote/store_request.h"

namespace millrace {

/// A chunk of a resumable session (https://cloud.google.com/storage/docs/performing-resumable-uploads#chunked-upload).
struct GcsChunk {
  std::shared_ptr<StoreCall> call = {};  ///< to the URL of the session
  uint64_t offset = 0;                   ///< in the object
  std::shared_ptr<const std::string> content = {};
  bool is_last = false;
  std::string crc = {};  ///< of the last one: CRC32C of the object in base64, without which the store takes none
};

/// Sends it with retries: what the store has kept of it, which may be less than was sent, is not sent again, and after
/// an answer that was lost the store is asked for it. Accepted is the last one when the answer describes the object,
/// any other when all of it is kept. `done` is called once, on the engine's thread, and must not throw. Gives what
/// cancels it.
std::shared_ptr<RetriedCall> send_chunk(const HttpCalls& calls, GcsChunk chunk, std::function<void(StoreAnswer)> done);

}  // namespace millrace
