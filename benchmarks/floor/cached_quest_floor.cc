#include "benchmarks/floor/cached_quest_floor.h"

#include <cstring>

#include "benchmarks/floor/shard_stream.h"
#include "benchmarks/workload_features.h"
#include "formats/error.h"
#include "formats/example/parser.h"

namespace millrace {
namespace {

/// Rows of fixed features, the features of a row side by side.
class ParsedRows {
 public:
  explicit ParsedRows(const Schedule& schedule) : parser_(quest_features()) {
    for (const FeatureSpec& column : parser_.columns()) {
      offsets_.push_back(row_bytes_);
      column_bytes_.push_back(static_cast<size_t>(num_values(column.shape)) * size_of(column.dtype));
      row_bytes_ += column_bytes_.back();
    }
    size_t rows = 0;
    for (const ScheduledShard& shard : schedule.shards) {
      first_rows_.push_back(rows);
      rows += shard.records.size();
    }
    memory_.resize(rows * row_bytes_);
    for (size_t s = 0; s < schedule.shards.size(); ++s)
      parse(schedule.shards[s], memory_.data() + first_rows_[s] * row_bytes_);
  }

  const std::vector<FeatureSpec>& columns() const { return parser_.columns(); }
  size_t column_bytes(size_t column) const { return column_bytes_[column]; }
  const std::byte* values(const ScheduledRow& row, size_t column) const {
    return memory_.data() + (first_rows_[row.shard] + row.record) * row_bytes_ + offsets_[column];
  }

 private:
  void parse(const ScheduledShard& shard, std::byte* row) {
    Pipeline pipeline = Dataset::tfrecord(Shards::files({shard.path}), {.cycle_length = 1}).start({.threads = 1});
    std::vector<std::byte*> places(offsets_.size());
    while (const std::optional<Batch> batch = pipeline.next()) {
      for (size_t c = 0; c < places.size(); ++c) places[c] = row + offsets_[c];
      if (auto error = parser_.parse(batch->values<std::string_view>("record")[0], places)) {
        throw ErrorException(*std::move(error));
      }
      row += row_bytes_;
    }
  }

  const ExampleParser parser_;
  size_t row_bytes_ = 0;
  std::vector<size_t> offsets_;
  std::vector<size_t> column_bytes_;
  std::vector<size_t> first_rows_;  // of each shard
  std::vector<std::byte> memory_;
};

}  // namespace

MemoryFloor::Work cached_quest_work(Schedule schedule) {
  const auto rows = std::make_shared<const ParsedRows>(schedule);
  MemoryFloor::Work work = {.schema = std::make_shared<const Schema>(rows->columns()),
                            .rows = static_cast<int64_t>(schedule.rows.size()),
                            .bytes = schedule.batch_bytes};
  for (const ScheduledBatch& batch : schedule.batches) work.expected.push_back(batch.digest);
  work.write = [rows, schedule = std::make_shared<const Schedule>(std::move(schedule))](size_t number,
                                                                                        FloorBatch& out) {
    const ScheduledBatch& batch = schedule->batches[number];
    for (size_t c = 0; c < rows->columns().size(); ++c) {
      const std::array<int64_t, 2> shape = {static_cast<int64_t>(batch.num_rows), rows->columns()[c].shape[0]};
      std::byte* place = out.begin_column(c, shape);
      for (size_t row = batch.first_row; row < batch.first_row + batch.num_rows; ++row) {
        std::memcpy(place, rows->values(schedule->rows[row], c), rows->column_bytes(c));
        place += rows->column_bytes(c);
      }
    }
    return batch.num_rows;
  };
  return work;
}

}  // namespace millrace
