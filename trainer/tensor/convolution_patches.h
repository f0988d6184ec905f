#pragma once

#include "millrace/trainer/tensor/convolution.h"

namespace millrace {

/// `convolve` and its gradients where oneDNN does not do it: products of patches ("im2col"), a tile that stays in the
/// cache at a time, by `gemm`; depthwise, loops over the channels. T is float or double.
template <typename T>
void convolve_by_patches(const Convolution& sizes, const T* x, const T* kernel, T* y, Arena& arena);
template <typename T>
void input_gradient_by_patches(const Convolution& sizes, const T* dy, const T* kernel, bool add, T* dx, Arena& arena);
template <typename T>
void kernel_gradient_by_patches(const Convolution& sizes, const T* x, const T* dy, bool add, T* dkernel, Arena& arena);

}  // namespace millrace
