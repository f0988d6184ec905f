#include "benchmarks/touch_rows.h"

#include <algorithm>

namespace millrace {

uint64_t touch_rows(const Block& batch) {
  uint64_t sum = 0;
  for (const Column& column : batch.columns()) {
    const auto rows = static_cast<size_t>(std::max<int64_t>(1, batch.num_rows()));
    const auto values = static_cast<size_t>(column.num_values(0));
    const size_t step = std::max<size_t>(1, values / rows);
    for (size_t at = 0; at < values; at += step) {
      if (column.dtype() != DType::kBytes) {
        sum += std::to_integer<uint64_t>(column.data(0)[at * size_of(column.dtype())]);
        continue;
      }
      const std::string_view payload = column.values<std::string_view>(0)[at];
      if (!payload.empty()) sum += static_cast<unsigned char>(payload.front());
    }
  }
  return sum;
}

}  // namespace millrace
