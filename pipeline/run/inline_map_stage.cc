#include "millrace/pipeline/run/inline_map_stage.h"

#include "millrace/pipeline/run/apply_map.h"
#include "millrace/pipeline/run/numbered_rows.h"

namespace millrace {

Poll InlineMapStage::next(Block& out) {
  while (true) {
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    if (needs_numbered_rows(*map_)) out.cursor = NumberedRows{next_row_, out.cursor}.cursor();
    out.first_row = next_row_;
    out.iteration = iteration_;
    next_row_ += out.num_rows();
    const ErrorCount taken(out);
    out = apply_map(*map_, std::move(out), pool_);
    statistics_.add_dropped(taken, out);
    if (out.num_elements() > 0) return Poll::kBlock;
  }
}

}  // namespace millrace
