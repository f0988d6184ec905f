#pragma once

#include <string_view>

namespace millrace::test {

/// Reads any bytes as a safetensors file, and as the header of one with 16 bytes behind it: refused as `kParse`, or
/// written and read again with the same tensors and metadata.
void fuzz_safetensors(std::string_view bytes);

}  // namespace millrace::test
