#include "millrace/ops/batch/padded_batch.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "millrace/ops/batch/padded_parse.h"
#include "millrace/ops/parse/parse_example.h"

namespace millrace {
namespace {

// Where `first` parses what can be parsed straight into batches.
std::optional<PaddedParse> parse_at_once(const MapOperator& first, const Padding& padding, const SchemaPtr& schema,
                                         const StageContext& context) {
  const auto* parse = dynamic_cast<const ParseExampleOperator*>(&first);
  if (parse == nullptr || !PaddedParse::takes(parse->parser())) return std::nullopt;
  return PaddedParse(parse->parser(), padding.rules(), schema, context.pool, context.memory_budget());
}

// Rows go through `first` before they are assembled. The stream ends with its first error, so of the batches from there
// on nothing is made.
BatchStage::Assemble through(std::shared_ptr<const MapOperator> first, BatchStage::Assemble assemble, SchemaPtr schema,
                             BufferPool& pool, std::optional<PaddedParse> at_once) {
  return [first = std::move(first), assemble = std::move(assemble), schema = std::move(schema), &pool,
          at_once = std::move(at_once)](const Block& elements, size_t rows) {
    if (at_once) {
      if (std::optional<Block> batches = (*at_once)(elements, rows)) return *std::move(batches);
    }
    const Block passed = first->apply(elements, pool);
    if (passed.errors().empty()) return assemble(passed, rows);
    const size_t good = passed.errors().front().element / rows;
    BlockBuilder batches(schema, pool);
    if (good > 0) batches.append_range(assemble(passed.slice(0, good * rows), rows), 0, good);
    for (size_t b = good; b < elements.num_elements() / rows; ++b) {
      batches.append_error(passed.errors().front().error);
    }
    return batches.finish();
  };
}

}  // namespace

PaddedBatchOperator::PaddedBatchOperator(const SchemaPtr& input, int64_t size, PaddedBatchOptions options)
    : PaddedBatchOperator(input, size, Padding("padded_batch", input, std::move(options))) {}

PaddedBatchOperator::PaddedBatchOperator(SchemaPtr input, int64_t size, Padding padding)
    : StageOperator(padding.schema(padding.options().drop_remainder ? size : kVaries)),
      input_schema_(std::move(input)),
      size_(checked_batch_size("padded_batch", size)),
      padding_(std::move(padding)) {}

PaddedBatchOperator::PaddedBatchOperator(const PaddedBatchOperator& other, SchemaPtr input,
                                         std::shared_ptr<const MapOperator> first)
    : StageOperator(other.schema()),
      input_schema_(std::move(input)),
      size_(other.size_),
      padding_(other.padding_),
      first_(std::move(first)) {}

std::string PaddedBatchOperator::remark() const {
  return first_ == nullptr ? "" : fmt::format("rows through {}", first_->name());
}

Cardinality PaddedBatchOperator::cardinality(std::span<const Cardinality> inputs) const {
  return batch_cardinality(inputs[0], size_, padding_.options().drop_remainder);
}

std::shared_ptr<const Operator> PaddedBatchOperator::of_deferred_rows(const DeferredRows& rows) const {
  return std::make_shared<const PaddedBatchOperator>(*this, rows.schema, rows.parse);
}

std::unique_ptr<Stage> PaddedBatchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  BatchStage::Assemble assemble = padding_.assemble(schema(), context);
  if (first_ != nullptr) {
    assemble = through(first_, std::move(assemble), schema(), context.pool,
                       parse_at_once(*first_, padding_, schema(), context));
  }
  return std::make_unique<BatchStage>(input_schema_, schema(), open_input(inputs[0], context), size_,
                                      padding_.options().drop_remainder, std::move(assemble), context, first_);
}

}  // namespace millrace
