#include "millrace/ops/keep/decode_rows.h"

#include <cassert>

#include "millrace/ops/parse/parsed_records.h"

namespace millrace {
namespace {

SchemaPtr decoded(const Schema& input, const SchemaPtr& rows) {
  assert(input.size() == 1 && input[0].dtype == DType::kBytes && input[0].shape.size() <= 1);
  if (input[0].shape.empty()) return rows;
  std::vector<FeatureSpec> features = rows->features();
  for (FeatureSpec& feature : features) feature.shape.insert(feature.shape.begin(), input[0].shape[0]);
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

DecodeRowsOperator::DecodeRowsOperator(const SchemaPtr& input, const SchemaPtr& rows)
    : MapOperator(decoded(*input, rows)), rows_(rows), codec_(*rows) {
  assert(rows->size() > 0);
}

Block DecodeRowsOperator::apply(Block block, BufferPool& pool) const {
  const Column& encoded = block.column(0);
  const bool batched = encoded.rank() == 1;
  const size_t rows = batched ? rows_in_each(block, encoded, name()) : 1;
  Block::Columns columns;
  std::vector<std::byte*> places;
  for (const FeatureSpec& feature : rows_->features()) {
    columns.push_back(Column::fixed(pool, feature.dtype, feature.shape, rows * block.num_elements()));
    places.push_back(block.num_elements() * rows == 0 ? nullptr : columns.back().mutable_data(0));
  }
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) {
      codec_.write_zeros(rows, places);
      continue;
    }
    const auto of_element = encoded.values<std::string_view>(element);
    for (size_t row = 0; row < of_element.size(); ++row) {
      codec_.decode(of_element[row], row + 1 < of_element.size() ? of_element[row + 1] : std::string_view(), places);
    }
  }
  if (batched) {
    for (Column& column : columns) column = std::move(column).grouped(rows);
  }
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
