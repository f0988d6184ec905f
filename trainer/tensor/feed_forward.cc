#include "trainer/tensor/feed_forward.h"

#include <algorithm>

#include "trainer/tensor/gemm.h"
#include "trainer/tensor/kernels.h"
#include "trainer/tensor/shape_check.h"

namespace millrace {
namespace {

template <typename T>
void activate(Activation activation, const T* x, int64_t n, T* y) {
  switch (activation) {
    case Activation::kRelu: return kernels<T>().relu(x, 0, n, y);
    case Activation::kGelu: return kernels<T>().gelu(x, n, y);
    case Activation::kGeluTanh: return kernels<T>().gelu_tanh(x, n, y);
  }
}

template <typename T>
void activate_backward(Activation activation, const T* x, const T* dy, int64_t n, T* dx) {
  switch (activation) {
    case Activation::kRelu: return kernels<T>().relu_backward(x, 0, dy, n, false, dx);
    case Activation::kGelu: return kernels<T>().gelu_backward(x, dy, n, false, dx);
    case Activation::kGeluTanh: return kernels<T>().gelu_tanh_backward(x, dy, n, false, dx);
  }
}

// The tensors of one call, as the backward pass needs them. Optional ones have no values where there are none.
template <typename T>
struct Call {
  Tensor<T> x, in, in_bias, gate, out, out_bias;
  FeedForwardOptions options;
  T* before = nullptr;  // the activation
  T* gates = nullptr;

