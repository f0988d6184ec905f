#include "ops/flat_map.h"

#include <utility>

#include "formats/columnar/block_builder.h"
#include "ops/block_reader.h"
#include "ops/map.h"

namespace millrace {
namespace {

class FlatMapStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "flat_map";

  FlatMapStage(const NestedFunction& function, const OpenStage& input, const StageContext& context)
      : function_(function), context_(context), input_(input, context) {
    if (context.state == nullptr) return;
    ordinal_ = numbers_of(*context.state, kKind, 1)[0];
    if (context.state->inputs.size() != 2) throw ErrorException(ErrorCode::kState, "the state of a flat_map is cut");
    nested_begin_ = context.state->inputs[1];
  }

  Poll next(Block& out) override {
    for (size_t in_vain = 0; in_vain < kBlockElements; ++in_vain) {
      if (nested_ == nullptr) {
        const Poll poll = input_.poll();
        if (poll != Poll::kBlock) return poll;
        if (const ElementError* error = input_.error_at_hand())
          return deliver_error(error->error, error->is_note(), out);
        if (auto error = open_nested()) return deliver_error(std::move(error), false, out);
      }
      const Poll poll = nested_->next(out);
      if (poll == Poll::kPending) return poll;
      if (poll == Poll::kBlock) {
        out.cursor = place(out.cursor);
        out.epoch = context_.iteration.epoch;
        return poll;
      }
      nested_.reset();
      input_.skip(1);
      ++ordinal_;
    }
    // There may never be an element: somebody who wants to stop all must get his turn.
    out = Block();
    context_.waker.wake();
    return Poll::kPending;
  }

 private:
  Cursor place(Cursor nested) const { return make_cursor(kKind, {ordinal_}, {input_.place(), std::move(nested)}); }

  std::shared_ptr<const Error> open_nested() {
    try {
      StageContext nested{.pool = context_.pool,
                          .waker = context_.waker,
                          .iteration = context_.iteration.nested(static_cast<uint64_t>(ordinal_)),
                          .lanes = lanes_,
                          .storage = context_.storage,
                          .shard_names = context_.shard_names,
                          .memory = context_.memory};
      const OpenStage open = function_.open(RowView(input_.block(), input_.taken()));
      nested_ = open_at(open, nested, std::exchange(nested_begin_, {}));
      return nullptr;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      return user_function_error("flat_map", function_.name, input_.block(), input_.taken());
    }
  }

  Poll deliver_error(std::shared_ptr<const Error> error, bool is_note, Block& out) {
    out = error_block(function_.schema, context_.pool, std::move(error), input_.block().rows_per_element);
    out.epoch = context_.iteration.epoch;
    out.cursor = place({});
    input_.skip(1);
    if (!is_note) ++ordinal_;
    return Poll::kBlock;
  }

  const NestedFunction& function_;
  StageContext context_;
  InlineLanes lanes_;
  BlockReader input_;  // the element at hand is the one whose dataset is open
  int64_t ordinal_ = 0;
  Cursor nested_begin_;  // when resumed: where the first dataset is opened
  std::unique_ptr<Stage> nested_;
};

}  // namespace

FlatMapInputsOperator::FlatMapInputsOperator(JoinedSchema inputs)
    : StageOperator(inputs.schema()), inputs_(std::move(inputs)) {
  // One turn for all of an input: blocks pass as they are.
  options_ = InterleaveOptions{.cycle_length = 1, .block_length = size_t{1} << 62}.of_inputs(inputs_.num_inputs());
}

std::unique_ptr<Stage> FlatMapInputsOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs_.opener(i, std::move(inputs[i]));
  return std::make_unique<InterleaveStage>(schema(), std::make_unique<ListedInputs>(std::move(inputs)), options_,
                                           context);
}

FlatMapOperator::FlatMapOperator(NestedFunction function)
    : StageOperator(function.schema), function_(std::move(function)) {
  if (!function_.open) throw ErrorException(ErrorCode::kInvalidArgument, "flat_map: no function given");
  if (schema() == nullptr || schema()->size() == 0) {
    throw ErrorException(ErrorCode::kInvalidArgument, "flat_map: no features of the nested datasets given");
  }
}

std::unique_ptr<Stage> FlatMapOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<FlatMapStage>(function_, inputs[0], context);
}

}  // namespace millrace
