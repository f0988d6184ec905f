#include "millrace/ops/flow/ignore_errors.h"

namespace millrace {

Block IgnoreErrorsOperator::apply(Block block, BufferPool& pool) const {
  if (block.errors().empty()) return block;
  std::vector<size_t> good;
  auto error = block.errors().begin();
  for (size_t i = 0; i < block.num_elements(); ++i) {
    const bool failed = error != block.errors().end() && error->element == i;
    if (!failed || error->is_note() || error->error->ends_stream) good.push_back(i);
    if (failed) ++error;
  }
  return block.select(good, pool);
}

}  // namespace millrace
