#include "millrace/ops/flow/enumerate.h"

#include <fmt/format.h>

namespace millrace {
namespace {

class EnumerateStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "enumerate";

  EnumerateStage(const WrittenFeatures& features, std::unique_ptr<Stage> input, int64_t start,
                 const StageContext& context)
      : features_(features), input_(std::move(input)), start_(start), pool_(context.pool) {
    if (context.state != nullptr) count_ = numbers_of(*context.state, kKind, 1)[0];
  }

  Poll next(Block& out) override {
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    out.cursor = make_cursor(kKind, {count_}, {out.cursor});
    Column numbers = Column::fixed(pool_, DType::kInt64, {}, out.num_elements());
    auto error = out.errors().begin();
    const std::span<int64_t> values = numbers.mutable_values<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      // Unsigned: the numbers go on at the other end of the type.
      values[i] = static_cast<int64_t>(static_cast<uint64_t>(start_) + static_cast<uint64_t>(count_));
      const bool is_error = error != out.errors().end() && error->element == i;
      if (!is_error || !(error++)->is_note()) ++count_;
    }
    out = features_.merged(out, Block(features_.written(), {std::move(numbers)}, out.num_elements()));
    return poll;
  }

 private:
  const WrittenFeatures& features_;
  std::unique_ptr<Stage> input_;
  int64_t start_;
  BufferPool& pool_;
  int64_t count_ = 0;
};

}  // namespace

EnumerateOperator::EnumerateOperator(const SchemaPtr& input, int64_t start, const std::string& feature)
    : EnumerateOperator(WrittenFeatures("enumerate", *input, {{.name = feature, .dtype = DType::kInt64, .shape = {}}}),
                        start) {}

EnumerateOperator::EnumerateOperator(WrittenFeatures features, int64_t start)
    : StageOperator(features.schema()), features_(std::move(features)), start_(start) {}

std::unique_ptr<Stage> EnumerateOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<EnumerateStage>(features_, open_input(inputs[0], context), start_, context);
}

}  // namespace millrace
