#include "benchmarks/floor/read_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

constexpr uint64_t kChunkBytes = 256 << 10;
// Unpacking takes long.
constexpr uint64_t kUnpackedChunkBytes = 64 << 10;

/// Places in one piece of memory, that are used again by size.
class Places {
 public:
  uint64_t take(uint64_t bytes) {
    std::vector<uint64_t>& free = free_[rounded(bytes)];
    if (free.empty()) return std::exchange(end_, end_ + rounded(bytes));
    const uint64_t place = free.back();
    free.pop_back();
    return place;
  }
  void give_back(uint64_t place, uint64_t bytes) { free_[rounded(bytes)].push_back(place); }
  uint64_t end() const { return end_; }

 private:
  // Whole cache lines, and few sizes.
  static uint64_t rounded(uint64_t bytes) {
    constexpr uint64_t kLine = 64;
    const uint64_t step = std::max(kLine, bytes / 16 / kLine * kLine);
    return std::max(step, (bytes + step - 1) / step * step);
  }

  std::map<uint64_t, std::vector<uint64_t>> free_;
  uint64_t end_ = 0;
};

std::vector<uint32_t> cut_into_windows(const Schedule& schedule, int threads, std::vector<ReadPlan::Window>& windows) {
  std::vector<uint32_t> window_of_row;
  window_of_row.reserve(schedule.rows.size());
  uint64_t bytes = 0;
  for (size_t b = 0; b < schedule.batches.size(); ++b) {
    const auto apiece = static_cast<uint64_t>(threads);
    if (windows.empty() || (bytes >= kChunkBytes * apiece && windows.back().num_batches >= apiece)) {
      windows.push_back({.first_chunk = 0, .num_chunks = 0, .first_batch = b, .num_batches = 0});
      bytes = 0;
    }
    ++windows.back().num_batches;
    const ScheduledBatch& batch = schedule.batches[b];
    for (size_t i = 0; i < batch.num_rows; ++i) {
      window_of_row.push_back(static_cast<uint32_t>(windows.size() - 1));
      bytes += schedule.record(schedule.rows[batch.first_row + i]).bytes;
    }
  }
  return window_of_row;
}

struct PlannedChunk {
  ReadPlan::Chunk chunk;
  uint32_t window = UINT32_MAX;  // in which it is read
};

/// Cuts the passes over the shards into chunks.
class ChunkCutter {
 public:
  ChunkCutter(const Schedule& schedule, const std::vector<uint32_t>& window_of_row)
      : schedule_(schedule), window_of_row_(window_of_row) {}

  // `rows`: of each record of the shard, or kNoRow.
  void cut(uint32_t shard_number, const std::vector<size_t>& rows) {
    const ScheduledShard& shard = schedule_.shards[shard_number];
    const bool compressed = shard.compression != Compression::kNone;
    const auto is_wanted = [](size_t row) { return row != ReadPlan::kNoRow; };
    const auto last = static_cast<size_t>(rows.rend() - std::find_if(rows.rbegin(), rows.rend(), is_wanted));
    const size_t first_chunk = chunks.size();
    for (size_t record = 0; record < last;) {
      if (!compressed && !is_wanted(rows[record])) {
        ++record;
        continue;
      }
      chunks.push_back({{.shard = shard_number,
                         .stream = num_streams,
                         .index = static_cast<uint32_t>(chunks.size() - first_chunk),
                         .begin = shard.records[record].offset,
                         .end = shard.records[record].offset,
                         .place = 0,
                         .first_record = records.size(),
                         .num_records = 0}});
      const uint64_t most = compressed ? kUnpackedChunkBytes : kChunkBytes;
      for (; record < last && add(shard.records[record], rows[record], most); ++record) {
        records.push_back({static_cast<uint32_t>(record), rows[record], 0});
      }
    }
    // What is unpacked comes one after the other: no chunk may be planned after a later one.
    if (compressed) {
      for (size_t i = chunks.size() - 1; i > first_chunk; --i) {
        chunks[i - 1].window = std::min(chunks[i - 1].window, chunks[i].window);
      }
    }
    ++num_streams;
  }

  std::vector<PlannedChunk> chunks;
  std::vector<ReadPlan::Record> records;  // of the chunks
  uint32_t num_streams = 0;

 private:
  // Adds to the last chunk, or says that it is full.
  bool add(const ScheduledRecord& record, size_t row, uint64_t most) {
    PlannedChunk& planned = chunks.back();
    const uint64_t end = record.offset + record.bytes + kFrameBytes;
    if (planned.chunk.num_records > 0 && end - planned.chunk.begin > most) return false;
    planned.chunk.end = end;
    ++planned.chunk.num_records;
    if (row != ReadPlan::kNoRow) planned.window = std::min(planned.window, window_of_row_[row]);
    return true;
  }

  const Schedule& schedule_;
  const std::vector<uint32_t>& window_of_row_;
};

}  // namespace

ReadPlan::ReadPlan(const Schedule& schedule, bool copies, int threads) {
  const std::vector<uint32_t> window_of_row = cut_into_windows(schedule, threads, windows);
  std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> streams;  // rows by pass over a shard, and record
  for (size_t row = 0; row < schedule.rows.size(); ++row) {
    const ScheduledRow& at = schedule.rows[row];
    std::vector<size_t>& rows = streams[{at.pass, at.shard}];
    rows.resize(schedule.shards[at.shard].records.size(), kNoRow);
    rows[at.record] = row;
  }
  ChunkCutter cutter(schedule, window_of_row);
  for (const auto& [stream, rows] : streams) cutter.cut(stream.second, rows);
  num_streams = cutter.num_streams;
  // In turn of the streams: pieces of one that are unpacked wait for each other.
  std::stable_sort(cutter.chunks.begin(), cutter.chunks.end(), [](const PlannedChunk& a, const PlannedChunk& b) {
    return std::tie(a.window, a.chunk.index) < std::tie(b.window, b.chunk.index);
  });

  Places places;
  struct Used {
    uint64_t place;
    uint64_t bytes;
  };
  std::vector<std::vector<Used>> last_used(windows.size());  // by window
  auto planned = cutter.chunks.begin();
  for (uint32_t w = 0; w < windows.size(); ++w) {
    if (w >= kWindowsApart) {
      for (const Used& used : last_used[w - kWindowsApart]) places.give_back(used.place, used.bytes);
    }
    const auto take = [&](uint64_t bytes, uint32_t until) {
      last_used[until].push_back({places.take(bytes), bytes});
      return last_used[until].back().place;
    };
    windows[w].first_chunk = chunks.size();
    for (; planned != cutter.chunks.end() && planned->window == w; ++planned) {
      Chunk& chunk = chunks.emplace_back(planned->chunk);
      uint32_t last = w;
      chunk.first_record = records.size();
      for (size_t i = 0; i < chunk.num_records; ++i) {
        Record& record = records.emplace_back(cutter.records[planned->chunk.first_record + i]);
        if (record.row == kNoRow) continue;
        last = std::max(last, window_of_row[record.row]);
        if (copies) record.place = take(schedule.record(schedule.rows[record.row]).bytes, window_of_row[record.row]);
      }
      largest_chunk = std::max(largest_chunk, chunk.end - chunk.begin);
      if (!copies) chunk.place = take(chunk.end - chunk.begin, last);
    }
    windows[w].num_chunks = chunks.size() - windows[w].first_chunk;
  }
  memory = places.end();
}

}  // namespace millrace
