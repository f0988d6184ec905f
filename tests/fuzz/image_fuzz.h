#pragma once

#include <string_view>

namespace millrace::test {

/// Any bytes as a picture, small ones only: refused with a documented error, or pixels that are the same again, in a
/// part of it, upright and scaled.
void fuzz_image(std::string_view bytes);

}  // namespace millrace::test
