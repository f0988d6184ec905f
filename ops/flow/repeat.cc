#include "millrace/ops/flow/repeat.h"

#include <algorithm>
#include <utility>

#include "millrace/ops/notes.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

class RepeatStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "repeat";

  RepeatStage(OpenStage open, int64_t count, const StageContext& context)
      : open_(std::move(open)), count_(count), context_(context), iteration_(context.iteration) {
    if (count_ > 0) {
      // Unsigned: of many epochs that are cut short, the last ones may have numbers beyond the type.
      iteration_.epoch = static_cast<int64_t>(static_cast<uint64_t>(iteration_.epoch) * static_cast<uint64_t>(count_));
    } else if (iteration_.epoch > 0) {
      // How often a repeat forever was cut short cannot be a multiple of anything.
      iteration_ = {.epoch = 0, .path = iteration_.nested(static_cast<uint64_t>(iteration_.epoch)).path};
    }
    if (context_.state == nullptr) return;
    const std::vector<int64_t>& numbers = numbers_of(*context_.state, kKind, 2);
    done_ = count_ < 0 ? numbers[0] : place_within(kKind, numbers[0], count_);
    resumed_epoch_is_empty_ = numbers[1] != 0;
    iteration_.epoch = static_cast<int64_t>(static_cast<uint64_t>(iteration_.epoch) + static_cast<uint64_t>(done_));
  }

  Poll next(Block& out) override {
    while (done_ != count_) {
      if (input_ == nullptr) {
        StageContext context = context_;
        context.iteration = iteration_;
        // A state is of the first epoch that is opened; the next ones begin at their beginning.
        input_ = open_input(open_, context);
        context_.state = nullptr;
        epoch_is_empty_ = std::exchange(resumed_epoch_is_empty_, true);
      }
      const Poll poll = input_->next(out);
      if (poll == Poll::kPending) return poll;
      if (poll == Poll::kBlock) {
        // With what the epoch had before the block: after it there may be notes alone.
        out.cursor = make_cursor(kKind, {done_, epoch_is_empty_ ? 1 : 0}, {out.cursor});
        epoch_is_empty_ = epoch_is_empty_ && holds_notes_only(out);
        // A repeat inside counts the epochs of both.
        out.epoch = std::max(out.epoch, iteration_.epoch);
        return poll;
      }
      input_.reset();
      ++iteration_.epoch;
      done_ = epoch_is_empty_ && count_ < 0 ? count_ : done_ + 1;
    }
    return Poll::kEnd;
  }

 private:
  OpenStage open_;
  int64_t count_;
  StageContext context_;
  Iteration iteration_;
  int64_t done_ = 0;
  std::unique_ptr<Stage> input_;
  bool epoch_is_empty_ = true;          // so far
  bool resumed_epoch_is_empty_ = true;  // where the state was taken
};

}  // namespace

Cardinality RepeatOperator::cardinality(std::span<const Cardinality> inputs) const {
  const Cardinality input = inputs[0];
  if (count_ == 0) return Cardinality::known(0);
  if (input.is_known()) {
    if (input.count() == 0) return input;
    if (count_ < 0) return Cardinality::infinite();
    int64_t product = 0;
    return __builtin_mul_overflow(input.count(), count_, &product) ? Cardinality::infinite()
                                                                   : Cardinality::known(product);
  }
  return count_ < 0 ? Cardinality::infinite() : input;
}

std::unique_ptr<Stage> RepeatOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<RepeatStage>(std::move(inputs[0]), count_, context);
}

}  // namespace millrace
