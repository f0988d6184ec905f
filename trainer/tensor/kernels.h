#pragma once

#include <cstdint>

namespace millrace {

/// Value by value, and row by row of a bias.
template <typename T>
struct ElementwiseKernels {
  /// `y += x`, n values.
  void (*add)(const T* x, int64_t n, T* y);
  /// `y (+)= factor x`, n values; `y` may be `x`.
  void (*scale)(const T* x, T factor, int64_t n, bool add, T* y);
  /// `z (+)= x y`, value by value, n values; `z` may be `x` or `y`.
  void (*multiply)(const T* x, const T* y, int64_t n, bool add, T* z);
  /// Each row of `y` becomes `row`.
  void (*fill_rows)(const T* row, int64_t rows, int64_t columns, T* y);
  /// `row` is added to each row of `y`.
  void (*add_row)(const T* row, int64_t rows, int64_t columns, T* y);
  /// `sums[j] (+)= sum over rows of x[i, j]`.
  void (*column_sums)(const T* x, int64_t rows, int64_t columns, bool add, T* sums);
  /// Bit i of `bits` (the lowest of a byte first, (n + 7) / 8 bytes) says whether `words[i] >= threshold`.
  void (*at_least)(const uint32_t* words, uint32_t threshold, int64_t n, uint8_t* bits);
  /// `y[i] = base[i] + (bit i ? scale x[i] : 0)`, n values. `base` null: 0. Any of them may be the same memory.
  void (*dropout)(const T* x, const uint8_t* bits, T scale, const T* base, int64_t n, T* y);
  /// The nearest bfloat16 of each of n values, ties to even, NaN to NaN; and back.
  void (*to_bfloat16)(const T* x, int64_t n, uint16_t* y);
  void (*from_bfloat16)(const uint16_t* x, int64_t n, T* y);
};

/// Functions of single values, and their gradients.
template <typename T>
struct ActivationKernels {
  /// Gaussian error linear unit, `y = x Phi(x)` with the exact error function (arXiv 1606.08415); the float form uses
  /// a polynomial with an error below 2e-7 (Abramowitz and Stegun, 7.1.26).
  void (*gelu)(const T* x, int64_t n, T* y);
  /// `dx (+)= dy (Phi(x) + x phi(x))`.
  void (*gelu_backward)(const T* x, const T* dy, int64_t n, bool add, T* dx);
  /// Its approximation `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, and the gradient of that.
  void (*gelu_tanh)(const T* x, int64_t n, T* y);
  void (*gelu_tanh_backward)(const T* x, const T* dy, int64_t n, bool add, T* dx);
  /// `y = f(x)` and `slope = f'(x)`, n values, for the rectified linear unit, both forms of GELU, and the sigmoid
  /// linear unit `x / (1 + exp(-x))`; `slope` may be `x`.
  void (*relu_with_slope)(const T* x, int64_t n, T* y, T* slope);
  void (*gelu_with_slope)(const T* x, int64_t n, T* y, T* slope);
  void (*gelu_tanh_with_slope)(const T* x, int64_t n, T* y, T* slope);
  void (*silu_with_slope)(const T* x, int64_t n, T* y, T* slope);
  /// `y = x > 0 ? x : slope x` (with a slope of 0 that is 0, of -inf too), and its gradient, which at 0 is `slope dy`.
  void (*relu)(const T* x, T slope, int64_t n, T* y);
  void (*relu_backward)(const T* x, T slope, const T* dy, int64_t n, bool add, T* dx);
  /// `y = 1 / (1 + exp(-x))`, and its gradient from its result.
  void (*sigmoid)(const T* x, int64_t n, T* y);
  void (*sigmoid_backward)(const T* y, const T* dy, int64_t n, bool add, T* dx);
  /// `y = tanh(x)`, and its gradient from its result.
  void (*tanh)(const T* x, int64_t n, T* y);
  void (*tanh_backward)(const T* y, const T* dy, int64_t n, bool add, T* dx);
};

/// What needs the sum or the maximum of a row.
template <typename T>
struct RowKernels {
  /// Each row less its mean, divided by its standard deviation: `normalized[i, j] = (x[i, j] - mean_i) / sqrt(var_i +
  /// epsilon)`, `y = gamma * normalized + beta` (arXiv 1607.06450). `inverse_deviation` is `[rows]`. `x` may be
  /// `normalized`.
  void (*layer_norm)(const T* x, const T* gamma, const T* beta, int64_t rows, int64_t columns, T epsilon, T* normalized,
                     T* inverse_deviation, T* y);
  /// `dx (+)=` the gradient of `layer_norm`. `dgamma` and `dbeta`, `[columns]`, are always added to.
  void (*layer_norm_backward)(const T* normalized, const T* inverse_deviation, const T* gamma, const T* dy,
                              int64_t rows, int64_t columns, bool add, T* dx, T* dgamma, T* dbeta);
  /// Each row divided by its root mean square: `y[i, j] = gamma[j] x[i, j] inverse_root[i]` with `inverse_root[i] = 1 /
  /// sqrt(mean_j(x[i, j]^2) + epsilon)`, `[rows]` (arXiv 1910.07467).
  void (*rms_norm)(const T* x, const T* gamma, int64_t rows, int64_t columns, T epsilon, T* inverse_root, T* y);
  /// `dx (+)=` the gradient of `rms_norm`. `dgamma`, `[columns]`, is always added to.
  void (*rms_norm_backward)(const T* x, const T* inverse_root, const T* gamma, const T* dy, int64_t rows,
                            int64_t columns, bool add, T* dx, T* dgamma);
  /// Each row becomes its softmax, in place.
  void (*softmax)(int64_t rows, int64_t columns, T* x);
  /// `dx = p (dp - sum_j p_j dp_j)` for each row of probabilities p; `dx` may be `dp`.
  void (*softmax_backward)(const T* p, const T* dp, int64_t rows, int64_t columns, T* dx);
  /// The logarithm of the sum of exponentials of `n` > 0 values.
  T (*log_sum_exp)(const T* x, int64_t n);
  /// `dx[i] (+)= scale exp(x[i] - log_sum)`.
  void (*scaled_exp)(const T* x, T log_sum, T scale, int64_t n, bool add, T* dx);
};

/// The loops of the tensor operators, for T = float or double, each for one thread: compiled for every instruction set
/// that Highway knows here, chosen at run time. Matrices are row-major without gaps, `[rows, columns]`. `add` says
/// whether a result is added to what is there or written over it. Sums are in an order that depends on the sizes and
/// the instruction set only. NaN gives NaN: whether a step was finite is seen from its losses and gradients.
template <typename T>
struct Kernels : ElementwiseKernels<T>, ActivationKernels<T>, RowKernels<T> {};

/// The table for this processor. T is float or double.
template <typename T>
const Kernels<T>& kernels();

}  // namespace millrace
