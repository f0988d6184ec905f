#include "millrace/ops/flow/shuffle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include <fmt/format.h>

#include "millrace/formats/columnar/prefetch_lines.h"
#include "millrace/formats/columnar/row_codec.h"
#include "millrace/ops/flow/shuffle_keys.h"
#include "millrace/ops/place_checks.h"
#include "millrace/ops/row_memory/cached_rows.h"
#include "millrace/ops/row_memory/calendar_queue.h"
#include "millrace/ops/row_memory/error_bytes.h"
#include "millrace/ops/row_memory/row_slab.h"
#include "millrace/ops/row_memory/row_store.h"

namespace millrace {
namespace {

// What a row takes of the pool: its entry in the calendar with up to five heads of buckets, and a slot.
constexpr int64_t kEntryBytes = 64 + 5 * sizeof(uint32_t);
constexpr int64_t bytes_with_slot(int64_t row) { return kEntryBytes + std::max<int64_t>(row, RowSlab::kSmallest); }

// Rows wait in a calendar queue by their keys; where their bytes lie meanwhile:
// docs/decisions/lanes_copy_the_rows_of_a_shuffle.md and rows_past_the_caches.md.
class ShuffleStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "shuffle";

  ShuffleStage(const SchemaPtr& schema, std::unique_ptr<Stage> input, const ShuffleKeys& keys,
               std::shared_ptr<RowStore> store, const StageContext& context)
      : input_(std::move(input)),
        keys_(keys),
        codec_(schema),
        store_(std::move(store)),
        taker_(store_.get()),
        slab_(context.pool),
        memory_(context.memory),
        most_bytes_(context.memory_budget() / 4 * 3),
        waiting_(context.pool),
        builder_(schema, context.pool) {
    if (context.state != nullptr) resume(*context.state);
  }

  ~ShuffleStage() override {
    // Blocks of the input may wait somewhere, and keep the store.
    if (store_ == nullptr) return;
    std::array<const char*, 128> rows;
    size_t count = 0;
    const auto give_back = [&](const Held& row) {
      if (row.is_in_store == 0) return;
      rows[count++] = row.row;
      if (count == rows.size()) store_->give_back({rows.data(), std::exchange(count, 0)});
    };
    waiting_.for_each(give_back);
    std::for_each(leaving_.begin() + static_cast<std::ptrdiff_t>(next_leaving_), leaving_.end(), give_back);
    store_->give_back({rows.data(), count});
  }

  // Throws `kMemoryBudget` when the rows take more than there is.
  Poll next(Block& out) override {
    slab_.collect();
    if (held_bytes_ > most_bytes_) refuse_row();
    while (true) {
      // What has left the buffer.
      while (next_leaving_ < leaving_.size()) {
        const Held& row = leaving_[next_leaving_];
        if (!builder_.empty() && (row.label != label_ || full())) return deliver(out);
        append(row);
        ++next_leaving_;
      }
      if (full()) return deliver(out);
      if (waiting_.started() && waiting_.size() > 0 &&
          (ended_ || waiting_.bucket_ends_by(static_cast<uint64_t>(position_) << ShuffleKeys::kFractionBits))) {
        next_leaving_ = 0;
        waiting_.take_bucket(leaving_);
        continue;
      }
      if (ended_) return builder_.empty() ? Poll::kEnd : deliver(out);

      if (taken_ == block_.num_elements()) {
        taken_ = 0;
        taker_.end_block();
        block_ = Block();
        const Poll poll = input_->next(block_);
        if (poll == Poll::kPending) return builder_.empty() ? poll : deliver(out);
        if (poll == Poll::kEnd) {
          ended_ = true;
          if (!waiting_.started()) start();
          continue;
        }
        note_label();
        note_place();
        draw_keys();
        if (codec_.is_raw_record()) taker_.begin_block(block_.column(0));
      }
      if (position_ <= last_row_gone_ && is_gone()) {
        ++position_;
        ++taken_;
        continue;
      }
      take_in(taken_++);
      if (held_bytes_ > most_bytes_) return builder_.empty() ? refuse_row() : deliver(out);
    }
  }

