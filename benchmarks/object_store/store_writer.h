#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/object_store/store_reader.h"

namespace millrace {

/// Writes an object of pseudo-random bytes: `seconds`, `bytes`, `sum` of them, `cpu_seconds`, `peak_mb`.
[[nodiscard]] Figures write_object(int64_t bytes);
/// The same as files of a folder in a bucket (FolderUpload), which lie in `folder` before.
[[nodiscard]] Figures write_folder(int64_t bytes, int64_t files, const std::string& folder);

/// The sum of bytes, in whatever order.
[[nodiscard]] uint64_t sum_of(std::string_view bytes);

}  // namespace millrace
