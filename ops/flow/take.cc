#include "millrace/ops/flow/take.h"

#include <algorithm>
#include <limits>

namespace millrace {
namespace {

class TakeStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "take";

  TakeStage(std::unique_ptr<Stage> input, int64_t count, const StageContext& context)
      : input_(std::move(input)), left_(count) {
    if (context.state != nullptr) left_ = std::clamp<int64_t>(any_numbers_of(*context.state, kKind, 1)[0], 0, count);
  }

  Poll next(Block& out) override {
    if (left_ == 0) {
      input_.reset();  // nothing more is read
      return Poll::kEnd;
    }
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    out.cursor = make_cursor(kKind, {left_}, {out.cursor});
    const auto good = static_cast<int64_t>(out.num_elements() - out.errors().size());
    if (good < left_) {
      left_ -= good;
      return poll;
    }
    // Ends at the last element that is wanted.
    auto end = static_cast<size_t>(left_);
    for (const ElementError& entry : out.errors()) {
      if (entry.element < end) ++end;
    }
    left_ = 0;
    if (end < out.num_elements()) out = out.slice(0, end);
    return poll;
  }

 private:
  std::unique_ptr<Stage> input_;
  int64_t left_;
};

}  // namespace

Cardinality TakeOperator::cardinality(std::span<const Cardinality> inputs) const {
  // As tf.data has it, also where more could be known.
  if (inputs[0].is_unknown() || count_ == -1) return inputs[0];
  if (count_ < 0) return Cardinality::unknown();
  return Cardinality::known(inputs[0].is_infinite() ? count_ : std::min(count_, inputs[0].count()));
}

std::unique_ptr<Stage> TakeOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  const int64_t count = count_ < 0 ? std::numeric_limits<int64_t>::max() : count_;
  return std::make_unique<TakeStage>(open_input(inputs[0], context), count, context);
}

}  // namespace millrace
