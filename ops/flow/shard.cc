#include "millrace/ops/flow/shard.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {
namespace {

class ShardStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "shard";

  ShardStage(std::unique_ptr<Stage> input, int64_t num_shards, int64_t index, const StageContext& context)
      : input_(std::move(input)), num_shards_(num_shards), to_skip_(index), left_to_skip_(index), pool_(context.pool) {
    if (context.state == nullptr) return;
    const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 2);
    to_skip_ = std::min(numbers[0], num_shards - 1);
    left_to_skip_ = std::min(numbers[1], to_skip_);
  }

  Poll next(Block& out) override {
    while (true) {
      Block block;
      const Poll poll = input_->next(block);
      if (poll != Poll::kBlock) return poll;
      block.cursor = make_cursor(kKind, {to_skip_, left_to_skip_}, {block.cursor});
      chosen_.clear();
      auto error = block.errors().begin();
      for (size_t i = 0; i < block.num_elements();) {
        if (error != block.errors().end() && error->element == i) {
          chosen_.push_back(i++);
          if (!error->is_note()) left_to_skip_ = to_skip_;
          ++error;
        } else if (left_to_skip_ == 0) {
          chosen_.push_back(i++);
          to_skip_ = left_to_skip_ = num_shards_ - 1;
        } else {
          const size_t end = error == block.errors().end() ? block.num_elements() : error->element;
          const size_t step = std::min(end - i, static_cast<size_t>(left_to_skip_));
          left_to_skip_ -= static_cast<int64_t>(step);
          i += step;
          // All that were to be skipped are: from here on the count does not go back.
          if (left_to_skip_ == 0) to_skip_ = 0;
        }
      }
      if (chosen_.empty()) continue;
      out = chosen_.size() == block.num_elements() ? std::move(block) : block.select(chosen_, pool_);
      return poll;
    }
  }

 private:
  std::unique_ptr<Stage> input_;
  int64_t num_shards_;
  int64_t to_skip_;       // elements between the last one that counts and the next one wanted
  int64_t left_to_skip_;  // of them
  std::vector<size_t> chosen_;
  BufferPool& pool_;
};

}  // namespace

ShardOperator::ShardOperator(SchemaPtr schema, int64_t num_shards, int64_t index)
    : StageOperator(std::move(schema)), num_shards_(num_shards), index_(index) {
  if (num_shards < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("shard: num_shards must be at least 1, not {}", num_shards));
  }
  if (index < 0 || index >= num_shards) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("shard: index must be from 0 to num_shards - 1 = {}, not {}", num_shards - 1, index));
  }
}

Cardinality ShardOperator::cardinality(std::span<const Cardinality> inputs) const {
  if (!inputs[0].is_known()) return inputs[0];
  const int64_t count = inputs[0].count();
  return Cardinality::known(count / num_shards_ + (index_ < count % num_shards_ ? 1 : 0));
}

std::unique_ptr<Stage> ShardOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<ShardStage>(open_input(inputs[0], context), num_shards_, index_, context);
}

}  // namespace millrace
