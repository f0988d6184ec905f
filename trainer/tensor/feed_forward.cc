#include "millrace/trainer/tensor/feed_forward.h"

#include <algorithm>

#include "millrace/trainer/tensor/gemm.h"
#include "millrace/trainer/tensor/kept_values.h"
#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {
namespace {

// The activation, and its slope in place of x.
template <typename T>
void activate(Activation activation, T* x, int64_t n, T* y) {
  switch (activation) {
    case Activation::kRelu: return kernels<T>().relu_with_slope(x, n, y, x);
    case Activation::kGelu: return kernels<T>().gelu_with_slope(x, n, y, x);
    case Activation::kGeluTanh: return kernels<T>().gelu_tanh_with_slope(x, n, y, x);
    case Activation::kSilu: return kernels<T>().silu_with_slope(x, n, y, x);
  }
}

// The tensors of one call, as the backward pass needs them. Optional ones have no values where there are none.
template <typename T>
struct Call {
  Tensor<T> x, in, in_bias, gate, out, out_bias;
  FeedForwardOptions options;
  KeptValues<T> slopes;     // of the activation
  KeptValues<T> activated;  // its values, where there is a gate
  KeptValues<T> gates;
  KeptValues<T> inner;  // what went into the second product
  DrawnDropout<T> dropped;

