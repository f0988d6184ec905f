#include <cstddef>
#include <cstdint>

#include "tests/fuzz/aws_config_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_aws_config({reinterpret_cast<const char*>(data), size});
  return 0;
}
