#include <cstddef>
#include <cstdint>

#include "tests/fuzz/zstd_unpacker_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_zstd_unpacker({reinterpret_cast<const char*>(data), size});
  return 0;
}
