#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// What `make` makes of x, which nobody reads after: its memory is given back, unless the tape records.
template <typename T, typename Make>
[[nodiscard]] Tensor<T> in_place_of(Tape<T>& tape, const Tensor<T>& x, const Make& make) {
  const Tensor<T> made = make(x);
  tape.discard(x);
  return made;
}

}  // namespace millrace
