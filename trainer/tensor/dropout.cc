#include "trainer/tensor/dropout.h"

#include <fmt/format.h>

#include "formats/error.h"
#include "ops/philox_words.h"
#include "trainer/tensor/kernels.h"

namespace millrace {

DropoutMask::DropoutMask(double probability, uint64_t seed, int64_t step, uint64_t place, int64_t first_row)
    : rng_(seed, operator_id("dropout"), {.epoch = step, .path = place}),
      threshold_(static_cast<uint32_t>(chance(probability))),
      scale_(1 / (1 - probability)),
      first_row_(first_row) {
  if (!(probability >= 0 && probability < 1)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a dropout probability of {}; 0 <= probability < 1 is needed", probability));
  }
}

void DropoutMask::words(int64_t row, int64_t parts, int64_t part, int64_t count, uint32_t* words) const {
  const auto draws = static_cast<size_t>(room(count) / 4);
  philox_words(rng_, static_cast<uint64_t>((first_row_ + row) * parts + part), draws, {words, 4 * draws});
}

template <typename T>
void RowDropout<T>::apply(int64_t row, const T* x, bool add, T* y) const {
  if (words_ == nullptr) return kernels<T>().scale(x, 1, row_size_, add, y);
  mask_.words(row, 1, 0, row_size_, words_);
  kernels<T>().dropout(x, words_, mask_.threshold(), static_cast<T>(mask_.scale()), row_size_, add, y);
}

template <typename T>
void apply_dropout(Arena& arena, const DropoutMask& mask, const T* x, int64_t batch_rows, int64_t count, bool add,
                   T* y) {
  if (count == 0) return;
  const int64_t row_size = count / batch_rows;
  const RowDropout<T> dropout(arena, mask, row_size);
  for (int64_t row = 0; row < batch_rows; ++row) dropout.apply(row, x + row * row_size, add, y + row * row_size);
}

template <typename T>
Tensor<T> dropout(Tape<T>& tape, const Tensor<T>& x, int64_t batch_rows, const DropoutMask& mask) {
  if (!mask.drops()) return x;
  const Tensor<T> y = tape.make(x.shape);
  apply_dropout(tape.arena(), mask, x.values, batch_rows, x.count(), false, y.values);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    apply_dropout(t.arena(), mask, dy, batch_rows, x.count(), slot.add, slot.values);
  });
  return y;
}

template class RowDropout<float>;
template class RowDropout<double>;
template void apply_dropout(Arena&, const DropoutMask&, const float*, int64_t, int64_t, bool, float*);
template void apply_dropout(Arena&, const DropoutMask&, const double*, int64_t, int64_t, bool, double*);
template Tensor<float> dropout(Tape<float>&, const Tensor<float>&, int64_t, const DropoutMask&);
template Tensor<double> dropout(Tape<double>&, const Tensor<double>&, int64_t, const DropoutMask&);

}  // namespace millrace
