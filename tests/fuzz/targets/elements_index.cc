#include <cstddef>
#include <cstdint>

#include "tests/fuzz/elements_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_elements_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
