#pragma once

#include <cstdint>

#include "millrace/formats/records/record_splitter.h"

namespace millrace {

/// A file of records that have one length each.
struct FixedLengthFormat {
  uint64_t record_bytes = 0;  ///< of each record; at least 1
  uint64_t header_bytes = 0;  ///< before the first record, left out. Default: 0
  uint64_t footer_bytes = 0;  ///< after the last record, left out. Default: 0
};

/// Records of one length, as TensorFlow's FixedLengthRecordDataset has them. A file that is no header, whole records
/// and a footer is the error `truncated` with all numbers: before the first record where the size is known, after the
/// last whole one of a compressed file.
class FixedLengthSplitter final : public RecordSplitter {
 public:
  /// A record longer than `max_record_bytes` is the error `record_too_large`.
  explicit FixedLengthSplitter(const FixedLengthFormat& format, uint64_t max_record_bytes = UINT64_MAX)
      : format_(format), max_record_bytes_(max_record_bytes) {}
  std::optional<Error> refuse_size(uint64_t bytes) const override;
  std::optional<Error> cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                           CutRecords& out) override;
  /// To the end of the file.
  bool pass(std::span<const char> bytes, bool last, FilePlace& place) override;

 private:
  const FixedLengthFormat format_;
  const uint64_t max_record_bytes_;
  bool has_passed_ = false;
};

}  // namespace millrace
