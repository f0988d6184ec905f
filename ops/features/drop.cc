#include "millrace/ops/features/drop.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {
namespace {

std::vector<size_t> kept_columns(const Schema& input, const std::vector<std::string>& dropped) {
  std::vector<bool> keep(input.size(), true);
  for (const std::string& name : dropped) keep[static_cast<size_t>(input.column(name))] = false;
  std::vector<size_t> kept;
  for (size_t column = 0; column < keep.size(); ++column) {
    if (keep[column]) kept.push_back(column);
  }
  if (kept.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "drop: no feature remains of " + input.to_string());
  }
  return kept;
}

SchemaPtr schema_without(const Schema& input, const std::vector<std::string>& dropped) {
  std::vector<FeatureSpec> features;
  for (const size_t column : kept_columns(input, dropped)) features.push_back(input[column]);
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

DropOperator::DropOperator(const SchemaPtr& input, const std::vector<std::string>& features)
    : MapOperator(schema_without(*input, features)), dropped_(features), kept_(kept_columns(*input, features)) {}

Block DropOperator::apply(Block block, BufferPool&) const {
  Block::Columns columns;
  columns.reserve(kept_.size());
  for (const size_t column : kept_) columns.push_back(block.column(column));
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
