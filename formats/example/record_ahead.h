#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "millrace/formats/columnar/prefetch_lines.h"

namespace millrace {

/// The record that is read next, parsed or copied. Rows of a shuffle or a cache lie where the processor does not expect
/// them, so their memory is asked for while the record before is read; in parts, since a core that asks for more lines
/// than it can wait for (10 to 16) at once stands still.
class RecordAhead {
 public:
  /// Empty: there is none.
  RecordAhead(std::string_view record, size_t parts)
      : next_(record.data()),
        left_(std::min(record.size(), kMostAskedFor)),
        part_((left_ / parts + kCacheLine) / kCacheLine * kCacheLine) {}

  /// All parts have been asked for after as many calls.
  void ask_for_part() {
    const size_t bytes = std::min(part_, left_);
    prefetch_lines(next_, bytes);
    next_ += bytes;
    left_ -= bytes;
  }

 private:
  const char* next_;
  size_t left_;
  size_t part_;
};

}  // namespace millrace
