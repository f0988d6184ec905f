#include "millrace/ops/flow/skip.h"

#include <algorithm>

namespace millrace {
namespace {

class SkipStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "skip";

  SkipStage(std::unique_ptr<Stage> input, int64_t count, const StageContext& context)
      : input_(std::move(input)), count_(count), left_(count) {
    if (context.state != nullptr) left_ = std::clamp<int64_t>(any_numbers_of(*context.state, kKind, 1)[0], 0, count);
  }

  Poll next(Block& out) override {
    while (true) {
      if (taken_ == block_.num_elements()) {
        taken_ = 0;
        block_ = Block();
        const Poll poll = input_->next(left_ == 0 ? out : block_);
        if (poll == Poll::kBlock && left_ == 0) out.cursor = make_cursor(kKind, {0}, {out.cursor});
        if (poll != Poll::kBlock || left_ == 0) return poll;
      }
      const ElementError* error = block_.next_error(taken_);
      const size_t good_ones_end = error == nullptr ? block_.num_elements() : error->element;
      const size_t skipped = std::min(static_cast<size_t>(left_), good_ones_end - taken_);
      left_ -= static_cast<int64_t>(skipped);
      taken_ += skipped;
      if (taken_ == block_.num_elements()) continue;
      if (left_ == 0) {
        out = block_.slice(taken_, block_.num_elements() - taken_);
        out.cursor = make_cursor(kKind, {0}, {out.cursor});
        taken_ = block_.num_elements();
        return Poll::kBlock;
      }
      out = block_.slice(taken_++, 1);
      out.cursor = make_cursor(kKind, {left_}, {out.cursor});
      if (!error->is_note()) left_ = count_;
      return Poll::kBlock;
    }
  }

 private:
  std::unique_ptr<Stage> input_;
  int64_t count_;
  int64_t left_;
  Block block_;
  size_t taken_ = 0;
};

class NothingStage final : public Stage {
 public:
  Poll next(Block&) override { return Poll::kEnd; }
};

}  // namespace

Cardinality SkipOperator::cardinality(std::span<const Cardinality> inputs) const {
  if (!inputs[0].is_known()) return inputs[0];
  if (count_ < 0) return Cardinality::known(0);
  return Cardinality::known(std::max<int64_t>(0, inputs[0].count() - count_));
}

std::unique_ptr<Stage> SkipOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  if (count_ < 0) return std::make_unique<NothingStage>();
  return std::make_unique<SkipStage>(open_input(inputs[0], context), count_, context);
}

}  // namespace millrace
