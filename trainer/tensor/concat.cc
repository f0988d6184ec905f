#include "millrace/trainer/tensor/concat.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> concat(Tape<T>& tape, std::span<const Tensor<T>> parts, int axis) {
  if (parts.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "concat of no tensors");
  const std::span<const int64_t> first = parts.front().shape.sizes();
  const auto at = static_cast<size_t>(axis);
  if (axis < 0 || at >= first.size()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("concat along axis {} of tensors of rank {}", axis, first.size()));
  }
  std::vector<int64_t> sizes(first.begin(), first.end());
  int64_t outer = 1;
  for (size_t i = 0; i < at; ++i) outer *= sizes[i];
  sizes[at] = 0;
  for (const Tensor<T>& part : parts) {
    std::vector<int64_t> expected(first.begin(), first.end());
    if (part.shape.sizes().size() == expected.size()) expected[at] = part.shape.sizes()[at];
    check_shape("part of concat", part.shape, TensorShape(expected));
    sizes[at] += expected[at];
  }
  const Tensor<T> y = tape.make(TensorShape(sizes));
  const int64_t row = outer == 0 ? 0 : y.count() / outer;  // values of y for each index before the axis
  const int64_t count = static_cast<int64_t>(parts.size());
  auto* kept = tape.template keep<Tensor<T>>(count);
  std::copy(parts.begin(), parts.end(), kept);
  int64_t begin = 0;
  for (const Tensor<T>& part : parts) {
    const int64_t width = outer == 0 ? 0 : part.count() / outer;
    for (int64_t i = 0; i < outer; ++i) std::copy_n(part.values + i * width, width, y.values + i * row + begin);
    begin += width;
  }
  tape.record(parts, y, [=](Tape<T>& t, const T* dy) {
    int64_t from = 0;
    for (int64_t p = 0; p < count; ++p) {
      const int64_t width = outer == 0 ? 0 : kept[p].count() / outer;
      if (t.wants(kept[p])) {
        const GradientSlot<T> slot = t.gradient_of(kept[p]);
        for (int64_t i = 0; i < outer; ++i) {
          kernels<T>().scale(dy + i * row + from, 1, width, slot.add, slot.values + i * width);
        }
      }
      from += width;
    }
  });
  return y;
}

template Tensor<float> concat(Tape<float>&, std::span<const Tensor<float>>, int);
template Tensor<double> concat(Tape<double>&, std::span<const Tensor<double>>, int);

}  // namespace millrace
