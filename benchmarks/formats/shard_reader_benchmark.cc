// What a shard costs to read from the page cache, framed and with both CRCs checked, beside the floor: the same bytes
// by `pread` into one chunk that is used again, and by `pread` with the CRCs of all bytes. `items_per_second` counts
// records. Each run first checks what it reads.
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include "formats/storage/local.h"
#include "formats/tfrecord/crc.h"
#include "formats/tfrecord/frame.h"
#include "formats/tfrecord/shard_reader.h"
#include "formats/tfrecord/writer.h"

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
               ("millrace_shard_reader_benchmark_" + std::to_string(::getpid()) + ".tfrecord"))
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

void count(benchmark::State& state, const TemporaryShard& shard) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(shard.num_records()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(shard.num_bytes()));
}

void read_shard(benchmark::State& state, Compression compression) {
  const TemporaryShard shard(static_cast<size_t>(state.range(0)), compression);
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

void pread_floor(benchmark::State& state, bool with_crc) {
  const TemporaryShard shard(static_cast<size_t>(state.range(0)), Compression::kNone);
  std::vector<char> chunk(kChunkBytes);
  const auto read_all = [&] {
    const int file = ::open(shard.path().c_str(), O_RDONLY | O_CLOEXEC);
    size_t offset = 0;
    while (true) {
      const ssize_t bytes = ::pread(file, chunk.data(), chunk.size(), static_cast<off_t>(offset));
      if (bytes <= 0) break;
      if (with_crc) benchmark::DoNotOptimize(crc32c({chunk.data(), static_cast<size_t>(bytes)}));
      benchmark::DoNotOptimize(chunk.data());
      offset += static_cast<size_t>(bytes);
    }
    ::close(file);
    return offset;
  };
  if (read_all() != shard.num_bytes()) throw std::logic_error("not all bytes of the shard were read");
  for (auto _ : state) benchmark::DoNotOptimize(read_all());
  count(state, shard);
}

void shard_reader(benchmark::State& state) { read_shard(state, Compression::kNone); }
void shard_reader_gzip(benchmark::State& state) { read_shard(state, Compression::kGzip); }
void pread_only(benchmark::State& state) { pread_floor(state, false); }
void pread_and_crc(benchmark::State& state) { pread_floor(state, true); }

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(100)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
}
BENCHMARK(pread_only)->Apply(sizes);
BENCHMARK(pread_and_crc)->Apply(sizes);
BENCHMARK(shard_reader)->Apply(sizes);
BENCHMARK(shard_reader_gzip)->Apply(sizes);

}  // namespace
}  // namespace millrace
