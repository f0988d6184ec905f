#include "millrace/formats/elements/reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/elements/block_codec.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

// What may be taken without asking, unless it is more than a small share of the budget: a block and what it is decoded
// to.
constexpr int64_t kUnasked = 1 << 20;
constexpr int64_t kShareOfBudget = 32;

}  // namespace

ElementsReader::ElementsReader(Storage& storage, BufferPool& pool, std::shared_ptr<const ElementsIndex> index,
                               std::shared_ptr<ShardNames> names, MemoryGate* memory, std::function<void()> wake)
    : storage_(storage),
      pool_(pool),
      index_(std::move(index)),
      names_(std::move(names)),
      memory_(memory),
      wake_(std::move(wake)) {}

ElementsReader::~ElementsReader() {
  if (feed_ != nullptr) feed_->close();
}

ElementsReader::Step ElementsReader::read(size_t number, Block& out) {
  if (const size_t file = index_->file_of(number); feed_ == nullptr || file != file_) {
    if (feed_ != nullptr) feed_->close();
    feed_ = std::make_shared<FileFeed>(pool_, FileFeedOptions{.chunk_bytes = 1, .read_ahead = 0}, wake_);
    file_ = file;
    checked_ = false;
    feed_->open(storage_, index_->path(file));
  }
  while (true) {
    switch (feed_->look()) {
      case FileFeed::Now::kBusy: return Step::kPending;
      case FileFeed::Now::kBytes: return take(number, out);
      case FileFeed::Now::kIdle: break;
    }
    if (std::optional<Error> error = feed_->error()) return fail(number, std::move(*error));
    if (!checked_) {
      const uint64_t bytes = feed_->file()->file().size();
      const uint64_t expected = index_->files()[file_].bytes;
      if (bytes != expected) {
        return fail(number, {.code = ErrorCode::kTruncated,
                             .message = fmt::format("the file has {} bytes, {} were written", bytes, expected)});
      }
      checked_ = true;
    }
    if (!start(number)) return Step::kPending;
  }
}

// False when memory must be waited for.
bool ElementsReader::start(size_t number) {
  const ElementsIndex::Block& block = index_->block(number);
  const size_t bytes = kFrameBytes + block.payload_bytes;
  const auto wanted = static_cast<int64_t>(2 * bytes);
  const bool asks = memory_ != nullptr && wanted > std::min(kUnasked, memory_->budget() / kShareOfBudget);
  MemoryGate* const gate = asks ? memory_ : nullptr;
  if (gate != nullptr && !gate->admit(wanted)) return false;
  const AdmittedMemory admitted(gate, wanted);
  buffer_ = pool_.allocate(bytes);
  feed_->seek(block.offset);
  feed_->start_direct({buffer_->data(), bytes}, buffer_);
  feed_->run();
  return true;
}

ElementsReader::Step ElementsReader::take(size_t number, Block& out) {
  const ElementsIndex::Block& block = index_->block(number);
  const size_t bytes = kFrameBytes + block.payload_bytes;
  const Buffer buffer = std::exchange(buffer_, {});
  if (feed_->take_direct() != bytes) {
    return fail(number, feed_->error().value_or(Error{.code = ErrorCode::kTruncated, .message = "the file has ended"}));
  }
  const std::byte* const frame = buffer->data();
  const std::string_view payload(reinterpret_cast<const char*>(frame) + kFrameHeaderBytes, block.payload_bytes);
  const auto length = load_frame_field<uint64_t>(frame);
  if (length != block.payload_bytes || load_frame_field<uint32_t>(frame + 8) != masked_crc32c_of_length(length)) {
    return fail(number, {.code = ErrorCode::kLengthCrc,
                         .message = fmt::format("a block of {} bytes was written, its length field says {}, or the "
                                                "field's CRC is wrong",
                                                block.payload_bytes, length)});
  }
  const uint32_t crc = masked_crc32c(payload);
  const auto field = load_frame_field<uint32_t>(frame + bytes - sizeof(uint32_t));
  if (crc != block.payload_crc || field != crc) {
    return fail(number, {.code = ErrorCode::kPayloadCrc,
                         .message = fmt::format(
                             "the block's {} bytes have the masked CRC {:08x}, {:08x} was written, its field "
                             "says {:08x}",
                             block.payload_bytes, crc, block.payload_crc, field)});
  }
  try {
    out = decode_block(payload, buffer, index_->schema(), pool_, names_);
    if (static_cast<int64_t>(out.num_elements()) == index_->block_places(number)) return Step::kBlock;
    ByteReader::refuse();
  } catch (const ErrorException& exception) {
    return fail(number, exception.error());
  }
}

ElementsReader::Step ElementsReader::fail(size_t number, Error error) {
  const ElementsIndex::Block& block = index_->block(number);
  error_ = std::move(error);
  error_.shard = index_->path(file_);
  if (error_.offset < 0) error_.offset = static_cast<int64_t>(block.offset);
  error_.record = static_cast<int64_t>(number - (file_ == 0 ? 0 : index_->files()[file_ - 1].blocks));
  error_.lost_bytes = static_cast<int64_t>(kFrameBytes + block.payload_bytes);
  error_.message += fmt::format("; elements {} to {} are lost; delete the folder to have it written anew",
                                block.first_element, block.first_element + index_->block_places(number) - 1);
  // The file may be another one when it is opened again.
  feed_->close();
  feed_.reset();
  return Step::kError;
}

}  // namespace millrace
