#include "millrace/ops/batch/group_stage.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

constexpr std::string_view kKind = "groups";
// What an element takes besides its bytes: its entry in a list that grows by doubling, and what its slot is larger.
constexpr int64_t kRowOverhead = 112;
// What a group takes besides its elements: itself, its place among the keys, and the shortest list. It stays when the
// group is closed, for another one.
constexpr int64_t kGroupOverhead = 200;
// Of blocks in which rows wait: enough for most groups to become complete, and little beside what is on its way anyway.
constexpr size_t kMostRecent = 8;
constexpr int64_t kMostRecentBytes = 16 << 20;

// An element without its origins.
void append(const Block& block, size_t element, BlockBuilder& builder) {
  for (size_t c = 0; c < block.columns().size(); ++c) builder.column(c).append(block.column(c), element);
  builder.added_elements(1);
}

}  // namespace

GroupStage::GroupStage(const SchemaPtr& input_schema, SchemaPtr schema, std::unique_ptr<Stage> input, Rules rules,
                       const StageContext& context)
    : input_schema_(input_schema),
      schema_(std::move(schema)),
      input_(std::move(input)),
      rules_(std::make_shared<const Rules>(std::move(rules))),
      context_(context),
      codec_(std::make_shared<const RowCodec>(input_schema)),
      slab_(context.pool),
      most_bytes_(context.memory_budget() / 4 * 3),
      most_recent_bytes_(context.memory == nullptr ? kMostRecentBytes
                                                   : std::min(kMostRecentBytes, context.memory->budget() / 32)),
      ready_(input_schema, context.pool) {
  small_keys_.fill(kNone);
  state_.state = context.state;
  if (context.state != nullptr) resume(*context.state);
}

bool GroupStage::is_open(int64_t key) const {
  if (key >= 0 && key < static_cast<int64_t>(small_keys_.size())) return small_keys_[static_cast<size_t>(key)] != kNone;
  return other_keys_.contains(key);
}

uint32_t& GroupStage::group_of(int64_t key) {
  if (key >= 0 && key < static_cast<int64_t>(small_keys_.size())) return small_keys_[static_cast<size_t>(key)];
  return other_keys_.try_emplace(key, kNone).first->second;
}

void GroupStage::begin_group(int64_t key, uint32_t& index, size_t element) {
  const int64_t size = rules_->size(key);
  if (unused_.empty()) {
    unused_.push_back(static_cast<uint32_t>(groups_.size()));
    groups_.emplace_back();
    held_bytes_ += kGroupOverhead;
  }
  index = unused_.back();
  unused_.pop_back();
  ++num_open_;
  Group& group = groups_[index];
  group.key = key;
  group.size = static_cast<size_t>(size);
  group.label = {block_.epoch, block_.rows_per_element};
  group.position = position_;
  group.place = block_.cursor.advanced_by(static_cast<int64_t>(element));
}

// False when the element is an error.
bool GroupStage::take_in(size_t element) {
  const int64_t key = keys_[element];
  uint32_t& index = group_of(key);
  if (index == kNone) {
    try {
      begin_group(key, index, element);
    } catch (const ErrorException& e) {
      Error error = e.error();
      block_.locate(element, error);
      block_.add_error(element, std::make_shared<const Error>(std::move(error)));
      if (key < 0 || key >= static_cast<int64_t>(small_keys_.size())) other_keys_.erase(key);
      return false;
    }
  }
  Group& group = groups_[index];
  Held& row = group.rows.emplace_back();
  row.block = first_recent_ + recent_.size() - 1;
  row.element = element;
  row.bytes = codec_->encoded_size(block_, element);
  if (has_origins_) row.origin = block_.origins().data()[element];
  group.bytes += row.bytes;
  held_bytes_ += static_cast<int64_t>(row.bytes) + kRowOverhead;
  ++num_held_;
  return true;
}

void GroupStage::keep_block() {
  if (!recent_.empty()) recent_bytes_ += recent_.back().bytes;
  while (!recent_.empty() && (recent_.size() == kMostRecent || recent_bytes_ > most_recent_bytes_)) {
    copy_rows_of_oldest_block();
  }
  recent_.push_back({std::make_shared<const Block>(block_), block_.byte_size()});
}

