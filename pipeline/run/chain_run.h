#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "millrace/ops/stage.h"

namespace millrace {

/// The chain of stages that a segment polls, from one opening to the next: numbers the rows that it gives, for the maps
/// after it (NumberedRows), and makes what it throws the error in the place of its next element, and its end. Polled by
/// one thread at a time.
class ChainRun {
 public:
  /// `schema`: of its blocks. `num_numbered`: maps after it that have states, whose numbers its cursors carry.
  ChainRun(SchemaPtr schema, size_t num_numbered) : schema_(std::move(schema)), num_numbered_(num_numbered) {}

  /// Makes the stages where the state in `context` says.
  void open(const OpenStage& open, const StageContext& context);
  /// Destroys them.
  void close() { chain_.reset(); }
  /// The next block, numbered.
  Poll poll(Block& out);

  /// The last poll was pending only because its turn ended: it could go on.
  bool turn_is_over() const { return turn_over_; }
  /// It drops all that it gets, for long. Any thread.
  bool is_fruitless() const { return empty_polls_.load(std::memory_order_relaxed) == kFruitlessPolls; }

 private:
  static constexpr int kFruitlessPolls = 16;

  Poll poll_stages(Block& out);
  void number(Block& block);

  const SchemaPtr schema_;
  const size_t num_numbered_;
  std::unique_ptr<Stage> chain_;
  std::shared_ptr<const Error> failure_;  // what it threw; it is gone then
  BufferPool* pool_ = nullptr;
  Iteration iteration_;
  int64_t next_row_ = 0;
  Cursor place_;  // after the last block
  bool turn_over_ = false;
  std::atomic<int> empty_polls_{0};  // since the last block
};

}  // namespace millrace
