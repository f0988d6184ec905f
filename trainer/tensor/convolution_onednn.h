#pragma once

#include "millrace/trainer/tensor/convolution.h"

namespace millrace {

/// `convolve` and its gradients in float32 by oneDNN, on the calling thread, whose signals wait until it is done (but
/// for faults). Each gives false, and has written nothing, where oneDNN has nothing but its reference for these sizes.
/// What it compiles for a processor and sizes is kept for the process's life, for some hundred sizes. Throws
/// std::runtime_error when the library fails.
bool convolve_onednn(const Convolution& sizes, const float* x, const float* kernel, float* y, Arena& arena);
bool input_gradient_onednn(const Convolution& sizes, const float* dy, const float* kernel, bool add, float* dx,
                           Arena& arena);
bool kernel_gradient_onednn(const Convolution& sizes, const float* x, const float* dy, bool add, float* dkernel,
                            Arena& arena);

}  // namespace millrace
