#pragma once

#include <string>

#include "millrace/formats/compression/compression.h"

namespace millrace::test {

/// The bytes as a file with this compression holds them: one stream or member, or zstd frames cut anywhere with a seek
/// table.
[[nodiscard]] std::string packed(const std::string& bytes, Compression compression);

}  // namespace millrace::test
