#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

template <typename T>
struct AttentionOptions {
  int64_t batch_rows = 0;
  int64_t heads = 1;
  DropoutMask dropout = {};  ///< of the attention probabilities. Default: none
  /// `[batch_rows, keys]`: 0 for keys that nobody attends to. A row without any other key attends to all equally. Must
  /// outlive the tape's step. Default: empty, all keys are attended to
  std::span<const int64_t> key_mask = {};
  /// True: query i attends to the keys 0 to i, as a decoder does. Default: false
  bool causal = false;
  /// What products of queries and keys are multiplied by. Default: 1 / sqrt(columns / heads)
  std::optional<double> scale = {};
  /// `[heads, queries, keys]`, added to the scaled products of each row of the batch. Default: nothing
  std::optional<Tensor<T>> bias = {};
};

/// Multi-head scaled dot-product attention (arXiv 1706.03762): for each row of the batch and each head
/// `softmax(scale q k^T + bias) v`. query is `[batch_rows * queries, columns]`, key and value `[batch_rows * keys,
/// columns]`; a head's columns lie together. Gives query's shape. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> attention(Tape<T>& tape, const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                    const AttentionOptions<T>& options);

}  // namespace millrace
