#include "millrace/formats/compression/frame_table_reader.h"

#include <algorithm>
#include <utility>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

// The table of some 170 MB in frames of 256 KiB.
constexpr size_t kFirstRead = 8 << 10;

}  // namespace

FrameTableReader::FrameTableReader(std::shared_ptr<FileFeed> feed) : feed_(std::move(feed)), wanted_(kFirstRead) {}

FileFeed::Got FrameTableReader::read() {
  const uint64_t file_bytes = feed_->file()->file().size();
  for (;;) {
    switch (feed_->look()) {
      case FileFeed::Now::kBusy: return FileFeed::Got::kPending;
      case FileFeed::Now::kIdle: {
        if (feed_->error()) return FileFeed::Got::kFailed;
        wanted_ = static_cast<size_t>(std::min<uint64_t>(wanted_, file_bytes));
        if (wanted_ == 0) return FileFeed::Got::kBytes;
        feed_->seek(file_bytes - wanted_);
        feed_->start_chunk(wanted_);
        feed_->run();
        break;
      }
      case FileFeed::Now::kBytes: {
        const std::optional<FileFeed::Chunk> chunk = feed_->take_chunk();
        // A file that has shrunk meanwhile: the feed has its error.
        if (chunk->end - chunk->begin < wanted_) continue;
        const std::string_view end(reinterpret_cast<const char*>(chunk->buffer->data()) + chunk->begin, wanted_);
        const size_t needed = look_at(end, file_bytes);
        if (needed <= wanted_) return FileFeed::Got::kBytes;
        wanted_ = needed;
      }
    }
  }
}

void FrameTableReader::read_from(std::string_view whole_file) { look_at(whole_file, whole_file.size()); }

// How many bytes at the file's end it takes to know.
size_t FrameTableReader::look_at(std::string_view end, uint64_t file_bytes) {
  try {
    const std::optional<size_t> needed = FrameTable::bytes_needed(end, file_bytes);
    if (!needed) return 0;
    if (*needed > end.size()) return *needed;
    table_ = std::make_shared<const FrameTable>(FrameTable::parse(end, file_bytes));
  } catch (const ErrorException& exception) {
    problem_ = exception.error().message;
  }
  return 0;
}

}  // namespace millrace
