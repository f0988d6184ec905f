#include "millrace/formats/compression/zstd_unpacker.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_zstd_unpacker({reinterpret_cast<const char*>(data), size});
  return 0;
}
