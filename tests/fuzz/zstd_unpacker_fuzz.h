#pragma once

#include <string_view>

namespace millrace::test {

/// Unpacks any bytes, cut into pieces whose sizes come from the last byte: never crashes or hangs, gives the same
/// however the bytes are cut, and the same as zstd's own whole-file function where that accepts the data.
void fuzz_zstd_unpacker(std::string_view bytes);

}  // namespace millrace::test
