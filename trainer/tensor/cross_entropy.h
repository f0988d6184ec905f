#pragma once

#include <cstdint>
#include <span>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// A loss as a tensor for `backward`, and as the sum in double precision.
template <typename T>
struct SummedLoss {
  Tensor<T> tensor = {};  ///< `[]`
  double sum = 0;
  int64_t num_labels = 0;  ///< rows that have one
};

/// The label of a row that has none: it adds nothing to the loss, and its gradient is 0.
constexpr int32_t kNoLabel = -100;

/// Softmax cross entropy in nats, summed over the rows that have a label: `log(sum_j exp(logits[i, j])) - logits[i,
/// labels[i]]`; logits `[rows, classes]`, labels `[rows]`. `labels` must outlive the tape's step. Throws `kWrongShape`
/// for another number of labels, `kInvalidArgument` for one outside the classes, with its feature and row as
/// `embedding_sum`.
template <typename T>
SummedLoss<T> cross_entropy(Tape<T>& tape, const Tensor<T>& logits, std::span<const int32_t> labels);

/// The same without the sum: the loss of each row, `[rows]`, 0 where there is no label.
template <typename T>
Tensor<T> cross_entropy_rows(Tape<T>& tape, const Tensor<T>& logits, std::span<const int32_t> labels);

}  // namespace millrace
