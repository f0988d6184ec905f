#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/csv/format.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/sources/file_source.h"

namespace millrace {

/// Source: the records of CSV files as raw bytes, not split yet, and the line on which each begins (`line`, int64 [],
/// from 0); see FileSourceOperator for how files are read, CsvSplitter for what a record is.
///
///     "h,i\n1,\"a\nb\"\n2,c\n" with a header   ->   record=1,"a\nb" line=1, record=2,c line=3
class CsvRecordsOperator final : public FileSourceOperator {
 public:
  CsvRecordsOperator(Shards shards, const CsvFormat& format, const FileReadOptions& options = {});
  std::string_view name() const override { return "csv_records"; }
  OperatorTraits traits() const override { return traits_of_built_in(); }

 protected:
  std::unique_ptr<RecordSplitter> splitter(uint64_t max_record_bytes) const override;

 private:
  CsvFormat format_;
};

/// What `Dataset::csv_records` is called with.
struct CsvRecordsArguments {
  std::optional<Shards> shards = {};
  CsvFormat format = {};
  FileReadOptions read = {};

  static constexpr auto fields() {
    using A = CsvRecordsArguments;
    return describe<A>("csv_records", field::required<&A::shards>, field::stream<&A::format>, field::stream<&A::read>);
  }
};

}  // namespace millrace
