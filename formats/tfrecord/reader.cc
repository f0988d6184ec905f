#include "millrace/formats/tfrecord/reader.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/file_feed.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/recognition.h"

namespace millrace {
namespace {

// Records from here on are checksummed as they come: at their end their beginning is no longer in the core's cache.
constexpr uint64_t kLongRecord = 512 << 10;

const char* chars(const ByteWindow& bytes) { return reinterpret_cast<const char*>(bytes.data()); }

}  // namespace

RecordReader::RecordReader(BufferPool& pool, RecordReaderOptions options)
    : options_(std::move(options)), index_(options_.index), position_(options_.start), bytes_(pool) {
  if (!index_) return;
  if (position_.record > index_->num_records()) {
    refuse_index(fmt::format("the index has {} records", index_->num_records()));
  } else if (const uint64_t offset = index_->offset(position_.record); offset != position_.offset) {
    refuse_index(fmt::format("by the index record {} begins at {}", position_.record, offset));
  }
}

RecordReader::Step RecordReader::next(RecordBatch& batch, size_t max_records) {
  batch.clear();
  batch.first_record = position_.record;
  if (!has_fault_ && !ended_ && max_records > 0) walk(batch, max_records);
  if (!batch.empty()) {
    bytes_.leave_large_buffer();
    return Step::kRecords;
  }
  if (!has_fault_ && !ended_ && finished_) end();
  if (has_fault_) {
    has_fault_ = false;
    if (fault_.can_continue) {
      skip_to({fault_.end, position_.record + fault_.num_records_lost.value_or(1)});
    } else {
      ended_ = true;
    }
    return Step::kError;
  }
  if (!ended_) return Step::kNeedBytes;
  bytes_.clear();
  return Step::kEnd;
}

void RecordReader::end() {
  if (num_to_skip_ > 0) {
    set_fault(ErrorCode::kTruncated, fmt::format("the file ends {} bytes before this record", num_to_skip_));
    lose_rest(position_.offset);
  } else if (num_available() == 0) {
    ended_ = true;
    if (index_ && position_.record != index_->num_records()) {
      std::string text =
          fmt::format("the shard ends after {} records, the index has {}", position_.record, index_->num_records());
      if (options_.difference_is_damage) {
        set_fault(ErrorCode::kCompression, std::move(text));
        lose_rest(position_.offset);
      } else {
        refuse_index(std::move(text));
      }
    }
  } else if (num_available() < kFrameHeaderBytes) {
    set_fault(ErrorCode::kTruncated, fmt::format("the file ends {} bytes into the {} bytes in front of a record",
                                                 num_available(), kFrameHeaderBytes));
    lose_rest(position_.offset + num_available());
  } else {
    const auto length = load_frame_field<uint64_t>(chars(bytes_));
    set_fault(ErrorCode::kTruncated,
              fmt::format("the file ends inside a record of {} bytes, {} of the {} bytes with its frame are there",
                          length, num_available(), length + kFrameBytes));
    lose_rest(position_.offset + num_available());
  }
}

void RecordReader::skip_to(RecordPosition next) {
  assert(next.offset >= position_.offset);
  num_to_skip_ += next.offset - position_.offset;
  num_checksummed_ = checksum_ = 0;
  expected_frame_ = 0;
  position_ = next;
  has_fault_ = ended_ = false;
  drop_skipped();
}

void RecordReader::restart(uint64_t offset, RecordPosition next) {
  assert(next.offset >= offset);
  bytes_.clear();
  num_checksummed_ = checksum_ = 0;
  expected_frame_ = 0;
  position_ = next;
  num_to_skip_ = next.offset - offset;
  has_fault_ = ended_ = finished_ = false;
}

void RecordReader::drop_skipped() {
  const auto count = static_cast<size_t>(std::min<uint64_t>(num_to_skip_, num_available()));
  bytes_.drop(count);
  num_to_skip_ -= count;
  num_skipped_ += count;
  num_missing_ = std::max<uint64_t>(num_missing_, 1);
}

void RecordReader::walk(RecordBatch& batch, size_t max_records) {
  if (!bytes_.buffer()) {
    num_missing_ = kFrameHeaderBytes;
    return;
  }
  num_missing_ = 0;
  const char* const data = chars(bytes_);
  const ShardIndex* const index = index_.get();
  uint64_t offset = position_.offset;
  const size_t size = bytes_.size();
  size_t at = 0;
  while (batch.payloads.size() < max_records) {
    const uint64_t available = size - at;
    if (available < kFrameHeaderBytes) break;
    const auto length = load_frame_field<uint64_t>(data + at);
    // The frame is at hand in nearly every turn; only then the sum cannot overflow.
    if (length > available || length + kFrameBytes > available || length > options_.max_record_bytes ||
        masked_crc32c_of_length(length) != load_frame_field<uint32_t>(data + at + 8)) {
      break;
    }
    const std::string_view payload(data + at + kFrameHeaderBytes, length);
    const auto payload_crc = load_frame_field<uint32_t>(payload.data() + length);
    const uint64_t known = at == 0 ? num_checksummed_ : 0;
    if (mask_crc(crc32c(payload.substr(known), at == 0 ? checksum_ : 0)) != payload_crc) break;
    if (index != nullptr && !is_indexed(position_.record + batch.payloads.size(), offset + length + kFrameBytes,
                                        payload_crc)) [[unlikely]] {
      break;
    }
    batch.payloads.push_back(payload);
    batch.offsets.push_back(offset);
    offset += length + kFrameBytes;
    at += length + kFrameBytes;
  }
  position_ = {offset, position_.record + batch.payloads.size()};
  if (at > 0) {
    num_checksummed_ = checksum_ = 0;
    expected_frame_ = batch.payloads.back().size() + kFrameBytes;
  }
  bytes_.drop(at);
  if (!batch.empty()) batch.buffer = bytes_.buffer();
  if (batch.payloads.size() < max_records) examine_next();
}

// Why `walk` did not take the record at `position_`: bytes are missing, or it has a fault.
void RecordReader::examine_next() {
  const uint64_t available = num_available();
  if (options_.difference_is_damage && index_ && available > 0 && position_.record >= index_->num_records()) {
    set_fault(ErrorCode::kCompression,
              fmt::format("there are more bytes than the index's {} records have", index_->num_records()));
    return lose_rest(position_.offset);
  }
  if (available < kFrameHeaderBytes) {
    num_missing_ = kFrameHeaderBytes - available;
    return;
  }
  const char* const data = chars(bytes_);
  const auto length = load_frame_field<uint64_t>(data);
  const auto length_crc = load_frame_field<uint32_t>(data + 8);
  if (const uint32_t found = masked_crc32c_of_length(length); found != length_crc) {
    set_fault(bad_length_crc(length, found, length_crc));
    return lose_from_length();
  }
  const uint64_t left = options_.max_shard_bytes - std::min(position_.offset, options_.max_shard_bytes);
  if (length > options_.max_record_bytes) {
    set_fault(ErrorCode::kRecordTooLarge, fmt::format("the record's length is {} bytes, the limit {}{}", length,
                                                      options_.max_record_bytes, describe_bytes_left(left)));
    return lose_from_length();
  }
  if (length > available || length + kFrameBytes > available) {
    if (left < kFrameBytes || length > left - kFrameBytes) {
      set_fault(ErrorCode::kTruncated,
                fmt::format("the file ends inside a record of {} bytes{}", length, describe_bytes_left(left)));
      return lose_from_length();
    }
    num_missing_ = length + kFrameBytes - available;
    expected_frame_ = length + kFrameBytes;
    checksum_long_record();
    return;
  }
  const std::string_view payload(data + kFrameHeaderBytes, length);
  const auto payload_crc = load_frame_field<uint32_t>(payload.data() + length);
  const uint64_t end = position_.offset + length + kFrameBytes;
  if (const uint32_t found = masked_crc32c(payload); found != payload_crc) {
    set_fault(bad_payload_crc(length, found, payload_crc));
    // A forged length may have a right CRC: the index knows better where the next record begins.
    if (!lose_by_index()) lose(end, 1);
    return;
  }
  std::string text = difference_from_index(position_.record, end, payload_crc);
  if (options_.difference_is_damage) {
    set_fault(ErrorCode::kCompression, "a whole record, but not the one that was indexed: " + std::move(text));
    lose_from_length();
  } else {
    refuse_index(std::move(text));
  }
}

// What has come of the record at `position_`, whose length can be believed, if it is a long one.
void RecordReader::checksum_long_record() {
  const auto length = load_frame_field<uint64_t>(chars(bytes_));
  if (length < kLongRecord) return;
  const uint64_t come = std::min<uint64_t>(length, num_available() - kFrameHeaderBytes);
  const std::string_view fresh(chars(bytes_) + kFrameHeaderBytes + num_checksummed_, come - num_checksummed_);
  checksum_ = crc32c(fresh, checksum_);
  num_checksummed_ = come;
}

std::string RecordReader::describe_bytes_left(uint64_t left) const {
  if (options_.max_shard_bytes == UINT64_MAX) return {};
  return fmt::format("; from its beginning {}{} bytes are left", options_.size_is_exact ? "" : "at most ", left);
}

void RecordReader::set_fault(ErrorCode code, std::string message) {
  set_fault({.code = code, .message = std::move(message)});
}

void RecordReader::set_fault(Error error) {
  has_fault_ = true;
  const bool is_at_the_start = position_.offset == 0 && num_to_skip_ == 0;
  if (is_at_the_start && (error.code == ErrorCode::kLengthCrc || error.code == ErrorCode::kTruncated)) {
    error.message += describe_other_format({chars(bytes_), num_available()});
  }
  error.shard = options_.shard;
  error.offset = static_cast<int64_t>(position_.offset);
  error.record = static_cast<int64_t>(position_.record);
  fault_ = {.error = std::move(error), .begin = position_.offset, .end = position_.offset};
}

void RecordReader::lose(uint64_t end, uint64_t num_records) {
  fault_.can_continue = true;
  fault_.end = end;
  fault_.num_records_lost = num_records;
}

bool RecordReader::lose_by_index() {
  if (!index_ || position_.record >= index_->num_records()) return false;
  lose(index_->offset(position_.record + 1), 1);
  return true;
}

// What follows a length that cannot be believed is lost up to the end, unless the index knows more.
void RecordReader::lose_from_length() {
  if (!lose_by_index()) lose_rest(options_.size_is_exact ? options_.max_shard_bytes : next_byte());
}

void RecordReader::lose_rest(uint64_t end) {
  fault_.end = end;
  fault_.end_is_known = options_.size_is_exact;
  if (!index_) return;
  fault_.end = std::max(position_.offset, index_->num_bytes());
  fault_.end_is_known = true;
  fault_.num_records_lost = index_->num_records() - std::min(position_.record, index_->num_records());
}

// Whether the index has such a record.
bool RecordReader::is_indexed(uint64_t record, uint64_t end, uint32_t payload_crc) const {
  return record < index_->num_records() && index_->offset(record + 1) == end &&
         index_->tag(record) == static_cast<uint16_t>(payload_crc);
}

// What of a record that is not indexed is another than in the index.
std::string RecordReader::difference_from_index(uint64_t record, uint64_t end, uint32_t payload_crc) const {
  if (record >= index_->num_records()) {
    return fmt::format("there are more records than the {} of the index", index_->num_records());
  }
  if (const uint64_t expected = index_->offset(record + 1); end != expected) {
    return fmt::format("record {} ends at {}, by the index at {}", record, end, expected);
  }
  return fmt::format("the CRC of record {} ends in {:04x}, by the index in {:04x}", record, payload_crc & 0xffff,
                     index_->tag(record));
}

void RecordReader::refuse_index(std::string message) {
  set_fault(ErrorCode::kIndex, std::move(message) + "; reading goes on without the index");
  lose(position_.offset, 0);
  index_ = nullptr;
}

void RecordReader::make_room(size_t wanted) {
  if (bytes_.room().size() >= std::max<uint64_t>(wanted, num_missing_)) return;
  // With the next record's header read in one go, its length is known before the next read is planned.
  uint64_t room = num_missing_ + kFrameHeaderBytes;  // cannot overflow: walk checked the length
  if (!options_.size_is_exact) room = std::min<uint64_t>(room, bytes_.size());  // at most twice what has really come
  bytes_.move_to_room_for(std::max<uint64_t>(room, wanted));
}

// Not more than `wanted` bytes, so that after them, if records go on to be as long as this one, no part of a record is
// at hand but a header: a part would be copied to where its rest will come.
size_t RecordReader::up_to_a_header(size_t wanted) const {
  if (bytes_.size() >= expected_frame_) return wanted;
  const uint64_t least = expected_frame_ - bytes_.size() + kFrameHeaderBytes;
  return least > wanted ? wanted : wanted - (wanted - least) % expected_frame_;
}

uint64_t RecordReader::can_come() const {
  return options_.max_shard_bytes - std::min(next_byte(), options_.max_shard_bytes);
}

std::span<std::byte> RecordReader::prepare(size_t wanted, bool whole_records) {
  // A long record is read to its end and no further (but for the next header), so that it stays in its place, and the
  // one after it can be read straight into a place of its own.
  if (num_missing_ > 0 && bytes_.size() > wanted) {
    wanted = static_cast<size_t>(std::min<uint64_t>(wanted, num_missing_ + kFrameHeaderBytes));
  } else if (num_missing_ > 0 && whole_records) {
    wanted = up_to_a_header(wanted);
  }
  wanted = static_cast<size_t>(std::min<uint64_t>(std::max<size_t>(wanted, 1), can_come()));
  make_room(wanted);
  const std::span<std::byte> room = bytes_.room();
  const uint64_t goal = std::max<uint64_t>(wanted, num_missing_ + kFrameHeaderBytes);
  return room.first(static_cast<size_t>(std::min<uint64_t>({room.size(), goal, can_come()})));
}

void RecordReader::commit(size_t bytes) {
  assert(bytes <= bytes_.room().size());
  bytes_.commit(bytes);
  drop_skipped();
}

bool RecordReader::copies_chunks() const { return bytes_.size() > kChunkHeadroom; }

uint64_t RecordReader::room_for_chunk(size_t bytes) const {
  return std::min(num_missing_ > bytes ? num_missing_ + bytes : bytes, can_come());
}

void RecordReader::feed(Buffer chunk, size_t begin, size_t end) {
  if (!bytes_.go_on_in(chunk, begin, end)) {
    make_room(static_cast<size_t>(std::max<uint64_t>(room_for_chunk(end - begin), end - begin)));
    bytes_.append({chunk->data() + begin, end - begin});
  }
  drop_skipped();
}

}  // namespace millrace
