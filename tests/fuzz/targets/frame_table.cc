#include <cstddef>
#include <cstdint>

#include "tests/fuzz/frame_table_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_frame_table({reinterpret_cast<const char*>(data), size});
  return 0;
}
