#include "millrace/ops/tokens/pack.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/place_checks.h"
#include "millrace/ops/row_memory/row_slab.h"
#include "millrace/ops/tokens/length_queue.h"

namespace millrace {
namespace {

constexpr std::string_view kName = "pack";
constexpr std::string_view kKind = "pack";
// What a sequence takes besides its values: its entries, and what its slot is larger.
constexpr int64_t kOverhead = 96;

[[noreturn]] void refuse(const std::string& message) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", kName, message));
}

template <typename T>
void fill(std::byte* values, size_t count, const PaddingValue& value) {
  const T padding = std::holds_alternative<double>(value) ? static_cast<T>(std::get<double>(value))
                                                          : static_cast<T>(std::get<int64_t>(value));
  std::fill_n(reinterpret_cast<T*>(values), count, padding);
}

// A unit is a sequence, a piece of one that is split, or an error: what positions count.
class PackStage final : public Stage {
 public:
  PackStage(SchemaPtr schema, std::unique_ptr<Stage> input, const std::vector<PackOperator::Feature>& features,
            size_t length, const PackOptions& options, const StageContext& context)
      : schema_(std::move(schema)),
        input_(std::move(input)),
        features_(features),
        length_(length),
        look_ahead_(static_cast<size_t>(options.look_ahead)),
        splits_(options.long_sequences == LongSequences::kSplit),
        context_(context),
        slab_(context.pool),
        most_bytes_(context.memory_budget() / 4 * 3),
        held_bytes_(LengthQueue::bytes_for(static_cast<int64_t>(length))),
        waiting_(length),
        ready_(schema_, context.pool) {
    for (const auto& feature : features_) value_bytes_ += size_of(feature.dtype);
    state_.state = context.state;
    if (context.state == nullptr) return;
    const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 1);
    live_ = state_position_ = elements_to_read_again(kKind, numbers[0]);
    int64_t position = 0;
    for (size_t i = 1; i < numbers.size(); ++i) begins_.push_back(position += numbers[i]);
  }

  // Throws `kMemoryBudget` when the sequences that wait take more than there is.
  Poll next(Block& out) override {
    while (true) {
      if (ready_.num_elements() >= kBlockElements || ready_.byte_size() >= kBlockBytes) return deliver(out);
      if (held_bytes_ > most_bytes_) {
        if (!ready_.empty()) return deliver(out);
        refuse_memory();
      }
      if (position_ >= live_ || ended_) {
        const bool all_that_may_wait = ended_ || waiting_.size() >= look_ahead_;
        if (row_.empty() ? all_that_may_wait && waiting_.size() > 0 : row_length_ < length_) {
          const uint32_t unit =
              row_.empty() ? waiting_.oldest() : waiting_.longest(static_cast<uint32_t>(length_ - row_length_));
          if (unit != LengthQueue::kNone) {
            take(unit);
            continue;
          }
        }
        if (!row_.empty() && (all_that_may_wait || row_length_ == length_)) {
          if (close_row(out)) return Poll::kBlock;
          continue;
        }
        if (ended_) return ready_.empty() ? Poll::kEnd : deliver(out);
      }

      if (taken_ == num_elements_) {
        block_ = Block();
        const Poll poll = input_->next(block_);
        if (poll == Poll::kPending) return ready_.empty() ? poll : deliver(out);
        if (poll == Poll::kEnd) {
          if (position_ < live_) refuse_ended_input(kKind);
          ended_ = true;
          continue;
        }
        taken_ = 0;
        num_elements_ = block_.num_elements();
        places_.push_back(block_.cursor);
      }
      if (is_error()) {
        const bool gone = position_ < live_;
        if (!gone && !ready_.empty()) return deliver(out);
        if (!gone) pass_error(out);
        ++position_;
        ++taken_;
        if (!gone) return Poll::kBlock;
        continue;
      }
      read_piece();
    }
  }

 private:
  struct Unit {
    RowSlab::Slot slot;
    uint32_t element = 0;  // in its block
    int64_t block = 0;     // its number among the blocks of the input
    int64_t piece = 0;     // of the element
    int64_t position = 0;
    int64_t epoch = 0;
  };

