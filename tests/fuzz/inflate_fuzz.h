#pragma once

#include <string_view>

namespace millrace::test {

/// Unpacks any bytes both ways, cut into pieces whose sizes come from the last byte: never crashes or hangs, gives the
/// same however the bytes are cut, and the same as zlib where zlib accepts the data.
void fuzz_inflater(std::string_view bytes);

/// Looks for seek points in any bytes, cut into pieces, and goes on from each: the same comes out as without.
void fuzz_seek_points(std::string_view bytes);

}  // namespace millrace::test
