#include <cstddef>
#include <cstdint>

#include "formats/text/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_line_cutter({reinterpret_cast<const char*>(data), size});
  return 0;
}
