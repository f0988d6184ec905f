#include "millrace/ops/flow/take_while.h"

#include "millrace/ops/element_progress.h"
#include "millrace/ops/features/map.h"

namespace millrace {
namespace {

class TakeWhileStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "take_while";

  TakeWhileStage(const RowPredicate& predicate, std::unique_ptr<Stage> input, const StageContext& context)
      : predicate_(predicate), input_(std::move(input)) {
    if (context.state != nullptr) (void)numbers_of(*context.state, kKind, 0);
  }

  Poll next(Block& out) override {
    if (input_ == nullptr) return Poll::kEnd;
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    out.cursor = make_cursor(kKind, {}, {out.cursor});
    size_t end = 0;
    for (ElementProgress progress; end < out.num_elements() && passes(out, end); ++end) progress.step();
    if (end == out.num_elements()) return poll;
    input_.reset();  // nothing more is read
    out = end == 0 ? Block() : out.slice(0, end);
    return end == 0 ? Poll::kEnd : poll;
  }

 private:
  bool passes(Block& block, size_t element) const {
    if (!block.errors().empty() && block.error_at(element) != nullptr) return true;
    try {
      return predicate_.keep(RowView(block, element));
    } catch (...) {
      block.add_error(element, user_function_error("take_while", predicate_.name, block, element));
      return true;
    }
  }

  const RowPredicate& predicate_;
  std::unique_ptr<Stage> input_;
};

}  // namespace

TakeWhileOperator::TakeWhileOperator(SchemaPtr schema, RowPredicate predicate)
    : StageOperator(std::move(schema)), predicate_(std::move(predicate)) {
  if (!predicate_.keep) throw ErrorException(ErrorCode::kInvalidArgument, "take_while: no predicate given");
}

std::unique_ptr<Stage> TakeWhileOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<TakeWhileStage>(predicate_, open_input(inputs[0], context), context);
}

}  // namespace millrace
