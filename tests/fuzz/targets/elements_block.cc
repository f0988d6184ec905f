#include <cstddef>
#include <cstdint>

#include "millrace/formats/elements/block_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_decode_block({reinterpret_cast<const char*>(data), size});
  return 0;
}