  int64_t length_of(size_t element) const { return block_.column(features_[0].column).num_values(element); }

  // Whether the next element is an error, or cannot be packed and becomes one.
  bool is_error() {
    if (piece_ > 0) return false;
    if (!block_.errors().empty() && block_.error_at(taken_) != nullptr) return true;
    const int64_t length = length_of(taken_);
    std::string why;
    for (const auto& feature : features_) {
      const int64_t other = block_.column(feature.column).num_values(taken_);
      if (other == length) continue;
      why = fmt::format("feature '{}' has {} values, '{}' has {}", features_[0].name, length, feature.name, other);
      break;
    }
    if (why.empty() && !splits_ && length > static_cast<int64_t>(length_)) {
      why = fmt::format("a sequence has {} values, a row {} (LongSequences::kSplit cuts them)", length, length_);
    }
    if (why.empty()) return false;
    Error error{.code = ErrorCode::kWrongShape, .message = fmt::format("{}: {}", kName, why)};
    block_.locate(taken_, error);
    block_.add_error(taken_, std::make_shared<const Error>(std::move(error)));
    return true;
  }

  void pass_error(Block& out) {
    out = error_block(schema_, context_.pool, block_.error_at(taken_), block_.rows_per_element);
    out.epoch = block_.epoch;
    out.cursor = state_.advanced_by(since_state_++);
  }

  // Takes in the next piece of the next element.
  void read_piece() {
    const auto whole = static_cast<size_t>(length_of(taken_));
    const size_t first = static_cast<size_t>(piece_) * length_;
    const size_t length = std::min(length_, whole - first);
    if (length > 0) {
      if (position_ >= live_ || !is_gone(static_cast<uint32_t>(length))) hold(first, length);
      ++position_;
      ++piece_;
    }
    if (first + length < whole) return;
    piece_ = 0;
    ++taken_;
  }

  // Whether a unit that is read again had left before the state was taken.
  bool is_gone(uint32_t length) {
    if (next_begin_ < begins_.size() && begins_[next_begin_] == position_) {
      ++next_begin_;
      return false;
    }
    return waiting_.first_of(length) == LengthQueue::kNone;
  }

  void hold(size_t first, size_t length) {
    const uint32_t index = waiting_.add(static_cast<uint32_t>(length));
    if (index >= units_.size()) units_.resize(index + 1);
    Unit& unit = units_[index];
    unit = {.slot = slab_.allocate(length * value_bytes_),
            .element = static_cast<uint32_t>(taken_),
            .block = first_place_ + static_cast<int64_t>(places_.size()) - 1,
            .piece = piece_,
            .position = position_,
            .epoch = block_.epoch};
    std::byte* memory = slab_.data(unit.slot);
    for (const auto& feature : features_) {
      const size_t bytes = size_of(feature.dtype);
      std::memcpy(memory, block_.column(feature.column).data(taken_) + first * bytes, length * bytes);
      memory += length * bytes;
    }
    held_bytes_ += static_cast<int64_t>(length * value_bytes_) + kOverhead;
  }

  // Puts a unit into the open row.
  void take(uint32_t unit) {
    if (row_.empty()) row_epoch_ = units_[unit].epoch;
    row_.push_back({units_[unit].slot, waiting_.length(unit)});
    row_length_ += waiting_.length(unit);
    waiting_.remove(unit);
  }

  // Writes the open row after those that are ready; true when these are given first.
  bool close_row(Block& out) {
    const bool delivers = !ready_.empty() && row_epoch_ != ready_epoch_;
    if (delivers) deliver(out);
    if (ready_.empty()) ready_begin_ = state_.advanced_by(since_state_);
    ready_epoch_ = row_epoch_;
    const int64_t row_shape = static_cast<int64_t>(length_);
    for (size_t f = 0; f < features_.size(); ++f) write_feature(f, {&row_shape, 1});
    write_places({&row_shape, 1});
    ready_.added_elements(1);
    for (const Part& part : row_) {
      slab_.free(part.slot);
      held_bytes_ -= static_cast<int64_t>(part.length * value_bytes_) + kOverhead;
    }
    row_.clear();
    row_length_ = 0;
    ++since_state_;
    note_state();
    return delivers;
  }

