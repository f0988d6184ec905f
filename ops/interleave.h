#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "formats/columnar/block_builder.h"
#include "ops/joined_schema.h"

namespace millrace {

/// How nested inputs are mixed.
struct InterleaveOptions {
  size_t cycle_length = 16;  ///< inputs that take turns; at least 1. Default: 16
  size_t block_length = 1;   ///< elements that an input gives in its turn; at least 1. Default: 1
  size_t read_ahead = 2;     ///< inputs opened before their turn comes. Changes speed only. Default: 2
  bool ordered = true;       ///< false: whichever input is ready gives its elements first. Default: true

  /// Throws `kInvalidArgument`.
  void check() const;
  /// The same stream from so many inputs with no more lanes than they need: places without an input are passed over.
  InterleaveOptions of_inputs(size_t num_inputs) const;
  /// Inputs that are open at the same time.
  size_t num_lanes() const { return cycle_length + read_ahead; }
};

/// The inputs of an interleave, in the order in which they are opened.
class NestedInputs {
 public:
  virtual ~NestedInputs() = default;
  /// `kBlock`: `out` opens the next input. `kEnd`: there are no more. `kPending`: as for a stage.
  virtual Poll next(OpenStage& out) = 0;
  /// `next` goes on with the input of this number, counted from 0; for inputs that were given before. Throws `kState`
  /// when there is no such input.
  virtual void seek(uint64_t number) = 0;
};

/// Inputs that are known from the start.
class ListedInputs final : public NestedInputs {
 public:
  explicit ListedInputs(std::vector<OpenStage> inputs) : inputs_(std::move(inputs)) {}
  Poll next(OpenStage& out) override {
    if (next_ == inputs_.size()) return Poll::kEnd;
    out = inputs_[next_++];
    return Poll::kBlock;
  }
  void seek(uint64_t number) override;

 private:
  std::vector<OpenStage> inputs_;
  size_t next_ = 0;
};

/// Takes `block_length` elements from an input, then the next one's turn comes. An input is found to have ended when it
/// is asked in its turn; it loses what is left of that turn, and the next input takes its place when the turn comes
/// back. This is tf.data's order. Errors of elements pass and do not count as elements of a turn. Rows get the epoch of
/// the context: those that nested inputs count are no epochs of the data.
///
/// Each input runs in a lane of its own, in the iteration `context.iteration.nested(ordinal of the input)`; up to
/// `read_ahead` inputs are opened before there is a place for them.
class InterleaveStage final : public Stage {
 public:
  InterleaveStage(SchemaPtr schema, std::unique_ptr<NestedInputs> inputs, const InterleaveOptions& options,
                  const StageContext& context);
  Poll next(Block& out) override;

 private:
  struct Input {
    std::unique_ptr<Stage> stage;
    size_t lane = 0;
    uint64_t number = 0;  // of the input, in the order of opening
    Block block;
    size_t taken = 0;  // elements of `block` that went out
    Cursor begin;      // of `block`, also when it is gone; before the first block where the stage was opened
    bool exhausted() const { return taken == block.num_elements(); }
    Cursor place() const { return begin.behind(static_cast<int64_t>(taken)); }
  };

  void open_ahead();
  Input open(OpenStage open, const Cursor& place);
  void resume(const StageState& state);
  Cursor place() const;
  void note_begin();
  void end_turn();
  void close(Input& input);
  void take_run(Input& input);
  Poll deliver(Block& out);

  InterleaveOptions options_;
  StageContext context_;
  std::unique_ptr<NestedInputs> inputs_;
  bool inputs_ended_ = false;
  uint64_t opened_ = 0;
  std::deque<Input> ahead_;
  std::vector<size_t> free_lanes_;
  std::vector<Input> cycle_;  // places without a stage are empty
  size_t num_open_ = 0;       // places with a stage
  size_t turn_ = 0;           // place whose turn it is
  size_t taken_in_turn_ = 0;
  BlockBuilder builder_;
  Cursor begin_;                   // of what is gathered
  Cursor next_begin_;              // of the block after, when it goes by the same state
  size_t blocks_since_state_ = 0;  // that went by the state of `next_begin_`
  int64_t rows_per_element_ = 1;
  Block whole_;  // goes out as it is
};

/// Interleaves explicit nested inputs; with `cycle_length` 1, one after the other (flat_map).
class InterleaveOperator final : public StageOperator {
 public:
  InterleaveOperator(std::span<const SchemaPtr> inputs, const InterleaveOptions& options)
      : InterleaveOperator(JoinedSchema("interleave", inputs), options) {}
  /// Inputs of one schema.
  InterleaveOperator(const SchemaPtr& schema, const InterleaveOptions& options, size_t num_inputs)
      : InterleaveOperator(std::vector<SchemaPtr>(std::max<size_t>(num_inputs, 1), schema), options) {}
  std::string_view name() const override { return "interleave"; }
  std::string arguments() const override;
  /// Unknown, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  std::string unsavable() const override { return options_.ordered ? "" : "its inputs are not ordered"; }
  size_t num_lanes() const override { return needed_.num_lanes(); }

 private:
  InterleaveOperator(JoinedSchema inputs, const InterleaveOptions& options);

  JoinedSchema inputs_;
  InterleaveOptions options_;
  InterleaveOptions needed_;  // by the inputs there are
};

}  // namespace millrace
