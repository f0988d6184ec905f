#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "benchmarks/floor/floor_batch.h"
#include "benchmarks/floor/schedule.h"

namespace millrace {

/// The record after record `i`, or nothing.
inline std::string_view next_of(std::span<const std::string_view> records, size_t i) {
  return i + 1 < records.size() ? records[i + 1] : std::string_view();
}

/// Makes batches of records: what a workload does after reading and shuffling. Each thread has its own.
class BatchWriter {
 public:
  virtual ~BatchWriter() = default;
  /// `records`: the payloads of the batch's rows. Throws what is wrong with one of them.
  virtual void write(const ScheduledBatch& batch, std::span<const std::string_view> records, FloorBatch& out) = 0;
};

/// What a workload writes its batches with.
struct BatchWriting {
  SchemaPtr schema;  ///< of the batches: names and types; shapes do not matter
  std::function<std::unique_ptr<BatchWriter>()> make_writer;
};

}  // namespace millrace
