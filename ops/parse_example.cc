#include "ops/parse_example.h"

#include <cstring>
#include <utility>

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

// The number of records in each batch of a block.
size_t records_in_each(const Block& block) {
  const Column& records = block.column(0);
  if (records.has_fixed_shape()) return static_cast<size_t>(records.fixed_shape()[0]);
  auto count = static_cast<size_t>(block.rows_per_element);
  bool first = true;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) continue;
    const auto found = static_cast<size_t>(records.num_values(element));
    // Stages keep batches of different sizes in blocks of their own.
    if (!std::exchange(first, false) && found != count) {
      throw ErrorException(ErrorCode::kWrongShape, "parse_example: batches of different sizes in one block");
    }
    count = found;
  }
  return count;
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
  const size_t records_per_element = batched ? records_in_each(block) : 1;
  const size_t num_records = records_per_element * block.num_elements();

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

  std::vector<ElementError> errors;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    // The records of an error element are not looked at: there may be none.
    const bool failed = !block.errors().empty() && block.error_at(element) != nullptr;
    const auto views = failed ? std::span<const std::string_view>() : records.values<std::string_view>(element);
    size_t parsed = 0;
    while (parsed < views.size()) {
      if (auto error = parser_.parse(views[parsed], destinations)) {
        error->stage = name();
        block.locate(element, parsed, *error);
        errors.push_back({element, std::make_shared<const Error>(*std::move(error))});
        break;
      }
      for (size_t f = 0; f < features.size(); ++f) destinations[f] += row_bytes[f];
      ++parsed;
    }
    for (size_t f = 0; f < features.size(); ++f) {
      const size_t rest = (records_per_element - parsed) * row_bytes[f];
      if (rest > 0) std::memset(destinations[f], 0, rest);
      destinations[f] += rest;
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
