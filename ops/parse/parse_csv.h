#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "millrace/formats/csv/fields.h"
#include "millrace/formats/records/damage_policy.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// A column of CSV records, and the scalar feature that it becomes.
struct CsvColumn {
  std::string name = {};
  DType dtype = DType::kBytes;  ///< any type. Default: bytes, the field as it stands
  /// What stands for a field that is missing: an int64 for integers, a double for float32, a string for bytes.
  /// Default: none, a missing field is the error `missing_feature`.
  std::optional<std::variant<int64_t, double, std::string>> default_value = {};

  static constexpr auto fields() {
    using A = CsvColumn;
    return describe<A>("CsvColumn", field::required<&A::name>, field::stream<&A::dtype>,
                       field::stream<&A::default_value>);
  }
};

/// Splits CSV records into columns of typed values; TensorFlow's decode_csv, and what CsvDataset does with records. The
/// records are the `bytes` scalar `record`; a `line` beside it appears in errors. A record needs as many fields as
/// there are columns or, with `select_columns`, at least those. A record that is no good is an error with file, offset,
/// record, line and column, or with `DamagePolicy::kSkip` left out: the note of it stands in its place.
///
///     {{.name = "id", .dtype = kInt64}, {.name = "text", .default_value = "-"}}:   1,"a ""b""" → id=1 text=a "b"
///                                                                                 2,          → id=2 text=-
class ParseCsvOperator final : public MapOperator {
 public:
  ParseCsvOperator(const SchemaPtr& input, std::vector<CsvColumn> columns, CsvFormat format,
                   DamagePolicy::Action damage = DamagePolicy::kFail);
  std::string_view name() const override { return "parse_csv"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  /// Unknown where records may be left out.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  Block apply(Block block, BufferPool& pool) const override;

 private:
  std::vector<CsvColumn> columns_;
  CsvFormat format_;
  DamagePolicy::Action damage_;
  size_t record_;  // column of the input
  int line_;       // column of the input, or negative
};

/// What `Dataset::parse_csv` is called with.
struct ParseCsvArguments {
  std::vector<CsvColumn> columns = {};
  CsvFormat format = {};
  DamagePolicy::Action damage = DamagePolicy::kFail;

  static constexpr auto fields() {
    using A = ParseCsvArguments;
    return describe<A>("parse_csv", field::required<&A::columns>, field::stream<&A::format>, field::damage<&A::damage>);
  }
};

}  // namespace millrace
