#include "millrace/formats/compression/unpacked_feed.h"

#include <utility>

namespace millrace {

UnpackedFeed::UnpackedFeed(std::shared_ptr<FileFeed> feed, Unpacker unpacker, FileFeed::Chunk first)
    : feed_(std::move(feed)), unpacker_(std::move(unpacker)), input_(std::move(first)) {
  feed_->allow_read_ahead(true);
}

FileFeed::Got UnpackedFeed::fill(std::span<std::byte> room, size_t& num_filled) {
  num_filled = 0;
  while (num_filled < room.size()) {
    if (!holds_bytes_back_ && input_.begin == input_.end) {
      const FileFeed::Got got = feed_->next_chunk(input_);
      if (got == FileFeed::Got::kFailed) {
        error_ = *feed_->error();
        error_is_damage_ = false;
      }
      if (got == FileFeed::Got::kNothing && !unpacker_.finish()) return damaged();
      if (got != FileFeed::Got::kBytes) return got;
    }
    std::span<const std::byte> input;
    if (input_.buffer) input = {input_.buffer->data() + input_.begin, input_.end - input_.begin};
    const UnpackResult result = unpacker_.run(input, room.subspan(num_filled));
    input_.begin += result.num_read;
    holds_bytes_back_ = result.status == UnpackResult::Status::kOutputFull;
    num_filled += result.num_written;
    if (result.status == UnpackResult::Status::kError) return damaged();
  }
  return FileFeed::Got::kBytes;
}

FileFeed::Got UnpackedFeed::damaged() {
  error_ = unpacker_.error();
  error_is_damage_ = true;
  return FileFeed::Got::kFailed;
}

}  // namespace millrace
