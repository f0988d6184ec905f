#include "millrace/ops/stage.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/ops/place_checks.h"

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
      if (poll == Poll::kEnd && left_ > 0) {
        throw ErrorException(ErrorCode::kState, fmt::format("a state has a place {} elements after the end", left_));
      }
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
  // From the beginning on a run may be far; stages that say more renew their states every few blocks.
  const int64_t most = place.state == nullptr ? kMostReadAgain : kMostSkipped;
  if (place.skip < 0 || place.skip > most) {
    throw ErrorException(ErrorCode::kState, fmt::format("a state has a place that cannot be: {} elements after another "
                                                        "one, where at most {} are possible",
                                                        place.skip, most));
  }
  context.state = place.state;
  std::unique_ptr<Stage> stage = open(context);
  if (place.skip == 0) return stage;
  return std::make_unique<SkippingStage>(std::move(stage), place.skip);
}

int64_t place_within(std::string_view kind, int64_t number, int64_t most) {
  if (number <= most) return number;
  throw ErrorException(ErrorCode::kState, fmt::format("the state of a {} has numbers that cannot be: {}, where at most "
                                                      "{} are possible",
                                                      kind, number, most));
}

int64_t elements_to_read_again(std::string_view kind, int64_t number) {
  return place_within(kind, number, kMostReadAgain);
}

void refuse_ended_input(std::string_view kind) {
  throw ErrorException(ErrorCode::kState,
                       fmt::format("the input of a {} ended before the place where the state was taken", kind));
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