  void write_feature(size_t f, std::span<const int64_t> shape) {
    const size_t bytes = size_of(features_[f].dtype);
    ColumnBuilder& column = ready_.column(f);
    std::byte* values = column.append_space(num_values(shape), shape);
    size_t before = 0;  // bytes of a value in the features before this one
    for (size_t g = 0; g < f; ++g) before += size_of(features_[g].dtype);
    for (const Part& part : row_) {
      const size_t length = part.length;
      std::memcpy(values, slab_.data(part.slot) + before * length, length * bytes);
      values += length * bytes;
    }
    const size_t rest = length_ - row_length_;
    visit_dtype(features_[f].dtype, [&]<typename T>() {
      if constexpr (std::is_arithmetic_v<T>) fill<T>(values, rest, features_[f].value);
    });
  }

  void write_places(std::span<const int64_t> shape) {
    const std::span<int32_t> segments = ready_.column(features_.size()).append_space<int32_t>(shape);
    const std::span<int32_t> positions = ready_.column(features_.size() + 1).append_space<int32_t>(shape);
    size_t place = 0;
    for (size_t i = 0; i < row_.size(); ++i) {
      for (uint32_t p = 0; p < row_[i].length; ++p, ++place) {
        segments[place] = static_cast<int32_t>(i + 1);
        positions[place] = static_cast<int32_t>(p);
      }
    }
    std::fill(segments.begin() + static_cast<std::ptrdiff_t>(place), segments.end(), 0);
    std::fill(positions.begin() + static_cast<std::ptrdiff_t>(place), positions.end(), 0);
  }

  // A state between two rows, when it costs no more than what was done since the last one.
  void note_state() {
    constexpr int64_t kLeast = 64;
    if (position_ - state_position_ < std::max(kLeast, static_cast<int64_t>(waiting_.size()))) return;
    state_position_ = position_;
    since_state_ = 0;
    if (waiting_.size() == 0) {
      forget_places(first_place_ + static_cast<int64_t>(places_.size()) - 1);
      state_ = make_cursor(kKind, {piece_}, {places_.back().advanced_by(static_cast<int64_t>(taken_))});
      return;
    }
    const Unit& oldest = units_[waiting_.oldest()];
    forget_places(oldest.block);
    std::vector<int64_t> begins;
    waiting_.for_each_first([&](uint32_t unit) { begins.push_back(units_[unit].position); });
    std::sort(begins.begin(), begins.end());
    int64_t last = oldest.position - oldest.piece;  // where the element of the oldest begins
    std::vector<int64_t> numbers{position_ - last};
    for (const int64_t begin : begins) numbers.push_back(begin - std::exchange(last, begin));
    state_ = make_cursor(kKind, std::move(numbers), {places_.front().advanced_by(oldest.element)});
  }

  void forget_places(int64_t before) {
    for (; first_place_ < before; ++first_place_) places_.pop_front();
  }

  Poll deliver(Block& out) {
    out = ready_.finish();
    out.epoch = ready_epoch_;
    out.cursor = std::move(ready_begin_);
    return Poll::kBlock;
  }

  [[noreturn]] void refuse_memory() const {
    throw ErrorException(
        ErrorCode::kMemoryBudget,
        fmt::format("{}: {} sequences that wait take {} bytes, more than three quarters of the memory budget of {} "
                    "bytes; a smaller look_ahead needs less",
                    kName, waiting_.size(), held_bytes_, context_.memory->budget()));
  }

  struct Part {
    RowSlab::Slot slot;
    uint32_t length = 0;
  };

  SchemaPtr schema_;
  std::unique_ptr<Stage> input_;
  const std::vector<PackOperator::Feature>& features_;
  const size_t length_;
  const size_t look_ahead_;
  const bool splits_;
  StageContext context_;
  size_t value_bytes_ = 0;  // of all features together
  RowSlab slab_;
  const int64_t most_bytes_;
  int64_t held_bytes_;  // of what waits, and its queues

