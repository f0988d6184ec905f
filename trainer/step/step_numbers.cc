#include "millrace/trainer/step/step_numbers.h"

#include <fmt/format.h>

namespace millrace {

std::string step_place(int64_t step, int64_t first_batch, int64_t last_batch) {
  if (first_batch == last_batch) return fmt::format("step {} (batch {})", step + 1, last_batch);
  return fmt::format("step {} (batches {} to {})", step + 1, first_batch, last_batch);
}

}  // namespace millrace
