#include "tests/fuzz/frame_table_fuzz.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/error.h"
#include "millrace/formats/tfrecord/frame.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

constexpr size_t kLeastEntryBytes = 8;

}  // namespace

void fuzz_frame_table(std::string_view bytes) {
  // As the end of a file of just these bytes, and of a longer one.
  const uint64_t more = bytes.size() < 4 ? 0 : load_frame_field<uint32_t>(bytes.data());
  for (const uint64_t file_bytes : {uint64_t{bytes.size()}, bytes.size() + more}) {
    try {
      const std::optional<size_t> needed = FrameTable::bytes_needed(bytes, file_bytes);
      if (!needed) continue;
      require(*needed <= file_bytes);
      const FrameTable table = FrameTable::parse(bytes, file_bytes);
      require(table.end_of_frames() <= file_bytes && table.frames().size() <= bytes.size() / kLeastEntryBytes);
      for (const FrameTable::Frame& frame : table.frames()) {
        const FrameTable::Frame& next = (&frame)[1];
        require(next.begin >= frame.begin && next.offset > frame.offset && next.record >= frame.record);
        require(&table.frame_with(frame.offset) == &frame && &table.frame_with(next.offset - 1) == &frame);
        require(&table.frames_from(frame.offset).front() == &frame);
        require(table.frame_at(frame.begin)->begin == frame.begin);
      }
      require(table.frames_from(table.num_bytes()).empty());
    } catch (const ErrorException& exception) {
      require(exception.error().code == ErrorCode::kIndex);
    }
  }
}

}  // namespace millrace::test
