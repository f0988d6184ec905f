#pragma once

#include "millrace/trainer/tensor/gemm_eigen.h"

namespace millrace {

/// oneDNN's product, on the calling thread, whose signals wait until it is done (but for faults). Throws
/// std::runtime_error when the library refuses the arguments.
void gemm_onednn(const GemmArguments<float>& arguments);

}  // namespace millrace
