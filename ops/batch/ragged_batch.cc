#include "millrace/ops/batch/ragged_batch.h"

#include <fmt/format.h>

namespace millrace {

RaggedBatchOperator::RaggedBatchOperator(SchemaPtr input, int64_t size, RaggedBatchOptions options)
    : StageOperator(batched_schema(*input, options.drop_remainder ? size : kVaries, true)),
      input_schema_(std::move(input)),
      size_(checked_batch_size("ragged_batch", size)),
      options_(options) {}

Cardinality RaggedBatchOperator::cardinality(std::span<const Cardinality> inputs) const {
  return batch_cardinality(inputs[0], size_, options_.drop_remainder);
}

std::unique_ptr<Stage> RaggedBatchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<BatchStage>(input_schema_, schema(), open_input(inputs[0], context), size_,
                                      options_.drop_remainder, stack_elements(schema(), name(), context.pool), context);
}

}  // namespace millrace
