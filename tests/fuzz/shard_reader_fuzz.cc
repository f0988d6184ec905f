#include "tests/fuzz/shard_reader_fuzz.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/compression/deflate.h"
#include "millrace/formats/compression/zstd_packer.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/shard_reader.h"
#include "tests/fuzz/fuzz_error.h"
#include "tests/fuzz/shard_index_fuzz.h"
#include "tests/support/memory_storage.h"

namespace millrace::test {
namespace {

/// Takes numbers from the front of some bytes; zeros when there are none left.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}
  uint32_t below(uint32_t bound) {
    uint32_t value = 0;
    for (int i = 0; i < (bound <= 256 ? 1 : 3); ++i) value = value << 8 | next();
    return value % bound;
  }
  std::string_view take(size_t count) {
    const std::string_view taken = bytes_.substr(0, std::min(count, bytes_.size()));
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  uint8_t next() {
    const std::string_view taken = take(1);
    return taken.empty() ? 0 : static_cast<uint8_t>(taken[0]);
  }
  std::string_view bytes_;
};

std::string frame(std::string_view payload) {
  const uint64_t length = payload.size();
  const uint32_t length_crc = masked_crc32c_of_length(length);
  const uint32_t crc = masked_crc32c(payload);
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes.append(reinterpret_cast<const char*>(&length_crc), sizeof(length_crc));
  bytes += payload;
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return bytes;
}

// Walks a shard to its end and checks what holds for any bytes. `on_record` gets each record.
template <typename OnRecord>
std::optional<uint64_t> walk(const std::string& shard, const ShardReaderOptions& options, const OnRecord& on_record) {
  MemoryStorage storage;
  storage.add("shard", shard);
  BufferPool pool;
  ShardReader reader(storage, pool, "shard", options, [] {});
  RecordBatch batch;
  RecordPosition next = options.start;
  bool lost_the_rest = false;
  bool end_is_known = true;
  for (uint64_t steps = 0;; ++steps) {
    require(steps < 100'000);
    const ShardReader::Step step = reader.next(batch, 5);
    require(step != ShardReader::Step::kPending);  // the storage answers at once
    if (reader.compression() == Compression::kNone) {
      require(pool.bytes_in_use() <= static_cast<int64_t>(8 * shard.size() + (64 << 10)));
    }
    if (step == ShardReader::Step::kEnd) break;
    require(!lost_the_rest);
    if (step == ShardReader::Step::kRecords) {
      require(batch.first_record == next.record);
      for (size_t i = 0; i < batch.size(); ++i) {
        require(batch.offsets[i] == next.offset);
        on_record(next.record, batch.payloads[i]);
        next = {next.offset + batch.payloads[i].size() + 16, next.record + 1};
      }
    } else {
      const RecordFault& fault = reader.fault();
      require(!fault.error.message.empty() && fault.error.shard == "shard");
      require(fault.begin == next.offset && fault.end >= fault.begin);
      if (fault.can_continue) {
        require(reader.position().offset == fault.end);
        require(fault.num_records_lost == reader.position().record - next.record);
      }
      lost_the_rest = !fault.can_continue;
      end_is_known = fault.end_is_known;
      next = {fault.end, next.record + fault.num_records_lost.value_or(0)};
    }
    require(reader.position() == next || lost_the_rest);
  }
  require(reader.next(batch) == ShardReader::Step::kEnd);
  return end_is_known ? std::optional(next.offset) : std::nullopt;
}

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kZlib, Compression::kGzip,
                                         Compression::kZstd};

}  // namespace

void fuzz_shard_reader(std::string_view bytes) {
  Choices choices(bytes);
  ShardReaderOptions options;
  options.chunk_bytes = 1 + choices.below(300);
  options.max_record_bytes = choices.below(2) == 0 ? UINT64_MAX : 1000;
  const uint32_t declared = choices.below(5);
  if (declared != 3) options.compression = kCompressions[std::min<size_t>(declared, 3)];
  const uint32_t index_bytes = choices.below(1 << 16);
  const std::string_view index_body = choices.take(index_bytes);
  const std::string shard(choices.rest());
  // An index that the parser takes, of a file of this name and size.
  std::shared_ptr<const ShardIndex> index;
  try {
    const ShardIndex parsed = ShardIndex::parse(index_with_checksum(index_body));
    ShardIndex::Parts parts;
    parts.compression = parsed.compression();
    parts.points.assign(parsed.points().begin(), parsed.points().end());
    parts.fingerprint.name = "shard";
    parts.fingerprint.bytes = shard.size();
    parts.entries.clear();
    for (uint64_t i = 0; i <= parsed.num_records(); ++i) {
      parts.entries.push_back(ShardIndex::entry(parsed.offset(i), parsed.tag(i)));
    }
    index = std::make_shared<const ShardIndex>(std::move(parts));
  } catch (const ErrorException&) {
  }
  const auto check = [&](uint64_t, std::string_view payload) {
    if (options.compression == Compression::kNone) require(shard.find(payload) != std::string::npos);
  };
  walk(shard, options, check);
  if (!index) return;
  options.index = index;
  walk(shard, options, check);
  for (const uint64_t record : {index->num_records() / 2, index->num_records()}) {
    options.start = {index->offset(record), record};
    walk(shard, options, check);
  }
}

void fuzz_damaged_shard(std::string_view bytes) {
  Choices choices(bytes);
  const Compression compression = kCompressions[choices.below(4)];
  const int level = static_cast<int>(choices.below(10));
  const uint32_t num_records = choices.below(60);
  const uint32_t most_bytes = 1 + choices.below(700);
  const uint32_t records_per_stream = 1 + choices.below(60);
  std::vector<std::string> records;
  std::string shard;
  std::string stream;
  ZstdPacker packer(1 + level);
  for (uint32_t i = 0; i < num_records; ++i) {
    std::string record = std::to_string(i * 7919) + " ";
    const size_t size = (i * 2654435761U >> 8) % most_bytes;
    while (record.size() < size) record += record.substr(0, 20) + std::to_string(record.size() * i);
    record.resize(size);
    stream += frame(record);
    if (compression == Compression::kZstd) {
      packer.begin_record(record.size() + 16, shard);
      packer.write(frame(record), shard);
    }
    records.push_back(std::move(record));
    if (records.size() % records_per_stream != 0 && i + 1 < num_records) continue;
    if (compression == Compression::kNone) {
      shard += stream;
    } else if (compression == Compression::kZstd) {
      packer.flush(shard);  // one shard, with a frame for each stream
    } else {
      Deflater deflater(compression, level);
      deflater.write(stream, shard);
      deflater.finish(shard);
    }
    stream.clear();
  }
  if (compression == Compression::kZstd) packer.finish(shard);
  MemoryStorage storage;
  storage.add("shard", shard);
  const auto index = std::make_shared<const ShardIndex>(build_shard_index(
      storage, "shard", {.compression = compression, .seek_point_distance = 200 + choices.below(4000)}));
  require(index->num_records() == num_records);
  // Bytes are replaced; the size stays.
  while (!choices.empty() && !shard.empty()) {
    const size_t at = choices.below(1 << 20) % shard.size();
    shard[at] ^= static_cast<char>(choices.below(256));
  }
  for (const bool with_index : {true, false}) {
    ShardReaderOptions options{.compression = compression, .index = with_index ? index : nullptr};
    uint64_t num_delivered = 0;
    const std::optional<uint64_t> end = walk(shard, options, [&](uint64_t record, std::string_view payload) {
      ++num_delivered;
      // Without an index a record that damage copied to another place cannot be told from one that belongs there.
      if (with_index) {
        // Of another one nothing but length and 16 bits of the CRC can be seen.
        require(record < num_records && payload.size() == records[record].size());
        require(payload == records[record] || (masked_crc32c(payload) & 0xffff) == index->tag(record));
      } else {
        require(std::find(records.begin(), records.end(), payload) != records.end());
      }
    });
    require(num_delivered <= num_records || !with_index);
    if (with_index) require(end == index->num_bytes());
  }
}

}  // namespace millrace::test
