#include "millrace/ops/sources/fixed_length_records.h"

#include <fmt/format.h>

namespace millrace {

FixedLengthRecordsOperator::FixedLengthRecordsOperator(Shards shards, const FixedLengthFormat& format,
                                                       const FileReadOptions& options)
    : FileSourceOperator("fixed_length_records", record_schema(), std::move(shards), options), format_(format) {
  if (format.record_bytes >= 1 && format.record_bytes <= options.max_record_bytes) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("fixed_length_records: record_bytes must be at least 1 and at most "
                                   "max_record_bytes = {}, is {}",
                                   options.max_record_bytes, format.record_bytes));
}

std::unique_ptr<RecordSplitter> FixedLengthRecordsOperator::splitter(uint64_t max_record_bytes) const {
  return std::make_unique<FixedLengthSplitter>(format_, max_record_bytes);
}

}  // namespace millrace
