#include "millrace/trainer/tensor/slice.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
Tensor<T> slice(Tape<T>& tape, const Tensor<T>& x, int axis, int64_t begin, int64_t size) {
  const std::span<const int64_t> whole = x.shape.sizes();
  const auto at = static_cast<size_t>(axis);
  if (axis < 0 || at >= whole.size() || begin < 0 || size < 0 || begin + size > whole[at]) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("slice of {} from {} along axis {} of a tensor of rank {}{}", size, begin, axis, whole.size(),
                    axis >= 0 && at < whole.size() ? fmt::format(" and size {}", whole[at]) : ""));
  }
  std::vector<int64_t> sizes(whole.begin(), whole.end());
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < at; ++i) outer *= sizes[i];
  for (size_t i = at + 1; i < sizes.size(); ++i) inner *= sizes[i];
  const int64_t row = sizes[at] * inner;
  const int64_t from = begin * inner;
  const int64_t width = size * inner;
  sizes[at] = size;
  const Tensor<T> y = tape.make(TensorShape(sizes));
  for (int64_t i = 0; i < outer; ++i) std::copy_n(x.values + i * row + from, width, y.values + i * width);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    if (!slot.add) std::fill_n(slot.values, x.count(), T{0});
    for (int64_t i = 0; i < outer; ++i) kernels<T>().add(dy + i * width, width, slot.values + i * row + from);
  });
  return y;
}

template Tensor<float> slice(Tape<float>&, const Tensor<float>&, int, int64_t, int64_t);
template Tensor<double> slice(Tape<double>&, const Tensor<double>&, int, int64_t, int64_t);

}  // namespace millrace
