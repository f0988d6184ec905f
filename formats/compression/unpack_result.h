#pragma once

#include <cstddef>

namespace millrace {

/// What unpacking some bytes came to.
struct UnpackResult {
  enum class Status {
    kNeedInput,   ///< all input was taken
    kOutputFull,  ///< the output is full; more may be waiting
    kError,       ///< see `error` of the unpacker; what was written to the output before is whole
  };
  Status status;
  size_t num_read;     ///< bytes of the input that are done with
  size_t num_written;  ///< bytes of the output that are filled
};

}  // namespace millrace
