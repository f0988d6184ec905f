#include "millrace/ops/flow/filter.h"

#include "millrace/ops/element_progress.h"
#include "millrace/ops/features/map.h"

namespace millrace {

FilterOperator::FilterOperator(SchemaPtr schema, RowPredicate predicate)
    : MapOperator(std::move(schema)), function_name_(std::move(predicate.name)), keep_(std::move(predicate.keep)) {
  if (!keep_) throw ErrorException(ErrorCode::kInvalidArgument, "filter: no predicate given");
}

FilterOperator::FilterOperator(SchemaPtr schema, BlockPredicate predicate)
    : MapOperator(std::move(schema)), function_name_(std::move(predicate.name)), decide_(std::move(predicate.decide)) {
  if (!decide_) throw ErrorException(ErrorCode::kInvalidArgument, "filter: no predicate given");
}

Block FilterOperator::apply(Block block, BufferPool& pool) const {
  const size_t num_elements = block.num_elements();
  std::vector<uint8_t> keep(num_elements, 1);
  if (decide_) {
    try {
      decide_(block, keep);
    } catch (...) {
      const auto error = std::make_shared<const Error>(user_function_error(name(), function_name_));
      for (size_t i = 0; i < num_elements; ++i) block.add_error(i, error);
    }
  } else {
    ElementProgress progress;
    for (size_t i = 0; i < num_elements; ++i, progress.step()) {
      if (!block.errors().empty() && block.error_at(i) != nullptr) continue;
      try {
        keep[i] = keep_(RowView(block, i)) ? 1 : 0;
      } catch (...) {
        block.add_error(i, user_function_error(name(), function_name_, block, i));
      }
    }
  }
  for (const ElementError& entry : block.errors()) keep[entry.element] = 1;
  std::vector<size_t> chosen;
  chosen.reserve(num_elements);
  for (size_t i = 0; i < num_elements; ++i) {
    if (keep[i] != 0) chosen.push_back(i);
  }
  return chosen.size() == num_elements ? block : block.select(chosen, pool);
}

}  // namespace millrace
