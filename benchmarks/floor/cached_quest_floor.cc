#include "benchmarks/floor/cached_quest_floor.h"

#include <cstring>

#include "benchmarks/workload_features.h"
#include "millrace/ops/row_memory/cached_rows.h"
#include "millrace/ops/row_memory/packed_rows.h"

namespace millrace {
namespace {

/// Parsed rows as a cache keeps them.
class KeptRows {
 public:
  explicit KeptRows(const Schedule& schedule)
      : schema_(std::make_shared<const Schema>(parsed(schedule.shards.at(0).path).schema())), codec_(*schema_) {
    std::vector<std::byte> row(codec_.most_bytes());
    for (const ScheduledShard& shard : schedule.shards) {
      std::vector<std::string_view>& rows = rows_.emplace_back();
      Pipeline pipeline = parsed(shard.path).start({.threads = 1});
      while (const std::optional<Batch> element = pipeline.next()) {
        const size_t bytes = codec_.encode(element->block(), 0, row.data());
        std::byte* const kept = memory_->add(bytes);
        std::memcpy(kept, row.data(), bytes);
        rows.emplace_back(reinterpret_cast<const char*>(kept), bytes);
      }
    }
  }

  const SchemaPtr& schema() const { return schema_; }
  const PackedRowCodec& codec() const { return codec_; }
  std::string_view at(const ScheduledRow& row) const { return rows_[row.shard][row.record]; }

 private:
  static Dataset parsed(const std::string& path) {
    return Dataset::tfrecord(Shards::files({path}), {.cycle_length = 1}).parse_example(quest_features());
  }

  SchemaPtr schema_;
  PackedRowCodec codec_;
  BufferPool pool_;
  const Ref<CachedRows> memory_{new CachedRows(pool_)};
  std::vector<std::vector<std::string_view>> rows_;  // of each shard
};

}  // namespace

MemoryFloor::Work cached_quest_work(Schedule schedule) {
  const auto kept = std::make_shared<const KeptRows>(schedule);
  MemoryFloor::Work work = {
      .schema = kept->schema(), .rows = static_cast<int64_t>(schedule.rows.size()), .bytes = schedule.batch_bytes};
  for (const ScheduledBatch& batch : schedule.batches) work.expected.push_back(batch.digest);
  work.write = [kept, schedule = std::make_shared<const Schedule>(std::move(schedule))](size_t number,
                                                                                        FloorBatch& out) {
    const ScheduledBatch& batch = schedule->batches[number];
    const std::span rows(schedule->rows.data() + batch.first_row, batch.num_rows);
    std::vector<std::byte*> places;
    for (size_t c = 0; c < kept->schema()->size(); ++c) {
      const std::array<int64_t, 2> shape = {static_cast<int64_t>(rows.size()), (*kept->schema())[c].shape[0]};
      places.push_back(out.begin_column(c, shape));
    }
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto next = row + 1 < rows.size() ? kept->at(rows[row + 1]) : std::string_view();
      kept->codec().decode(kept->at(rows[row]), next, places);
    }
    return rows.size();
  };
  return work;
}

}  // namespace millrace
