#include "millrace/trainer/tensor/kernels.h"

#include "millrace/trainer/tensor/kernels/tables.h"

namespace millrace {

template <typename T>
const Kernels<T>& kernels() {
  static const Kernels<T> table{elementwise_kernels<T>(), activation_kernels<T>(), row_kernels<T>()};
  return table;
}

template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

}  // namespace millrace
