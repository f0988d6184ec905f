// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/trainer/tensor/kernels/activations.cc"
#include <cmath>
#include <type_traits>

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

// A value and the slope of the function there.
template <typename V>
struct WithSlope {
  V value;
  V slope;
};

// y[i], slope[i] = function(x[i]), vector by vector.
template <typename T, typename Function>
HWY_ATTR HWY_INLINE void transform_with_slope(const T* x, int64_t n, T* y, T* slope, const Function& function) {
  const Tag<T> d;
  int64_t i = 0;
  for (; i + lanes<T>() <= n; i += lanes<T>()) {
    const auto found = function(hn::LoadU(d, x + i));
    hn::StoreU(found.value, d, y + i);
    hn::StoreU(found.slope, d, slope + i);
  }
  if (i == n) return;
  const auto found = function(load_rest(x + i, n - i));
  store_rest(found.value, y + i, n - i);
  store_rest(found.slope, slope + i, n - i);
}

// The normal distribution: Phi(x), and phi(x) = exp(-x^2 / 2) / sqrt(2 pi) which comes with it.
template <typename V>
struct Normal {
  V cumulative;
  V density;
};

template <typename T, typename V>
HWY_ATTR HWY_INLINE Normal<V> normal(V x) {
  const Tag<T> d;
  constexpr double kInverseRoot2Pi = 0.39894228040143267794;
  if constexpr (std::is_same_v<T, double>) {  // exact, for checks; speed does not matter
    HWY_ALIGN T values[HWY_MAX_BYTES / sizeof(T)] = {};
    HWY_ALIGN T density[HWY_MAX_BYTES / sizeof(T)] = {};
    hn::Store(x, d, values);
    for (size_t i = 0; i < hn::Lanes(d); ++i) {
      density[i] = std::exp(-values[i] * values[i] / 2) * kInverseRoot2Pi;
      values[i] = std::erfc(-values[i] * 0.70710678118654752440) / 2;
    }
    return {hn::Load(d, values), hn::Load(d, density)};
  } else {
    // Phi(x) = 1 - density(x) (b1 t + ... + b5 t^5) for x >= 0, with t = 1 / (1 + p x); 7.1.26 in the form of the
    // cumulative distribution. For x < 0 it is 1 - Phi(-x), without cancellation.
    const auto set = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<T>(value)); };
    const auto magnitude = hn::Abs(x);
    const auto e = hn::Exp(d, hn::Mul(hn::Mul(x, x), set(-0.5)));
    const auto t = hn::Div(set(1), hn::MulAdd(magnitude, set(0.3275911 * 0.70710678118654752440), set(1)));
    auto p = hn::MulAdd(t, set(1.061405429), set(-1.453152027));
    p = hn::MulAdd(p, t, set(1.421413741));
    p = hn::MulAdd(p, t, set(-0.284496736));
    p = hn::MulAdd(p, t, set(0.254829592));
    const auto tail = hn::Mul(hn::Mul(hn::Mul(p, t), e), set(0.5));
    const auto cumulative = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(set(1), tail));
    return {cumulative, hn::Mul(e, set(kInverseRoot2Pi))};
  }
}

template <typename T>
HWY_ATTR void Gelu(const T* x, int64_t n, T* y) {
  transform(
      n, false, y, [](auto v) HWY_ATTR { return hn::Mul(v, normal<T>(v).cumulative); }, x);
}

template <typename T, typename V>
HWY_ATTR HWY_INLINE WithSlope<V> gelu_of(V v) {
  const auto distribution = normal<T>(v);
  return {hn::Mul(v, distribution.cumulative), hn::MulAdd(v, distribution.density, distribution.cumulative)};
}

template <typename T>
HWY_ATTR void GeluBackward(const T* x, const T* dy, int64_t n, bool add, T* dx) {
  transform(
      n, add, dx, [](auto v, auto dv) HWY_ATTR { return hn::Mul(dv, gelu_of<T>(v).slope); }, x, dy);
}

