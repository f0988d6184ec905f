#pragma once

#include <cstdint>
#include <optional>

#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The function between the two products of a feed-forward block.
enum class Activation {
  kRelu,      ///< `max(x, 0)`
  kGelu,      ///< with the exact error function
  kGeluTanh,  ///< its approximation by the hyperbolic tangent
  kSilu,      ///< `x / (1 + exp(-x))` (arXiv 1606.08415, section 4; also called swish)
};

template <typename T>
struct FeedForwardWeights {
  Tensor<T> in = {};                       ///< `[inner, columns]`
  std::optional<Tensor<T>> in_bias = {};   ///< `[inner]`. Default: none
  std::optional<Tensor<T>> gate = {};      ///< `[inner, columns]`; see `feed_forward`. Default: none
  Tensor<T> out = {};                      ///< `[columns, inner]`
  std::optional<Tensor<T>> out_bias = {};  ///< `[columns]`. Default: none
};

struct FeedForwardOptions {
  Activation activation = Activation::kGelu;  ///< Default: kGelu
  DropoutMask dropout = {};                   ///< of what goes into the second product. Default: none
  /// Rows of the batch that x is of, needed with a dropout: x has as many rows times the length. Default: 0, not said
  int64_t batch_rows = 0;
};

/// The feed-forward block of a transformer, `y = dropout(h) out^T + out_bias` with `h = activation(x in^T + in_bias)`;
/// with a gate `h = activation(x in^T + in_bias) (x gate^T)` (arXiv 2002.05202). x `[rows, columns]`; same shape.
/// The activation's slope is computed with its value, so the backward pass only multiplies. Throws `kWrongShape` when
/// the sizes do not fit.
template <typename T>
Tensor<T> feed_forward(Tape<T>& tape, const Tensor<T>& x, const FeedForwardWeights<T>& weights,
                       const FeedForwardOptions& options);

}  // namespace millrace
