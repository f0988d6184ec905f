#include "millrace/ops/sources/csv_records.h"

#include <fmt/format.h>

#include "millrace/formats/csv/reader.h"

namespace millrace {
namespace {

SchemaPtr schema_with_lines() {
  std::vector<FeatureSpec> features = record_schema()->features();
  features.push_back({.name = "line", .dtype = DType::kInt64, .shape = {}});
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

CsvRecordsOperator::CsvRecordsOperator(Shards shards, const CsvFormat& format, const FileReadOptions& options)
    : FileSourceOperator("csv_records", schema_with_lines(), std::move(shards), options), format_(format) {
  format.check(name());
  if (!format.missing.empty() || !format.select_columns.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "csv_records: missing and select_columns are parse_csv's, which reads the fields");
  }
}

std::unique_ptr<RecordSplitter> CsvRecordsOperator::splitter(uint64_t max_record_bytes) const {
  return std::make_unique<CsvSplitter>(format_, max_record_bytes, skips_damage());
}

}  // namespace millrace
