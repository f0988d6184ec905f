#include "millrace/trainer/tensor/shape_check.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"

namespace millrace {

void check_shape(std::string_view what, const TensorShape& found, const TensorShape& expected) {
  if (std::ranges::equal(found.sizes(), expected.sizes())) return;
  throw ErrorException(ErrorCode::kWrongShape, fmt::format("{} is [{}], not [{}]", what, fmt::join(found.sizes(), ", "),
                                                           fmt::join(expected.sizes(), ", ")));
}

void check_batch_rows(std::string_view operator_name, const TensorShape& x, int64_t batch_rows) {
  const int64_t first = x.sizes().empty() ? 1 : x.sizes()[0];
  if (batch_rows > 0 ? first % batch_rows == 0 : batch_rows == 0 && first == 0) return;
  throw ErrorException(ErrorCode::kWrongShape,
                       fmt::format("{} of [{}] with batch_rows = {}: each row of the batch needs as many rows",
                                   operator_name, fmt::join(x.sizes(), ", "), batch_rows));
}

}  // namespace millrace
