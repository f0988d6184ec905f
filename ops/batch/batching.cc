#include "millrace/ops/batch/batching.h"

namespace millrace {

Batching::Batching(std::string_view operator_name, const SchemaPtr& input, const BatchingOptions& options)
    : operator_name_(operator_name),
      input_(input),
      drop_remainder_(std::visit([](const auto& some) { return some.drop_remainder; }, options)),
      ragged_(std::holds_alternative<RaggedBatchOptions>(options)) {
  if (const auto* padded = std::get_if<PaddedBatchOptions>(&options)) {
    padding_ = std::make_shared<const Padding>(operator_name, input, *padded);
  }
}

SchemaPtr Batching::schema(int64_t rows) const {
  return padding_ != nullptr ? padding_->schema(rows) : batched_schema(*input_, rows, ragged_);
}

BatchStage::Assemble Batching::assemble(const SchemaPtr& batches, const StageContext& context) const {
  return padding_ != nullptr ? padding_->assemble(batches, context)
                             : stack_elements(batches, operator_name_, context.pool);
}

}  // namespace millrace
