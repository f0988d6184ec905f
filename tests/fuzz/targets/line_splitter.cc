#include "millrace/formats/text/line_splitter.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_line_splitter({reinterpret_cast<const char*>(data), size});
  return 0;
}
