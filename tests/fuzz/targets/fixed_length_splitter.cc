#include <cstddef>
#include <cstdint>

#include "tests/fuzz/record_splitter_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_fixed_length_splitter({reinterpret_cast<const char*>(data), size});
  return 0;
}
