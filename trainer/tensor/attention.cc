#include "millrace/trainer/tensor/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/gemm.h"
#include "millrace/trainer/tensor/kept_values.h"
#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {
namespace {

// The sizes of one call, and the tiles of it: one head of one row.
struct Tiles {
  int64_t batch_rows;
  int64_t heads;
  int64_t queries;
  int64_t keys;
  int64_t columns;

  int64_t width() const { return columns / heads; }
  int64_t size() const { return queries * keys; }
  int64_t query_offset(int64_t row, int64_t head) const { return row * queries * columns + head * width(); }
  int64_t key_offset(int64_t row, int64_t head) const { return row * keys * columns + head * width(); }
  template <typename Body>
  void for_each(const Body& body) const {
    for (int64_t row = 0; row < batch_rows; ++row) {
      for (int64_t head = 0; head < heads; ++head) body(row, head);
    }
  }
};

// The tensors and options of one call, as the backward pass needs them.
template <typename T>
struct Call {
  Tiles tiles;
  Tensor<T> query;
  Tensor<T> key;
  Tensor<T> value;
  Tensor<T> bias;  // without values: none
  DrawnDropout<T> dropped;
  T scale;
  KeptValues<T> probabilities;  // of all tiles

  int64_t tile(int64_t row, int64_t head) const { return row * tiles.heads + head; }
};

// Memory for the probabilities of one tile with some dropped; that of the tile where nothing is.
template <typename T>
class DroppedTile {
 public:
  DroppedTile(Arena& arena, const Call<T>& call)
      : arena_(arena), call_(call), values_(call.dropped.drops() ? arena.allocate<T>(call.tiles.size()) : nullptr) {}
  DroppedTile(const DroppedTile&) = delete;
  DroppedTile& operator=(const DroppedTile&) = delete;
  ~DroppedTile() {
    if (values_ != nullptr) arena_.release(values_, call_.tiles.size());
  }

  const T* of(int64_t tile, const T* p) {
    if (values_ == nullptr) return p;
    call_.dropped.apply(tile, p, nullptr, values_);
    return values_;
  }

 private:
  Arena& arena_;
  const Call<T>& call_;
  T* values_;
};

template <typename T>
void hide_keys(const AttentionOptions<T>& options, const Tiles& tiles, int64_t row, T* scores) {
  constexpr T kHidden = std::numeric_limits<T>::lowest();
  if (!options.key_mask.empty()) {
    const std::span<const int64_t> keys =
        options.key_mask.subspan(static_cast<size_t>(row * tiles.keys), static_cast<size_t>(tiles.keys));
    for (int64_t key = 0; key < tiles.keys; ++key) {
      if (keys[static_cast<size_t>(key)] != 0) continue;
      for (int64_t query = 0; query < tiles.queries; ++query) scores[query * tiles.keys + key] = kHidden;
    }
  }
  if (!options.causal) return;
  for (int64_t query = 0; query < tiles.queries; ++query) {
    for (int64_t key = query + 1; key < tiles.keys; ++key) scores[query * tiles.keys + key] = kHidden;
  }
}

template <typename T>
void check(const Tiles& tiles, const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
           const AttentionOptions<T>& options) {
  check_shape("query of attention", query.shape, {tiles.batch_rows * tiles.queries, tiles.columns});
  check_shape("key of attention", key.shape, {tiles.batch_rows * tiles.keys, tiles.columns});
  check_shape("value of attention", value.shape, key.shape);
  if (options.heads < 1 || tiles.columns % options.heads != 0) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("{} columns do not split into {} heads", tiles.columns, options.heads));
  }
  if (options.bias) check_shape("bias of attention", options.bias->shape, {tiles.heads, tiles.queries, tiles.keys});
  if (!options.key_mask.empty() && static_cast<int64_t>(options.key_mask.size()) != key.rows()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("the key mask of attention has {} values for {} keys",
                                                             options.key_mask.size(), key.rows()));
  }
}

