#include "millrace/ops/combine/choose_from_datasets.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr std::string_view kName = "choose_from_datasets";

class ListedChoices final : public InputSelector {
 public:
  ListedChoices(const OpenStage& choices, size_t num_inputs, const StageContext& context)
      : choices_(choices, context), num_inputs_(num_inputs) {}

  Poll peek(Choice& out) override {
    const Poll poll = choices_.poll();
    if (poll != Poll::kBlock) return poll;
    out.rows = choices_.block().rows_per_element;
    if (const ElementError* error = choices_.error_at_hand()) {
      out.error = error->error;
      return poll;
    }
    const std::span<const int64_t> numbers = choices_.block().column(0).values<int64_t>();
    const int64_t number = numbers[choices_.taken()];
    if (number < 0 || number >= static_cast<int64_t>(num_inputs_)) {
      Error error{.code = ErrorCode::kOutOfRange,
                  .message = fmt::format("{}: choice {} of {} inputs", kName, number, num_inputs_)};
      choices_.block().locate(choices_.taken(), error);
      out.error = std::make_shared<const Error>(std::move(error));
      return poll;
    }
    if (run_ == 0) {
      const ElementError* next_error = choices_.next_error();
      const size_t end = next_error == nullptr ? numbers.size() : next_error->element;
      while (choices_.taken() + run_ < end && numbers[choices_.taken() + run_] == number) ++run_;
    }
    out.input = static_cast<size_t>(number);
    out.count = run_;
    return poll;
  }

  void take(size_t count) override {
    choices_.skip(count);
    run_ -= std::min(run_, count);
  }
  void ended(size_t) override {}
  Cursor place() const override { return choices_.place(); }

 private:
  BlockReader choices_;
  size_t num_inputs_;
  size_t run_ = 0;  // equal choices from the one at hand on; 0: not counted yet
};

void check_choices(const Schema& choices) {
  if (choices.size() == 1 && choices[0].dtype == DType::kInt64 && choices[0].shape.empty()) return;
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: choices must have one feature, an int64 scalar, not {}", kName, choices.to_string()));
}

std::span<const SchemaPtr> checked_data(std::span<const SchemaPtr> inputs) {
  check_choices(*inputs[0]);
  return inputs.subspan(1);
}

}  // namespace

ChooseFromDatasetsOperator::ChooseFromDatasetsOperator(std::span<const SchemaPtr> inputs, ChooseOptions options)
    : ChooseFromDatasetsOperator(JoinedSchema(kName, checked_data(inputs)), options) {}

Cardinality ChooseFromDatasetsOperator::cardinality(std::span<const Cardinality> inputs) const {
  const bool infinite = std::any_of(inputs.begin() + 1, inputs.end(), [](const auto& c) { return c.is_infinite(); });
  return infinite ? Cardinality::infinite() : Cardinality::unknown();
}

Cardinality ChooseFromDatasetsOperator::certain_cardinality(std::span<const Cardinality> inputs) const {
  const bool infinite = std::all_of(inputs.begin(), inputs.end(), [](const auto& c) { return c.is_infinite(); });
  return infinite ? Cardinality::infinite() : Cardinality::unknown();
}

std::unique_ptr<Stage> ChooseFromDatasetsOperator::open(std::vector<OpenStage> inputs,
                                                        const StageContext& context) const {
  const auto choices = [&](const StageContext& at) {
    return std::make_unique<ListedChoices>(inputs[0], data_.num_inputs(), at);
  };
  return std::make_unique<SelectionStage>(kName, data_, std::vector<OpenStage>(inputs.begin() + 1, inputs.end()),
                                          choices, options_.stop_on_empty, context);
}

}  // namespace millrace
