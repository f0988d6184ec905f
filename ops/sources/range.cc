#include "millrace/ops/sources/range.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

class RangeStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "range";

  RangeStage(SchemaPtr schema, int64_t start, int64_t step, int64_t count, const StageContext& context)
      : schema_(std::move(schema)), context_(context), next_(start), step_(step), count_(count), left_(count) {
    if (context.state == nullptr) return;
    const int64_t given = place_within(kKind, numbers_of(*context.state, kKind, 1)[0], count);
    left_ -= given;
    next_ =
        static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(given) * static_cast<uint64_t>(step));
  }

  Poll next(Block& out) override {
    if (left_ == 0) return Poll::kEnd;
    const int64_t count = std::min<int64_t>(left_, kBlockElements);
    Column column = Column::fixed(context_.pool, DType::kInt64, {}, static_cast<size_t>(count));
    for (int64_t& value : column.mutable_values<int64_t>()) {
      value = next_;
      // Unsigned: the step after the last value may leave the range of the type.
      next_ = static_cast<int64_t>(static_cast<uint64_t>(next_) + static_cast<uint64_t>(step_));
    }
    out = Block(schema_, {std::move(column)}, static_cast<size_t>(count));
    out.epoch = context_.iteration.epoch;
    out.cursor = make_cursor(kKind, {count_ - left_});
    left_ -= count;
    return Poll::kBlock;
  }

 private:
  SchemaPtr schema_;
  StageContext context_;
  int64_t next_;
  int64_t step_;
  int64_t count_;
  int64_t left_;
};

int64_t count_of(int64_t start, int64_t stop, int64_t step) {
  if (step == 0) throw ErrorException(ErrorCode::kInvalidArgument, "range: step must not be 0");
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t count = (distance - 1) / stride + 1;
  if (count > static_cast<uint64_t>(INT64_MAX)) {
    throw ErrorException(ErrorCode::kInvalidArgument, "range: more than 2^63 - 1 elements");
  }
  return static_cast<int64_t>(count);
}

}  // namespace

RangeOperator::RangeOperator(int64_t start, int64_t stop, int64_t step, std::string feature)
    : StageOperator(std::make_shared<const Schema>(
          std::vector<FeatureSpec>{{.name = std::move(feature), .dtype = DType::kInt64, .shape = {}}})),
      start_(start),
      step_(step),
      count_(count_of(start, stop, step)) {}

std::unique_ptr<Stage> RangeOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  return std::make_unique<RangeStage>(schema(), start_, step_, count_, context);
}

}  // namespace millrace
