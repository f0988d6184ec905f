#include "millrace/pipeline/run/chain_run.h"

#include <algorithm>
#include <utility>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/error.h"
#include "millrace/pipeline/run/numbered_rows.h"
#include "millrace/pipeline/run/poll_budget.h"

namespace millrace {
namespace {

// In a `catch`: what ends a chain.
std::shared_ptr<const Error> end_of_chain() {
  Error error = current_exception_as_error();
  error.ends_stream = true;
  return std::make_shared<const Error>(std::move(error));
}

}  // namespace

void ChainRun::open(const OpenStage& open, const StageContext& context) {
  pool_ = &context.pool;
  iteration_ = context.iteration;
  next_row_ = 0;
  place_ = {};
  failure_ = nullptr;
  try {
    place_ = {context.state, 0};
    for (size_t i = 0; i < num_numbered_; ++i) {
      const NumberedRows numbered(place_.state);
      // Maps below others are one to one, so elements after them are elements before them.
      if (i == 0) next_row_ = numbered.next_row;
      place_ = numbered.input.advanced_by(place_.skip);
    }
    chain_ = open_at(open, context, place_);
  } catch (...) {
    failure_ = end_of_chain();
  }
}

Poll ChainRun::poll_stages(Block& out) {
  if (chain_ != nullptr) {
    const PollBudget turn;
    try {
      const Poll poll = chain_->next(out);
      const int polls = empty_polls_.load(std::memory_order_relaxed);
      turn_over_ = poll == Poll::kPending && turn.is_over();
      empty_polls_.store(poll != Poll::kPending ? 0
                         : turn_over_           ? kFruitlessPolls
                                                : std::min(polls + 1, kFruitlessPolls),
                         std::memory_order_relaxed);
      if (poll == Poll::kBlock) number(out);
      return poll;
    } catch (...) {
      failure_ = end_of_chain();
    }
    chain_.reset();
    out = Block();
  }
  if (failure_ == nullptr) return Poll::kEnd;
  out = error_block(schema_, *pool_, std::exchange(failure_, nullptr));
  out.cursor = place_;
  number(out);
  return Poll::kBlock;
}

Poll ChainRun::poll(Block& out) {
  const Poll poll = poll_stages(out);
  if (poll == Poll::kEnd) chain_.reset();
  return poll;
}

// Where there is no memory for it, the numbers stay as they are.
void ChainRun::number(Block& block) {
  Cursor after = block.cursor.advanced_by(static_cast<int64_t>(block.num_elements()));
  for (size_t i = 0; i < num_numbered_; ++i) block.cursor = NumberedRows{next_row_, block.cursor}.cursor();
  place_ = std::move(after);
  block.first_row = next_row_;
  block.iteration = iteration_;
  next_row_ += block.num_rows();
}

}  // namespace millrace