template <typename T>
HWY_ATTR void GeluWithSlope(const T* x, int64_t n, T* y, T* slope) {
  transform_with_slope(x, n, y, slope, [](auto v) HWY_ATTR { return gelu_of<T>(v); });
}

// What the approximation of GELU takes tanh of.
template <typename T, typename V>
HWY_ATTR HWY_INLINE V gelu_argument(V x) {
  const Tag<T> d;
  const auto cubic = hn::Mul(hn::Mul(x, x), hn::Set(d, static_cast<T>(0.044715)));
  return hn::Mul(hn::MulAdd(cubic, x, x), hn::Set(d, static_cast<T>(0.79788456080286535588)));
}

template <typename T>
HWY_ATTR HWY_INLINE hn::Vec<Tag<T>> tanh_of(hn::Vec<Tag<T>> x) {
  return hn::Tanh(Tag<T>(), x);
}

template <typename T, typename V>
HWY_ATTR HWY_INLINE WithSlope<V> gelu_tanh_of(V v) {
  const Tag<T> d;
  const auto half = hn::Set(d, T{0.5});
  const auto root = hn::Set(d, static_cast<T>(0.79788456080286535588));
  const auto t = tanh_of<T>(gelu_argument<T>(v));
  const auto square = hn::Mul(hn::Mul(v, v), hn::Set(d, static_cast<T>(3 * 0.044715)));
  const auto rest = hn::Mul(hn::Mul(hn::NegMulAdd(t, t, hn::Set(d, T{1})), hn::MulAdd(square, root, root)), v);
  return {hn::Mul(v, hn::MulAdd(t, half, half)), hn::MulAdd(hn::Add(t, rest), half, half)};
}

template <typename T>
HWY_ATTR void GeluTanh(const T* x, int64_t n, T* y) {
  transform(
      n, false, y, [](auto v) HWY_ATTR { return gelu_tanh_of<T>(v).value; }, x);
}

template <typename T>
HWY_ATTR void GeluTanhBackward(const T* x, const T* dy, int64_t n, bool add, T* dx) {
  transform(
      n, add, dx, [](auto v, auto dv) HWY_ATTR { return hn::Mul(dv, gelu_tanh_of<T>(v).slope); }, x, dy);
}

template <typename T>
HWY_ATTR void GeluTanhWithSlope(const T* x, int64_t n, T* y, T* slope) {
  transform_with_slope(x, n, y, slope, [](auto v) HWY_ATTR { return gelu_tanh_of<T>(v); });
}

template <typename T>
HWY_ATTR void ReluWithSlope(const T* x, int64_t n, T* y, T* slope) {
  const Tag<T> d;
  const auto one = hn::Set(d, T{1});
  transform_with_slope(x, n, y, slope, [&](auto v) HWY_ATTR {
    const auto off = hn::Le(v, hn::Zero(d));  // not for NaN
    return WithSlope<decltype(v)>{hn::IfThenZeroElse(off, v), hn::IfThenZeroElse(off, one)};
  });
}

template <typename T>
HWY_ATTR void Relu(const T* x, T slope, int64_t n, T* y) {
  const Tag<T> d;
  if (slope == 0) {  // also of what is infinite
    transform(
        n, false, y, [&](auto v) HWY_ATTR { return hn::IfThenZeroElse(hn::Le(v, hn::Zero(d)), v); }, x);
    return;
  }
  const auto factor = hn::Set(d, slope);
  transform(
      n, false, y, [&](auto v) HWY_ATTR { return hn::IfThenElse(hn::Gt(v, hn::Zero(d)), v, hn::Mul(v, factor)); }, x);
}

template <typename T>
HWY_ATTR void ReluBackward(const T* x, T slope, const T* dy, int64_t n, bool add, T* dx) {
  const Tag<T> d;
  if (slope == 0) {
    transform(
        n, add, dx, [&](auto v, auto dv) HWY_ATTR { return hn::IfThenZeroElse(hn::Le(v, hn::Zero(d)), dv); }, x, dy);
    return;
  }
  const auto factor = hn::Set(d, slope);
  transform(
      n, add, dx,
      [&](auto v, auto dv) HWY_ATTR { return hn::IfThenElse(hn::Gt(v, hn::Zero(d)), dv, hn::Mul(dv, factor)); }, x, dy);
}

