#include "millrace/ops/features/rename.h"

namespace millrace {
namespace {

SchemaPtr renamed_schema(const Schema& input, const std::map<std::string, std::string>& names) {
  std::vector<FeatureSpec> features = input.features();
  for (const auto& [from, to] : names) features[static_cast<size_t>(input.column(from))].name = to;
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

RenameOperator::RenameOperator(const SchemaPtr& input, const std::map<std::string, std::string>& names)
    : MapOperator(renamed_schema(*input, names)) {}

Block RenameOperator::apply(Block block, BufferPool&) const {
  Block::Columns columns = std::move(block.mutable_columns());
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
