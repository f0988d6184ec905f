// What a shard costs to read from the page cache beside the floors: its bytes by FileFeed in chunks beside plain
// `pread` into one that is used again; its records, framed and with both CRCs checked, beside that `pread` and the CRCs
// of records whose places are known. `items_per_second` counts records. Each run first checks what it reads.
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include "millrace/formats/storage/file_feed.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"
#include "millrace/formats/tfrecord/shard_reader.h"
#include "millrace/formats/tfrecord/writer.h"

namespace millrace {
namespace {

constexpr size_t kShardBytes = 32 << 20;
constexpr size_t kChunkBytes = 256 << 10;

/// A shard of records of one size in the temporary folder; goes at the end.
class TemporaryShard {
 public:
  TemporaryShard(size_t record_bytes, Compression compression)
      : record_bytes_(record_bytes),
        num_records_(kShardBytes / (record_bytes + kFrameBytes)),
        path_((std::filesystem::temp_directory_path() /
               ("millrace_shard_reader_benchmark_" + std::to_string(::getpid()) + "_" + std::to_string(record_bytes) +
                ".tfrecord" + std::string(to_string(compression))))
                  .string()) {
    RecordWriter writer(path_, {.compression = compression});
    for (size_t i = 0; i < num_records_; ++i) writer.write(record(i));
    writer.close();
  }
  ~TemporaryShard() { std::filesystem::remove(path_); }
  TemporaryShard(const TemporaryShard&) = delete;
  TemporaryShard& operator=(const TemporaryShard&) = delete;

  // Text of a few letters, so that it packs to about half.
  std::string record(size_t number) const {
    std::string bytes(record_bytes_, '\0');
    uint64_t state = number + 1;
    for (char& c : bytes) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      c = static_cast<char>('a' + (state >> 60));
    }
    return bytes;
  }
  size_t num_records() const { return num_records_; }
  size_t num_bytes() const { return num_records_ * (record_bytes_ + kFrameBytes); }
  const std::string& path() const { return path_; }

 private:
  size_t record_bytes_;
  size_t num_records_;
  std::string path_;
};

// Written once for all runs.
const TemporaryShard& shard_of(const benchmark::State& state, Compression compression) {
  static std::map<std::pair<int64_t, Compression>, TemporaryShard> shards;
  const auto record_bytes = static_cast<size_t>(state.range(0));
  return shards.try_emplace({state.range(0), compression}, record_bytes, compression).first->second;
}

void count(benchmark::State& state, const TemporaryShard& shard) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(shard.num_records()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(shard.num_bytes()));
}

void file_feed(benchmark::State& state) {
  const TemporaryShard& shard = shard_of(state, Compression::kNone);
  InlineExecutor executor;
  LocalStorage storage(executor);
  const BufferPool pool;
  const auto read_all = [&] {
    const auto feed = std::make_shared<FileFeed>(pool, FileFeedOptions{.chunk_bytes = kChunkBytes}, [] {});
    feed->open(storage, shard.path());
    FileFeed::Chunk chunk;
    size_t bytes = 0;
    while (feed->next_chunk(chunk) == FileFeed::Got::kBytes) {
      benchmark::DoNotOptimize(chunk.buffer->data());
      bytes += chunk.end - chunk.begin;
    }
    feed->close();
    return bytes;
  };
  if (read_all() != shard.num_bytes()) throw std::logic_error("not all bytes of the shard were read");
  for (auto _ : state) benchmark::DoNotOptimize(read_all());
  count(state, shard);
}

// `each(chunk)` gets every chunk.
template <typename Each>
size_t pread_all(const TemporaryShard& shard, std::vector<char>& chunk, Each&& each) {
  const int file = ::open(shard.path().c_str(), O_RDONLY | O_CLOEXEC);
  size_t offset = 0;
  while (true) {
    const ssize_t bytes = ::pread(file, chunk.data(), chunk.size(), static_cast<off_t>(offset));
    if (bytes <= 0) break;
    each(std::string_view(chunk.data(), static_cast<size_t>(bytes)));
    offset += static_cast<size_t>(bytes);
  }
  ::close(file);
  return offset;
}

