#pragma once

#include <string_view>

namespace millrace::test {

/// Decodes any bytes as elements of a few schemas: a block or `kParse`.
void fuzz_decode_block(std::string_view bytes);

/// Reads any bytes as an index: gives one, or `kParse`.
void fuzz_elements_index(std::string_view bytes);

}  // namespace millrace::test
