#pragma once

#include <cstdint>
#include <memory>

#include "millrace/formats/records/text_splitter.h"

namespace millrace {

/// The lines of a text file, as TensorFlow's TextLineDataset has them: a line ends with `\n`, the last one also with
/// the end of the file; `\n` is no part of it, and every `\r` in it is left out, wherever it stands. What is after the
/// last `\n` is a line unless it is empty then. Bytes are not looked at otherwise: no character set, and a mark of byte
/// order is part of the first line; but that of UTF-16 or UTF-32 is the error `parse`.
class LineSplitter final : public TextSplitter {
 public:
  /// Longer lines, `\r` counted, are the error `record_too_large`.
  explicit LineSplitter(uint64_t max_line_bytes = uint64_t{64} << 20) : max_line_bytes_(max_line_bytes) {}
  std::optional<Error> cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                           CutRecords& out) override;
  /// After the end of the line.
  bool pass(std::span<const char> bytes, bool last, FilePlace& place) override;

 private:
  const uint64_t max_line_bytes_;
  size_t num_searched_ = 0;  // bytes of an unfinished line without a `\n`
};

}  // namespace millrace
