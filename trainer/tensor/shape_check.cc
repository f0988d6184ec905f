#include "trainer/tensor/shape_check.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "formats/error.h"

namespace millrace {

void check_shape(std::string_view what, const TensorShape& found, const TensorShape& expected) {
  if (std::ranges::equal(found.sizes(), expected.sizes())) return;
  throw ErrorException(ErrorCode::kWrongShape, fmt::format("{} is [{}], not [{}]", what, fmt::join(found.sizes(), ", "),
                                                           fmt::join(expected.sizes(), ", ")));
}

}  // namespace millrace
