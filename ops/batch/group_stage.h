#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "millrace/formats/columnar/row_codec.h"
#include "millrace/ops/batch/batch.h"
#include "millrace/ops/row_memory/buffered_row.h"
#include "millrace/ops/row_memory/row_slab.h"

namespace millrace {

/// Collects elements in groups by a key. A group that has as many as it is to have becomes a batch; what is left at the
/// end does so in order of the keys, or is dropped. Errors and notes go out at once, in the place of their element, and
/// no group loses anything to them. What bucket_by_sequence_length and group_by_window have in common.
///
/// Elements that wait stay where they are as long as their block is one of the last few, so that most of them are
/// copied once, when their batch is made; what is left of an older block is copied into the stage's own memory, and the
/// block goes. A state holds none of them: it says where the oldest group began, and where each of the others did. From
/// there on the input is read again; what came before its key's group had begun is gone.
class GroupStage final : public Stage {
 public:
  struct Rules {
    std::string_view operator_name;
    /// The keys of a block's elements; of those that are errors, or that it makes errors of, anything.
    std::function<void(Block&, std::span<int64_t> keys)> keys;
    /// How many elements a group of this key is to have. What it throws is the error of the element that would begin
    /// it.
    std::function<int64_t(int64_t key)> size;
    /// Makes k batches of k × `rows` elements, none of which is an error.
    std::function<Block(const Block& elements, size_t rows, int64_t key)> assemble;
    /// Null, or a faster way for one batch of rows that wait: its columns, or false. Encoded rows may be moved on.
    std::function<bool(std::span<BufferedRow> rows, int64_t key, Block::Columns& columns)> assemble_waiting = nullptr;
    /// Whether batches of different keys can be made together, by the rules of one of them.
    bool assembles_alike = true;
    /// Whether what is left of a group of this key at the end is dropped. Default: never
    std::function<bool(int64_t key)> drops_remainder = [](int64_t) { return false; };
  };

  GroupStage(const SchemaPtr& input_schema, SchemaPtr schema, std::unique_ptr<Stage> input, Rules rules,
             const StageContext& context);
  /// Throws `kMemoryBudget` when the elements that wait take more than three quarters of the budget.
  Poll next(Block& out) override;

 private:
  // What blocks say of all their elements.
  struct Label {
    int64_t epoch = 0;
    int64_t rows_per_element = 1;
    friend bool operator==(const Label&, const Label&) = default;
  };
  // A block whose rows wait in it.
  struct Recent {
    std::shared_ptr<const Block> block;
    int64_t bytes = 0;
  };
  struct Held {
    uint64_t block = kCopied;  // its number, or that the row is in `slot`
    size_t element = 0;        // of the block
    RowSlab::Slot slot;
    size_t bytes = 0;  // as the codec writes it
    Origin origin;     // of a single row
  };
  struct Group {
    int64_t key = 0;
    size_t size = 0;
    std::vector<Held> rows;
    size_t bytes = 0;       // of the rows
    size_t num_copied = 0;  // of the rows: the first ones
    Label label;            // of the first row
    int64_t position = 0;   // of the first row, among the elements of the input since `position_` was 0
    Cursor place;           // in the input, of the first row
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kCopied = UINT64_MAX;

  // The place of a key's group among `groups_`; kNone: there is none.
  uint32_t& group_of(int64_t key);
  bool is_open(int64_t key) const;
  void begin_group(int64_t key, uint32_t& index, size_t element);
  bool take_in(size_t element);
  // The rows of the block that was just read may wait in it; those of blocks that have become too old are copied.
  void keep_block();
  void copy_rows_of_oldest_block();
  const Block& block_of(const Held& row) const { return *recent_[row.block - first_recent_].block; }
  BufferedRow waiting(const Held& row) const;
  // What a block of some of the group's rows holds on to.
  struct Kept {
    Ref<RowSlab::Lease> loan;  // or null
    std::vector<std::shared_ptr<const Block>> blocks;
  };
  Kept keep_rows(const Group& group);
  Poll pass_error(size_t element, Block& out);
  bool can_join(const Group& group) const;
  void move_to_ready(uint32_t index);
  // Gives a large group at once; false where it has to go by way of `ready_`.
  bool deliver_group(uint32_t index, Block& out);
  // The rows of a group, which stay where they are until they are made a batch.
  void deliver_rows_later(const Group& group, Block& out);
  void close_group(uint32_t index);
  Poll deliver(Block& out);
  bool full() const { return ready_.num_elements() >= kBlockElements || ready_.byte_size() >= kBlockBytes; }
  void flush();
  // The place before the element at `position_`, whose place in the input is `here`.
  Cursor cursor_at(const Cursor& here);
  Cursor new_state(const Cursor& here) const;
  void resume(const StageState& state);
  bool is_gone(size_t element);
  [[noreturn]] void refuse_row() const;

  const SchemaPtr input_schema_;
  SchemaPtr schema_;
  std::unique_ptr<Stage> input_;
  const std::shared_ptr<const Rules> rules_;  // shared with blocks that are assembled later, like the codec
  StageContext context_;
  const std::shared_ptr<const RowCodec> codec_;
  RowSlab slab_;
  const int64_t most_bytes_;
  const int64_t most_recent_bytes_;
  std::deque<Recent> recent_;  // the last one is `block_`
  uint64_t first_recent_ = 0;  // number of the first
  int64_t recent_bytes_ = 0;   // of all but the last
  int64_t held_bytes_ = 0;
  int64_t num_held_ = 0;
  Block block_;       // of the input
  size_t taken_ = 0;  // elements of `block_` that are in groups, or gone
  std::vector<int64_t> keys_;
  bool has_origins_ = false;  // the rows of `block_`
  int64_t position_ = 0;      // elements read
  std::shared_ptr<const ShardNames> names_;
  std::vector<Group> groups_;  // some of them not in use
  std::vector<uint32_t> unused_;
  size_t num_open_ = 0;
  std::array<uint32_t, 256> small_keys_;  // the groups of keys from 0
  std::unordered_map<int64_t, uint32_t> other_keys_;
  Cursor end_;  // of the input
  bool ended_ = false;
  std::vector<uint32_t> remaining_;  // at the end: groups still to be flushed, the next one last

  BlockBuilder ready_;  // rows of groups that are complete
  size_t ready_rows_ = 0;
  int64_t ready_key_ = 0;
  Label ready_label_;
  Cursor ready_begin_;
  Ref<RowSlab::Lease> loan_;
  std::vector<BufferedRow> waiting_;  // rows of a group, while it is made a batch

  Cursor state_;                // the last one made
  int64_t state_position_ = 0;  // where it was made
  int64_t since_state_ = 0;     // elements given since

  // When resumed: positions at which groups begin that are still open at `live_`, where the stream goes on.
  std::vector<int64_t> begins_;
  size_t next_begin_ = 0;
  int64_t live_ = 0;
};

}  // namespace millrace
