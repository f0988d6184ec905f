#include "millrace/ops/parse/parse_example.h"

namespace millrace {

ParseExampleOperator::ParseExampleOperator(const SchemaPtr& input, std::vector<FeatureDescription> features)
    : ParseExampleOperator(input, ExampleParser(std::move(features))) {}

ParseExampleOperator::ParseExampleOperator(const SchemaPtr& input, ExampleParser parser)
    : MapOperator(parsed_schema(*input, parsed_columns(parser.features(), /*of_steps=*/false), "parse_example")),
      columns_(parsed_columns(parser.features(), /*of_steps=*/false)),
      of_batches_(!(*input)[0].shape.empty()),
      parser_(new HeldParser<ExampleParser>(std::move(parser))) {}

Block ParseExampleOperator::apply(Block block, BufferPool& pool) const {
  const ExampleParser& parser = **parser_;
  return parse_records(
      block, schema(), columns_, name(),
      [&](std::string_view record, std::span<std::byte* const> destinations, std::span<ColumnBuilder* const> builders,
          std::string_view next) { return parser.parse(record, pool, destinations, builders, next); },
      parser_, pool);
}

}  // namespace millrace
