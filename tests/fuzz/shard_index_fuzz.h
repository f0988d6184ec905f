#pragma once

#include <string>
#include <string_view>

namespace millrace::test {

/// The bytes of an index file whose beginning and checksum are right around `body`, whatever that is, which no fuzzer
/// would guess.
[[nodiscard]] std::string index_with_checksum(std::string_view body);

/// Lets the parser run over any bytes: it refuses them or gives an index that it writes again as it was.
void fuzz_shard_index(std::string_view bytes);

}  // namespace millrace::test
