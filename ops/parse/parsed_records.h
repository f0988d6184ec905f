#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/example/feature_description.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// One column that records are parsed into.
struct ParsedColumn {
  FeatureSpec spec = {};        ///< of one record
  bool padded = false;          ///< after a batch: padded to the longest, not ragged
  FeatureDefault padding = {};  ///< one value. Default: 0, or no bytes
  bool views_parser = false;    ///< values may point into the parser's descriptions, which the column then holds
};
/// The columns of features, in their order. `of_steps`: those of feature lists.
std::vector<ParsedColumn> parsed_columns(const std::vector<FeatureDescription>& features, bool of_steps);

/// The schema of records in `columns`, one dimension more where the input has elements of n records. Throws
/// `kInvalidArgument` when the input is no raw records.
SchemaPtr parsed_schema(const Schema& input, std::span<const ParsedColumn> columns, std::string_view operator_name);

/// The number of rows in each batch of a block, by a column that has one value for each. Throws where batches of
/// different sizes are in it.
size_t rows_in_each(const Block& block, const Column& column, std::string_view operator_name);

/// A parser that blocks keep alive.
template <typename Parser>
class HeldParser final : public Resource {
 public:
  explicit HeldParser(Parser parser) : parser_(std::move(parser)) {}
  const Parser& operator*() const { return parser_; }

 private:
  void release() noexcept override { delete this; }
  const Parser parser_;
};

/// Parses one record: see ExampleParser::parse.
using ParseRecord = std::function<std::optional<Error>(std::string_view record, std::span<std::byte* const>,
                                                       std::span<ColumnBuilder* const>, std::string_view next)>;

/// A block of raw records, or of batches of them, as a block of `schema`. `parser`: what `parse` uses.
Block parse_records(const Block& block, const SchemaPtr& schema, std::span<const ParsedColumn> columns,
                    std::string_view operator_name, const ParseRecord& parse, const Ref<Resource>& parser,
                    BufferPool& pool);

}  // namespace millrace
