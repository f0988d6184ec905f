#include <cstddef>
#include <cstdint>

#include "tests/fuzz/answer_head_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_answer_head({reinterpret_cast<const char*>(data), size});
  return 0;
}
