#include <cstddef>
#include <cstdint>

#include "tests/fuzz/pipeline_state_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_pipeline_state({reinterpret_cast<const char*>(data), size});
  return 0;
}