 private:
  // What blocks say of all their elements, for an element that goes into another block.
  struct Label {
    int64_t epoch;
    int64_t rows_per_element;
    std::shared_ptr<const ShardNames> names;  // of the rows' origins; null: they have none
    Ref<Resource> cached;                     // what keeps the rows, which then stay where they are; or null
    // The origins of many rows stand before their element in its slot. That of a single row does not: when it leaves,
    // nobody has touched the slot, and to look there would wait for memory.
    size_t origins_bytes() const {
      return names == nullptr || rows_per_element == 1 ? 0 : static_cast<size_t>(rows_per_element) * sizeof(Origin);
    }
    friend bool operator==(const Label&, const Label&) = default;
  };
  struct alignas(64) Held {  // a cache line
    uint64_t key = 0;
    uint64_t bytes = 0;
    Origin origin;  // of a single row
    union {
      RowSlab::Slot slot{};  // or, of an error, its index in `errors_`
      const char* row;       // of the store's, or where the label says that the row stays where it is
    };
    uint32_t next = 0;
    uint32_t label : 31 = 0;
    uint32_t is_in_store : 1 = 0;
  };
  static_assert(sizeof(Held) + 5 * sizeof(uint32_t) == kEntryBytes);
  // Where the next row goes.
  struct Room {
    uint64_t bytes = 0;
    RowSlab::Slot slot;
    bool taken = false;
  };
  static constexpr uint64_t kError = UINT64_MAX;  // as its bytes
  // How far the rows have left: those with keys below `key`, and of those with this key the first `rows`.
  struct Left {
    uint64_t key = 0;
    int64_t rows = 0;
  };
  struct Place {
    int64_t row;
    Cursor cursor;
  };

  [[noreturn]] Poll refuse_row() const {
    const auto held = static_cast<double>(std::max<uint32_t>(waiting_.size(), 1));
    const double needed = 4.0 / 3 * static_cast<double>(held_bytes_) / held * static_cast<double>(keys_.buffer_size());
    Error error{
        .code = ErrorCode::kMemoryBudget,
        .message = fmt::format("{} of the {} rows of the buffer take {} bytes, three quarters of the memory budget "
                               "of {} bytes; about {:.0f} bytes are needed, or a smaller buffer",
                               waiting_.size(), keys_.buffer_size(), held_bytes_, memory_->budget(), needed)};
    block_.locate(taken_ - 1, error);
    throw ErrorException(error);
  }

  bool full() const { return builder_.num_elements() >= kBlockElements || builder_.byte_size() >= kBlockBytes; }

  void note_label() {
    Label label{block_.epoch, block_.rows_per_element, nullptr, {}};
    if (!block_.origins().empty() && block_.origins().size() == static_cast<size_t>(block_.num_rows()))
      label.names = block_.origins().names();
    if (codec_.is_raw_record() && label.origins_bytes() == 0) label.cached = CachedRows::of(block_.column(0));
    // Inputs that take turns, buckets above all, have the same few labels again and again.
    constexpr size_t kLookedAt = 64;
    size_t found = labels_.size();
    while (found > 0 && labels_.size() - found < kLookedAt && !(labels_[found - 1] == label)) --found;
    if (found == 0 || !(labels_[found - 1] == label)) {
      labels_.push_back(std::move(label));
      found = labels_.size();
    }
    block_label_ = static_cast<uint32_t>(found - 1);
    origins_bytes_ = labels_[block_label_].origins_bytes();
  }

  // Where a resumed run may begin to read again: one place for each sixteenth of the buffer.
  void note_place() {
    if (!places_.empty() && position_ - places_.back().row < keys_.buffer_size() / 16) return;
    places_.push_back({position_, block_.cursor});
  }

  void draw_keys() {
    block_keys_.resize(block_.num_elements());
    keys_.keys(position_, block_keys_);
  }

  Cursor place_of_block() {
    const int64_t first = keys_.first_row_left(builder_begin_.key);
    while (places_.size() > 1 && places_[1].row <= first) places_.pop_front();
    if (places_.empty()) return {};
    return make_cursor(kKind, {places_.front().row, static_cast<int64_t>(builder_begin_.key), builder_begin_.rows},
                       {places_.front().cursor});
  }

  // The rows that may still be in the buffer are read again, from the place of the first of them on; which of them have
  // left is computed again.
  void resume(const StageState& state) {
    const std::vector<int64_t>& numbers = any_numbers_of(state, kKind, 3);
    // The key has bits after the point.
    constexpr int64_t kMostRows = int64_t{1} << 60;
    if (numbers[0] < 0 || numbers[0] > kMostRows || numbers[1] < 0 || numbers[2] < 0 || numbers[2] > kMostRows) {
      throw ErrorException(ErrorCode::kState, fmt::format("the state of a {} has numbers that cannot be", kKind));
    }
    position_ = numbers[0];
    gone_ = left_ = {static_cast<uint64_t>(numbers[1]), numbers[2]};
    last_row_gone_ = static_cast<int64_t>(gone_.key >> ShuffleKeys::kFractionBits);
    // Rows are read again from one on that may still be there; what left before it is not.
    (void)place_within(kKind, last_row_gone_,
                       position_ + keys_.longest_wait() + keys_.buffer_size() / 16 + kMostSkipped);
    if (gone_.key == 0) return;  // none
    const auto rows = static_cast<uint64_t>(keys_.buffer_size());
    waiting_.start(gone_.key, (5 * rows + 2) << ShuffleKeys::kFractionBits, ShuffleKeys::kFractionBits, 1);
  }

