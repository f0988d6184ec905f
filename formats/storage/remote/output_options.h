#pragma once

#include <cstddef>
#include <string>

namespace millrace {

/// How a file or object is written (`open_output_anywhere`).
struct OutputOptions {
  /// Only where there is no such object yet: one that is there is an error of `commit`, or of `write` before it. Of
  /// object stores alone; where one of S3's language implements no conditions it is looked at before, and of two that
  /// write in the same moment both may. Default: false
  bool if_absent = false;
  /// Only in the place of the object of this version: its entity tag without quotes in S3, its generation in Google's
  /// store. Another one, or none, is an error as above. Default: empty, whatever there is
  std::string if_version = {};
  /// Of an object that is more than one request; as much memory is taken for each part in flight, and one more. S3
  /// takes at most 10,000 parts, and none but the last below 5 MiB; Google's are multiples of 256 KiB. Default: 0, 8
  /// MiB
  size_t part_bytes = 0;
  /// Parts that are sent at a time; Google's store takes one after the other. Default: 16, 400 MB/s of connections of
  /// 60 MB/s, 100 ms away
  int in_flight = 16;
};

}  // namespace millrace
