#include "millrace/ops/combine/nested_function.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/ops/features/map.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

// Places of so many neighbouring elements go by one state of the input: states of pipelines hold it once, and a resumed
// run reads all of them in one go.
constexpr int64_t kElementsPerState = 64;

/// One error and the end.
class FailedStage final : public Stage {
 public:
  FailedStage(Block error, const StageContext& context) : error_(std::move(error)) {
    error_.epoch = context.iteration.epoch;
    error_.cursor = {context.state, 0};
  }
  Poll next(Block& out) override {
    if (given_) return Poll::kEnd;
    given_ = true;
    out = std::move(error_);
    return Poll::kBlock;
  }

 private:
  Block error_;
  bool given_ = false;
};

}  // namespace

void NestedFunction::check(std::string_view operator_name) const {
  if (!open) throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: no function given", operator_name));
  if (schema == nullptr || schema->size() == 0) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: no features of the nested datasets given", operator_name));
  }
}

FunctionInputs::FunctionInputs(std::string_view operator_name, const NestedFunction& function, OpenStage input,
                               const StageContext& context)
    : operator_name_(operator_name), function_(function), open_input_(std::move(input)), context_(context) {
  context_.row_store = nullptr;  // that of the nested datasets: these elements go no further
  if (context_.state == nullptr) input_.emplace(open_input_, context_, Cursor());
  // Else whoever reads the state seeks.
  context_.state = nullptr;
}

void FunctionInputs::seek(uint64_t /*number*/, const Cursor& place) {
  // Not by `begin_`, which changes on the way.
  if (input_ && place.state == opened_at_.state && place.skip - opened_at_.skip >= passed_) {
    to_drop_ = place_within(operator_name_, place.skip - opened_at_.skip - passed_, kElementsPerState);
    return;
  }
  input_.reset();
  input_.emplace(open_input_, context_, place);
  opened_at_ = place;
  passed_ = 0;
  begin_ = place;
  gone_ = 0;
  to_drop_ = 0;
}

Poll FunctionInputs::next(NestedInput& out) {
  while (true) {
    const Poll poll = input_->poll();
    if (poll != Poll::kBlock) return poll;
    if (to_drop_ == 0) break;
    const ElementError* error = input_->error_at_hand();
    // What says that a state cannot be gone on from is not left out.
    if (error != nullptr && error->error->code == ErrorCode::kState) break;
    --to_drop_;
    go_on();
  }
  to_drop_ = 0;
  if (begin_.skip + gone_ >= kElementsPerState) {
    begin_ = input_->place();
    gone_ = 0;
  }
  out = {.open = nullptr, .error = {}, .place = *place()};
  const int64_t rows = input_->block().rows_per_element;
  if (const ElementError* error = input_->error_at_hand()) {
    out.error = error_block(function_.schema, context_.pool, error->error, rows);
  } else {
    try {
      out.open = open_element();
    } catch (...) {
      auto failed = user_function_error(operator_name_, function_.name, input_->block(), input_->taken());
      out.error = error_block(function_.schema, context_.pool, std::move(failed), rows);
    }
  }
  go_on();
  return Poll::kBlock;
}

// Calls the function for the element at hand. An error when the dataset is opened is its first element's.
OpenStage FunctionInputs::open_element() const {
  OpenStage open = function_.open(RowView(input_->block(), input_->taken()));
  // It may be opened in a lane when this object is gone.
  return [open = std::move(open), element = input_->block().slice(input_->taken(), 1), name = operator_name_,
          &function = function_](const StageContext& context) -> std::unique_ptr<Stage> {
    try {
      return open(context);
    } catch (...) {
      Error error = *user_function_error(name, function.name, element, 0);
      // It was open before, and gave elements that must not be taken for given again.
      if (context.state != nullptr) error.code = ErrorCode::kState;
      return std::make_unique<FailedStage>(
          error_block(function.schema, context.pool, std::make_shared<const Error>(std::move(error)),
                      element.rows_per_element),
          context);
    }
  };
}

}  // namespace millrace
