#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/iteration.h"
#include "millrace/formats/compression/compression.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// Where a record lies in a shard; of a compressed one in its unpacked bytes.
struct ScheduledRecord {
  uint64_t offset = 0;  ///< of its length field
  uint64_t bytes = 0;   ///< of its payload
};

struct ScheduledShard {
  std::string path;
  Compression compression = Compression::kNone;
  std::vector<ScheduledRecord> records;
};

/// A row of a batch: which record it is, and for which time it comes.
struct ScheduledRow {
  uint32_t shard = 0;
  uint32_t record = 0;
  uint32_t pass = 0;  ///< how often the record came before
};

struct ScheduledBatch {
  size_t first_row = 0;  ///< in `Schedule::rows`
  size_t num_rows = 0;
  int64_t ordinal = 0;  ///< of its first row, as random choices count
  Iteration iteration;
  uint64_t digest = 0;  ///< `batch_hash` of what the engine gave
};

/// Which records the first batches of a stream consist of, in their order, as the engine itself says: about one epoch,
/// several where the data is small. What a floor has to deliver.
struct Schedule {
  std::vector<ScheduledShard> shards;
  std::vector<ScheduledRow> rows;
  std::vector<ScheduledBatch> batches;
  int64_t batch_bytes = 0;   ///< of the values of all batches
  int64_t record_bytes = 0;  ///< of the payloads of all rows

  const ScheduledRecord& record(const ScheduledRow& row) const { return shards[row.shard].records[row.record]; }
};

/// Runs the dataset, whose elements are batches of rows of TFRecords, and each of its shards once more. `progress` is
/// told the number of rows so far. Throws `kInvalidArgument` when the rows do not tell where they come from, and what
/// the pipelines throw.
[[nodiscard]] Schedule make_schedule(const Dataset& dataset, const StartOptions& options,
                                     const std::function<void(size_t)>& progress);

}  // namespace millrace
