#include "trainer/tensor/attention.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "formats/error.h"
#include "trainer/tensor/gemm.h"
#include "trainer/tensor/kernels.h"
#include "trainer/tensor/shape_check.h"

namespace millrace {
namespace {

// The sizes of one call, and the tiles of it: one head of one row.
struct Tiles {
  int64_t batch_rows;
  int64_t heads;
  int64_t length;
  int64_t columns;

  int64_t width() const { return columns / heads; }
  int64_t size() const { return length * length; }
  int64_t offset(int64_t row, int64_t head) const { return row * length * columns + head * width(); }
  template <typename Body>
  void for_each(const Body& body) const {
    for (int64_t row = 0; row < batch_rows; ++row) {
      for (int64_t head = 0; head < heads; ++head) body(row, head);
    }
  }
};

template <typename T>
void hide_masked_keys(std::span<const int64_t> key_mask, const Tiles& tiles, int64_t row, T* scores) {
  if (key_mask.empty()) return;
  const std::span<const int64_t> keys =
      key_mask.subspan(static_cast<size_t>(row * tiles.length), static_cast<size_t>(tiles.length));
  for (int64_t key = 0; key < tiles.length; ++key) {
    if (keys[static_cast<size_t>(key)] != 0) continue;
    for (int64_t query = 0; query < tiles.length; ++query) {
      scores[query * tiles.length + key] = std::numeric_limits<T>::lowest();
    }
  }
}

}  // namespace

template <typename T>
Tensor<T> attention(Tape<T>& tape, const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                    const AttentionOptions& options) {
  const Tiles tiles{.batch_rows = options.batch_rows,
                    .heads = options.heads,
                    .length = options.batch_rows == 0 ? 0 : query.rows() / options.batch_rows,
                    .columns = query.columns()};
  check_shape("query of attention", query.shape, {tiles.batch_rows * tiles.length, tiles.columns});
  check_shape("key of attention", key.shape, query.shape);
  check_shape("value of attention", value.shape, query.shape);
  if (options.heads < 1 || tiles.columns % options.heads != 0) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("{} columns do not split into {} heads", tiles.columns, options.heads));
  }
  if (!options.key_mask.empty() && static_cast<int64_t>(options.key_mask.size()) != query.rows()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("the key mask of attention has {} values for {} keys",
                                                             options.key_mask.size(), query.rows()));
  }
  const int64_t length = tiles.length;
  const int64_t width = tiles.width();
  const int64_t stride = tiles.columns;
  const T scale = 1 / std::sqrt(static_cast<T>(width));
  const DropoutMask mask = options.dropout;
  const Tensor<T> y = tape.make(query.shape);
  T* probabilities = tape.template keep<T>(tiles.batch_rows * tiles.heads * tiles.size());
  T* dropped = tape.arena().template allocate<T>(tiles.size());
  auto* words = tape.arena().template allocate<uint32_t>(DropoutMask::room(tiles.size()));
  tiles.for_each([&](int64_t row, int64_t head) {
    const int64_t offset = tiles.offset(row, head);
    T* p = probabilities + (row * tiles.heads + head) * tiles.size();
    gemm<T>(Transposed::kNo, Transposed::kYes, length, length, width, scale, query.values + offset, stride,
            key.values + offset, stride, 0, p, length);
    hide_masked_keys(options.key_mask, tiles, row, p);
    kernels<T>().softmax(length, length, p);
    const T* weights = p;
    if (mask.drops()) {
      mask.words(row, tiles.heads, head, tiles.size(), words);
      kernels<T>().dropout(p, words, mask.threshold(), static_cast<T>(mask.scale()), tiles.size(), false, dropped);
      weights = dropped;
    }
    gemm<T>(Transposed::kNo, Transposed::kNo, length, width, length, 1, weights, length, value.values + offset, stride,
            0, y.values + offset, stride);
  });
  tape.arena().release(dropped, tiles.size());
  tape.arena().release(words, DropoutMask::room(tiles.size()));

  tape.record({query, key, value}, y, [=](Tape<T>& t, const T* dy) {
    Arena& arena = t.arena();
    T* kept = arena.template allocate<T>(tiles.size());
    T* dp = arena.template allocate<T>(tiles.size());
    auto* random = arena.template allocate<uint32_t>(DropoutMask::room(tiles.size()));
    // In the order in which they are written below: two of the inputs may be one tensor.
    const GradientSlot<T> none;
    const GradientSlot<T> dv = value.needs_gradient() ? t.gradient_of(value) : none;
    const GradientSlot<T> dq = query.needs_gradient() ? t.gradient_of(query) : none;
    const GradientSlot<T> dk = key.needs_gradient() ? t.gradient_of(key) : none;
    const T keep_scale = static_cast<T>(mask.scale());
    tiles.for_each([&](int64_t row, int64_t head) {
      const int64_t offset = tiles.offset(row, head);
      const T* p = probabilities + (row * tiles.heads + head) * tiles.size();
      const T* weights = p;
      if (mask.drops()) {
        mask.words(row, tiles.heads, head, tiles.size(), random);
        kernels<T>().dropout(p, random, mask.threshold(), keep_scale, tiles.size(), false, kept);
        weights = kept;
      }
      if (dv.values != nullptr) {
        gemm<T>(Transposed::kYes, Transposed::kNo, length, width, length, 1, weights, length, dy + offset, stride,
                dv.beta(), dv.values + offset, stride);
      }
      gemm<T>(Transposed::kNo, Transposed::kYes, length, length, width, 1, dy + offset, stride, value.values + offset,
              stride, 0, dp, length);
      if (mask.drops()) {
        kernels<T>().dropout(dp, random, mask.threshold(), keep_scale, tiles.size(), false, dp);
      }
      kernels<T>().softmax_backward(p, dp, length, length, dp);
      if (dq.values != nullptr) {
        gemm<T>(Transposed::kNo, Transposed::kNo, length, width, length, scale, dp, length, key.values + offset, stride,
                dq.beta(), dq.values + offset, stride);
      }
      if (dk.values != nullptr) {
        gemm<T>(Transposed::kYes, Transposed::kNo, length, width, length, scale, dp, length, query.values + offset,
                stride, dk.beta(), dk.values + offset, stride);
      }
    });
    arena.release(kept, tiles.size());
    arena.release(dp, tiles.size());
    arena.release(random, DropoutMask::room(tiles.size()));
  });
  return y;
}

template Tensor<float> attention(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&,
                                 const AttentionOptions&);
template Tensor<double> attention(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&,
                                  const AttentionOptions&);

}  // namespace millrace
