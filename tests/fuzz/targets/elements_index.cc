#include <cstddef>
#include <cstdint>

#include "millrace/formats/elements/index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_elements_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
