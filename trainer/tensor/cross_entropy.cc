#include "millrace/trainer/tensor/cross_entropy.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

namespace {

// log_sums[row] of all rows that have a label; calls `loss(row, value)` for each of them.
template <typename T, typename Loss>
T* forward(Tape<T>& tape, const Tensor<T>& logits, std::span<const int32_t> labels, const Loss& loss) {
  const int64_t rows = logits.rows();
  const int64_t classes = logits.columns();
  if (static_cast<int64_t>(labels.size()) != rows) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("cross_entropy has {} labels for {} rows", labels.size(), rows));
  }
  T* log_sums = tape.template keep<T>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t label = labels[static_cast<size_t>(row)];
    if (label == kNoLabel) continue;
    if (label < 0 || label >= classes) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("label {} ({}); there are {} classes", label,
                                       tape.place_of(labels, static_cast<size_t>(row)), classes));
    }
    log_sums[row] = kernels<T>().log_sum_exp(logits.values + row * classes, classes);
    loss(row, log_sums[row] - logits.values[row * classes + label]);
  }
  return log_sums;
}

// `stride` 0: one gradient dy for all rows.
template <typename T>
void backward(Tape<T>& tape, const Tensor<T>& logits, std::span<const int32_t> labels, const T* log_sums, const T* dy,
              int64_t stride) {
  const int64_t classes = logits.columns();
  const GradientSlot<T> slot = tape.gradient_of(logits);
  for (int64_t row = 0; row < logits.rows(); ++row) {
    T* gradient = slot.values + row * classes;
    const int32_t label = labels[static_cast<size_t>(row)];
    if (label == kNoLabel) {
      if (!slot.add) std::fill_n(gradient, classes, T{0});
      continue;
    }
    const T upstream = dy[row * stride];
    kernels<T>().scaled_exp(logits.values + row * classes, log_sums[row], upstream, classes, slot.add, gradient);
    gradient[label] -= upstream;
  }
}

}  // namespace

template <typename T>
SummedLoss<T> cross_entropy(Tape<T>& tape, const Tensor<T>& logits, std::span<const int32_t> labels) {
  SummedLoss<T> loss{.tensor = tape.make({})};
  const T* log_sums = forward(tape, logits, labels, [&](int64_t, T value) {
    ++loss.num_labels;
    loss.sum += static_cast<double>(value);
  });
  *loss.tensor.values = static_cast<T>(loss.sum);
  tape.record({logits}, loss.tensor, [=](Tape<T>& t, const T* dy) { backward(t, logits, labels, log_sums, dy, 0); });
  return loss;
}

template <typename T>
Tensor<T> cross_entropy_rows(Tape<T>& tape, const Tensor<T>& logits, std::span<const int32_t> labels) {
  const Tensor<T> y = tape.make({logits.rows()});
  std::fill_n(y.values, y.count(), T{0});
  const T* log_sums = forward(tape, logits, labels, [&](int64_t row, T value) { y.values[row] = value; });
  tape.record({logits}, y, [=](Tape<T>& t, const T* dy) { backward(t, logits, labels, log_sums, dy, 1); });
  return y;
}

template SummedLoss<float> cross_entropy(Tape<float>&, const Tensor<float>&, std::span<const int32_t>);
template SummedLoss<double> cross_entropy(Tape<double>&, const Tensor<double>&, std::span<const int32_t>);
template Tensor<float> cross_entropy_rows(Tape<float>&, const Tensor<float>&, std::span<const int32_t>);
template Tensor<double> cross_entropy_rows(Tape<double>&, const Tensor<double>&, std::span<const int32_t>);

}  // namespace millrace
