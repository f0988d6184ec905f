#include "millrace/ops/combine/concatenate.h"

#include <algorithm>

#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

class ConcatenateStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "concatenate";

  ConcatenateStage(std::vector<OpenStage> inputs, const StageContext& context)
      : inputs_(std::move(inputs)), context_(context) {
    if (context_.state == nullptr) return;
    const int64_t current = numbers_of(*context_.state, kKind, 1)[0];
    current_ = static_cast<size_t>(place_within(kKind, current, static_cast<int64_t>(inputs_.size())));
  }

  Poll next(Block& out) override {
    while (current_ < inputs_.size()) {
      if (input_ == nullptr) {
        StageContext context = context_;
        context.iteration = context_.iteration.nested(current_);
        // A state is of the first input that is opened; the next ones begin at their beginning.
        input_ = open_input(inputs_[current_], context);
        context_.state = nullptr;
      }
      const Poll poll = input_->next(out);
      if (poll == Poll::kPending) return poll;
      if (poll == Poll::kBlock) {
        out.cursor = make_cursor(kKind, {static_cast<int64_t>(current_)}, {out.cursor});
        out.epoch = context_.iteration.epoch;
        return poll;
      }
      input_.reset();
      ++current_;
    }
    return Poll::kEnd;
  }

 private:
  std::vector<OpenStage> inputs_;
  StageContext context_;
  size_t current_ = 0;
  std::unique_ptr<Stage> input_;
};

}  // namespace

Cardinality ConcatenateOperator::cardinality(std::span<const Cardinality> inputs) const {
  int64_t sum = 0;
  bool unknown = false;
  for (const Cardinality& input : inputs) {
    if (input.is_infinite()) return input;
    unknown = unknown || input.is_unknown() || __builtin_add_overflow(sum, input.count(), &sum);
  }
  return unknown ? Cardinality::unknown() : Cardinality::known(sum);
}

std::unique_ptr<Stage> ConcatenateOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs_.opener(i, std::move(inputs[i]));
  return std::make_unique<ConcatenateStage>(std::move(inputs), context);
}

}  // namespace millrace
