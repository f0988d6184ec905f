#pragma once

#include <string>

namespace millrace {

/// A folder of models that can be read by path: this one, or, of a bucket, a copy of it in the system's folder of
/// temporary files, without what a run has beside them (checkpoints, logs, shards), which is made once in a process and
/// removed at its end. Throws as
/// `download_folder`, and `kInvalidArgument` for a URL of HTTP, which lists nothing.
[[nodiscard]] std::string local_copy(const std::string& path);

}  // namespace millrace
