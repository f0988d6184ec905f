#include <cstddef>
#include <cstdint>

#include "millrace/formats/text/line_splitter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_line_cutter({reinterpret_cast<const char*>(data), size});
  return 0;
}
