#include "millrace/trainer/tensor/convolution.h"

#include <type_traits>

#include "millrace/trainer/tensor/convolution_patches.h"
#ifdef MILLRACE_HAVE_ONEDNN_CONVOLUTIONS
#include "millrace/trainer/tensor/convolution_onednn.h"
#endif

namespace millrace {

template <typename T>
void convolve(const Convolution& sizes, const T* x, const T* kernel, T* y, Arena& arena) {
#ifdef MILLRACE_HAVE_ONEDNN_CONVOLUTIONS
  if constexpr (std::is_same_v<T, float>) {
    if (sizes.output_count() != 0 && convolve_onednn(sizes, x, kernel, y, arena)) return;
  }
#endif
  convolve_by_patches(sizes, x, kernel, y, arena);
}

template <typename T>
void convolution_input_gradient(const Convolution& sizes, const T* dy, const T* kernel, bool add, T* dx, Arena& arena) {
#ifdef MILLRACE_HAVE_ONEDNN_CONVOLUTIONS
  if constexpr (std::is_same_v<T, float>) {
    if (sizes.output_count() != 0 && input_gradient_onednn(sizes, dy, kernel, add, dx, arena)) return;
  }
#endif
  input_gradient_by_patches(sizes, dy, kernel, add, dx, arena);
}

template <typename T>
void convolution_kernel_gradient(const Convolution& sizes, const T* x, const T* dy, bool add, T* dkernel,
                                 Arena& arena) {
#ifdef MILLRACE_HAVE_ONEDNN_CONVOLUTIONS
  if constexpr (std::is_same_v<T, float>) {
    if (sizes.output_count() != 0 && kernel_gradient_onednn(sizes, x, dy, add, dkernel, arena)) return;
  }
#endif
  kernel_gradient_by_patches(sizes, x, dy, add, dkernel, arena);
}

template void convolve(const Convolution&, const float*, const float*, float*, Arena&);
template void convolve(const Convolution&, const double*, const double*, double*, Arena&);
template void convolution_input_gradient(const Convolution&, const float*, const float*, bool, float*, Arena&);
template void convolution_input_gradient(const Convolution&, const double*, const double*, bool, double*, Arena&);
template void convolution_kernel_gradient(const Convolution&, const float*, const float*, bool, float*, Arena&);
template void convolution_kernel_gradient(const Convolution&, const double*, const double*, bool, double*, Arena&);

}  // namespace millrace