  bool is_gone() {
    const uint64_t key = block_keys_[taken_];
    if (key != gone_.key) return key < gone_.key;
    if (gone_.rows == 0) return false;
    --gone_.rows;
    return true;
  }

  // Before as many rows are read as the buffer holds, none leaves.
  void start() {
    const auto rows = static_cast<uint64_t>(keys_.buffer_size());
    waiting_.start(rows << ShuffleKeys::kFractionBits, (5 * rows + 2) << ShuffleKeys::kFractionBits,
                   ShuffleKeys::kFractionBits, static_cast<double>(waiting_.size()) / static_cast<double>(rows));
  }

  void take_in(size_t element) {
    constexpr size_t kAhead = 8;
    if (element + kAhead < block_keys_.size()) waiting_.expect(block_keys_[element + kAhead]);
    Held& row = waiting_.add(block_keys_[element]);
    ++position_;
    row.label = block_label_;
    row.is_in_store = 0;
    if (auto error = block_.errors().empty() ? nullptr : block_.error_at(element)) {
      if (free_errors_.empty()) {
        free_errors_.push_back(static_cast<uint32_t>(errors_.size()));
        errors_.emplace_back();
      }
      row.bytes = kError;
      row.slot = {0, free_errors_.back()};
      errors_[free_errors_.back()] = std::move(error);
      free_errors_.pop_back();
    } else if (labels_[block_label_].cached || take_stored(element)) {
      const std::string_view bytes = block_.column(0).values<std::string_view>()[element];
      row.is_in_store = labels_[block_label_].cached ? 0 : 1;
      row.bytes = bytes.size();
      row.row = bytes.data();
      if (labels_[block_label_].names != nullptr) row.origin = block_.origins().data()[element];
    } else {
      if (!room_.taken) take_room(element);
      row.bytes = room_.bytes;
      row.slot = room_.slot;
      room_.taken = false;
      // The memory for the next row is on its way while this one is copied.
      if (element + 1 < block_.num_elements() && block_.errors().empty() && position_ > last_row_gone_ &&
          !taker_.may_take()) {
        take_room(element + 1);
      }
      std::byte* memory = slab_.data(row.slot);
      if (origins_bytes_ > 0) {
        const auto* origins = reinterpret_cast<const std::byte*>(block_.origins().data());
        std::memcpy(memory, origins + element * origins_bytes_, origins_bytes_);
      } else if (labels_[block_label_].names != nullptr) {
        row.origin = block_.origins().data()[element];
      }
      codec_.encode(block_, element, memory + origins_bytes_);
    }
    held_bytes_ += bytes_taken_by(row);
    if (!waiting_.started() && position_ >= keys_.buffer_size()) start();
  }

  // Whether the row is in the store, and no longer its block's.
  bool take_stored(size_t element) {
    if (origins_bytes_ > 0 || !taker_.may_take()) return false;
    return taker_.take(block_.column(0).values<std::string_view>()[element]);
  }

  int64_t bytes_taken_by(const Held& row) const {
    if (row.is_in_store != 0) return bytes_with_slot(static_cast<int64_t>(RowStore::kHeaderBytes + row.bytes));
    if (row.bytes == kError) return kEntryBytes + bytes_of_error(*errors_[row.slot.index]);
    const bool has_slot = !labels_[row.label].cached;
    return has_slot ? bytes_with_slot(static_cast<int64_t>(row.bytes)) : kEntryBytes;
  }

  void take_room(size_t element) {
    room_ = {.bytes = origins_bytes_ + codec_.encoded_size(block_, element), .slot = {}, .taken = true};
    room_.slot = slab_.allocate(room_.bytes);
    prefetch_lines</*kForWrite=*/true>(slab_.data(room_.slot), room_.bytes);
  }

