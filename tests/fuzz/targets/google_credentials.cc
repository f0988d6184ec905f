#include <cstddef>
#include <cstdint>

#include "tests/fuzz/google_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_google_credentials({reinterpret_cast<const char*>(data), size});
  return 0;
}
