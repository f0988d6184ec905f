#include "ops/interleave.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr std::string_view kKind = "interleave";

}  // namespace

void InterleaveOptions::check() const {
  const auto at_least_one = [](const char* parameter, size_t value) {
    if (value < 1) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("interleave: {} must be at least 1, not {}", parameter, value));
    }
  };
  at_least_one("cycle_length", cycle_length);
  at_least_one("block_length", block_length);
}

InterleaveOptions InterleaveOptions::of_inputs(size_t num_inputs) const {
  InterleaveOptions needed = *this;
  needed.cycle_length = std::min(cycle_length, std::max<size_t>(num_inputs, 1));
  needed.read_ahead = std::min(read_ahead, std::max(num_inputs, needed.cycle_length) - needed.cycle_length);
  return needed;
}

InterleaveStage::InterleaveStage(SchemaPtr schema, std::unique_ptr<NestedInputs> inputs,
                                 const InterleaveOptions& options, const StageContext& context)
    : options_(options), context_(context), inputs_(std::move(inputs)), builder_(std::move(schema), context.pool) {
  for (size_t lane = options_.num_lanes(); lane-- > 0;) free_lanes_.push_back(lane);
  cycle_.resize(options_.cycle_length);
  if (context_.state != nullptr) resume(*context_.state);
}

InterleaveStage::Input InterleaveStage::open(OpenStage open, const Cursor& place) {
  Input input;
  input.number = opened_++;
  input.lane = free_lanes_.back();
  input.begin = place;
  StageContext nested = context_;
  nested.iteration = context_.iteration.nested(input.number);
  input.stage = context_.lanes.open(input.lane, std::move(open), nested, place);
  free_lanes_.pop_back();
  return input;
}

// Numbers: the input that is opened next, the turn, how much of it is taken, and for each place of the cycle the input
// that is there, counted from 1, or 0.
Cursor InterleaveStage::place() const {
  std::vector<int64_t> numbers = {static_cast<int64_t>(opened_ - ahead_.size()), static_cast<int64_t>(turn_),
                                  static_cast<int64_t>(taken_in_turn_)};
  numbers.reserve(numbers.size() + cycle_.size());
  std::vector<Cursor> inputs;
  inputs.reserve(num_open_);
  for (const Input& input : cycle_) {
    numbers.push_back(input.stage == nullptr ? 0 : static_cast<int64_t>(input.number) + 1);
    if (input.stage != nullptr) inputs.push_back(input.place());
  }
  return make_cursor(kKind, std::move(numbers), std::move(inputs));
}

// To take a state means to touch what the lanes of all inputs share with this stage, so several blocks go by one. They
// are about as many as make a chunk of each of 16 inputs: what a resumed run reads again to come to its place.
void InterleaveStage::note_begin() {
  constexpr size_t kBlocksPerState = 8;
  if (blocks_since_state_ == kBlocksPerState || next_begin_.state == nullptr) {
    begin_ = place();
    blocks_since_state_ = 0;
  } else {
    begin_ = next_begin_;
  }
  ++blocks_since_state_;
}

void InterleaveStage::resume(const StageState& state) {
  const std::vector<int64_t>& numbers = numbers_of(state, kKind, 3 + cycle_.size());
  turn_ = std::min(static_cast<size_t>(numbers[1]), cycle_.size() - 1);
  taken_in_turn_ = std::min(static_cast<size_t>(numbers[2]), options_.block_length - 1);
  for (size_t i = 0; i < cycle_.size(); ++i) {
    if (numbers[3 + i] == 0) continue;
    opened_ = static_cast<uint64_t>(numbers[3 + i] - 1);
    if (num_open_ == state.inputs.size()) throw ErrorException(ErrorCode::kState, "the state of an interleave is cut");
    inputs_->seek(opened_);
    OpenStage input;
    if (inputs_->next(input) != Poll::kBlock) throw ErrorException(ErrorCode::kState, "an interleave has fewer inputs");
    cycle_[i] = open(std::move(input), state.inputs[num_open_++]);
  }
  opened_ = static_cast<uint64_t>(numbers[0]);
  inputs_->seek(opened_);
}

void InterleaveStage::open_ahead() {
  while (!inputs_ended_ && !free_lanes_.empty()) {
    OpenStage input;
    switch (inputs_->next(input)) {
      case Poll::kPending: return;
      case Poll::kEnd: inputs_ended_ = true; return;
      case Poll::kBlock: break;
    }
    ahead_.push_back(open(std::move(input), {}));
  }
}

void InterleaveStage::end_turn() {
  taken_in_turn_ = 0;
  turn_ = turn_ + 1 == options_.cycle_length ? 0 : turn_ + 1;
}

