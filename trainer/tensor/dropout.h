#pragma once

#include <cstdint>

#include "ops/counter_rng.h"
#include "trainer/tensor/tape.h"

namespace millrace {

/// Which values of a tensor are dropped: a pure function of (seed, step, place, row in the global batch, position in
/// that row), so that neither the split of a batch over replicas nor threads nor a resume change it. A value is dropped
/// when its 32-bit random word is below `threshold`, else multiplied by `scale`.
class DropoutMask {
 public:
  /// Drops nothing.
  DropoutMask() = default;
  /// `place` tells the dropouts of one model apart. Rows of the tensor start at `first_row` of the global batch. Throws
  /// `kInvalidArgument` unless 0 <= probability < 1.
  DropoutMask(double probability, uint64_t seed, int64_t step, uint64_t place, int64_t first_row);

  bool drops() const { return threshold_ > 0; }
  uint32_t threshold() const { return threshold_; }
  /// 1 / (1 - probability).
  double scale() const { return scale_; }
  /// The words of one part of a row: `parts` is how many parts (attention heads, ...) a row has, `row` counts from the
  /// tensor's first. `words` has room for `count` rounded up to a multiple of 4.
  void words(int64_t row, int64_t parts, int64_t part, int64_t count, uint32_t* words) const;
  /// Values for which `words` needs room.
  static int64_t room(int64_t count) { return (count + 3) / 4 * 4; }

 private:
  CounterRng rng_{0, 0};
  uint32_t threshold_ = 0;
  double scale_ = 1;
  int64_t first_row_ = 0;
};

/// Inverted dropout (Srivastava et al. 2014) over x `[batch_rows, ...]`; same shape. Gives x itself when the mask drops
/// nothing.
template <typename T>
Tensor<T> dropout(Tape<T>& tape, const Tensor<T>& x, int64_t batch_rows, const DropoutMask& mask);

/// `y (+)= mask * scale * x` row of the batch by row, for operators that do so on their way, forwards and backwards. A
/// mask that drops nothing copies or adds.
template <typename T>
class RowDropout {
 public:
  /// Rows of `row_size` values. The arena must outlive it.
  RowDropout(Arena& arena, const DropoutMask& mask, int64_t row_size)
      : arena_(arena),
        mask_(mask),
        row_size_(row_size),
        words_(mask.drops() ? arena.allocate<uint32_t>(DropoutMask::room(row_size)) : nullptr) {}
  RowDropout(const RowDropout&) = delete;
  RowDropout& operator=(const RowDropout&) = delete;
  ~RowDropout() {
    if (words_ != nullptr) arena_.release(words_, DropoutMask::room(row_size_));
  }
  /// `x` and `y` are the row's values; `y` may be `x`.
  void apply(int64_t row, const T* x, bool add, T* y) const;

 private:
  Arena& arena_;
  const DropoutMask& mask_;
  int64_t row_size_;
  uint32_t* words_;
};

/// The same on `batch_rows` rows of `count / batch_rows` values each.
template <typename T>
void apply_dropout(Arena& arena, const DropoutMask& mask, const T* x, int64_t batch_rows, int64_t count, bool add,
                   T* y);

}  // namespace millrace
