#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/arguments.h"
#include "millrace/ops/combine/nested_inputs.h"
#include "millrace/ops/joined_schema.h"

namespace millrace {

/// How nested inputs are mixed.
struct InterleaveOptions {
  size_t cycle_length = 16;  ///< inputs that take turns; at least 1. Default: 16
  size_t block_length = 1;   ///< elements that an input gives in its turn; at least 1. Default: 1
  size_t read_ahead = 2;     ///< inputs opened before their turn comes. Changes speed only. Default: 2
  bool ordered = true;       ///< false: whichever input is ready gives its elements first. Default: true

  /// Throws `kInvalidArgument`. `operator_name`: that of whoever takes these options, which begins the message.
  void check(std::string_view operator_name) const;
  /// The same stream from so many inputs with no more lanes than they need: places without an input are passed over.
  InterleaveOptions of_inputs(size_t num_inputs) const;
  /// Inputs that are open at the same time.
  size_t num_lanes() const { return cycle_length + read_ahead; }

  static constexpr auto fields() {
    using A = InterleaveOptions;
    return describe<A>("InterleaveOptions", field::stream<&A::cycle_length>, field::stream<&A::block_length>,
                       field::speed<&A::read_ahead>, field::stream<&A::ordered>);
  }
};

/// Takes `block_length` elements from an input, then the next one's turn comes. An input is found to have ended when it
/// is asked in its turn; it loses what is left of that turn, and the next input takes its place when the turn comes
/// back. This is tf.data's order. Errors of elements pass and do not count as elements of a turn; an error in the place
/// of an input passes when that input would be opened, and the next input takes the place. Rows get the epoch of the
/// context: those that nested inputs count are no epochs of the data.
///
/// Each input runs in a lane of its own, in the iteration `context.iteration.nested(ordinal of the input)`; up to
/// `read_ahead` inputs are opened before there is a place for them.
///
/// State: the input that is opened next, whose turn it is and how much of the turn is gone, and of each open input its
/// number and where it is. With inputs that have places (`NestedInputs::place`), theirs too.
class InterleaveStage final : public Stage {
 public:
  InterleaveStage(SchemaPtr schema, std::unique_ptr<NestedInputs> inputs, const InterleaveOptions& options,
                  const StageContext& context);
  Poll next(Block& out) override;

 private:
  struct Input {
    std::unique_ptr<Stage> stage;  // null: an error, which is in `block`
    size_t lane = 0;
    uint64_t number = 0;  // of the input, in the order of opening
    Cursor source;        // as NestedInput::place
    Block block;
    size_t taken = 0;  // elements of `block` that went out
    Cursor begin;      // of `block`, also when it is gone; before the first block where the stage was opened
    bool exhausted() const { return taken == block.num_elements(); }
    Cursor place() const { return begin.advanced_by(static_cast<int64_t>(taken)); }
  };

  // What a state says of an input that was open, or, last, of the one that is opened next.
  struct Resumed {
    uint64_t number = 0;
    Cursor source;
    size_t turn = 0;  // its place of the cycle
    Cursor place;
  };

  void open_ahead();
  Input open(NestedInput nested, const Cursor& place);
  void read_state(const StageState& state);
  Poll resume();
  Cursor place() const;
  void note_begin();
  void end_turn();
  void close(Input& input);
  void take_run(Input& input);
  bool take_error(Block& out);
  Poll deliver(Block& out);

  InterleaveOptions options_;
  StageContext context_;
  std::unique_ptr<NestedInputs> inputs_;
  std::deque<Resumed> to_resume_;  // by number; empty: everything is open
  bool sought_ = false;            // the first of them
  bool inputs_ended_ = false;
  uint64_t opened_ = 0;
  std::deque<Input> ahead_;  // inputs, and errors in the place of some
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
  /// Unknown, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .forwards_row_views = true,
            .checkpoint_blocker = options_.ordered ? "" : "its inputs are not ordered"};
  }
  size_t num_lanes() const override { return needed_.num_lanes(); }

 private:
  InterleaveOperator(JoinedSchema inputs, const InterleaveOptions& options);

  JoinedSchema inputs_;
  InterleaveOptions options_;
  InterleaveOptions needed_;  // by the inputs there are
};

/// What `Dataset::interleave` is called with.
struct InterleaveArguments {
  InterleaveOptions options = {};

  static constexpr auto fields() {
    using A = InterleaveArguments;
    return describe<A>("interleave", field::inlined<&A::options>);
  }
};

}  // namespace millrace
