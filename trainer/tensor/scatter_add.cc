#include "millrace/trainer/tensor/scatter_add.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
Tensor<T> scatter_add(Tape<T>& tape, const Tensor<T>& x, std::span<const int32_t> indices, int64_t rows) {
  if (static_cast<int64_t>(indices.size()) != x.rows()) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("scatter_add has {} indices for {} rows", indices.size(), x.rows()));
  }
  const int64_t columns = x.columns();
  const Tensor<T> y = tape.make({rows, columns});
  std::fill_n(y.values, y.count(), T{0});
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= rows) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("index {} ({}); the result has {} rows", indices[i],
                                                                    tape.place_of(indices, i), rows));
    }
    kernels<T>().add(x.values + static_cast<int64_t>(i) * columns, columns, y.values + indices[i] * columns);
  }
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    for (size_t i = 0; i < indices.size(); ++i) {
      kernels<T>().scale(dy + indices[i] * columns, 1, columns, slot.add,
                         slot.values + static_cast<int64_t>(i) * columns);
    }
  });
  return y;
}

template Tensor<float> scatter_add(Tape<float>&, const Tensor<float>&, std::span<const int32_t>, int64_t);
template Tensor<double> scatter_add(Tape<double>&, const Tensor<double>&, std::span<const int32_t>, int64_t);

}  // namespace millrace
