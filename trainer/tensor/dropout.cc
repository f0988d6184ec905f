#include "millrace/trainer/tensor/dropout.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/philox_words.h"
#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

// Above the numbers that models count their places by.
DropoutMask::DropoutMask(double probability, uint64_t seed, int64_t step, std::string_view place, int64_t first_row)
    : DropoutMask(probability, seed, step, operator_id(place) | uint64_t{1} << 63U, first_row) {
  place_name_ = place;
}

DropoutMask::DropoutMask(double probability, uint64_t seed, int64_t step, uint64_t place, int64_t first_row)
    : rng_(seed, operator_id("dropout"), {.epoch = step, .path = place}),
      threshold_(static_cast<uint32_t>(chance(probability))),
      scale_(1 / (1 - probability)),
      place_(place),
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
DrawnDropout<T>::DrawnDropout(Tape<T>& tape, const DropoutMask& mask, int64_t rows, int64_t parts, int64_t size)
    : size_(size), scale_(static_cast<T>(mask.scale())) {
  if (!mask.drops()) return;
  tape.take_dropout(mask);
  const int64_t room = DropoutMask::room(size);
  stride_ = (size + 7) / 8;
  bits_ = tape.template keep<uint8_t>(rows * parts * stride_);
  auto* words = tape.arena().template allocate<uint32_t>(room);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t part = 0; part < parts; ++part) {
      mask.words(row, parts, part, size, words);
      kernels<T>().at_least(words, mask.threshold(), size, bits_ + (row * parts + part) * stride_);
    }
  }
  tape.arena().release(words, room);
}

template <typename T>
DrawnDropout<T>::DrawnDropout(Tape<T>& tape, const DropoutMask& mask, int64_t length, int64_t columns,
                              std::span<const int32_t> tokens)
    : size_(columns), scale_(static_cast<T>(mask.scale())) {
  if (!mask.drops()) return;
  tape.take_dropout(mask);
  const int64_t room = DropoutMask::room(length * columns);
  stride_ = (columns + 7) / 8;
  bits_ = tape.template keep<uint8_t>(std::ssize(tokens) * stride_);
  auto* words = tape.arena().template allocate<uint32_t>(room);
  int64_t drawn_row = -1;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t row = tokens[i] / length;
    if (row != drawn_row) mask.words(row, 1, 0, length * columns, words);
    drawn_row = row;
    kernels<T>().at_least(words + tokens[i] % length * columns, mask.threshold(), columns,
                          bits_ + static_cast<int64_t>(i) * stride_);
  }
  tape.arena().release(words, room);
}

template <typename T>
void DrawnDropout<T>::apply(int64_t part, const T* x, const T* base, T* y) const {
  if (bits_ != nullptr) return kernels<T>().dropout(x, bits_ + part * stride_, scale_, base, size_, y);
  if (base == nullptr) return kernels<T>().scale(x, 1, size_, false, y);
  if (y != base) kernels<T>().scale(base, 1, size_, false, y);
  kernels<T>().scale(x, 1, size_, true, y);
}

template <typename T>
Tensor<T> dropout(Tape<T>& tape, const Tensor<T>& x, int64_t batch_rows, const DropoutMask& mask) {
  check_batch_rows("dropout", x.shape, batch_rows);
  if (!mask.drops() || x.count() == 0) return x;
  const Tensor<T> y = tape.make(x.shape);
  const int64_t size = x.count() / batch_rows;
  const DrawnDropout<T> drawn(tape, mask, batch_rows, 1, size);
  for (int64_t row = 0; row < batch_rows; ++row)
    drawn.apply(row, x.values + row * size, nullptr, y.values + row * size);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    for (int64_t row = 0; row < batch_rows; ++row) {
      T* dx = slot.values + row * size;
      drawn.apply(row, dy + row * size, slot.add ? dx : nullptr, dx);
    }
  });
  return y;
}

template class DrawnDropout<float>;
template class DrawnDropout<double>;
template Tensor<float> dropout(Tape<float>&, const Tensor<float>&, int64_t, const DropoutMask&);
template Tensor<double> dropout(Tape<double>&, const Tensor<double>&, int64_t, const DropoutMask&);

}  // namespace millrace
