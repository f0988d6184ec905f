#include "millrace/ops/parse/parse_sequence_example.h"

namespace millrace {
namespace {

std::vector<ParsedColumn> columns_of(const SequenceExampleParser& parser) {
  std::vector<ParsedColumn> columns = parsed_columns(parser.context(), /*of_steps=*/false);
  for (ParsedColumn& column : parsed_columns(parser.feature_lists(), /*of_steps=*/true)) {
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace

ParseSequenceExampleOperator::ParseSequenceExampleOperator(const SchemaPtr& input,
                                                           std::vector<FeatureDescription> context,
                                                           std::vector<FeatureDescription> feature_lists)
    : ParseSequenceExampleOperator(input, SequenceExampleParser(std::move(context), std::move(feature_lists))) {}

ParseSequenceExampleOperator::ParseSequenceExampleOperator(const SchemaPtr& input, SequenceExampleParser parser)
    : MapOperator(parsed_schema(*input, columns_of(parser), "parse_sequence_example")),
      columns_(columns_of(parser)),
      of_batches_(!(*input)[0].shape.empty()),
      parser_(new HeldParser<SequenceExampleParser>(std::move(parser))) {}

Block ParseSequenceExampleOperator::apply(Block block, BufferPool& pool) const {
  const SequenceExampleParser& parser = **parser_;
  return parse_records(
      block, schema(), columns_, name(),
      [&](std::string_view record, std::span<std::byte* const> destinations, std::span<ColumnBuilder* const> builders,
          std::string_view next) { return parser.parse(record, pool, destinations, builders, next); },
      parser_, pool);
}

}  // namespace millrace