  int64_t rows() const { return x.rows(); }
  int64_t columns() const { return x.columns(); }
  int64_t inner_size() const { return in.rows(); }
  int64_t count() const { return rows() * inner_size(); }
};

template <typename T>
void check(const Call<T>& call) {
  const int64_t columns = call.columns();
  const int64_t inner = call.inner_size();
  if (call.options.dropout.drops()) check_batch_rows("feed_forward", call.x.shape, call.options.batch_rows);
  check_shape("in of feed_forward", call.in.shape, {inner, columns});
  check_shape("out of feed_forward", call.out.shape, {columns, inner});
  if (call.in_bias.values != nullptr) check_shape("in_bias of feed_forward", call.in_bias.shape, {inner});
  if (call.gate.values != nullptr) check_shape("gate of feed_forward", call.gate.shape, {inner, columns});
  if (call.out_bias.values != nullptr) check_shape("out_bias of feed_forward", call.out_bias.shape, {columns});
}

// Rows that are worked on together: a few of their values stay in the cache from one loop to the next.
constexpr int64_t kRowsAtOnce = 32;

template <typename Body>
void for_some_rows(int64_t rows, const Body& body) {
  for (int64_t row = 0; row < rows; row += kRowsAtOnce) body(row, std::min(kRowsAtOnce, rows - row));
}

// `y = x weight^T`, over `beta y`.
template <typename T>
void multiply(const T* x, int64_t rows, const Tensor<T>& weight, T beta, T* y) {
  const int64_t in = weight.columns();
  const int64_t out = weight.rows();
  gemm<T>(Transposed::kNo, Transposed::kYes, rows, out, in, 1, x, in, weight.values, in, beta, y, out);
}

// The gradient of weight, and that of x where it is wanted.
template <typename T>
void multiply_backward(Tape<T>& tape, const T* x, int64_t rows, const Tensor<T>& weight, const T* dy,
                       GradientSlot<T> dx) {
  const int64_t in = weight.columns();
  const int64_t out = weight.rows();
  if (tape.wants(weight)) {
    const GradientSlot<T> slot = tape.gradient_of(weight);
    gemm<T>(Transposed::kYes, Transposed::kNo, out, in, rows, 1, dy, out, x, in, slot.beta(), slot.values, in);
  }
  if (dx.values != nullptr) {
    gemm<T>(Transposed::kNo, Transposed::kNo, rows, in, out, 1, dy, out, weight.values, in, dx.beta(), dx.values, in);
  }
}

template <typename T>
void drop(const Call<T>& call, T* values) {
  if (!call.dropped.drops()) return;
  const int64_t rows = call.options.batch_rows;
  const int64_t size = call.count() / rows;
  for (int64_t row = 0; row < rows; ++row) call.dropped.apply(row, values + row * size, nullptr, values + row * size);
}

// `gradient` of what comes out of the activation becomes that of what went in, and is added up for the bias.
template <typename T>
void activation_backward(Tape<T>& tape, const Call<T>& call, T* gradient) {
  KeptWindow<T> slopes(tape.arena(), call.slopes, call.count());
  const T* slope = slopes.values(0);
  const int64_t inner = call.inner_size();
  GradientSlot<T> bias = tape.wants(call.in_bias) ? tape.gradient_of(call.in_bias) : GradientSlot<T>{};
  if (bias.values != nullptr && !bias.add) {
    std::fill_n(bias.values, inner, T{0});
    bias.add = true;
  }
  for_some_rows(call.rows(), [&](int64_t row, int64_t rows) {
    T* some = gradient + row * inner;
    kernels<T>().multiply(some, slope + row * inner, rows * inner, false, some);
    if (bias.values == nullptr) return;
    kernels<T>().column_sums(some, rows, inner, true, bias.values);
  });
}

template <typename T>
void backward(Tape<T>& tape, const Call<T>& call, const T* dy) {
  const int64_t count = call.count();
  Arena& arena = tape.arena();
  T* gradient = arena.allocate<T>(count);
  if (tape.wants(call.out_bias)) {
    const GradientSlot<T> slot = tape.gradient_of(call.out_bias);
    kernels<T>().column_sums(dy, call.rows(), call.columns(), slot.add, slot.values);
  }
  {
    KeptWindow<T> inner(arena, call.inner, count);
    multiply_backward(tape, inner.values(0), call.rows(), call.out, dy, GradientSlot<T>{gradient, false});
  }
  drop(call, gradient);
  const T* x = call.x.values;
  const auto dx = [&] { return tape.wants(call.x) ? tape.gradient_of(call.x) : GradientSlot<T>{}; };
  if (call.gate.values != nullptr) {
    T* gate_gradient = arena.allocate<T>(count);
    {
      KeptWindow<T> activated(arena, call.activated, count);
      kernels<T>().multiply(gradient, activated.values(0), count, false, gate_gradient);
    }
    multiply_backward(tape, x, call.rows(), call.gate, static_cast<const T*>(gate_gradient), dx());
    arena.release(gate_gradient, count);
    KeptWindow<T> gates(arena, call.gates, count);
    kernels<T>().multiply(gradient, gates.values(0), count, false, gradient);
  }
  activation_backward(tape, call, gradient);
  multiply_backward(tape, x, call.rows(), call.in, static_cast<const T*>(gradient), dx());
  arena.release(gradient, count);
}

// What goes into the second product: in `y`, and what the backward pass needs in `call`.
template <typename T>
void first_half(Tape<T>& tape, Call<T>& call, T* y) {
  const int64_t count = call.count();
  const int64_t inner = call.inner_size();
  call.slopes = KeptValues<T>(tape, count);
  KeptWindow<T> slopes(tape.arena(), call.slopes, count);
  T* slope = slopes.place(0);
  const T* x = call.x.values;
  multiply(x, call.rows(), call.in, T{0}, slope);
  for_some_rows(call.rows(), [&](int64_t row, int64_t rows) {
    T* some = slope + row * inner;
    if (call.in_bias.values != nullptr) kernels<T>().add_row(call.in_bias.values, rows, inner, some);
    activate(call.options.activation, some, rows * inner, y + row * inner);
  });
  slopes.keep();
  if (call.gate.values != nullptr) {
    call.activated = KeptValues<T>(tape, count);
    call.gates = KeptValues<T>(tape, count);
    KeptWindow<T> activated(tape.arena(), call.activated, count);
    KeptWindow<T> gates(tape.arena(), call.gates, count);
    T* gate = gates.place(0);
    std::copy_n(y, count, activated.place(0));
    activated.keep();
    multiply(x, call.rows(), call.gate, T{0}, gate);
    gates.keep();
    kernels<T>().multiply(y, gate, count, false, y);
  }
  if (call.options.dropout.drops() && count > 0) {
    const int64_t rows = call.options.batch_rows;
    call.dropped = DrawnDropout<T>(tape, call.options.dropout, rows, 1, count / rows);
  }
  drop(call, y);
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
  const Tensor<T> y = tape.make({call.rows(), call.columns()});
  call.inner = KeptValues<T>(tape, call.count());
  {
    KeptWindow<T> inner(tape.arena(), call.inner, call.count());
    T* values = inner.place(0);
    first_half(tape, call, values);
    inner.keep();
    const bool biased = call.out_bias.values != nullptr;
    if (biased) kernels<T>().fill_rows(call.out_bias.values, call.rows(), call.columns(), y.values);
    multiply(static_cast<const T*>(values), call.rows(), call.out, static_cast<T>(biased ? 1 : 0), y.values);
  }
  tape.record({x, call.in, call.in_bias, call.gate, call.out, call.out_bias}, y,
              [call](Tape<T>& t, const T* dy) { backward(t, call, dy); });
  return y;
}

template Tensor<float> feed_forward(Tape<float>&, const Tensor<float>&, const FeedForwardWeights<float>&,
                                    const FeedForwardOptions&);
template Tensor<double> feed_forward(Tape<double>&, const Tensor<double>&, const FeedForwardWeights<double>&,
                                     const FeedForwardOptions&);

}  // namespace millrace
