#include <cstddef>
#include <cstdint>

#include "millrace/formats/fixed_length/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_fixed_length_splitter({reinterpret_cast<const char*>(data), size});
  return 0;
}
