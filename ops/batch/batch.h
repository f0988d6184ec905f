#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct BatchOptions {
  bool drop_remainder = false;  ///< drop the last batch when it is short. Default: false

  static constexpr std::string_view kAlternative = "batch";  // in BatchingOptions

  static constexpr auto fields() {
    using A = BatchOptions;
    return describe<A>("BatchOptions", field::stream<&A::drop_remainder>);
  }
};

/// Gathers `size` elements for each batch and has them assembled. A short last batch comes at the end or is dropped.
/// An error element loses the open batch and goes out in its place, counted as a full one. Several small batches share
/// a block, as many as fill one when they are made; runs of elements that fill batches by themselves are not copied.
/// Notes of what a source left out (`Error::skipped`) lose nothing: they go out before the batch that is open.
class BatchStage final : public Stage {
 public:
  /// Makes k batches of k × `rows` elements, none of which is an error. A batch that cannot be made is an error.
  using Assemble = std::function<Block(const Block& elements, size_t rows)>;

  /// `later`: a map of rows that a rewrite has moved after this stage, or null. Rows that are lost to an error or with
  /// the remainder never reach it, so it looks at them here: its first error goes out as if it still stood before.
  /// `row_bytes`: what a row takes after this stage, where it becomes larger there; 0: as `later` says, or as it is.
  BatchStage(SchemaPtr input_schema, SchemaPtr schema, std::unique_ptr<Stage> input, size_t size, bool drop_remainder,
             Assemble assemble, const StageContext& context, std::shared_ptr<const MapOperator> later = nullptr,
             int64_t row_bytes = 0);
  /// Throws `kMemoryBudget` when the rows of the open batch take more than there is.
  Poll next(Block& out) override;

 private:
  // What is shared with blocks that are assembled later.
  struct Making {
    Assemble assemble;
    // Bytes of a batch of the last block that was made; 0: not known. Written on any thread.
    std::atomic<int64_t> batch_bytes;
    Block operator()(const Block& elements, size_t rows, bool measured);
  };

  size_t open_rows() const { return builder_.num_elements() % size_; }
  size_t complete_rows() const { return builder_.num_elements() - open_rows(); }
  // How many batches fill a block.
  size_t most_batches() const;
  bool full() const;
  Poll deliver(const Block& elements, size_t rows, const Cursor& begin, Block& out);
  // An error in the place of a batch of `rows` rows.
  Poll deliver_error(std::shared_ptr<const Error> error, int64_t rows, const Cursor& begin, Block& out) const;
  Poll deliver_complete(Block& out);
  // Drops the rows of the open batch, when there are no others; the first error that `later_` finds in them, or null.
  std::shared_ptr<const Error> lose_open_rows();
  // The same, and keeps them when there is none.
  std::shared_ptr<const Error> error_of_open_rows();
  std::shared_ptr<const Error> error_of(Block rows) const;
  [[noreturn]] void refuse_rows() const;

  SchemaPtr schema_;
  std::unique_ptr<Stage> input_;
  size_t size_;
  bool drop_remainder_;
  std::shared_ptr<Making> making_;
  std::shared_ptr<const MapOperator> later_;
  bool grows_;  // a batch may take other bytes than its elements
  StageContext context_;
  Block block_;       // of the input
  size_t taken_ = 0;  // elements of `block_` that are gathered
  BlockBuilder builder_;
  int64_t epoch_ = 0;             // of the first row of the batches in `builder_`
  int64_t rows_per_element_ = 1;  // of the elements in `builder_`
  Cursor begin_;                  // place in the input of the first element in `builder_`
  Cursor open_begin_;             // and of the first one in the open batch
  int64_t notes_ = 0;             // that have gone out since, from between the rows of the open batch
  bool ended_ = false;
};

/// The least bytes that the largest batch of `size` elements of `input` takes, of the schema `batches`; 0: there is
/// none.
int64_t batch_bytes(const Schema& batches, size_t size, bool drop_remainder, Cardinality input);

/// Gathers `size` elements into one, each feature [s…] becoming [size, s…]. The shapes of a feature must be equal
/// within a batch; else the batch is an error that names the feature and both shapes. A ragged feature becomes one that
/// is ragged in one dimension more.
///
///     range(7), batch(3)                          // [0,1,2] [3,4,5] [6]
///     range(7), batch(3, {.drop_remainder = true})   // [0,1,2] [3,4,5]
class BatchOperator final : public StageOperator {
 public:
  /// `later`, `row_bytes`: see BatchStage.
  BatchOperator(SchemaPtr input, int64_t size, BatchOptions options = {},
                std::shared_ptr<const MapOperator> later = nullptr, int64_t row_bytes = 0);
  std::string_view name() const override { return "batch"; }
  std::string remark() const override;
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .checkpoint_blocker = "",
            .copies_rows = true,
            .is_light = true,
            .defer_parse = DeferParse::kInBatches};
  }
  /// One batch.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override {
    return batch_bytes(*schema(), size_, options_.drop_remainder, inputs[0]);
  }
  std::shared_ptr<const Operator> of_deferred_rows(const DeferredRows& rows) const override;

 private:
  SchemaPtr input_schema_;
  size_t size_;
  BatchOptions options_;
  std::shared_ptr<const MapOperator> later_;
  int64_t row_bytes_;
};

/// The schema of batches of `rows` elements, or of how many there are (`kVaries`). What varies in the elements of a
/// ragged feature, and with `ragged` of every feature, is ragged in the batch.
SchemaPtr batched_schema(const Schema& input, int64_t rows, bool ragged = false);
/// Makes batches of this schema by stacking the elements: rows of a ragged feature as they are, others of one shape.
/// The operator's name stands in errors.
BatchStage::Assemble stack_elements(SchemaPtr schema, std::string_view operator_name, BufferPool& pool);
/// Throws `kInvalidArgument` when a batch size is below 1.
size_t checked_batch_size(std::string_view operator_name, int64_t size);
/// Batches that `inputs[0]` elements make.
Cardinality batch_cardinality(Cardinality input, size_t size, bool drop_remainder);

/// What `Dataset::batch` is called with.
struct BatchArguments {
  int64_t size = 0;
  BatchOptions options = {};

  static constexpr auto fields() {
    using A = BatchArguments;
    return describe<A>("batch", field::required<&A::size>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
