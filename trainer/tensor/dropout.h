#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// What tells the dropouts of one forward pass from those of others: models and parts of models are given it and add
/// the place and the row.
struct DropoutKey {
  uint64_t seed = 0;  ///< of the run
  int64_t batch = 0;  ///< global batches of the stream before this one
  uint64_t call = 0;  ///< which call of a part of the model in the pass, where there are several. Default: 0
};

/// Which values of a tensor are dropped: a pure function of (seed, step, place, row in the global batch, position in
/// that row), so that neither the split of a batch over replicas nor threads nor a resume change it. A value is dropped
/// when its 32-bit random word is below `threshold`, else multiplied by `scale`.
class DropoutMask {
 public:
  /// Drops nothing.
  DropoutMask() = default;
  /// `place` tells the dropouts of one model apart: a name, which must outlive the mask, or a number of the
  /// model's. Rows of the tensor start at
  /// `first_row` of the global batch. Throws `kInvalidArgument` unless 0 <= probability < 1. A tape takes each place
  /// once a pass for the same rows: two dropouts of one place would drop alike.
  DropoutMask(double probability, uint64_t seed, int64_t step, std::string_view place, int64_t first_row);
  DropoutMask(double probability, uint64_t seed, int64_t step, uint64_t place, int64_t first_row);

  bool drops() const { return threshold_ > 0; }
  uint32_t threshold() const { return threshold_; }
  /// 1 / (1 - probability).
  double scale() const { return scale_; }
  /// What tells its random words from those of others: of seed, step and place.
  uint64_t key() const { return rng_.bits(0); }
  /// The place as a number and as a name, empty where it was a number; and the first row.
  uint64_t place() const { return place_; }
  std::string_view place_name() const { return place_name_; }
  int64_t first_row() const { return first_row_; }
  /// The words of one part of a row: `parts` is how many parts (attention heads, ...) a row has, `row` counts from the
  /// tensor's first. `words` has room for `count` rounded up to a multiple of 4.
  void words(int64_t row, int64_t parts, int64_t part, int64_t count, uint32_t* words) const;
  /// Values for which `words` needs room.
  static int64_t room(int64_t count) { return (count + 3) / 4 * 4; }

 private:
  CounterRng rng_{0, 0};
  uint32_t threshold_ = 0;
  double scale_ = 1;
  uint64_t place_ = 0;
  std::string_view place_name_;
  int64_t first_row_ = 0;
};

/// Inverted dropout (Srivastava et al. 2014) over x `[batch_rows * n, ...]`, n for each row of the batch; same shape.
/// Gives x itself when the mask drops nothing. Throws `kWrongShape` when `batch_rows` does not divide the first size.
template <typename T>
Tensor<T> dropout(Tape<T>& tape, const Tensor<T>& x, int64_t batch_rows, const DropoutMask& mask);

/// What a mask drops of a tensor, drawn once in the forward pass and kept for the backward pass, a bit for each value.
/// It belongs to the tape and is given back when that begins anew.
///
///     const DrawnDropout<T> drawn(tape, mask, rows, heads, size);
///     drawn.apply(row * heads + head, x, nullptr, y);       // forward
///     drawn.apply(row * heads + head, dy, dx_so_far, dx);   // backward
template <typename T>
class DrawnDropout {
 public:
  /// Drops nothing.
  DrawnDropout() = default;
  /// For `rows` rows of the batch of `parts` parts (attention heads, ...) of `size` values each.
  DrawnDropout(Tape<T>& tape, const DropoutMask& mask, int64_t rows, int64_t parts, int64_t size);
  /// For the rows `tokens` of `[batch_rows * length, columns]` alone, each a part: what is dropped of them is what
  /// would be dropped among all. Cheapest in ascending order.
  DrawnDropout(Tape<T>& tape, const DropoutMask& mask, int64_t length, int64_t columns,
               std::span<const int32_t> tokens);

  bool drops() const { return bits_ != nullptr; }
  /// `y = base + mask * scale * x` for the values of one part, which count from 0 over all rows. `base` null: 0. Any of
  /// them may be the same memory.
  void apply(int64_t part, const T* x, const T* base, T* y) const;

 private:
  uint8_t* bits_ = nullptr;  // 1: stays
  int64_t stride_ = 0;       // bytes of a part
  int64_t size_ = 0;
  T scale_ = 1;
};

}  // namespace millrace
