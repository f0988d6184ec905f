#include "millrace/ops/flow/assert_cardinality.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

class AssertCardinalityStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "assert_cardinality";

  AssertCardinalityStage(SchemaPtr schema, std::unique_ptr<Stage> input, int64_t count, const StageContext& context)
      : schema_(std::move(schema)),
        input_(std::move(input)),
        is_infinite_(count == -1),
        count_(is_infinite_ ? INT64_MAX : count),
        context_(context) {
    if (context.state == nullptr) return;
    const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 3);
    seen_ = place_within(kKind, numbers[0], count_);
    epoch_ = numbers[1];
    rows_per_element_ = numbers[2];
    if (!context.state->inputs.empty()) end_ = context.state->inputs[0];
  }

  Poll next(Block& out) override {
    if (failed_) return Poll::kEnd;
    if (too_many_) return fail("at least ", count_ + 1, *std::exchange(too_many_, std::nullopt), out);
    const Poll poll = input_->next(out);
    if (poll == Poll::kEnd && seen_ < count_) return fail("", seen_, end_, out);
    if (poll != Poll::kBlock) return poll;
    end_ = out.cursor.advanced_by(static_cast<int64_t>(out.num_elements()));
    const Cursor begin = out.cursor;
    out.cursor = make_cursor(kKind, {seen_, epoch_, rows_per_element_}, {begin});
    epoch_ = out.epoch;
    rows_per_element_ = out.rows_per_element;
    // Up to the first element that is one too many.
    size_t elements = 0;
    int64_t seen = seen_;
    auto error = out.errors().begin();
    for (; elements < out.num_elements(); ++elements) {
      if (error != out.errors().end() && error->element == elements) {
        ++error;
      } else if (++seen > count_) {
        break;
      }
    }
    seen_ = std::min(seen, count_);
    if (elements == out.num_elements()) return poll;
    const Cursor place = begin.advanced_by(static_cast<int64_t>(elements));
    if (elements == 0) return fail("at least ", count_ + 1, place, out);
    too_many_ = place;
    out = out.slice(0, elements);
    return poll;
  }

 private:
  // `place`: in the input.
  Poll fail(std::string_view at_least, int64_t found, const Cursor& place, Block& out) {
    failed_ = true;
    Error error{.code = ErrorCode::kCardinality,
                .message = fmt::format("{} elements were asserted, there are {}{}",
                                       is_infinite_ ? "infinitely many" : std::to_string(count_), at_least, found),
                .stage = "assert_cardinality"};
    out = error_block(schema_, context_.pool, std::make_shared<const Error>(std::move(error)), rows_per_element_);
    out.epoch = epoch_;
    out.cursor = make_cursor(kKind, {seen_, epoch_, rows_per_element_}, {place});
    return Poll::kBlock;
  }

  SchemaPtr schema_;
  std::unique_ptr<Stage> input_;
  bool is_infinite_;
  int64_t count_;
  StageContext context_;
  int64_t seen_ = 0;  // elements that are no errors
  bool failed_ = false;
  std::optional<Cursor> too_many_;  // where the first element too many is
  Cursor end_;                      // in the input, after its last block
  int64_t epoch_ = 0;
  int64_t rows_per_element_ = 1;
};

}  // namespace

AssertCardinalityOperator::AssertCardinalityOperator(SchemaPtr input, int64_t count)
    : StageOperator(std::move(input)), count_(count) {
  if (count < -1) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("assert_cardinality: count must be at least 0, or -1 for infinitely many, not {}", count));
  }
}

std::unique_ptr<Stage> AssertCardinalityOperator::open(std::vector<OpenStage> inputs,
                                                       const StageContext& context) const {
  return std::make_unique<AssertCardinalityStage>(schema(), open_input(inputs[0], context), count_, context);
}

}  // namespace millrace
