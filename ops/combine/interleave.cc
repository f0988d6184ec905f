#include "millrace/ops/combine/interleave.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

constexpr std::string_view kKind = "interleave";

/// Whole rounds through all inputs at once, for rows that are one `bytes` value: row by row each would cost a look at
/// its input's block, and the ends of what was gathered. `Input`: as in InterleaveStage.
template <typename Input>
class Rounds {
 public:
  /// `length`: rows that an input gives in its turn.
  Rounds(std::vector<Input>& inputs, size_t length) : inputs_(inputs), length_(length) {}

  /// How many rounds there are without an error, of rows like those that are gathered; no more than make `most` rows.
  size_t count(size_t most) const {
    if (inputs_.size() == 1) return 0;
    size_t rounds = most / (inputs_.size() * length_);
    for (const Input& input : inputs_) {
      rounds = std::min(rounds, (input.block.num_elements() - input.taken) / length_);
      if (rounds == 0) return 0;
      const Block& block = input.block;
      const Column& column = block.column(0);
      if (block.columns().size() > 1 || column.dtype() != DType::kBytes || column.rank() != 0) return 0;
      if (block.rows_per_element != 1 || !block.errors().empty()) return 0;
    }
    return rounds;
  }

  /// Takes so many rounds, beginning with the first input, after the rows of `head`.
  Block take(size_t rounds, const Block& head, const SchemaPtr& schema, BufferPool& pool) {
    const size_t stride = inputs_.size() * length_;
    const size_t before = head.num_elements();
    Column column = Column::fixed(pool, DType::kBytes, {}, before + rounds * stride);
    Origins origins = origins_of(head, before + rounds * stride, pool);
    if (before > 0) {
      const auto rows = head.column(0).values<std::string_view>();
      std::copy(rows.begin(), rows.end(), column.mutable_values<std::string_view>().begin());
      if (!origins.empty()) take_origins(head, 0, 1, before, before, origins.mutable_data());
      hold_what(head, column);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      const size_t first = before + i * length_;
      const auto rows = input.block.column(0).template values<std::string_view>();
      std::string_view* to = column.mutable_values<std::string_view>().data() + first;
      for (size_t row = 0; row < rounds * length_; row += length_, to += stride) {
        for (size_t j = 0; j < length_; ++j) to[j] = rows[input.taken + row + j];
      }
      if (!origins.empty()) {
        take_origins(input.block, input.taken, rounds, length_, stride, origins.mutable_data() + first);
      }
      hold_what(input.block, column);
      input.taken += rounds * length_;
    }
    Block block(schema, {std::move(column)}, before + rounds * stride);
    block.set_origins(std::move(origins));
    for (const ElementError& entry : head.errors()) block.add_error(entry.element, entry.error);
    return block;
  }

 private:
  static bool has_origins(const Block& block) {
    return !block.origins().empty() && block.origins().size() == block.num_elements();
  }
  // Room for the origins of `rows` rows, where any of them has one.
  Origins origins_of(const Block& head, size_t rows, BufferPool& pool) const {
    const Block* known = has_origins(head) ? &head : nullptr;
    for (const Input& input : inputs_) known = has_origins(input.block) ? &input.block : known;
    return known == nullptr ? Origins() : Origins(pool, known->origins().names(), rows);
  }
  // `length` origins for each round, from `first` on.
  static void take_origins(const Block& block, size_t first, size_t rounds, size_t length, size_t stride, Origin* to) {
    const bool known = has_origins(block);
    const Origin* from = known ? block.origins().data() + first : nullptr;
    for (size_t row = 0; row < rounds * length; row += length, to += stride) {
      for (size_t j = 0; j < length; ++j) to[j] = known ? from[row + j] : Origin();
    }
  }
  static void hold_what(const Block& block, Column& column) {
    block.column(0).holds().for_each([&column](const Ref<Resource>& resource) { column.hold(resource); });
  }

  std::vector<Input>& inputs_;
  const size_t length_;
};

}  // namespace

void InterleaveOptions::check(std::string_view operator_name) const {
  const auto at_least_one = [&](const char* parameter, size_t value) {
    if (value < 1) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("{}: {} must be at least 1, not {}", operator_name, parameter, value));
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
  if (context_.state == nullptr) return;
  read_state(*context_.state);
  (void)resume();
}

