#include <cstddef>
#include <cstdint>

#include "millrace/formats/compression/inflate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_inflater({reinterpret_cast<const char*>(data), size});
  return 0;
}