  void append(const Held& row) {
    if (builder_.empty()) builder_begin_ = left_;
    left_ = {row.key, row.key == left_.key ? left_.rows + 1 : 1};
    label_ = row.label;
    held_bytes_ -= bytes_taken_by(row);
    if (row.bytes == kError) {
      builder_.append_error(std::move(errors_[row.slot.index]));
      free_errors_.push_back(row.slot.index);
      return;
    }
    const Label& label = labels_[row.label];
    if (label.cached || row.is_in_store != 0) {
      if (label.names != nullptr) builder_.append_origins(&row.origin, 1, label.names);
      if (row.is_in_store != 0 && !store_loan_) store_loan_ = Ref<RowStore::Lease>(new RowStore::Lease(store_));
      append_view({row.row, row.bytes}, row.is_in_store == 0 ? label.cached : Ref<Resource>(store_loan_));
      // At last, since who has added it does not give it back.
      if (row.is_in_store != 0) store_loan_->add(row.row);
      return;
    }
    std::span<const std::byte> memory(slab_.data(row.slot), row.bytes);
    if (label.names != nullptr) {
      const size_t bytes = label.origins_bytes();
      const Origin* origins = bytes == 0 ? &row.origin : reinterpret_cast<const Origin*>(memory.data());
      builder_.append_origins(origins, static_cast<size_t>(label.rows_per_element), label.names);
      memory = memory.subspan(bytes);
    }
    codec_.decode(memory, builder_);
    if (!codec_.has_views()) {
      slab_.free(row.slot);
      return;
    }
    if (!loan_) loan_ = slab_.lend();
    loan_->add(row.slot);
  }

  void append_view(std::string_view record, const Ref<Resource>& keeps) {
    builder_.column(0).append_view(record);
    builder_.column(0).hold(keeps);
    builder_.added_elements(1);
  }

  Poll deliver(Block& out) {
    store_loan_ = {};
    if (loan_) codec_.hold(std::exchange(loan_, {}), builder_);
    out = builder_.finish();
    out.epoch = labels_[label_].epoch;
    out.rows_per_element = labels_[label_].rows_per_element;
    out.cursor = place_of_block();
    return Poll::kBlock;
  }

  std::unique_ptr<Stage> input_;
  ShuffleKeys keys_;
  RowCodec codec_;
  const std::shared_ptr<RowStore> store_;
  RowStore::Claimer taker_;
  RowSlab slab_;
  const MemoryGate* memory_;
  const int64_t most_bytes_;          // of the rows that wait
  int64_t held_bytes_ = 0;            // those that wait; rows that are lent to blocks are not
  Block block_;                       // of the input
  size_t taken_ = 0;                  // elements of `block_` that are in the buffer
  std::vector<uint64_t> block_keys_;  // of the elements of `block_`
  int64_t position_ = 0;              // elements read
  bool ended_ = false;
  Left left_;           // what went into `builder_`, and before it
  Left builder_begin_;  // before the first row of `builder_`
  Left gone_;           // when resumed: before the first block
  int64_t last_row_gone_ = -1;
  std::deque<Place> places_;
  Room room_;
  CalendarQueue<Held> waiting_;
  std::vector<Held> leaving_;  // in order
  size_t next_leaving_ = 0;
  std::vector<std::shared_ptr<const Error>> errors_;
  std::vector<uint32_t> free_errors_;
  std::vector<Label> labels_;
  uint32_t block_label_ = 0;  // of `block_`
  size_t origins_bytes_ = 0;  // before each element of `block_`
  uint32_t label_ = 0;        // of the elements in `builder_`
  Ref<RowSlab::Lease> loan_;
  Ref<RowStore::Lease> store_loan_;
  BlockBuilder builder_;
};

int64_t checked_buffer_size(int64_t buffer_size) {
  if (buffer_size < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("shuffle: buffer_size must be at least 1, not {}", buffer_size));
  }
  return buffer_size;
}

}  // namespace

ShuffleOperator::ShuffleOperator(SchemaPtr schema, int64_t buffer_size, ShuffleOptions options, uint64_t occurrence)
    : StageOperator(std::move(schema)),
      buffer_size_(checked_buffer_size(buffer_size)),
      options_(options),
      occurrence_(occurrence) {}

int64_t ShuffleOperator::memory_needed(std::span<const Cardinality> inputs) const {
  const Cardinality input = inputs[0];
  int64_t row = fixed_bytes(*schema());
  if (row == 0 || input.is_unknown()) return 0;
  const int64_t rows = input.is_known() ? std::min(buffer_size_, input.count()) : buffer_size_;
  // The rows may take three quarters of the budget.
  row = (bytes_with_slot(row) * 4 + 2) / 3;
  int64_t bytes = 0;
  return __builtin_mul_overflow(row, rows, &bytes) ? INT64_MAX : bytes;
}

std::unique_ptr<Stage> ShuffleOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  const ShuffleKeys keys(buffer_size_, options_.seed, context.iteration, options_.reshuffle_each_iteration,
                         occurrence_);
  StageContext of_input = context;
  of_input.row_store = RowCodec(schema()).is_raw_record() ? std::make_shared<RowStore>(context.pool) : nullptr;
  return std::make_unique<ShuffleStage>(schema(), open_input(inputs[0], of_input), keys, of_input.row_store, context);
}

}  // namespace millrace
