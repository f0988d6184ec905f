#include "millrace/pipeline/run/numbered_rows.h"

namespace millrace {

NumberedRows::NumberedRows(const StageStatePtr& state) {
  if (state == nullptr) return;
  next_row = numbers_of(*state, kKind, 1)[0];
  if (state->inputs.size() != 1) throw ErrorException(ErrorCode::kState, "the state of numbered rows has no input");
  input = state->inputs[0];
}

}  // namespace millrace
