#include <cstddef>
#include <cstdint>

#include "tests/fuzz/shard_index_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::test::fuzz_shard_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
