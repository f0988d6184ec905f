#pragma once

#include <string_view>

namespace millrace::test {

/// Lets the parser run over any bytes as the end of a file: it refuses them or gives a table whose frames follow one
/// another.
void fuzz_frame_table(std::string_view bytes);

}  // namespace millrace::test
