#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

struct RelativePositionOptions {
  int64_t queries = 0;
  int64_t keys = 0;
  bool bidirectional = true;   ///< false: keys after the query are all at distance 0. Default: true
  int64_t max_distance = 128;  ///< from here on all are in the last bucket. Default: 128
};

/// The bucket of the distance `key - query` (arXiv 1910.10683, section 2.1, as T5's code has it): half of the buckets
/// are for one distance each, the others for ranges that grow as its logarithm; bidirectional, half of all are for keys
/// after the query.
int64_t relative_position_bucket(int64_t distance, int64_t buckets, const RelativePositionOptions& options);

/// What is added to attention scores for each distance: `y[h, q, k] = table[bucket(k - q), h]`; table `[buckets,
/// heads]`, gives `[heads, queries, keys]`. Throws `kWrongShape` for a table of another rank, `kInvalidArgument` for
/// fewer than 2 buckets (4 when bidirectional) or a maximum distance that is not above the distances of one bucket
/// each.
template <typename T>
Tensor<T> relative_position_bias(Tape<T>& tape, const Tensor<T>& table, const RelativePositionOptions& options);

}  // namespace millrace
