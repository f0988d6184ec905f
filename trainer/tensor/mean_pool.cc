#include "millrace/trainer/tensor/mean_pool.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
Tensor<T> mean_pool(Tape<T>& tape, const Tensor<T>& x, std::span<const int64_t> mask) {
  const std::span<const int64_t> sizes = x.shape.sizes();
  if (sizes.size() != 3 || static_cast<int64_t>(mask.size()) != sizes[0] * sizes[1]) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("mean_pool of [{}] with a mask of {} values; three sizes are needed, and a value "
                                     "for each position",
                                     fmt::join(sizes, ", "), mask.size()));
  }
  const int64_t rows = sizes[0];
  const int64_t length = sizes[1];
  const int64_t columns = sizes[2];
  const Tensor<T> y = tape.make({rows, columns});
  T* shares = tape.template keep<T>(rows);
  const auto kept = [=](int64_t row, int64_t i) { return mask[static_cast<size_t>(row * length + i)] != 0; };
  for (int64_t row = 0; row < rows; ++row) {
    int64_t count = 0;
    for (int64_t i = 0; i < length; ++i) count += kept(row, i) ? 1 : 0;
    shares[row] = count == 0 ? 0 : 1 / static_cast<T>(count);
    std::fill_n(y.values + row * columns, columns, T{0});
    for (int64_t i = 0; i < length; ++i) {
      if (!kept(row, i)) continue;
      kernels<T>().scale(x.values + (row * length + i) * columns, shares[row], columns, true, y.values + row * columns);
    }
  }
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < length; ++i) {
        T* dx = slot.values + (row * length + i) * columns;
        if (kept(row, i)) {
          kernels<T>().scale(dy + row * columns, shares[row], columns, slot.add, dx);
        } else if (!slot.add) {
          std::fill_n(dx, columns, T{0});
        }
      }
    }
  });
  return y;
}

template Tensor<float> mean_pool(Tape<float>&, const Tensor<float>&, std::span<const int64_t>);
template Tensor<double> mean_pool(Tape<double>&, const Tensor<double>&, std::span<const int64_t>);

}  // namespace millrace