void file_feed_floor(benchmark::State& state) {
  const TemporaryShard& shard = shard_of(state, Compression::kNone);
  std::vector<char> chunk(kChunkBytes);
  const auto read_all = [&] {
    return pread_all(shard, chunk, [](std::string_view bytes) { benchmark::DoNotOptimize(bytes.data()); });
  };
  if (read_all() != shard.num_bytes()) throw std::logic_error("not all bytes of the shard were read");
  for (auto _ : state) benchmark::DoNotOptimize(read_all());
  count(state, shard);
}

void read_shard(benchmark::State& state, Compression compression) {
  const TemporaryShard& shard = shard_of(state, compression);
  InlineExecutor executor;
  LocalStorage storage(executor);
  BufferPool pool;
  RecordBatch batch;
  // `each` gets every batch.
  const auto read_all = [&](const auto& each) {
    ShardReader reader(storage, pool, shard.path(), {.chunk_bytes = kChunkBytes}, [] {});
    while (true) {
      const ShardReader::Step step = reader.next(batch, 1024);
      if (step == ShardReader::Step::kEnd) return;
      if (step == ShardReader::Step::kError) throw ErrorException(reader.fault().error);
      if (step == ShardReader::Step::kRecords) each(batch);
    }
  };
  size_t num_records = 0;
  read_all([&](const RecordBatch& records) {
    for (const std::string_view payload : records.payloads) {
      if (payload != shard.record(num_records++)) throw std::logic_error("another record than was written");
    }
  });
  if (num_records != shard.num_records()) throw std::logic_error("another number of records than was written");
  for (auto _ : state) {
    read_all([](const RecordBatch& records) { benchmark::DoNotOptimize(records.payloads.data()); });
  }
  count(state, shard);
}

void shard_reader(benchmark::State& state) { read_shard(state, Compression::kNone); }
void shard_reader_gzip(benchmark::State& state) { read_shard(state, Compression::kGzip); }

// Chunks of whole records, so that none has to be put together from two.
void shard_reader_floor(benchmark::State& state) {
  const TemporaryShard& shard = shard_of(state, Compression::kNone);
  const auto record_bytes = static_cast<size_t>(state.range(0));
  const size_t frame_bytes = record_bytes + kFrameBytes;
  std::vector<char> chunk(std::max<size_t>(1, kChunkBytes / frame_bytes) * frame_bytes);
  size_t num_good = 0;
  const auto read_all = [&] {
    num_good = 0;
    return pread_all(shard, chunk, [&](std::string_view bytes) {
      for (; bytes.size() >= frame_bytes; bytes.remove_prefix(frame_bytes)) {
        const char* header = bytes.data();
        const auto length = load_frame_field<uint64_t>(header);
        const bool good = masked_crc32c_of_length(length) == load_frame_field<uint32_t>(header + sizeof(length)) &&
                          masked_crc32c(bytes.substr(kFrameHeaderBytes, record_bytes)) ==
                              load_frame_field<uint32_t>(header + kFrameHeaderBytes + record_bytes);
        num_good += good ? 1 : 0;
      }
    });
  };
  if (read_all() != shard.num_bytes() || num_good != shard.num_records()) {
    throw std::logic_error("not all records of the shard were read");
  }
  for (auto _ : state) {
    read_all();
    benchmark::DoNotOptimize(num_good);
  }
  count(state, shard);
}

BENCHMARK(file_feed)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK(file_feed_floor)->Arg(100000)->Unit(benchmark::kMillisecond);
void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(100)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
}
BENCHMARK(shard_reader)->Apply(sizes);
BENCHMARK(shard_reader_floor)->Apply(sizes);
BENCHMARK(shard_reader_gzip)->Apply(sizes);

}  // namespace
}  // namespace millrace
