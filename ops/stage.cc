#include "millrace/ops/stage.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {
namespace {

// Nothing counts so far, not all numbers of a state together; what is counted on from there stays a number.
constexpr int64_t kMostInState = int64_t{1} << 61;

/// Leaves out the first elements of its input. What says that a state cannot be gone on from stands in the place of an
/// element too, and is not left out.
class SkippingStage final : public Stage {
 public:
  SkippingStage(std::unique_ptr<Stage> input, int64_t elements) : input_(std::move(input)), left_(elements) {}

  Poll next(Block& out) override {
    while (true) {
      const Poll poll = input_->next(out);
      if (poll != Poll::kBlock || left_ == 0) return poll;
      out = std::move(out).assembled();
      const auto elements = static_cast<int64_t>(out.num_elements());
      int64_t skipped = std::min(left_, elements);
      left_ -= skipped;
      for (const ElementError& entry : out.errors()) {
        const auto place = static_cast<int64_t>(entry.element);
        if (place >= skipped || entry.error->code != ErrorCode::kState) continue;
        skipped = place;
        left_ = 0;
        break;
      }
      if (skipped == elements) {
        out = Block();
        continue;
      }
      out = out.slice(static_cast<size_t>(skipped), static_cast<size_t>(elements - skipped));
      return poll;
    }
  }

 private:
  std::unique_ptr<Stage> input_;
  int64_t left_;
};

}  // namespace

std::unique_ptr<Stage> open_at(const OpenStage& open, StageContext context, const Cursor& place) {
  if (place.skip < 0 || place.skip > kMostInState) {
    throw ErrorException(ErrorCode::kState, "a state has a place that cannot be");
  }
  context.state = place.state;
  std::unique_ptr<Stage> stage = open(context);
  if (place.skip == 0) return stage;
  return std::make_unique<SkippingStage>(std::move(stage), place.skip);
}

std::unique_ptr<Stage> open_input(const OpenStage& open, const StageContext& context, size_t index) {
  if (context.state == nullptr) return open(context);
  if (index >= context.state->inputs.size()) {
    throw ErrorException(ErrorCode::kState, fmt::format("the state of a {} has {} inputs, not {}", context.state->kind,
                                                        context.state->inputs.size(), index + 1));
  }
  return open_at(open, context, context.state->inputs[index]);
}

const std::vector<int64_t>& any_numbers_of(const StageState& state, std::string_view kind, size_t least) {
  if (state.kind != kind) {
    throw ErrorException(ErrorCode::kState, fmt::format("the state of a {} is given to a {}", state.kind, kind));
  }
  if (state.numbers.size() < least) {
    throw ErrorException(ErrorCode::kState, fmt::format("the state of a {} has too few numbers", kind));
  }
  return state.numbers;
}

const std::vector<int64_t>& numbers_of(const StageState& state, std::string_view kind, size_t least) {
  const std::vector<int64_t>& numbers = any_numbers_of(state, kind, least);
  int64_t left = kMostInState;
  for (const int64_t number : numbers) {
    if (number < 0 || number > left) {
      throw ErrorException(ErrorCode::kState, fmt::format("the state of a {} has numbers that cannot be", kind));
    }
    left -= number;
  }
  return numbers;
}

}  // namespace millrace