// exp of what is not positive, so that nothing overflows. That of NaN is 0.
template <typename T>
HWY_ATTR HWY_INLINE hn::Vec<Tag<T>> sigmoid_of(hn::Vec<Tag<T>> v) {
  const Tag<T> d;
  const auto one = hn::Set(d, T{1});
  const auto e = hn::Exp(d, hn::Neg(hn::Abs(v)));
  const auto number = hn::Div(hn::IfThenElse(hn::Lt(v, hn::Zero(d)), e, one), hn::Add(one, e));
  return hn::IfThenElse(hn::IsNaN(v), v, number);
}

template <typename T>
HWY_ATTR void Sigmoid(const T* x, int64_t n, T* y) {
  transform(
      n, false, y, [](auto v) HWY_ATTR { return sigmoid_of<T>(v); }, x);
}

template <typename T>
HWY_ATTR void SiluWithSlope(const T* x, int64_t n, T* y, T* slope) {
  const auto one = hn::Set(Tag<T>(), T{1});
  transform_with_slope(x, n, y, slope, [&](auto v) HWY_ATTR {
    const auto s = sigmoid_of<T>(v);
    return WithSlope<decltype(v)>{hn::Mul(v, s), hn::Mul(s, hn::MulAdd(v, hn::Sub(one, s), one))};
  });
}

template <typename T>
HWY_ATTR void SigmoidBackward(const T* y, const T* dy, int64_t n, bool add, T* dx) {
  transform(
      n, add, dx, [](auto v, auto dv) HWY_ATTR { return hn::Mul(dv, hn::NegMulAdd(v, v, v)); }, y, dy);
}

template <typename T>
HWY_ATTR void Tanh(const T* x, int64_t n, T* y) {
  transform(
      n, false, y, [](auto v) HWY_ATTR { return tanh_of<T>(v); }, x);
}

template <typename T>
HWY_ATTR void TanhBackward(const T* y, const T* dy, int64_t n, bool add, T* dx) {
  const auto one = hn::Set(Tag<T>(), T{1});
  transform(
      n, add, dx, [&](auto v, auto dv) HWY_ATTR { return hn::Mul(dv, hn::NegMulAdd(v, v, one)); }, y, dy);
}

template <typename T>
constexpr ActivationKernels<T> kActivationsTable = {.gelu = &Gelu<T>,
                                                    .gelu_backward = &GeluBackward<T>,
                                                    .gelu_tanh = &GeluTanh<T>,
                                                    .gelu_tanh_backward = &GeluTanhBackward<T>,
                                                    .relu_with_slope = &ReluWithSlope<T>,
                                                    .gelu_with_slope = &GeluWithSlope<T>,
                                                    .gelu_tanh_with_slope = &GeluTanhWithSlope<T>,
                                                    .silu_with_slope = &SiluWithSlope<T>,
                                                    .relu = &Relu<T>,
                                                    .relu_backward = &ReluBackward<T>,
                                                    .sigmoid = &Sigmoid<T>,
                                                    .sigmoid_backward = &SigmoidBackward<T>,
                                                    .tanh = &Tanh<T>,
                                                    .tanh_backward = &TanhBackward<T>};

const ActivationKernels<float>* FloatActivations() { return &kActivationsTable<float>; }
const ActivationKernels<double>* DoubleActivations() { return &kActivationsTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(FloatActivations);
HWY_EXPORT(DoubleActivations);

template <>
const ActivationKernels<float>& activation_kernels<float>() {
  return *HWY_DYNAMIC_DISPATCH(FloatActivations)();
}

template <>
const ActivationKernels<double>& activation_kernels<double>() {
  return *HWY_DYNAMIC_DISPATCH(DoubleActivations)();
}

}  // namespace millrace
#endif
