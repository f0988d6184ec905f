#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "benchmarks/floor/floor_batch.h"
#include "benchmarks/floor/schedule.h"

namespace millrace {

/// Makes rows of batches of large records, one by one. Each thread has its own.
class RowFiller {
 public:
  virtual ~RowFiller() = default;
  /// Writes row `row` of `batch`, whose record has this payload, to its place in `out`. Throws what is wrong with it,
  /// without its place.
  virtual void fill(const ScheduledBatch& batch, size_t row, std::string_view record, FloorBatch& out) = 0;
};

/// What a workload fills its rows with.
struct RowFilling {
  SchemaPtr schema;  ///< of a row; shapes are fixed
  std::function<std::unique_ptr<RowFiller>()> make_filler;
};

}  // namespace millrace
