#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/object_store/store_content.h"

namespace millrace {

/// What was measured, by names.
using Figures = std::vector<std::pair<std::string, double>>;

struct RecordsRun {
  std::string pattern;        ///< of the shards
  int64_t memory_mb = 1024;   ///< StartOptions::memory_budget
  int threads = 0;            ///< StartOptions::threads
  int64_t cycle_length = 16;  ///< TfrecordOptions::cycle_length
  int64_t batches = 0;        ///< the most of them; 0: all
  bool times_reads = false;   ///< also how long each read takes
  std::string cache = {};     ///< StartOptions::disk_cache, a folder; empty: none
};

/// Makes S3 of this process's environment the server at `endpoint`; requests are signed. Before any thread starts.
void use_store(const std::string& endpoint);

/// Reads the records in batches of 256: `seconds` from before the listing, `first_seconds` to the first batch,
/// `records`, `bytes`, `hash` (its lowest 48 bits) of the stream, `cpu_seconds`, `peak_mb` resident, `wait_p999_ms` in
/// `next()`; with `times_reads` also `read_p50_ms` and `read_p999_ms`, with a cache `cached`, the bytes that came from
/// it.
[[nodiscard]] Figures read_records(const RecordsRun& run);

/// Reads the shards `train/` by ranges, without finding records in them, into memory that is used again: `seconds`,
/// `bytes`, `cpu_seconds`, `peak_mb`. Throws where the beginnings or ends of ranges are not those of `content`.
[[nodiscard]] Figures read_bytes(const StoreContent& content, int64_t part_bytes, int64_t in_flight);

/// The digest of the shards `small/`, as a pipeline needs it when it resumes: `list_seconds`, `seconds`,
/// `cpu_seconds`. Throws where it is not that of `content`.
[[nodiscard]] Figures read_fingerprints(const StoreContent& content);

}  // namespace millrace
