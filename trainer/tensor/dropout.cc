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
void apply_dropout(Arena& arena, const DropoutMask& mask, const T* x, int64_t batch_rows, int64_t count, bool add,
                   T* y) {
  if (count == 0) return;
  const int64_t row_size = count / batch_rows;
  auto* words = arena.allocate<uint32_t>(DropoutMask::room(row_size));
  for (int64_t row = 0; row < batch_rows; ++row) {
    mask.words(row, 1, 0, row_size, words);
    kernels<T>().dropout(x + row * row_size, words, mask.threshold(), static_cast<T>(mask.scale()), row_size, add,
                         y + row * row_size);
  }
  arena.release(words, DropoutMask::room(row_size));
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

template void apply_dropout(Arena&, const DropoutMask&, const float*, int64_t, int64_t, bool, float*);
template void apply_dropout(Arena&, const DropoutMask&, const double*, int64_t, int64_t, bool, double*);
template Tensor<float> dropout(Tape<float>&, const Tensor<float>&, int64_t, const DropoutMask&);
template Tensor<double> dropout(Tape<double>&, const Tensor<double>&, int64_t, const DropoutMask&);

}  // namespace millrace
