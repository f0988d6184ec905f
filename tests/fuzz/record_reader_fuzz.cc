#include "tests/fuzz/record_reader_fuzz.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"
#include "millrace/formats/tfrecord/reader.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {

void fuzz_record_reader(std::string_view bytes) {
  BufferPool pool;
  uint64_t sizes = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  for (const bool exact : {true, false}) {
    RecordReader reader(pool, {.max_shard_bytes = exact ? bytes.size() : UINT64_MAX, .size_is_exact = exact});
    RecordBatch batch;
    size_t fed = 0;
    uint64_t record = 0;
    uint64_t offset = 0;
    for (;;) {
      const RecordReader::Step step = reader.next(batch);
      if (step == RecordReader::Step::kRecords) {
        require(batch.first_record == record);
        for (size_t i = 0; i < batch.size(); ++i) {
          require(batch.offsets[i] >= offset && batch.offsets[i] + kFrameBytes + batch.payloads[i].size() <= fed);
          require(bytes.substr(batch.offsets[i] + kFrameHeaderBytes, batch.payloads[i].size()) == batch.payloads[i]);
          require(masked_crc32c(batch.payloads[i]) ==
                  load_frame_field<uint32_t>(bytes.data() + batch.offsets[i] + kFrameHeaderBytes +
                                             batch.payloads[i].size()));
          offset = batch.offsets[i] + kFrameBytes + batch.payloads[i].size();
        }
        record += batch.size();
      } else if (step == RecordReader::Step::kNeedBytes) {
        const size_t left = bytes.size() - fed;
        if (left == 0) {
          reader.finish();
          continue;
        }
        sizes = sizes * 6364136223846793005U + 1442695040888963407U;
        const size_t wanted = 1 + (sizes >> 33) % ((sizes & 1) != 0 ? 7 : 300);
        const size_t count = std::min(left, wanted);
        if ((sizes & 2) != 0) {
          const std::span<std::byte> room = reader.prepare(wanted);
          const size_t taken = std::min(room.size(), left);
          std::memcpy(room.data(), bytes.data() + fed, taken);
          reader.commit(taken);
          fed += taken;
        } else {
          const size_t headroom = (sizes & 4) != 0 ? 64 : 0;
          Buffer chunk = pool.allocate(headroom + count);
          std::memcpy(chunk->data() + headroom, bytes.data() + fed, count);
          reader.feed(std::move(chunk), headroom, headroom + count);
          fed += count;
        }
        require(pool.bytes_in_use() <= 4 * static_cast<int64_t>(bytes.size()) + 8192);
      } else if (step == RecordReader::Step::kError) {
        require(reader.fault().begin >= offset && reader.fault().end <= bytes.size());
        if (reader.fault().can_continue) ++record;
      } else {
        // Without an error every byte was delivered.
        require(reader.next(batch) == RecordReader::Step::kEnd);
        break;
      }
    }
  }
}

}  // namespace millrace::test
