#include "millrace/ops/flow/scan.h"

#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/ops/element_progress.h"
#include "millrace/ops/features/map.h"

namespace millrace {
namespace {

class ScanStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "scan";

  ScanStage(const WrittenFeatures& features, const ScanFunction& function, std::unique_ptr<Stage> input,
            const StageContext& context)
      : features_(features),
        function_(function),
        input_(std::move(input)),
        pool_(context.pool),
        carried_(function.initial) {
    if (context.state == nullptr) return;
    auto number = any_numbers_of(*context.state, kKind, carried_.integers.size() + carried_.reals.size()).begin();
    for (int64_t& integer : carried_.integers) integer = *number++;
    for (double& real : carried_.reals) real = std::bit_cast<double>(*number++);
  }

  Poll next(Block& out) override {
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    out.cursor = make_cursor(kKind, numbers(), {out.cursor});
    RowWriter writer(features_.written(), pool_);
    ElementProgress progress;
    for (size_t i = 0; i < out.num_elements(); ++i, progress.step()) {
      auto error = out.errors().empty() ? nullptr : out.error_at(i);
      if (error == nullptr) error = apply(out, i, writer);
      if (error != nullptr) writer.fail_element(std::move(error));
    }
    out = features_.merged(out, writer.finish());
    return poll;
  }

 private:
  std::vector<int64_t> numbers() const {
    std::vector<int64_t> numbers = carried_.integers;
    for (const double real : carried_.reals) numbers.push_back(std::bit_cast<int64_t>(real));
    return numbers;
  }

  std::shared_ptr<const Error> apply(const Block& block, size_t element, RowWriter& writer) {
    before_ = carried_;
    const BufferPool::Unlimited of_user;
    try {
      function_.function(carried_, RowView(block, element), writer);
      if (carried_.integers.size() != before_.integers.size() || carried_.reals.size() != before_.reals.size()) {
        throw ErrorException(ErrorCode::kUserFunction, "carries another number of numbers than it began with");
      }
      writer.end_element();
      return nullptr;
    } catch (...) {
      carried_ = before_;
      return user_function_error("scan", function_.name, block, element);
    }
  }

  const WrittenFeatures& features_;
  const ScanFunction& function_;
  std::unique_ptr<Stage> input_;
  BufferPool& pool_;
  ScanNumbers carried_;
  ScanNumbers before_;  // the element at hand; kept for its memory
};

}  // namespace

std::string text_of_argument(const ScanFunction& function, bool all) {
  return fmt::format("{} from {} {}", description::quoted(function.name), text_of_value(function.initial.integers, all),
                     text_of_value(function.initial.reals, all));
}

ScanOperator::ScanOperator(const SchemaPtr& input, ScanFunction function)
    : ScanOperator(WrittenFeatures("scan", *input, function.writes, function.keep_others), std::move(function)) {}

ScanOperator::ScanOperator(WrittenFeatures features, ScanFunction&& function)
    : StageOperator(features.schema()), features_(std::move(features)), function_(std::move(function)) {
  if (!function_.function) throw ErrorException(ErrorCode::kInvalidArgument, "scan: no function given");
}

std::unique_ptr<Stage> ScanOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<ScanStage>(features_, function_, open_input(inputs[0], context), context);
}

}  // namespace millrace
