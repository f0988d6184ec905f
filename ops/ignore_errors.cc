#include "ops/ignore_errors.h"

namespace millrace {

Block IgnoreErrorsOperator::apply(Block block, BufferPool& pool) const {
  if (block.errors().empty()) return block;
  std::vector<size_t> good;
  auto error = block.errors().begin();
  for (size_t i = 0; i < block.num_elements(); ++i) {
    if (error != block.errors().end() && error->element == i) {
      ++error;
    } else {
      good.push_back(i);
    }
  }
  return block.select(good, pool);
}

}  // namespace millrace
