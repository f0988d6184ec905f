#include "millrace/trainer/tensor/squared_error.h"

#include "millrace/trainer/tensor/difference_loss.h"

namespace millrace {

template <typename T>
Tensor<T> squared_error(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target) {
  return difference_loss(
      tape, "target of squared_error", x, target, [](T difference) { return difference * difference; },
      [](T difference) { return 2 * difference; });
}

template Tensor<float> squared_error(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> squared_error(Tape<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace
