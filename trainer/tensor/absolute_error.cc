#include "millrace/trainer/tensor/absolute_error.h"

#include <cmath>

#include "millrace/trainer/tensor/difference_loss.h"

namespace millrace {

template <typename T>
Tensor<T> absolute_error(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target) {
  return difference_loss(
      tape, "target of absolute_error", x, target, [](T difference) { return std::abs(difference); },
      [](T difference) { return static_cast<T>((difference > 0 ? 1 : 0) - (difference < 0 ? 1 : 0)); });
}

template Tensor<float> absolute_error(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> absolute_error(Tape<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace
