// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/trainer/tensor/kernels/norms_and_softmax.cc"
#include <algorithm>
#include <cmath>
#include <limits>

#include "millrace/trainer/tensor/kernels/tables.h"

// The first of these includes this file again for each instruction set; the others follow it.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
#include "millrace/trainer/tensor/kernels/vector_loops-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// The sum of function(x[i]...) over n values.
template <typename T, typename Function, typename... Inputs>
HWY_ATTR HWY_INLINE T sum_of(int64_t n, const Function& function, const Inputs*... x) {
  const Tag<T> d;
  auto sum = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes<T>() <= n; i += 2 * lanes<T>()) {
    sum = hn::Add(sum, function(hn::LoadU(d, x + i)...));
    sum2 = hn::Add(sum2, function(hn::LoadU(d, x + i + lanes<T>())...));
  }
  for (; i + lanes<T>() <= n; i += lanes<T>()) sum = hn::Add(sum, function(hn::LoadU(d, x + i)...));
  T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, sum2)));
  if (i < n) {
    HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
    hn::Store(function(load_rest(x + i, n - i)...), d, buffer);
    for (int64_t rest = 0; rest < n - i; ++rest) total += buffer[rest];
  }
  return total;
}

// NaN when one of the values is: Highway's Max and Exp lose it, so what is made of them has it from here.
template <typename T>
HWY_ATTR T max_of(const T* x, int64_t n) {
  const Tag<T> d;
  auto max = hn::Set(d, x[0]);
  auto nan = hn::IsNaN(max);
  auto max2 = max;
  int64_t i = 0;
  for (; i + 2 * lanes<T>() <= n; i += 2 * lanes<T>()) {
    const auto v = hn::LoadU(d, x + i);
    const auto v2 = hn::LoadU(d, x + i + lanes<T>());
    max = hn::Max(max, v);
    max2 = hn::Max(max2, v2);
    nan = hn::Or(nan, hn::Or(hn::IsNaN(v), hn::IsNaN(v2)));
  }
  max = hn::Max(max, max2);
  for (; i + lanes<T>() <= n; i += lanes<T>()) {
    const auto v = hn::LoadU(d, x + i);
    max = hn::Max(max, v);
    nan = hn::Or(nan, hn::IsNaN(v));
  }
  if (!hn::AllFalse(d, nan)) return std::numeric_limits<T>::quiet_NaN();
  T result = hn::GetLane(hn::MaxOfLanes(d, max));
  for (; i < n; ++i) {
    if (std::isnan(x[i])) return x[i];
    result = std::max(result, x[i]);
  }
  return result;
}

template <typename T>
HWY_ATTR void RmsNorm(const T* x, const T* gamma, int64_t rows, int64_t columns, T epsilon, T* inverse_root, T* y) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* in = x + row * columns;
    const T squares = sum_of<T>(
        columns, [](auto v) HWY_ATTR { return hn::Mul(v, v); }, in);
    inverse_root[row] = 1 / std::sqrt(squares / static_cast<T>(columns) + epsilon);
    const auto inverse = hn::Set(Tag<T>(), inverse_root[row]);
    transform(
        columns, false, y + row * columns, [&](auto v, auto g) HWY_ATTR { return hn::Mul(hn::Mul(v, inverse), g); }, in,
        gamma);
  }
}

template <typename T>
HWY_ATTR void RmsNormBackward(const T* x, const T* inverse_root, const T* gamma, const T* dy, int64_t rows,
                              int64_t columns, bool add, T* dx, T* dgamma) {
  const Tag<T> d;
  for (int64_t row = 0; row < rows; ++row) {
    const T* v = x + row * columns;
    const T* dv = dy + row * columns;
    const T inverse = inverse_root[row];
    const auto triple = [](auto g, auto a, auto b) HWY_ATTR { return hn::Mul(hn::Mul(g, a), b); };
    const T slope = sum_of<T>(columns, triple, gamma, dv, v) * inverse * inverse / static_cast<T>(columns);
    const auto by = hn::Set(d, inverse);
    const auto less = hn::Set(d, slope);
    transform(
        columns, add, dx + row * columns,
        [&](auto g, auto a, auto b) HWY_ATTR { return hn::Mul(by, hn::NegMulAdd(b, less, hn::Mul(g, a))); }, gamma, dv,
        v);
    transform(
        columns, true, dgamma, [&](auto a, auto b) HWY_ATTR { return hn::Mul(hn::Mul(a, b), by); }, dv, v);
  }
}

template <typename T>
HWY_ATTR void LayerNorm(const T* x, const T* gamma, const T* beta, int64_t rows, int64_t columns, T epsilon,
                        T* normalized, T* inverse_deviation, T* y) {
  const Tag<T> d;
  const T count = static_cast<T>(columns);
  for (int64_t row = 0; row < rows; ++row) {
    const T* in = x + row * columns;
    T* out = normalized + row * columns;
    const auto mean = hn::Set(d, sum_of<T>(
                                     columns, [](auto v) HWY_ATTR { return v; }, in) /
                                     count);
    const auto square = [&](auto v) HWY_ATTR {
      const auto centred = hn::Sub(v, mean);
      return hn::Mul(centred, centred);
    };
    const T variance = sum_of<T>(columns, square, in) / count;
    inverse_deviation[row] = 1 / std::sqrt(variance + epsilon);
    const auto inverse = hn::Set(d, inverse_deviation[row]);
    transform(
        columns, false, out, [&](auto v) HWY_ATTR { return hn::Mul(hn::Sub(v, mean), inverse); }, in);
    transform(
        columns, false, y + row * columns, [](auto v, auto g, auto b) HWY_ATTR { return hn::MulAdd(v, g, b); },
        static_cast<const T*>(out), gamma, beta);
  }
}

