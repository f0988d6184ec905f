#include <cstddef>
#include <cstdint>

#include "millrace/formats/tfrecord/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz_record_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
