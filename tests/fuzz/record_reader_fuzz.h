#pragma once

#include <string_view>

namespace millrace::test {

/// Lets a reader walk over any bytes, cut into chunks whose sizes come from the first bytes: never crashes, hangs, or
/// delivers a record whose CRC is wrong.
void fuzz_record_reader(std::string_view bytes);

}  // namespace millrace::test
