#include <cstddef>
#include <cstdint>

#include "tests/fuzz/example_parser_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_example_parser({reinterpret_cast<const char*>(data), size});
  return 0;
}
