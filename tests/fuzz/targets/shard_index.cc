#include <cstddef>
#include <cstdint>

#include "millrace/formats/tfrecord/index/index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_shard_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