  Block block_;  // of the input
  size_t num_elements_ = 0;
  size_t taken_ = 0;      // elements of `block_`
  int64_t piece_ = 0;     // of the next element
  int64_t position_ = 0;  // units read
  bool ended_ = false;
  std::deque<Cursor> places_;  // of the blocks that sequences wait from
  int64_t first_place_ = 0;    // the number of the first

  LengthQueue waiting_;
  std::vector<Unit> units_;  // by entry

  std::vector<Part> row_;  // the open row
  size_t row_length_ = 0;
  int64_t row_epoch_ = 0;

  BlockBuilder ready_;
  int64_t ready_epoch_ = 0;
  Cursor ready_begin_;

  Cursor state_;                // the last one, between two rows
  int64_t state_position_ = 0;  // where it was taken
  int64_t since_state_ = 0;     // rows and errors since

  // When resumed: positions of the first unit of each length that waits at `live_`, where the stream goes on.
  std::vector<int64_t> begins_;
  size_t next_begin_ = 0;
  int64_t live_ = 0;
};

std::vector<PackOperator::Feature> features_of(const Schema& input, const PackOptions& options) {
  std::vector<FeatureSpec> specs;
  std::vector<std::string> names = options.features;
  if (names.empty()) {
    for (const FeatureSpec& feature : input.features()) names.push_back(feature.name);
  }
  for (const std::string& name : names) {
    const FeatureSpec& feature = input[static_cast<size_t>(input.column(name))];
    if (feature.shape.size() != 1 || feature.dtype == DType::kBytes) {
      refuse(fmt::format("feature '{}' is {} {}, and vectors of numbers are packed{}", name, to_string(feature.dtype),
                         to_string(feature.shape),
                         options.features.empty() ? "; name those to pack, others are left out" : ""));
    }
    specs.push_back(feature);
  }
  PaddedBatchOptions padding{.value = options.value};
  for (const auto& [name, value] : options.values) padding.features[name].value = value;
  const auto packed = std::make_shared<const Schema>(specs);
  const Padding rules(kName, packed, padding);
  std::vector<PackOperator::Feature> features;
  for (size_t f = 0; f < specs.size(); ++f) {
    features.push_back({.name = specs[f].name,
                        .column = static_cast<size_t>(input.column(specs[f].name)),
                        .dtype = specs[f].dtype,
                        .value = rules.rules()[f].value});
  }
  return features;
}

SchemaPtr packed_schema(const Schema& input, int64_t length, const PackOptions& options) {
  constexpr int64_t kMostLength = int64_t{1} << 24;
  if (length < 1 || length > kMostLength) {
    refuse(fmt::format("length must be from 1 to {}, not {}", kMostLength, length));
  }
  constexpr int64_t kMostLookAhead = int64_t{1} << 24;
  if (options.look_ahead < 1 || options.look_ahead > kMostLookAhead) {
    refuse(fmt::format("look_ahead must be from 1 to {}, not {}", kMostLookAhead, options.look_ahead));
  }
  std::vector<FeatureSpec> features;
  for (const auto& feature : features_of(input, options)) features.push_back({feature.name, feature.dtype, {length}});
  features.push_back({options.segment_ids, DType::kInt32, {length}});
  features.push_back({options.positions, DType::kInt32, {length}});
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

PackOperator::PackOperator(const SchemaPtr& input, int64_t length, PackOptions options)
    : StageOperator(packed_schema(*input, length, options)),
      length_(length),
      options_(std::move(options)),
      features_(features_of(*input, options_)) {}

Cardinality PackOperator::cardinality(std::span<const Cardinality> inputs) const {
  return inputs[0].is_infinite() ? inputs[0] : Cardinality::unknown();
}

std::unique_ptr<Stage> PackOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<PackStage>(schema(), open_input(inputs[0], context), features_, static_cast<size_t>(length_),
                                     options_, context);
}

int64_t PackOperator::memory_needed(std::span<const Cardinality>) const {
  // As with what waits, three quarters of the budget are there for the queues.
  return fixed_bytes(*schema()) + LengthQueue::bytes_for(length_) / 3 * 4;
}

}  // namespace millrace
