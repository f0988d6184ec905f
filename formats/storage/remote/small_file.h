#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace millrace {

/// The bytes of a local file of settings, a key or a token; nothing where there is none at the path, or it
/// lies in a folder that may not be looked into. Never waits for another process: what is no regular file, as a pipe,
/// is refused. Throws `kIo`, in one line with the path and nothing of the content: the reason of the system, or that it
/// has more than `most_bytes`.
[[nodiscard]] std::optional<std::string> read_small_file(const std::string& path, size_t most_bytes);

}  // namespace millrace
