#include "ops/parse_example.h"

#include <fmt/format.h>

namespace millrace {
namespace {

SchemaPtr parsed_schema(const Schema& input, const std::vector<FeatureDescription>& features) {
  if (input.size() != 1 || input[0].dtype != DType::kBytes || input[0].shape.size() > 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("parse_example: needs raw records, but the input is {}", input.to_string()));
  }
  std::vector<FeatureSpec> specs;
  for (const FeatureDescription& feature : features) {
    Shape shape = input[0].shape;
    shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
    specs.push_back({feature.name, feature.dtype, std::move(shape)});
  }
  return std::make_shared<const Schema>(std::move(specs));
}

}  // namespace

ParseExampleOperator::ParseExampleOperator(const SchemaPtr& input, std::vector<FeatureDescription> features)
    : MapOperator(parsed_schema(*input, features)), parser_(std::move(features)) {}

std::string ParseExampleOperator::arguments() const {
  std::string text;
  for (const FeatureDescription& feature : parser_.features()) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} {}", feature.key, to_string(feature.stored), to_string(feature.shape));
    if (feature.dtype != feature.stored) text += fmt::format(" as {}", to_string(feature.dtype));
    if (feature.name != feature.key) text += fmt::format(" named {}", feature.name);
  }
  return text;
}

Block ParseExampleOperator::apply(Block block, BufferPool& pool) const {
  const Column& records = block.column(0);
  const auto& features = parser_.features();
  const bool batched = records.rank() == 1;
  // Batches of one block have one size; a block that mixes sizes is taken apart.
  if (batched && !records.has_fixed_shape()) {
    throw ErrorException(ErrorCode::kWrongShape, "parse_example: batches of different sizes in one block");
  }
  const auto num_records = static_cast<size_t>(records.total_values());
  const size_t records_per_element = batched ? static_cast<size_t>(records.fixed_shape()[0]) : 1;

  Block::Columns columns;
  std::vector<size_t> row_bytes;
  for (const FeatureDescription& feature : features) {
    Column column = Column::fixed(pool, feature.dtype, feature.shape, num_records);
    if (feature.dtype == DType::kBytes) {
      records.holds().for_each([&column](const Ref<Resource>& resource) { column.hold(resource); });
    }
    row_bytes.push_back(static_cast<size_t>(num_values(feature.shape)) * size_of(feature.dtype));
    columns.push_back(std::move(column));
  }
  std::vector<std::byte*> destinations;
  for (Column& column : columns) destinations.push_back(num_records > 0 ? column.mutable_data(0) : nullptr);

  const auto views = records.values<std::string_view>();
  std::vector<ElementError> errors;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    bool failed = !block.errors().empty() && block.error_at(element) != nullptr;
    for (size_t i = 0; i < records_per_element; ++i) {
      if (!failed) {
        if (auto error = parser_.parse(views[element * records_per_element + i], destinations)) {
          error->stage = name();
          errors.push_back({element, std::make_shared<const Error>(*std::move(error))});
          failed = true;
        }
      }
      for (size_t f = 0; f < features.size(); ++f) destinations[f] += row_bytes[f];
    }
  }
  if (batched) {
    for (Column& column : columns) column = column.grouped(records_per_element);
  }
  Block parsed = block.with_columns(schema(), std::move(columns));
  for (ElementError& entry : errors) parsed.add_error(entry.element, std::move(entry.error));
  return parsed;
}

}  // namespace millrace