void GroupStage::copy_rows_of_oldest_block() {
  const Block& block = *recent_.front().block;
  for (Group& group : groups_) {
    for (; group.num_copied < group.rows.size(); ++group.num_copied) {
      Held& row = group.rows[group.num_copied];
      if (row.block != first_recent_) break;
      row.slot = slab_.allocate(row.bytes);
      codec_->encode(block, row.element, slab_.data(row.slot));
      row.block = kCopied;
    }
  }
  recent_bytes_ -= recent_.front().bytes;
  recent_.pop_front();
  ++first_recent_;
}

BufferedRow GroupStage::waiting(const Held& row) const {
  if (row.block == kCopied) return {.encoded = slab_.data(row.slot), .bytes = row.bytes};
  return {.bytes = row.bytes, .block = &block_of(row), .element = row.element};
}

GroupStage::Kept GroupStage::keep_rows(const Group& group) {
  Kept kept;
  uint64_t last = kCopied;
  for (const Held& row : group.rows) {
    if (row.block == kCopied) {
      if (!kept.loan) kept.loan = slab_.lend();
      kept.loan->add(row.slot);
    } else if (row.block != std::exchange(last, row.block)) {
      kept.blocks.push_back(recent_[row.block - first_recent_].block);
    }
  }
  return kept;
}

bool GroupStage::can_join(const Group& group) const {
  return group.rows.size() == ready_rows_ && group.label == ready_label_ &&
         (rules_->assembles_alike || group.key == ready_key_);
}

// The rows of a group into the block that is being built.
void GroupStage::move_to_ready(uint32_t index) {
  Group& group = groups_[index];
  ready_rows_ = group.rows.size();
  ready_key_ = group.key;
  ready_label_ = group.label;
  for (const Held& row : group.rows) {
    if (names_ != nullptr && group.label.rows_per_element == 1) ready_.append_origins(&row.origin, 1, names_);
    held_bytes_ -= static_cast<int64_t>(row.bytes) + kRowOverhead;
    if (row.block != kCopied) {
      append(block_of(row), row.element, ready_);
      continue;
    }
    codec_->decode({slab_.data(row.slot), row.bytes}, ready_);
    if (!codec_->has_views()) {
      slab_.free(row.slot);
      continue;
    }
    if (!loan_) loan_ = slab_.lend();
    loan_->add(row.slot);
  }
  close_group(index);
}

void GroupStage::close_group(uint32_t index) {
  Group& group = groups_[index];
  num_held_ -= static_cast<int64_t>(group.rows.size());
  group.rows.clear();
  group.bytes = group.num_copied = 0;
  group.place = {};
  const int64_t key = group.key;
  if (key >= 0 && key < static_cast<int64_t>(small_keys_.size())) {
    small_keys_[static_cast<size_t>(key)] = kNone;
  } else {
    other_keys_.erase(key);
  }
  unused_.push_back(index);
  --num_open_;
}

bool GroupStage::deliver_group(uint32_t index, Block& out) {
  constexpr size_t kLarge = 16 << 10;  // bytes; several smaller ones share a block
  const Group& group = groups_[index];
  if (!rules_->assemble_waiting || group.bytes < kLarge) return false;
  if (context_.assembles_later) {
    deliver_rows_later(group, out);
  } else {
    waiting_.clear();
    for (const Held& row : group.rows) waiting_.push_back(waiting(row));
    Block::Columns columns;
    if (!rules_->assemble_waiting(waiting_, group.key, columns)) return false;
    out = Block(schema_, std::move(columns), 1);
  }
  if (names_ != nullptr && group.label.rows_per_element == 1) {
    Origins origins(context_.pool, names_, group.rows.size());
    std::transform(group.rows.begin(), group.rows.end(), origins.mutable_data(),
                   [](const Held& row) { return row.origin; });
    out.set_origins(std::move(origins));
  }
  out.rows_per_element = static_cast<int64_t>(group.rows.size()) * group.label.rows_per_element;
  out.epoch = group.label.epoch;
  ++since_state_;
  for (const Held& row : group.rows) {
    held_bytes_ -= static_cast<int64_t>(row.bytes) + kRowOverhead;
    if (!context_.assembles_later && row.block == kCopied) slab_.free(row.slot);
  }
  close_group(index);
  return true;
}

