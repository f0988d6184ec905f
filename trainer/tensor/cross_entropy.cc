#include "trainer/tensor/cross_entropy.h"

#include <algorithm>

#include <fmt/format.h>

#include "formats/error.h"
#include "trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
SummedLoss<T> cross_entropy(Tape<T>& tape, const Tensor<T>& logits, std::span<const int32_t> labels) {
  const int64_t rows = logits.rows();
  const int64_t classes = logits.columns();
  if (static_cast<int64_t>(labels.size()) != rows) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("cross_entropy has {} labels for {} rows", labels.size(), rows));
  }
  SummedLoss<T> loss{.tensor = tape.make({})};
  T* log_sums = tape.template keep<T>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t label = labels[static_cast<size_t>(row)];
    if (label == kNoLabel) continue;
    if (label < 0 || label >= classes) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("label {}; there are {} classes", label, classes));
    }
    log_sums[row] = kernels<T>().log_sum_exp(logits.values + row * classes, classes);
    ++loss.num_labels;
    loss.sum += static_cast<double>(log_sums[row] - logits.values[row * classes + label]);
  }
  *loss.tensor.values = static_cast<T>(loss.sum);
  tape.record({logits}, loss.tensor, [=](Tape<T>& t, const T* dy) {
    if (!logits.needs_gradient()) return;
    const GradientSlot<T> slot = t.gradient_of(logits);
    for (int64_t row = 0; row < rows; ++row) {
      T* gradient = slot.values + row * classes;
      if (labels[static_cast<size_t>(row)] == kNoLabel) {
        if (!slot.add) std::fill_n(gradient, classes, T{0});
        continue;
      }
      kernels<T>().scaled_exp(logits.values + row * classes, log_sums[row], *dy, classes, slot.add, gradient);
      gradient[labels[static_cast<size_t>(row)]] -= *dy;
    }
  });
  return loss;
}

template SummedLoss<float> cross_entropy(Tape<float>&, const Tensor<float>&, std::span<const int32_t>);
template SummedLoss<double> cross_entropy(Tape<double>&, const Tensor<double>&, std::span<const int32_t>);

}  // namespace millrace
