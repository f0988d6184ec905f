#pragma once

#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

/// The parts of `kernels<T>()` for this processor, each from a file of its own. T is float or double.
template <typename T>
const ElementwiseKernels<T>& elementwise_kernels();
template <typename T>
const ActivationKernels<T>& activation_kernels();
template <typename T>
const RowKernels<T>& row_kernels();

template <>
const ElementwiseKernels<float>& elementwise_kernels<float>();
template <>
const ElementwiseKernels<double>& elementwise_kernels<double>();
template <>
const ActivationKernels<float>& activation_kernels<float>();
template <>
const ActivationKernels<double>& activation_kernels<double>();
template <>
const RowKernels<float>& row_kernels<float>();
template <>
const RowKernels<double>& row_kernels<double>();

}  // namespace millrace