template <typename T>
void backward(Tape<T>& tape, const Call<T>& call, const T* dy) {
  const Tiles& tiles = call.tiles;
  const int64_t stride = tiles.columns;
  Arena& arena = tape.arena();
  // In the order in which they are written below: two of the inputs may be one tensor.
  const auto slot_of = [&](const Tensor<T>& x) { return tape.wants(x) ? tape.gradient_of(x) : GradientSlot<T>{}; };
  const GradientSlot<T> dv = slot_of(call.value);
  const GradientSlot<T> dbias = slot_of(call.bias);
  const GradientSlot<T> dq = slot_of(call.query);
  const GradientSlot<T> dk = slot_of(call.key);
  if (dbias.values != nullptr && !dbias.add) std::fill_n(dbias.values, call.bias.count(), T{0});
  T* dp = arena.allocate<T>(tiles.size());
  DroppedTile<T> dropped(arena, call);
  KeptWindow<T> window(arena, call.probabilities, tiles.size());
  tiles.for_each([&](int64_t row, int64_t head) {
    const int64_t at_query = tiles.query_offset(row, head);
    const int64_t at_key = tiles.key_offset(row, head);
    const T* p = window.values(call.tile(row, head) * tiles.size());
    const T* weights = dropped.of(call.tile(row, head), p);
    if (dv.values != nullptr) {
      gemm<T>(Transposed::kYes, Transposed::kNo, tiles.keys, tiles.width(), tiles.queries, 1, weights, tiles.keys,
              dy + at_query, stride, dv.beta(), dv.values + at_key, stride);
    }
    gemm<T>(Transposed::kNo, Transposed::kYes, tiles.queries, tiles.keys, tiles.width(), 1, dy + at_query, stride,
            call.value.values + at_key, stride, 0, dp, tiles.keys);
    if (call.dropped.drops()) call.dropped.apply(call.tile(row, head), dp, nullptr, dp);
    kernels<T>().softmax_backward(p, dp, tiles.queries, tiles.keys, dp);
    if (dbias.values != nullptr) kernels<T>().add(dp, tiles.size(), dbias.values + head * tiles.size());
    if (dq.values != nullptr) {
      gemm<T>(Transposed::kNo, Transposed::kNo, tiles.queries, tiles.width(), tiles.keys, call.scale, dp, tiles.keys,
              call.key.values + at_key, stride, dq.beta(), dq.values + at_query, stride);
    }
    if (dk.values != nullptr) {
      gemm<T>(Transposed::kYes, Transposed::kNo, tiles.keys, tiles.width(), tiles.queries, call.scale, dp, tiles.keys,
              call.query.values + at_query, stride, dk.beta(), dk.values + at_key, stride);
    }
  });
  arena.release(dp, tiles.size());
}

}  // namespace

template <typename T>
Tensor<T> attention(Tape<T>& tape, const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                    const AttentionOptions<T>& options) {
  const int64_t rows = options.batch_rows;
  const Tiles tiles{.batch_rows = rows,
                    .heads = options.heads,
                    .queries = rows == 0 ? 0 : query.rows() / rows,
                    .keys = rows == 0 ? 0 : key.rows() / rows,
                    .columns = query.columns()};
  check(tiles, query, key, value, options);
  const Call<T> call{.tiles = tiles,
                     .query = query,
                     .key = key,
                     .value = value,
                     .bias = options.bias.value_or(Tensor<T>{}),
                     .dropped = DrawnDropout<T>(tape, options.dropout, rows, tiles.heads, tiles.size()),
                     .scale = static_cast<T>(options.scale.value_or(1 / std::sqrt(static_cast<double>(tiles.width())))),
                     .probabilities = KeptValues<T>(tape, rows * tiles.heads * tiles.size())};
  const int64_t stride = tiles.columns;
  const Tensor<T> y = tape.make(query.shape);
  {
    DroppedTile<T> dropped(tape.arena(), call);
    KeptWindow<T> window(tape.arena(), call.probabilities, tiles.size());
    tiles.for_each([&](int64_t row, int64_t head) {
      const int64_t at_query = tiles.query_offset(row, head);
      const int64_t at_key = tiles.key_offset(row, head);
      T* p = window.place(call.tile(row, head) * tiles.size());
      if (options.bias) std::copy_n(call.bias.values + head * tiles.size(), tiles.size(), p);
      gemm<T>(Transposed::kNo, Transposed::kYes, tiles.queries, tiles.keys, tiles.width(), call.scale,
              query.values + at_query, stride, key.values + at_key, stride, options.bias ? 1 : 0, p, tiles.keys);
      hide_keys(options, tiles, row, p);
      kernels<T>().softmax(tiles.queries, tiles.keys, p);
      window.keep();
      gemm<T>(Transposed::kNo, Transposed::kNo, tiles.queries, tiles.width(), tiles.keys, 1,
              dropped.of(call.tile(row, head), p), tiles.keys, value.values + at_key, stride, 0, y.values + at_query,
              stride);
    });
  }
  tape.record({query, key, value, call.bias}, y, [call](Tape<T>& t, const T* dy) { backward(t, call, dy); });
  return y;
}

template Tensor<float> attention(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&,
                                 const AttentionOptions<float>&);
template Tensor<double> attention(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&,
                                  const AttentionOptions<double>&);

}  // namespace millrace
