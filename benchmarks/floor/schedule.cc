#include "benchmarks/floor/schedule.h"

#include <fstream>
#include <map>

#include "millrace/formats/tfrecord/recognition.h"
#include "millrace/pipeline/stream_hash.h"

namespace millrace {
namespace {

// Enough to fill every cache, and to last long enough to be timed.
constexpr size_t kEnoughRows = 1 << 16;
constexpr int64_t kEnoughBytes = int64_t{1} << 29;
// An epoch is not cut before.
constexpr size_t kMostRows = 1 << 22;
constexpr int64_t kMostBytes = int64_t{1} << 31;

[[noreturn]] void no_origins() {
  throw ErrorException(ErrorCode::kInvalidArgument,
                       "floor: the rows of the batches do not tell which records they are");
}

Compression compression_of(const std::string& path) {
  std::string bytes(kRecognitionBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return recognize_compression(bytes, std::nullopt);
}

// The records of a shard, by reading it from its beginning to its end.
void find_records(ScheduledShard& shard) {
  Pipeline pipeline = Dataset::tfrecord(Shards::files({shard.path}), {.cycle_length = 1}).start({.threads = 1});
  while (const std::optional<Batch> batch = pipeline.next()) {
    if (batch->block().origins().size() != 1) no_origins();
    const std::string_view record = batch->values<std::string_view>("record")[0];
    shard.records.push_back({batch->block().origins().data()->offset(), record.size()});
  }
  shard.compression = compression_of(shard.path);
}

/// Numbers the records of a stream of batches.
class Numbering {
 public:
  explicit Numbering(Schedule& schedule) : schedule_(schedule) {}

  void add(const Batch& batch) {
    const Block& block = batch.block();
    const Origins& origins = block.origins();
    if (origins.size() != static_cast<size_t>(batch.num_rows())) no_origins();
    schedule_.batches.push_back({.first_row = schedule_.rows.size(),
                                 .num_rows = origins.size(),
                                 .ordinal = block.first_row,
                                 .iteration = block.iteration,
                                 .digest = batch_hash(batch)});
    schedule_.batch_bytes += block.byte_size();
    for (size_t i = 0; i < origins.size(); ++i) {
      const Origin& origin = origins.data()[i];
      if (!origin.is_known()) no_origins();
      const uint32_t shard = number_of(origin, *origins.names());
      std::vector<uint32_t>& passes = passes_[shard];
      if (passes.size() <= origin.record()) passes.resize(origin.record() + 1);
      schedule_.rows.push_back({shard, static_cast<uint32_t>(origin.record()), passes[origin.record()]++});
    }
  }

 private:
  uint32_t number_of(const Origin& origin, const ShardNames& names) {
    const auto [entry, is_new] = numbers_.try_emplace(origin.shard(), static_cast<uint32_t>(schedule_.shards.size()));
    if (is_new) {
      schedule_.shards.push_back({.path = names.name(origin.shard())});
      passes_.emplace_back();
    }
    return entry->second;
  }

  Schedule& schedule_;
  std::map<uint32_t, uint32_t> numbers_;       // by the numbers of the pipeline
  std::vector<std::vector<uint32_t>> passes_;  // by shard and record: how often it came
};

}  // namespace

Schedule make_schedule(const Dataset& dataset, const StartOptions& options,
                       const std::function<void(size_t)>& progress) {
  Schedule schedule;
  Numbering numbering(schedule);
  Pipeline pipeline = dataset.start(options);
  int64_t epoch = 0;
  while (const std::optional<Batch> batch = pipeline.next()) {
    const size_t rows = schedule.rows.size();
    const bool enough = rows >= kEnoughRows || schedule.batch_bytes >= kEnoughBytes;
    // Between epochs no shard is in the middle: all that is read for these batches is needed for them.
    if (enough && batch->epoch() != epoch) break;
    if (rows >= kMostRows || schedule.batch_bytes >= kMostBytes) break;
    epoch = batch->epoch();
    numbering.add(*batch);
    progress(schedule.rows.size());
  }
  for (ScheduledShard& shard : schedule.shards) find_records(shard);
  for (const ScheduledRow& row : schedule.rows) {
    if (row.record >= schedule.shards[row.shard].records.size()) no_origins();
    schedule.record_bytes += static_cast<int64_t>(schedule.record(row).bytes);
  }
  return schedule;
}

}  // namespace millrace