void GroupStage::deliver_rows_later(const Group& group, Block& out) {
  std::vector<BufferedRow> rows;
  rows.reserve(group.rows.size());
  for (const Held& row : group.rows) rows.push_back(waiting(row));
  out = Block(schema_, {}, 1);
  out.assemble = [rules = rules_, codec = codec_, input_schema = input_schema_, schema = schema_, &pool = context_.pool,
                  key = group.key, kept = keep_rows(group), rows = std::move(rows)] {
    std::vector<BufferedRow> moved = rows;
    Block::Columns columns;
    if (rules->assemble_waiting(moved, key, columns)) return Block(schema, std::move(columns), 1);
    BlockBuilder elements(input_schema, pool);
    for (const BufferedRow& row : rows) {
      if (row.encoded != nullptr) {
        codec->decode({row.encoded, row.bytes}, elements);
      } else {
        append(*row.block, row.element, elements);
      }
    }
    if (kept.loan) codec->hold(kept.loan, elements);
    return rules->assemble(elements.finish(), rows.size(), key);
  };
}

Poll GroupStage::deliver(Block& out) {
  if (loan_) codec_->hold(std::exchange(loan_, {}), ready_);
  const Block elements = ready_.finish();
  if (context_.assembles_later) {
    out = Block(schema_, {}, elements.num_elements() / ready_rows_);
    out.assemble = [rules = rules_, elements, rows = ready_rows_, key = ready_key_] {
      return rules->assemble(elements, rows, key);
    };
  } else {
    out = rules_->assemble(elements, ready_rows_, ready_key_);
  }
  if (elements.origins().size() == elements.num_elements() * static_cast<size_t>(ready_label_.rows_per_element)) {
    out.set_origins(elements.origins());
  }
  out.rows_per_element = static_cast<int64_t>(ready_rows_) * ready_label_.rows_per_element;
  out.epoch = ready_label_.epoch;
  out.cursor = std::move(ready_begin_);
  since_state_ += static_cast<int64_t>(out.num_elements());
  return Poll::kBlock;
}

Poll GroupStage::pass_error(size_t element, Block& out) {
  out = error_block(schema_, context_.pool, block_.error_at(element), block_.rows_per_element);
  out.epoch = block_.epoch;
  out.cursor = cursor_at(block_.cursor.advanced_by(static_cast<int64_t>(element)));
  ++since_state_;
  return Poll::kBlock;
}

void GroupStage::flush() {
  for (uint32_t index = 0; index < groups_.size(); ++index) {
    const Group& group = groups_[index];
    if (!group.rows.empty() && !rules_->drops_remainder(group.key)) remaining_.push_back(index);
  }
  std::sort(remaining_.begin(), remaining_.end(),
            [this](uint32_t a, uint32_t b) { return groups_[a].key > groups_[b].key; });
}