template <typename T>
HWY_ATTR void LayerNormBackward(const T* normalized, const T* inverse_deviation, const T* gamma, const T* dy,
                                int64_t rows, int64_t columns, bool add, T* dx, T* dgamma, T* dbeta) {
  const Tag<T> d;
  const T count = static_cast<T>(columns);
  for (int64_t row = 0; row < rows; ++row) {
    const T* v = normalized + row * columns;
    const T* dv = dy + row * columns;
    const auto product = [](auto g, auto a) HWY_ATTR { return hn::Mul(g, a); };
    const auto triple = [](auto g, auto a, auto b) HWY_ATTR { return hn::Mul(hn::Mul(g, a), b); };
    const auto mean = hn::Set(d, sum_of<T>(columns, product, gamma, dv) / count);
    const auto slope = hn::Set(d, sum_of<T>(columns, triple, gamma, dv, v) / count);
    const auto inverse = hn::Set(d, inverse_deviation[row]);
    const auto gradient = [&](auto g, auto a, auto b)
                              HWY_ATTR { return hn::Mul(inverse, hn::NegMulAdd(b, slope, hn::MulSub(g, a, mean))); };
    transform(columns, add, dx + row * columns, gradient, gamma, dv, v);
    transform(columns, true, dgamma, product, dv, v);
    AddTo(dv, columns, dbeta);
  }
}

// 0 for NaN.
template <typename T>
HWY_ATTR HWY_INLINE hn::Vec<Tag<T>> exp_of(hn::Vec<Tag<T>> x) {
  return hn::Exp(Tag<T>(), x);
}

template <typename T>
HWY_ATTR void Softmax(int64_t rows, int64_t columns, T* x) {
  const Tag<T> d;
  for (int64_t row = 0; row < rows; ++row) {
    T* values = x + row * columns;
    const auto max = hn::Set(d, max_of<T>(values, columns));
    transform(
        columns, false, values, [&](auto v) HWY_ATTR { return exp_of<T>(hn::Sub(v, max)); },
        static_cast<const T*>(values));
    // 0 where a value is NaN or all are -inf: the row becomes NaN.
    const T sum = sum_of<T>(
        columns, [](auto v) HWY_ATTR { return v; }, static_cast<const T*>(values));
    const auto inverse = hn::Set(d, 1 / sum);
    transform(
        columns, false, values, [&](auto v) HWY_ATTR { return hn::Mul(v, inverse); }, static_cast<const T*>(values));
  }
}

template <typename T>
HWY_ATTR void SoftmaxBackward(const T* p, const T* dp, int64_t rows, int64_t columns, T* dx) {
  const Tag<T> d;
  for (int64_t row = 0; row < rows; ++row) {
    const T* probabilities = p + row * columns;
    const T* gradients = dp + row * columns;
    const auto product = [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); };
    const auto mean = hn::Set(d, sum_of<T>(columns, product, probabilities, gradients));
    transform(
        columns, false, dx + row * columns, [&](auto a, auto b) HWY_ATTR { return hn::Mul(a, hn::Sub(b, mean)); },
        probabilities, gradients);
  }
}

template <typename T>
HWY_ATTR T LogSumExp(const T* x, int64_t n) {
  const T max = max_of<T>(x, n);
  const auto shift = hn::Set(Tag<T>(), max);
  return max + std::log(sum_of<T>(
                   n, [&](auto v) HWY_ATTR { return exp_of<T>(hn::Sub(v, shift)); }, x));
}

template <typename T>
HWY_ATTR void ScaledExp(const T* x, T log_sum, T scale, int64_t n, bool add, T* dx) {
  const auto shift = hn::Set(Tag<T>(), log_sum);
  const auto factor = hn::Set(Tag<T>(), std::isnan(log_sum) ? log_sum : scale);
  transform(
      n, add, dx, [&](auto v) HWY_ATTR { return hn::Mul(factor, exp_of<T>(hn::Sub(v, shift))); }, x);
}

template <typename T>
constexpr RowKernels<T> kRowsTable = {.layer_norm = &LayerNorm<T>,
                                      .layer_norm_backward = &LayerNormBackward<T>,
                                      .rms_norm = &RmsNorm<T>,
                                      .rms_norm_backward = &RmsNormBackward<T>,
                                      .softmax = &Softmax<T>,
                                      .softmax_backward = &SoftmaxBackward<T>,
                                      .log_sum_exp = &LogSumExp<T>,
                                      .scaled_exp = &ScaledExp<T>};

const RowKernels<float>* FloatRows() { return &kRowsTable<float>; }
const RowKernels<double>* DoubleRows() { return &kRowsTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(FloatRows);
HWY_EXPORT(DoubleRows);

template <>
const RowKernels<float>& row_kernels<float>() {
  return *HWY_DYNAMIC_DISPATCH(FloatRows)();
}

template <>
const RowKernels<double>& row_kernels<double>() {
  return *HWY_DYNAMIC_DISPATCH(DoubleRows)();
}

}  // namespace millrace
#endif
