#include "millrace/ops/combine/selection.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

// Whoever chooses so many in a row that have ended will do so forever: nothing else would ever tell.
constexpr uint64_t kMostChoicesOfEnded = uint64_t{1} << 28;

}  // namespace

// Numbers: for each input 1 when it has ended. Inputs: the place of the selector, then of each input that has not.
SelectionStage::SelectionStage(std::string_view kind, const JoinedSchema& schema, std::vector<OpenStage> inputs,
                               const std::function<std::unique_ptr<InputSelector>(const StageContext&)>& open_selector,
                               bool stop_on_empty, const StageContext& context)
    : kind_(kind), stop_on_empty_(stop_on_empty), context_(context), builder_(schema.schema(), context.pool) {
  std::vector<int64_t> has_ended(inputs.size());
  if (context_.state != nullptr) has_ended = numbers_of(*context_.state, kind_, inputs.size());
  selector_ = open_selector(context_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs_.emplace_back();
    if (!inputs[i]) continue;
    ++num_open_;
    if (has_ended[i] != 0) {
      input_ended(i);
      continue;
    }
    StageContext nested = context_;
    nested.iteration = context_.iteration.nested(i);
    inputs_.back().emplace(schema.opener(i, std::move(inputs[i])), nested, num_open_);
  }
}

Cursor SelectionStage::place() const {
  std::vector<int64_t> has_ended;
  std::vector<Cursor> places = {selector_->place()};
  has_ended.reserve(inputs_.size());
  places.reserve(1 + num_open_);
  for (const std::optional<BlockReader>& input : inputs_) {
    has_ended.push_back(input ? 0 : 1);
    if (input) places.push_back(input->place());
  }
  return make_cursor(kind_, std::move(has_ended), std::move(places));
}

// A state names the places of all inputs, so small blocks go by that of one before.
void SelectionStage::note_begin() {
  if (begin_.state != nullptr) return;
  // What a resumed run reads again: it may be batches.
  constexpr int64_t kMostBytes = 4 * kBlockBytes;
  const bool is_near = next_begin_.state != nullptr && bytes_since_state_ < kMostBytes &&
                       next_begin_.skip < static_cast<int64_t>(kBlockElements);
  begin_ = is_near ? next_begin_ : place();
  if (!is_near) bytes_since_state_ = 0;
}

void SelectionStage::finish(Block& out) {
  out.epoch = context_.iteration.epoch;
  out.cursor = std::exchange(begin_, {});
  next_begin_ = out.cursor.advanced_by(static_cast<int64_t>(out.num_elements()));
  bytes_since_state_ += out.byte_size();
}

void SelectionStage::input_ended(size_t input) {
  inputs_[input].reset();
  --num_open_;
  selector_->ended(input);
}

Poll SelectionStage::deliver(Block& out) {
  out = builder_.finish();
  out.rows_per_element = rows_per_element_;
  finish(out);
  return Poll::kBlock;
}

// Elements of the input at hand; answers kPending as long as nothing is to go out.
Poll SelectionStage::append_run(const InputSelector::Choice& choice, Block& out) {
  BlockReader& input = *inputs_[choice.input];
  if (!builder_.empty() && input.block().rows_per_element != rows_per_element_) return deliver(out);
  size_t run = std::min(choice.count, input.left());
  const bool one_by_one = !input.block().errors().empty();
  const bool is_batch = input.block().rows_per_element > 1;
  if (builder_.empty() && !one_by_one && run == input.left() && (run > 1 || is_batch)) {
    selector_->take(run);
    out = input.take(run);
    finish(out);
    return Poll::kBlock;
  }
  run = one_by_one ? 1 : std::min(run, kBlockElements - builder_.num_elements());
  if (builder_.empty()) rows_per_element_ = input.block().rows_per_element;
  const ElementError* error = one_by_one ? input.error_at_hand() : nullptr;
  if (error == nullptr || !error->is_note()) selector_->take(run);
  builder_.append_range(input.block(), input.taken(), run);
  input.skip(run);
  return Poll::kPending;
}

Poll SelectionStage::next(Block& out) {
  for (size_t choices_here = 0;;) {
    if (ended_) return deliver_or(Poll::kEnd, out);
    if (builder_.num_elements() >= kBlockElements || builder_.byte_size() >= kBlockBytes) return deliver(out);
    if (builder_.empty()) note_begin();
    InputSelector::Choice choice;
    const Poll chosen = selector_->peek(choice);
    if (chosen == Poll::kPending) return deliver_or(chosen, out);
    if (chosen == Poll::kEnd) {
      ended_ = true;
      continue;
    }
    if (choice.error != nullptr) {
      if (!builder_.empty() && choice.rows != rows_per_element_) return deliver(out);
      rows_per_element_ = choice.rows;
      builder_.append_error(std::move(choice.error));
      selector_->take(1);
      choices_of_ended_ = 0;
      continue;
    }
    std::optional<BlockReader>& input = inputs_[choice.input];
    if (!input) {
      selector_->take(choice.count);
      choices_of_ended_ += choice.count;
      // Whoever chooses what has ended, forever, must not keep a thread from noticing that all is to stop.
      if (++choices_here < kBlockElements) continue;
      if (choices_of_ended_ >= kMostChoicesOfEnded && builder_.empty()) {
        // Not out_of_range: no single value is wrong, and nothing follows.
        throw ErrorException(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: {} choices one after the other are of inputs that have ended, and others have not", kind_,
                        choices_of_ended_));
      }
      context_.waker.wake();
      return deliver_or(Poll::kPending, out);
    }
    switch (input->poll()) {
      case Poll::kPending: return deliver_or(Poll::kPending, out);
      case Poll::kEnd:
        selector_->take(1);
        input_ended(choice.input);
        ended_ = stop_on_empty_ || num_open_ == 0;
        continue;
      case Poll::kBlock: break;
    }
    choices_of_ended_ = 0;
    if (append_run(choice, out) == Poll::kBlock) return Poll::kBlock;
  }
}

}  // namespace millrace
