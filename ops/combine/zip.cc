#include "millrace/ops/combine/zip.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/block_reader.h"

namespace millrace {
namespace {

constexpr std::string_view kKind = "zip";

class ZipStage final : public Stage {
 public:
  ZipStage(SchemaPtr schema, const std::vector<OpenStage>& inputs, const StageContext& context)
      : schema_(std::move(schema)), context_(context) {
    if (context.state != nullptr) (void)numbers_of(*context.state, kKind, 0);
    inputs_.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) inputs_.emplace_back(inputs[i], context, i);
  }

  Poll next(Block& out) override {
    if (ended_) return Poll::kEnd;
    size_t run = SIZE_MAX;
    std::shared_ptr<const Error> error;  // of this element, in an input before
    // Where one input has batches and another has not, an element is as many rows as the batch.
    int64_t rows = 1;
    for (BlockReader& input : inputs_) {
      const Poll poll = input.poll();
      if (poll == Poll::kPending) return poll;
      if (poll == Poll::kEnd) return end(std::move(error), rows, out);
      rows = std::max(rows, input.block().rows_per_element);
      const ElementError* note = input.next_error();
      while (note != nullptr && !note->is_note()) note = input.block().next_error(note->element + 1);
      if (note != nullptr && note->element == input.taken()) return deliver_note(input, out);
      run = std::min(run, note == nullptr ? input.left() : note->element - input.taken());
      if (error == nullptr && input.error_at_hand() != nullptr) error = input.error_at_hand()->error;
    }
    return deliver(run, rows, out);
  }

 private:
  Cursor place() const {
    std::vector<Cursor> places;
    places.reserve(inputs_.size());
    for (const BlockReader& input : inputs_) places.push_back(input.place());
    return make_cursor(kKind, {}, std::move(places));
  }

  // The element that an input has no part for is an error nevertheless, where one before it has failed already.
  Poll end(std::shared_ptr<const Error> error, int64_t rows, Block& out) {
    ended_ = true;
    const bool failed = error != nullptr;
    if (failed) {
      out = error_block(schema_, context_.pool, std::move(error), rows);
      out.epoch = context_.iteration.epoch;
      out.cursor = place();
    }
    inputs_.clear();  // nothing more is read
    return failed ? Poll::kBlock : Poll::kEnd;
  }

  Poll deliver_note(BlockReader& input, Block& out) {
    out = error_block(schema_, context_.pool, input.error_at_hand()->error, input.block().rows_per_element);
    out.epoch = context_.iteration.epoch;
    out.cursor = place();
    input.skip(1);
    return Poll::kBlock;
  }

  Poll deliver(size_t run, int64_t rows, Block& out) {
    const Cursor begin = place();
    Block first = inputs_[0].take(run);
    Block::Columns columns = std::move(first.mutable_columns());
    columns.reserve(schema_->size());
    out = first.with_columns(schema_, {});
    out.rows_per_element = rows;
    if (first.rows_per_element != rows) out.set_origins({});
    for (size_t i = 1; i < inputs_.size(); ++i) {
      const Block part = inputs_[i].take(run);
      for (const Column& column : part.columns()) columns.push_back(column);
      for (const ElementError& entry : part.errors()) out.add_error(entry.element, entry.error);
      if (out.origins().empty() && part.rows_per_element == rows) out.set_origins(part.origins());
    }
    out.mutable_columns() = std::move(columns);
    out.epoch = context_.iteration.epoch;
    out.cursor = begin;
    return Poll::kBlock;
  }

  SchemaPtr schema_;
  StageContext context_;
  std::vector<BlockReader> inputs_;
  bool ended_ = false;
};

SchemaPtr zipped_schema(std::span<const SchemaPtr> inputs) {
  if (inputs.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "zip: there are no inputs");
  std::vector<FeatureSpec> features;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const FeatureSpec& feature : inputs[i]->features()) {
      for (size_t j = 0; j < i; ++j) {
        if (inputs[j]->find(feature.name) < 0) continue;
        throw ErrorException(ErrorCode::kInvalidArgument,
                             fmt::format("zip: inputs {} and {} both have a feature '{}'", j, i, feature.name));
      }
      features.push_back(feature);
    }
  }
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

ZipOperator::ZipOperator(std::span<const SchemaPtr> inputs) : StageOperator(zipped_schema(inputs)) {}

Cardinality ZipOperator::cardinality(std::span<const Cardinality> inputs) const {
  Cardinality least = Cardinality::infinite();
  for (const Cardinality& input : inputs) {
    if (input.is_unknown()) return input;
    if (input.is_known() && (least.is_infinite() || input.count() < least.count())) least = input;
  }
  return least;
}

std::unique_ptr<Stage> ZipOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<ZipStage>(schema(), inputs, context);
}

}  // namespace millrace
