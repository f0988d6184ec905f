#include "millrace/trainer/tensor/relative_position_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

int64_t relative_position_bucket(int64_t distance, int64_t buckets, const RelativePositionOptions& options) {
  int64_t bucket = 0;
  if (options.bidirectional) {
    buckets /= 2;
    if (distance > 0) bucket = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<int64_t>(-distance, 0);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return bucket + distance;
  // In float, as the original computes it: where the logarithm is a whole number the last bit decides.
  const float position =
      std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(options.max_distance) / static_cast<double>(exact))) *
      static_cast<float>(buckets - exact);
  return bucket + std::min(exact + static_cast<int64_t>(position), buckets - 1);
}

template <typename T>
Tensor<T> relative_position_bias(Tape<T>& tape, const Tensor<T>& table, const RelativePositionOptions& options) {
  const int64_t heads = table.columns();
  const int64_t buckets = table.rows();
  check_shape("table of relative_position_bias", table.shape, {buckets, heads});
  if (buckets < (options.bidirectional ? 4 : 2)) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} buckets for relative positions", buckets));
  }
  const int64_t exact = buckets / (options.bidirectional ? 4 : 2);
  if (options.max_distance <= exact) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("a maximum distance of {}; {} buckets need more than {}", options.max_distance, buckets, exact));
  }
  const int64_t size = options.queries * options.keys;
  auto* found = tape.template keep<int64_t>(size);
  for (int64_t query = 0; query < options.queries; ++query) {
    for (int64_t key = 0; key < options.keys; ++key) {
      found[query * options.keys + key] = relative_position_bucket(key - query, buckets, options);
    }
  }
  const Tensor<T> y = tape.make({heads, options.queries, options.keys});
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < size; ++i) y.values[head * size + i] = table.values[found[i] * heads + head];
  }
  tape.record({table}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(table);
    if (!slot.add) std::fill_n(slot.values, table.count(), T{0});
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < size; ++i) slot.values[found[i] * heads + head] += dy[head * size + i];
    }
  });
  return y;
}

template Tensor<float> relative_position_bias(Tape<float>&, const Tensor<float>&, const RelativePositionOptions&);
template Tensor<double> relative_position_bias(Tape<double>&, const Tensor<double>&, const RelativePositionOptions&);

}  // namespace millrace
