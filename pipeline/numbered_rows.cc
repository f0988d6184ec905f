#include "pipeline/numbered_rows.h"

namespace millrace {

NumberedRows::NumberedRows(const StageStatePtr& state) {
  if (state == nullptr || state->kind != kKind) {
    input.state = state;
    return;
  }
  next_row = numbers_of(*state, kKind, 1)[0];
  if (state->inputs.size() != 1) throw ErrorException(ErrorCode::kState, "the state of numbered rows has no input");
  input = state->inputs[0];
}

std::unique_ptr<Stage> open_unnumbered(const OpenStage& open, const StageContext& context) {
  if (context.state == nullptr || context.state->kind != NumberedRows::kKind) return open(context);
  return open_at([&](const StageContext& inner) { return open_unnumbered(open, inner); }, context,
                 NumberedRows(context.state).input);
}

}  // namespace millrace