  int64_t rows() const { return x.rows(); }
  int64_t columns() const { return x.columns(); }
  int64_t inner() const { return in.rows(); }
  int64_t count() const { return rows() * inner(); }
};

template <typename T>
void check(const Call<T>& call) {
  const int64_t columns = call.columns();
  const int64_t inner = call.inner();
  check_shape("in of feed_forward", call.in.shape, {inner, columns});
  check_shape("out of feed_forward", call.out.shape, {columns, inner});
  if (call.in_bias.values != nullptr) check_shape("in_bias of feed_forward", call.in_bias.shape, {inner});
  if (call.gate.values != nullptr) check_shape("gate of feed_forward", call.gate.shape, {inner, columns});
  if (call.out_bias.values != nullptr) check_shape("out_bias of feed_forward", call.out_bias.shape, {columns});
}

// `y = x weight^T + bias`.
template <typename T>
void multiply(const T* x, int64_t rows, const Tensor<T>& weight, const Tensor<T>& bias, T* y) {
  const int64_t in = weight.columns();
  const int64_t out = weight.rows();
  if (bias.values != nullptr) kernels<T>().fill_rows(bias.values, rows, out, y);
  gemm<T>(Transposed::kNo, Transposed::kYes, rows, out, in, 1, x, in, weight.values, in, bias.values == nullptr ? 0 : 1,
          y, out);
}

// The gradients of weight and bias, and that of x where it is wanted.
template <typename T>
void multiply_backward(Tape<T>& tape, const T* x, int64_t rows, const Tensor<T>& weight, const Tensor<T>& bias,
                       const T* dy, GradientSlot<T> dx) {
  const int64_t in = weight.columns();
  const int64_t out = weight.rows();
  if (tape.wants(bias)) {
    const GradientSlot<T> slot = tape.gradient_of(bias);
    kernels<T>().column_sums(dy, rows, out, slot.add, slot.values);
  }
  if (tape.wants(weight)) {
    const GradientSlot<T> slot = tape.gradient_of(weight);
    gemm<T>(Transposed::kYes, Transposed::kNo, out, in, rows, 1, dy, out, x, in, slot.beta(), slot.values, in);
  }
  if (dx.values != nullptr) {
    gemm<T>(Transposed::kNo, Transposed::kNo, rows, in, out, 1, dy, out, weight.values, in, dx.beta(), dx.values, in);
  }
}

template <typename T>
void drop(Arena& arena, const Call<T>& call, T* values) {
  if (!call.options.dropout.drops()) return;
  apply_dropout(arena, call.options.dropout, static_cast<const T*>(values), call.options.batch_rows, call.count(),
                false, values);
}

template <typename T>
void backward(Tape<T>& tape, const Call<T>& call, const T* dy) {
  Arena& arena = tape.arena();
  const int64_t count = call.count();
  T* inner = arena.allocate<T>(count);  // first what went into the second product, then the gradient before that
  activate(call.options.activation, static_cast<const T*>(call.before), count, inner);
  T* activated = nullptr;
  if (call.gates != nullptr) {
    activated = arena.allocate<T>(count);
    std::copy_n(inner, count, activated);
    kernels<T>().multiply(inner, call.gates, count, false, inner);
  }
  drop(arena, call, inner);
  T* gradient = arena.allocate<T>(count);
  multiply_backward(tape, static_cast<const T*>(inner), call.rows(), call.out, call.out_bias, dy,
                    GradientSlot<T>{gradient, false});
  drop(arena, call, gradient);
  const auto dx = [&] { return tape.wants(call.x) ? tape.gradient_of(call.x) : GradientSlot<T>{}; };
  if (call.gates != nullptr) {
    kernels<T>().multiply(gradient, activated, count, false, inner);
    multiply_backward(tape, static_cast<const T*>(call.x.values), call.rows(), call.gate, Tensor<T>{},
                      static_cast<const T*>(inner), dx());
    kernels<T>().multiply(gradient, call.gates, count, false, gradient);
    arena.release(activated, count);
  }
  activate_backward(call.options.activation, static_cast<const T*>(call.before), static_cast<const T*>(gradient), count,
                    inner);
  multiply_backward(tape, static_cast<const T*>(call.x.values), call.rows(), call.in, call.in_bias,
                    static_cast<const T*>(inner), dx());
  arena.release(gradient, count);
  arena.release(inner, count);
}

}  // namespace

template <typename T>
Tensor<T> feed_forward(Tape<T>& tape, const Tensor<T>& x, const FeedForwardWeights<T>& weights,
                       const FeedForwardOptions& options) {
  Call<T> call{.x = x,
               .in = weights.in,
               .in_bias = weights.in_bias.value_or(Tensor<T>{}),
               .gate = weights.gate.value_or(Tensor<T>{}),
               .out = weights.out,
               .out_bias = weights.out_bias.value_or(Tensor<T>{}),
               .options = options};
  check(call);
  const int64_t count = call.count();
  call.before = tape.template keep<T>(count);
  multiply(static_cast<const T*>(x.values), call.rows(), call.in, call.in_bias, call.before);
  T* inner = tape.arena().template allocate<T>(count);
  activate(options.activation, static_cast<const T*>(call.before), count, inner);
  if (weights.gate) {
    call.gates = tape.template keep<T>(count);
    multiply(static_cast<const T*>(x.values), call.rows(), call.gate, Tensor<T>{}, call.gates);
    kernels<T>().multiply(inner, call.gates, count, false, inner);
  }
  drop(tape.arena(), call, inner);
  const Tensor<T> y = tape.make({call.rows(), call.columns()});
  multiply(static_cast<const T*>(inner), call.rows(), call.out, call.out_bias, y.values);
  tape.arena().release(inner, count);
  tape.record({call.x, call.in, call.in_bias, call.gate, call.out, call.out_bias}, y,
              [call](Tape<T>& t, const T* dy) { backward(t, call, dy); });
  return y;
}

template Tensor<float> feed_forward(Tape<float>&, const Tensor<float>&, const FeedForwardWeights<float>&,
                                    const FeedForwardOptions&);
template Tensor<double> feed_forward(Tape<double>&, const Tensor<double>&, const FeedForwardWeights<double>&,
                                     const FeedForwardOptions&);

}  // namespace millrace
