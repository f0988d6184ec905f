#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Binary cross entropy of sigmoid(x) and a target from 0 to 1, in nats, for each value: `max(x, 0) - x t + log(1 +
/// exp(-|x|))`; same shape. `sum` adds them up. Throws `kWrongShape` when the shapes differ.
template <typename T>
Tensor<T> bce_with_logits(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target);

}  // namespace millrace
