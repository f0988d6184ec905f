#pragma once

#include <string>

#include "formats/compression/compression.h"

namespace millrace::test {

/// The bytes as a file with this compression holds them: one stream or member.
[[nodiscard]] std::string packed(const std::string& bytes, Compression compression);

}  // namespace millrace::test
