#include "millrace/ops/features/select.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {
namespace {

SchemaPtr selected_schema(const Schema& input, const std::vector<std::string>& names) {
  if (names.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "select: name at least one feature; there are " + input.to_string());
  }
  std::vector<FeatureSpec> features;
  features.reserve(names.size());
  for (const std::string& name : names) features.push_back(input[static_cast<size_t>(input.column(name))]);
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

SelectOperator::SelectOperator(const SchemaPtr& input, const std::vector<std::string>& features)
    : MapOperator(selected_schema(*input, features)) {
  for (const std::string& feature : features) columns_.push_back(static_cast<size_t>(input->column(feature)));
}

Block SelectOperator::apply(Block block, BufferPool&) const {
  Block::Columns columns;
  columns.reserve(columns_.size());
  for (const size_t column : columns_) columns.push_back(block.column(column));
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