void InterleaveStage::close(Input& input) {
  free_lanes_.push_back(input.lane);
  input = Input();
  --num_open_;
}

// What the input gives in this turn out of its block, or less when the block that is gathered is full.
void InterleaveStage::take_run(Input& input) {
  if (builder_.empty()) note_begin();
  const size_t left = input.block.num_elements() - input.taken;
  size_t run = std::min(left, options_.block_length - taken_in_turn_);
  if (!input.block.errors().empty()) {
    // One by one: errors do not count.
    run = 1;
    if (input.block.error_at(input.taken) == nullptr) ++taken_in_turn_;
  } else {
    if (run == left && builder_.empty() && run > 1) {
      whole_ = input.taken == 0 ? std::move(input.block) : input.block.slice(input.taken, run);
      input.block = Block();
      input.begin = input.begin.behind(static_cast<int64_t>(input.taken + run));
      input.taken = 0;
      taken_in_turn_ += run;
      return;
    }
    run = std::min(run, kBlockElements - builder_.num_elements());
    taken_in_turn_ += run;
  }
  if (builder_.empty()) rows_per_element_ = input.block.rows_per_element;
  builder_.append_range(input.block, input.taken, run);
  input.taken += run;
}

Poll InterleaveStage::deliver(Block& out) {
  if (whole_.num_elements() > 0) {
    out = std::move(whole_);
    whole_ = Block();
  } else {
    out = builder_.finish();
    out.rows_per_element = rows_per_element_;
  }
  out.epoch = context_.iteration.epoch;
  out.cursor = std::exchange(begin_, {});
  next_begin_ = out.cursor.behind(static_cast<int64_t>(out.num_elements()));
  return Poll::kBlock;
}

Poll InterleaveStage::next(Block& out) {
  size_t turns_in_vain = 0;
  while (true) {
    if (builder_.num_elements() >= kBlockElements || builder_.byte_size() >= kBlockBytes) return deliver(out);
    Input& input = cycle_[turn_];
    if (input.stage == nullptr) {
      open_ahead();
      if (!ahead_.empty()) {
        input = std::move(ahead_.front());
        ahead_.pop_front();
        ++num_open_;
        open_ahead();
      } else if (!inputs_ended_ && (options_.ordered || num_open_ == 0)) {
        return builder_.empty() ? Poll::kPending : deliver(out);
      } else if (num_open_ == 0) {
        return builder_.empty() ? Poll::kEnd : deliver(out);
      } else {
        end_turn();
        if (!options_.ordered && ++turns_in_vain >= options_.cycle_length) {
          return builder_.empty() ? Poll::kPending : deliver(out);
        }
        continue;
      }
    }
    if (input.exhausted()) {
      input.begin = input.place();
      const Poll poll = input.stage->next(input.block);
      input.taken = 0;
      if (poll == Poll::kBlock) input.begin = input.block.cursor;
      if (poll == Poll::kEnd) {
        close(input);
        end_turn();
        turns_in_vain = 0;
        open_ahead();
        continue;
      }
      if (poll == Poll::kPending) {
        input.block = Block();
        if (options_.ordered || ++turns_in_vain >= options_.cycle_length) {
          return builder_.empty() ? Poll::kPending : deliver(out);
        }
        end_turn();
        continue;
      }
    }
    if (!builder_.empty() && input.block.rows_per_element != rows_per_element_) return deliver(out);
    turns_in_vain = 0;
    take_run(input);
    if (taken_in_turn_ == options_.block_length) end_turn();
    if (whole_.num_elements() > 0) return deliver(out);
  }
}

void ListedInputs::seek(uint64_t number) {
  if (number > inputs_.size()) {
    throw ErrorException(ErrorCode::kState, fmt::format("there is no input {}, only {}", number, inputs_.size()));
  }
  next_ = number;
}

InterleaveOperator::InterleaveOperator(JoinedSchema inputs, const InterleaveOptions& options)
    : StageOperator(inputs.schema()),
      inputs_(std::move(inputs)),
      options_(options),
      needed_(options.of_inputs(inputs_.num_inputs())) {
  options_.check();
}

std::string InterleaveOperator::arguments() const {
  return fmt::format("cycle_length={}, block_length={}{}", options_.cycle_length, options_.block_length,
                     options_.ordered ? "" : ", ordered=false");
}

std::unique_ptr<Stage> InterleaveOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs_.opener(i, std::move(inputs[i]));
  return std::make_unique<InterleaveStage>(schema(), std::make_unique<ListedInputs>(std::move(inputs)), needed_,
                                           context);
}

}  // namespace millrace
