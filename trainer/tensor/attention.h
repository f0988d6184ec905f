#pragma once

#include <cstdint>
#include <span>

#include "trainer/tensor/dropout.h"
#include "trainer/tensor/tape.h"

namespace millrace {

struct AttentionOptions {
  int64_t batch_rows = 0;
  int64_t heads = 1;
  DropoutMask dropout;  ///< of the attention probabilities. Default: none
  /// `[batch_rows, length]`: 0 for keys that nobody attends to. A row without any other key attends to all equally.
  /// Must outlive the tape's step. Default: empty, all keys are attended to
  std::span<const int64_t> key_mask;
};

/// Multi-head scaled dot-product attention (arXiv 1706.03762): for each row of the batch and each head
/// `softmax(q k^T / sqrt(d)) v` with d = columns / heads. query, key, value are `[batch_rows * length, columns]`, a
/// head's columns lie together; gives the same shape. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> attention(Tape<T>& tape, const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                    const AttentionOptions& options);

}  // namespace millrace
