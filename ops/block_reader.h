#pragma once

#include <memory>
#include <utility>

#include "millrace/ops/stage.h"

namespace millrace {

/// An input whose blocks are taken in pieces: the block at hand, how much of it is gone, and the place of what comes
/// next.
///
///     BlockReader input(inputs[0], context);
///     if (input.poll() == Poll::kBlock) out = input.take(std::min(wanted, input.left()));
class BlockReader {
 public:
  /// Input `index`, opened where the state in `context` says.
  BlockReader(const OpenStage& open, const StageContext& context, size_t index = 0)
      : stage_(open_input(open, context, index)) {
    if (context.state != nullptr) begin_ = context.state->inputs[index];
  }
  /// An input opened at a place in its stream.
  BlockReader(const OpenStage& open, const StageContext& context, const Cursor& place)
      : stage_(open_at(open, context, place)), begin_(place) {}

  /// `kBlock`: there is an element at hand.
  Poll poll() {
    if (taken_ < block_.num_elements()) return Poll::kBlock;
    begin_ = place();
    block_ = Block();
    taken_ = 0;
    const Poll poll = stage_->next(block_);
    if (poll == Poll::kBlock) {
      begin_ = block_.cursor;
    } else {
      block_ = Block();
    }
    return poll;
  }

  /// The block at hand, with what is gone of it.
  const Block& block() const { return block_; }
  size_t taken() const { return taken_; }
  size_t left() const { return block_.num_elements() - taken_; }
  /// The first error of the block that is not gone, or null.
  const ElementError* next_error() const { return block_.next_error(taken_); }
  /// The error in the place of the next element, or null.
  const ElementError* error_at_hand() const {
    const ElementError* error = next_error();
    return error == nullptr || error->element != taken_ ? nullptr : error;
  }

  /// The next `count` elements, no more than are left; values are not copied.
  [[nodiscard]] Block take(size_t count) {
    Block part = count == block_.num_elements() ? block_ : block_.slice(taken_, count);
    skip(count);
    return part;
  }
  /// The same without them.
  void skip(size_t count) { taken_ += count; }
  /// Of the next element in the stream of the input.
  Cursor place() const { return begin_.advanced_by(static_cast<int64_t>(taken_)); }

 private:
  std::unique_ptr<Stage> stage_;
  Cursor begin_;  // of `block_`, also when it is gone; before the first block where the stage was opened
  Block block_;
  size_t taken_ = 0;
};

}  // namespace millrace
