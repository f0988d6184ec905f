#include "millrace/formats/compression/frame_table.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_frame_table({reinterpret_cast<const char*>(data), size});
  return 0;
}