Poll GroupStage::next(Block& out) {
  slab_.collect();
  while (true) {
    if (full()) return deliver(out);
    if (held_bytes_ > most_bytes_) {
      if (!ready_.empty()) return deliver(out);
      refuse_row();
    }
    if (ended_) {
      if (remaining_.empty()) return ready_.empty() ? Poll::kEnd : deliver(out);
      const Group& group = groups_[remaining_.back()];
      if (!ready_.empty() && !can_join(group)) return deliver(out);
      const uint32_t index = remaining_.back();
      if (ready_.empty()) {
        ready_begin_ = cursor_at(end_);
        if (deliver_group(index, out)) {
          out.cursor = std::move(ready_begin_);
          remaining_.pop_back();
          return Poll::kBlock;
        }
      }
      move_to_ready(index);
      remaining_.pop_back();
      continue;
    }
    if (taken_ == block_.num_elements()) {
      taken_ = 0;
      if (!block_.columns().empty()) end_ = block_.cursor.advanced_by(static_cast<int64_t>(block_.num_elements()));
      block_ = Block();
      const Poll poll = input_->next(block_);
      if (poll == Poll::kPending) return ready_.empty() ? poll : deliver(out);
      if (poll == Poll::kEnd) {
        if (position_ < live_) refuse_ended_input(kKind);
        ended_ = true;
        flush();
        continue;
      }
      keys_.resize(block_.num_elements());
      rules_->keys(block_, keys_);
      has_origins_ = block_.rows_per_element == 1 && block_.origins().size() == block_.num_elements();
      if (has_origins_) names_ = block_.origins().names();
      keep_block();
    }

    if (position_ < live_ && is_gone(taken_)) {
      ++position_;
      ++taken_;
      continue;
    }
    const bool is_error = !block_.errors().empty() && block_.error_at(taken_) != nullptr;
    if (is_error || !take_in(taken_)) {
      if (!ready_.empty()) return deliver(out);
      const size_t element = taken_++;
      const Poll poll = pass_error(element, out);
      ++position_;
      return poll;
    }
    const uint32_t index = group_of(keys_[taken_]);
    const bool complete = groups_[index].rows.size() == groups_[index].size;
    bool delivered = false;
    if (complete) {
      if (!ready_.empty() && !can_join(groups_[index])) {
        deliver(out);
        delivered = true;
      }
      if (ready_.empty()) ready_begin_ = cursor_at(block_.cursor.advanced_by(static_cast<int64_t>(taken_)));
      if (!delivered && ready_.empty() && deliver_group(index, out)) {
        out.cursor = std::move(ready_begin_);
        delivered = true;
      } else {
        move_to_ready(index);
      }
    }
    ++position_;
    ++taken_;
    if (delivered) return Poll::kBlock;
  }
}

void GroupStage::refuse_row() const {
  Error error{
      .code = ErrorCode::kMemoryBudget,
      .message = fmt::format("{}: {} rows that wait in {} groups take {} bytes, more than three quarters of the "
                             "memory budget of {} bytes; smaller batches or fewer groups need less",
                             rules_->operator_name, num_held_, num_open_, held_bytes_, context_.memory->budget())};
  if (taken_ > 0) block_.locate(taken_ - 1, error);
  throw ErrorException(error);
}

// A state for each block would cost as much as the groups that are open; some elements more to be made again do not
// matter.
Cursor GroupStage::cursor_at(const Cursor& here) {
  constexpr size_t kElementsForEachGroup = 8;
  // It looks at the groups that are closed, too.
  const size_t work = std::max(kElementsForEachGroup * num_open_, groups_.size() / 8);
  if (position_ - state_position_ >= static_cast<int64_t>(work)) {
    state_ = new_state(here);
    state_position_ = position_;
    since_state_ = 0;
  }
  return state_.advanced_by(since_state_);
}

Cursor GroupStage::new_state(const Cursor& here) const {
  std::vector<int64_t> begins;
  const Group* oldest = nullptr;
  for (const Group& group : groups_) {
    // One that begins with the element at `position_` is not open before it.
    if (group.rows.empty() || group.position == position_) continue;
    begins.push_back(group.position);
    if (oldest == nullptr || group.position < oldest->position) oldest = &group;
  }
  if (oldest == nullptr) return make_cursor(kKind, {0}, {here});
  std::sort(begins.begin(), begins.end());
  std::vector<int64_t> numbers{position_ - oldest->position};
  int64_t last = oldest->position;
  for (const int64_t begin : begins) numbers.push_back(begin - std::exchange(last, begin));
  return make_cursor(kKind, std::move(numbers), {oldest->place});
}

void GroupStage::resume(const StageState& state) {
  const std::vector<int64_t>& numbers = numbers_of(state, kKind, 1);
  live_ = state_position_ = elements_to_read_again(kKind, numbers[0]);
  int64_t position = 0;
  for (size_t i = 1; i < numbers.size(); ++i) begins_.push_back(position += numbers[i]);
}

// Whether an element that is read again had left, or was an error, before the state was taken.
bool GroupStage::is_gone(size_t element) {
  if (next_begin_ < begins_.size() && begins_[next_begin_] == position_) {
    ++next_begin_;
    return false;
  }
  if (!block_.errors().empty() && block_.error_at(element) != nullptr) return true;
  return !is_open(keys_[element]);
}

}  // namespace millrace
