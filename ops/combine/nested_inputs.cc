#include "millrace/ops/combine/nested_inputs.h"

#include <fmt/format.h>

namespace millrace {

Poll ListedInputs::next(NestedInput& out) {
  if (next_ == inputs_.size()) return Poll::kEnd;
  out.open = inputs_[next_++];
  return Poll::kBlock;
}

void ListedInputs::seek(uint64_t number, const Cursor& /*place*/) {
  if (number > inputs_.size()) {
    throw ErrorException(ErrorCode::kState, fmt::format("there is no input {}, only {}", number, inputs_.size()));
  }
  next_ = number;
}

}  // namespace millrace
