// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/tensor/kernels.cc"
#include "trainer/tensor/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

// The first of these includes this file again for each instruction set; the others follow it.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;

template <typename T>
int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(Tag<T>()));
}

// One vector of `count` values and zeros behind them, so that a rest goes through the same arithmetic as the others.
template <typename T>
HWY_ATTR HWY_INLINE hn::Vec<Tag<T>> load_rest(const T* x, int64_t count) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(buffer, x, static_cast<size_t>(count) * sizeof(T));
  return hn::Load(Tag<T>(), buffer);
}
template <typename T>
HWY_ATTR HWY_INLINE void store_rest(hn::Vec<Tag<T>> values, T* x, int64_t count) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
  hn::Store(values, Tag<T>(), buffer);
  std::memcpy(x, buffer, static_cast<size_t>(count) * sizeof(T));
}

// y[i] (+)= function(x[i]...), vector by vector. `function` takes and gives vectors.
template <typename T, typename Function, typename... Inputs>
HWY_ATTR HWY_INLINE void transform(int64_t n, bool add, T* y, const Function& function, const Inputs*... x) {
  const Tag<T> d;
  int64_t i = 0;
  if (add) {
    for (; i + lanes<T>() <= n; i += lanes<T>()) {
      hn::StoreU(hn::Add(hn::LoadU(d, y + i), function(hn::LoadU(d, x + i)...)), d, y + i);
    }
  } else {
    for (; i + lanes<T>() <= n; i += lanes<T>()) hn::StoreU(function(hn::LoadU(d, x + i)...), d, y + i);
  }
  if (i == n) return;
  auto rest = function(load_rest(x + i, n - i)...);
  if (add) rest = hn::Add(load_rest(y + i, n - i), rest);
  store_rest(rest, y + i, n - i);
}

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
HWY_ATTR void AddTo(const T* x, int64_t n, T* y) {
  transform(
      n, true, y, [](auto v) HWY_ATTR { return v; }, x);
}

template <typename T>
HWY_ATTR void Scale(const T* x, T factor, int64_t n, bool add, T* y) {
  const auto by = hn::Set(Tag<T>(), factor);
  transform(
      n, add, y, [&](auto v) HWY_ATTR { return hn::Mul(v, by); }, x);
}

template <typename T>
HWY_ATTR void Multiply(const T* x, const T* y, int64_t n, bool add, T* z) {
  transform(
      n, add, z, [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); }, x, y);
}

template <typename T>
void FillRows(const T* row, int64_t rows, int64_t columns, T* y) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(row, columns, y + i * columns);
}

template <typename T>
HWY_ATTR void AddRow(const T* row, int64_t rows, int64_t columns, T* y) {
  for (int64_t i = 0; i < rows; ++i) AddTo(row, columns, y + i * columns);
}

template <typename T>
HWY_ATTR void ColumnSums(const T* x, int64_t rows, int64_t columns, bool add, T* sums) {
  if (!add) std::fill_n(sums, columns, T{0});
  int64_t i = 0;
  // Four rows at once: the sums are read and written once for them.
  for (; i + 4 <= rows; i += 4) {
    const T* first = x + i * columns;
    transform(
        columns, true, sums,
        [](auto a, auto b, auto c, auto d) HWY_ATTR { return hn::Add(hn::Add(a, b), hn::Add(c, d)); }, first,
        first + columns, first + 2 * columns, first + 3 * columns);
  }
  for (; i < rows; ++i) AddTo(x + i * columns, columns, sums);
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

// Vectors of floats have 4, 8 or 16 lanes here, so that those of 8 values fill whole bytes.
template <typename T>
HWY_ATTR void AtLeast(const uint32_t* words, uint32_t threshold, int64_t n, uint8_t* bits) {
  const hn::ScalableTag<uint32_t> d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, threshold);
  int64_t i = 0;
  if (width % 8 == 0) {
    for (; i + width <= n; i += width) {
      uint8_t some[8];
      hn::StoreMaskBits(d, hn::Not(hn::Lt(hn::LoadU(d, words + i), limit)), some);
      std::memcpy(bits + i / 8, some, static_cast<size_t>(width / 8));
    }
  }
  for (; i < n; i += 8) {
    unsigned byte = 0;
    for (int64_t bit = 0; bit < std::min<int64_t>(8, n - i); ++bit) {
      byte |= (words[i + bit] >= threshold ? 1U : 0U) << static_cast<unsigned>(bit);
    }
    bits[i / 8] = static_cast<uint8_t>(byte);
  }
}