InterleaveStage::Input InterleaveStage::open(NestedInput nested, const Cursor& place) {
  Input input;
  input.number = opened_;
  input.source = std::move(nested.place);
  if (!nested.open) {
    input.block = std::move(nested.error);
    // A note stands in the place of no input.
    if (!input.block.errors()[0].is_note()) ++opened_;
    return input;
  }
  ++opened_;
  input.lane = free_lanes_.back();
  input.begin = place;
  StageContext context = context_;
  context.iteration = context_.iteration.nested(input.number);
  input.stage = context_.lanes.open(input.lane, std::move(nested.open), context, place);
  free_lanes_.pop_back();
  return input;
}

// Numbers: the input that is opened next, the turn, how much of it is taken, and for each place of the cycle the input
// that is there, counted from 1, or 0. Inputs: where those are.
//
// Of inputs that have places, the states of these follow the inputs, each once; and for each input that is open, and
// the one that is opened next, two numbers: which of the states, and how many elements after it.
Cursor InterleaveStage::place() const {
  const Input* next = ahead_.empty() ? nullptr : &ahead_.front();
  std::vector<int64_t> numbers = {static_cast<int64_t>(next == nullptr ? opened_ : next->number),
                                  static_cast<int64_t>(turn_), static_cast<int64_t>(taken_in_turn_)};
  numbers.reserve(numbers.size() + cycle_.size());
  std::vector<Cursor> inputs;
  inputs.reserve(num_open_);
  for (const Input& input : cycle_) {
    numbers.push_back(input.stage == nullptr ? 0 : static_cast<int64_t>(input.number) + 1);
    if (input.stage != nullptr) inputs.push_back(input.place());
  }
  if (const std::optional<Cursor> after = inputs_->place()) {
    const auto add_source = [&](const Cursor& source) {
      size_t i = num_open_;
      while (i < inputs.size() && inputs[i].state != source.state) ++i;
      if (i == inputs.size()) inputs.push_back({source.state, 0});
      numbers.push_back(static_cast<int64_t>(i - num_open_));
      numbers.push_back(source.skip);
    };
    for (const Input& input : cycle_) {
      if (input.stage != nullptr) add_source(input.source);
    }
    add_source(next == nullptr ? *after : next->source);
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

void InterleaveStage::read_state(const StageState& state) {
  const size_t num_places = 3 + cycle_.size();
  const std::vector<int64_t>& numbers = numbers_of(state, kKind, num_places);
  turn_ = std::min(static_cast<size_t>(numbers[1]), cycle_.size() - 1);
  taken_in_turn_ = std::min(static_cast<size_t>(numbers[2]), options_.block_length - 1);
  const auto num_open =
      cycle_.size() - static_cast<size_t>(std::count(
                          numbers.begin() + 3, numbers.begin() + 3 + static_cast<std::ptrdiff_t>(cycle_.size()), 0));
  const bool has_sources = inputs_->place().has_value();
  const auto refuse = [] { throw ErrorException(ErrorCode::kState, "the state of an interleave is cut"); };
  if (state.inputs.size() < num_open || (has_sources && numbers.size() != num_places + 2 * (num_open + 1))) refuse();
  const auto source = [&](size_t i) -> Cursor {
    if (!has_sources) return {};
    const size_t index = num_open + static_cast<size_t>(numbers[num_places + 2 * i]);
    if (index >= state.inputs.size()) refuse();
    return state.inputs[index].advanced_by(elements_to_read_again(kKind, numbers[num_places + 2 * i + 1]));
  };
  for (size_t turn = 0; turn < cycle_.size(); ++turn) {
    if (numbers[3 + turn] == 0) continue;
    const size_t i = to_resume_.size();
    to_resume_.push_back({.number = static_cast<uint64_t>(numbers[3 + turn] - 1),
                          .source = source(i),
                          .turn = turn,
                          .place = state.inputs[i]});
  }
  std::sort(to_resume_.begin(), to_resume_.end(),
            [](const Resumed& a, const Resumed& b) { return a.number < b.number; });
  to_resume_.push_back(
      {.number = static_cast<uint64_t>(numbers[0]), .source = source(num_open), .turn = 0, .place = {}});
}

// Opens what was open. `kBlock`: all of it.
Poll InterleaveStage::resume() {
  for (; !to_resume_.empty(); to_resume_.pop_front(), sought_ = false) {
    const Resumed& resumed = to_resume_.front();
    if (!sought_) inputs_->seek(resumed.number, resumed.source);
    sought_ = true;
    opened_ = resumed.number;
    if (to_resume_.size() == 1) continue;
    NestedInput input;
    const Poll poll = inputs_->next(input);
    if (poll == Poll::kPending) return poll;
    if (poll == Poll::kEnd) throw ErrorException(ErrorCode::kState, "an interleave has fewer inputs");
    if (!input.open) {
      Error error = *input.error.errors()[0].error;
      error.code = ErrorCode::kState;
      error.message = "an input that was open cannot be opened again: " + error.message;
      throw ErrorException(std::move(error));
    }
    cycle_[resumed.turn] = open(std::move(input), resumed.place);
    ++num_open_;
  }
  return Poll::kBlock;
}

// Errors take no lane; no more of them than there are lanes.
void InterleaveStage::open_ahead() {
  while (!inputs_ended_ && !free_lanes_.empty() && ahead_.size() < options_.num_lanes()) {
    NestedInput input;
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
  if (turn_ == 0 && taken_in_turn_ == 0) {
    Rounds rounds(cycle_, options_.block_length);
    // Fewer rows are gathered as fast one by one, and go on gathering.
    constexpr size_t kLeast = kBlockElements / 8;
    const size_t count = rounds.count(kBlockElements - std::min(kBlockElements, builder_.num_elements()));
    if (count * cycle_.size() * options_.block_length >= kLeast) {
      const Block head = builder_.empty() ? Block() : builder_.finish();
      whole_ = rounds.take(count, head, builder_.schema(), context_.pool);
      return;
    }
  }
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
      input.begin = input.begin.advanced_by(static_cast<int64_t>(input.taken + run));
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

// The error in the place of the next input. False: what is gathered must go out first, and is in `out`.
bool InterleaveStage::take_error(Block& out) {
  const Block& error = ahead_.front().block;
  if (!builder_.empty() && error.rows_per_element != rows_per_element_) {
    deliver(out);
    return false;
  }
  if (builder_.empty()) {
    note_begin();
    rows_per_element_ = error.rows_per_element;
  }
  builder_.append(error, 0);
  ahead_.pop_front();
  return true;
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
  next_begin_ = out.cursor.advanced_by(static_cast<int64_t>(out.num_elements()));
  return Poll::kBlock;
}

Poll InterleaveStage::next(Block& out) {
  if (!to_resume_.empty() && resume() == Poll::kPending) return Poll::kPending;
  open_ahead();
  size_t skipped_turns = 0;
  size_t empty_inputs_in_a_row = 0;
  while (true) {
    if (builder_.num_elements() >= kBlockElements || builder_.byte_size() >= kBlockBytes) return deliver(out);
    Input& input = cycle_[turn_];
    if (input.stage == nullptr) {
      open_ahead();
      if (!ahead_.empty() && ahead_.front().stage == nullptr) {
        if (!take_error(out)) return Poll::kBlock;
        skipped_turns = 0;
        continue;
      }
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
        if (!options_.ordered && ++skipped_turns >= options_.cycle_length) {
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
        skipped_turns = 0;
        open_ahead();
        if (++empty_inputs_in_a_row == kBlockElements) {
          // There may never be an element: somebody who wants to stop all must get his turn.
          context_.waker.wake();
          return builder_.empty() ? Poll::kPending : deliver(out);
        }
        continue;
      }
      if (poll == Poll::kPending) {
        input.block = Block();
        if (options_.ordered || ++skipped_turns >= options_.cycle_length) {
          return builder_.empty() ? Poll::kPending : deliver(out);
        }
        end_turn();
        continue;
      }
    }
    if (!builder_.empty() && input.block.rows_per_element != rows_per_element_) return deliver(out);
    skipped_turns = 0;
    take_run(input);
    if (taken_in_turn_ == options_.block_length) end_turn();
    if (whole_.num_elements() > 0) return deliver(out);
  }
}

InterleaveOperator::InterleaveOperator(JoinedSchema inputs, const InterleaveOptions& options)
    : StageOperator(inputs.schema()),
      inputs_(std::move(inputs)),
      options_(options),
      needed_(options.of_inputs(inputs_.num_inputs())) {
  options_.check(name());
}

std::unique_ptr<Stage> InterleaveOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs_.opener(i, std::move(inputs[i]));
  return std::make_unique<InterleaveStage>(schema(), std::make_unique<ListedInputs>(std::move(inputs)), needed_,
                                           context);
}

}  // namespace millrace
