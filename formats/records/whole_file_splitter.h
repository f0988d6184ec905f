#pragma once

#include "millrace/formats/records/record_splitter.h"

namespace millrace {

/// Takes a file as one record; an empty file is a record without bytes. One of more than `max_bytes` is
/// `record_too_large`.
class WholeFileSplitter final : public RecordSplitter {
 public:
  explicit WholeFileSplitter(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  std::optional<Error> refuse_size(uint64_t bytes) const override;
  std::optional<Error> cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                           CutRecords& out) override;
  bool pass(std::span<const char> bytes, bool last, FilePlace& place) override;

 private:
  const uint64_t max_bytes_;
};

}  // namespace millrace