template <typename T>
HWY_ATTR void Dropout(const T* x, const uint8_t* bits, T scale, const T* base, int64_t n, T* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const Tag<T> d;
    const auto factor = hn::Set(d, scale);
    if (lanes<T>() % 8 == 0) {
      for (; i + lanes<T>() <= n; i += lanes<T>()) {
        uint8_t some[8] = {};
        std::memcpy(some, bits + i / 8, static_cast<size_t>(lanes<T>() / 8));
        auto value = hn::IfThenElseZero(hn::LoadMaskBits(d, some), hn::Mul(hn::LoadU(d, x + i), factor));
        if (base != nullptr) value = hn::Add(hn::LoadU(d, base + i), value);
        hn::StoreU(value, d, y + i);
      }
    }
  }
  for (; i < n; ++i) {
    const T value = (bits[i / 8] >> (i % 8) & 1) != 0 ? scale * x[i] : 0;
    y[i] = base != nullptr ? base[i] + value : value;
  }
}

inline uint16_t rounded(float value) {
  if (value != value) return 0x7fc0;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T>
HWY_ATTR void ToBfloat16(const T* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const Tag<T> d;
    const hn::RebindToUnsigned<Tag<T>> du;
    const hn::RebindToSigned<Tag<T>> di;
    const hn::Rebind<uint16_t, Tag<T>> d16;
    const auto one = hn::Set(du, 1);
    const auto half = hn::Set(du, 0x7fff);
    const auto nan = hn::Set(du, 0x7fc0);
    for (; i + lanes<T>() <= n; i += lanes<T>()) {
      const auto value = hn::LoadU(d, x + i);
      const auto bits = hn::BitCast(du, value);
      const auto odd = hn::And(hn::ShiftRight<16>(bits), one);
      const auto high = hn::ShiftRight<16>(hn::Add(bits, hn::Add(half, odd)));
      const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::IfThenElse(is_nan, nan, high))), d16, y + i);
    }
  }
  for (; i < n; ++i) y[i] = rounded(static_cast<float>(x[i]));
}

template <typename T>
HWY_ATTR void FromBfloat16(const uint16_t* x, int64_t n, T* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const Tag<T> d;
    const hn::RebindToUnsigned<Tag<T>> du;
    const hn::Rebind<uint16_t, Tag<T>> d16;
    for (; i + lanes<T>() <= n; i += lanes<T>()) {
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, x + i)))), d, y + i);
    }
  }
  for (; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    y[i] = value;
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
constexpr Kernels<T> kTable = {.add = &AddTo<T>,
                               .scale = &Scale<T>,
                               .multiply = &Multiply<T>,
                               .fill_rows = &FillRows<T>,
                               .add_row = &AddRow<T>,
                               .column_sums = &ColumnSums<T>,
                               .gelu = &Gelu<T>,
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
                               .tanh_backward = &TanhBackward<T>,
                               .layer_norm = &LayerNorm<T>,
                               .layer_norm_backward = &LayerNormBackward<T>,
                               .rms_norm = &RmsNorm<T>,
                               .rms_norm_backward = &RmsNormBackward<T>,
                               .softmax = &Softmax<T>,
                               .softmax_backward = &SoftmaxBackward<T>,
                               .at_least = &AtLeast<T>,
                               .dropout = &Dropout<T>,
                               .to_bfloat16 = &ToBfloat16<T>,
                               .from_bfloat16 = &FromBfloat16<T>,
                               .log_sum_exp = &LogSumExp<T>,
                               .scaled_exp = &ScaledExp<T>};

const Kernels<float>* FloatTable() { return &kTable<float>; }
const Kernels<double>* DoubleTable() { return &kTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(FloatTable);
HWY_EXPORT(DoubleTable);

template <>
const Kernels<float>& kernels<float>() {
  static const Kernels<float>& table = *HWY_DYNAMIC_DISPATCH(FloatTable)();
  return table;
}

template <>
const Kernels<double>& kernels<double>() {
  static const Kernels<double>& table = *HWY_DYNAMIC_DISPATCH(DoubleTable)();
  return table;
}

}  // namespace millrace
#endif
