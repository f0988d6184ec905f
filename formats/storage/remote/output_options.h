#pragma once

#include <cstddef>

namespace millrace {

/// How a file or object is written (`open_output_anywhere`).
struct OutputOptions {
  /// Only where there is no such object yet: one that is there is an error of `commit`, or of `write` before it. Of
  /// object stores alone. Default: false
  bool if_absent = false;
  /// Of an object that is more than one request; as much memory is taken for each part in flight, and one more. S3
  /// takes at most 10,000 parts, and none but the last below 5 MiB; Google's are multiples of 256 KiB. Default: 0, 16
  /// MiB for S3 and 8 MiB for Google
  size_t part_bytes = 0;
  /// Parts that are sent at a time; Google's store takes one after the other. Default: 4
  int in_flight = 4;
};

}  // namespace millrace
