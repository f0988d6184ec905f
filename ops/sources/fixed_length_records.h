#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/fixed_length/reader.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/sources/file_source.h"

namespace millrace {

/// Source: the records of files in which each has the same length; see FileSourceOperator for how files are read,
/// FixedLengthSplitter for files whose size does not fit.
///
///     {.record_bytes = 2, .header_bytes = 1}:   "Haabb"   ->   record: aa bb
class FixedLengthRecordsOperator final : public FileSourceOperator {
 public:
  FixedLengthRecordsOperator(Shards shards, const FixedLengthFormat& format, const FileReadOptions& options = {});
  std::string_view name() const override { return "fixed_length_records"; }
  OperatorTraits traits() const override { return traits_of_built_in(); }

 protected:
  std::unique_ptr<RecordSplitter> splitter(uint64_t max_record_bytes) const override;

 private:
  FixedLengthFormat format_;
};

/// What `Dataset::fixed_length_records` is called with.
struct FixedLengthRecordsArguments {
  std::optional<Shards> shards = {};
  FixedLengthFormat format = {};
  FileReadOptions read = {};

  static constexpr auto fields() {
    using A = FixedLengthRecordsArguments;
    return describe<A>("fixed_length_records", field::required<&A::shards>, field::inlined<&A::format>,
                       field::stream<&A::read>);
  }
};

}  // namespace millrace
