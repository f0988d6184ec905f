#include "millrace/formats/tfrecord/index/record_fetcher.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {

RecordFetcher::RecordFetcher(Storage& storage, BufferPool& pool, std::shared_ptr<const ShardIndexes> indexes,
                             std::shared_ptr<FilePool> files, const RecordFetcherOptions& options,
                             std::function<void()> wake)
    : storage_(storage),
      pool_(pool),
      indexes_(std::move(indexes)),
      files_(std::move(files)),
      options_(options),
      inbox_(std::make_shared<PieceInbox>(std::move(wake))) {}

RecordFetcher::~RecordFetcher() {
  inbox_->close();
  for (const std::shared_ptr<PieceRead>& read : in_flight_) read->cancel();
  reading_ends();
}

void RecordFetcher::start(std::span<const uint64_t> records) {
  constexpr int kIndexBits = 24;
  assert(records.size() <= size_t{1} << kIndexBits);
  // Numbers of records go up with shard and offset.
  std::vector<uint64_t> keys(records.size());
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = records[i] << kIndexBits | i;
  std::sort(keys.begin(), keys.end());
  wanted_.assign(records.size(), {});
  by_place_.clear();
  size_t shard = 0;
  for (const uint64_t key : keys) {
    const uint64_t number = key >> kIndexBits;
    if (number >= indexes_->first_record(shard + 1)) shard = indexes_->shard_of(number);
    const auto wanted = static_cast<uint32_t>(key & ((uint64_t{1} << kIndexBits) - 1));
    const ShardIndex& index = indexes_->index(shard);
    const uint64_t record = number - indexes_->first_record(shard);
    const uint64_t offset = index.offset(record);
    wanted_[wanted].place = {static_cast<uint32_t>(shard), offset, index.offset(record + 1) - offset, record};
    by_place_.push_back(wanted);
  }
  part_begin_ = part_end_ = 0;
  batches_.clear();
  next_batch_ = 0;
  lines_.clear();
}

RecordFetcher::Step RecordFetcher::next(FetchedRecords& out) {
  if (next_batch_ == batches_.size()) {
    if (part_end_ == wanted_.size() && batches_.empty()) return Step::kEnd;
    batches_.clear();
    next_batch_ = 0;
    if (part_end_ == wanted_.size()) {
      wanted_.clear();
      part_begin_ = part_end_ = 0;
      return Step::kEnd;
    }
    if (!take_part()) return Step::kPending;
  }
  if (!read()) return Step::kPending;
  Batch& batch = batches_[next_batch_++];
  out.payloads.clear();
  out.places.clear();
  out.faults.clear();
  for (size_t i = 0; i < batch.count; ++i) {
    const Wanted& wanted = wanted_[batch.first + i];
    out.places.push_back(wanted.place);
    const auto fault = faults_.empty() ? faults_.end() : faults_.find(batch.first + i);
    if (fault != faults_.end()) {
      out.payloads.emplace_back();
      out.faults.push_back({i, std::move(fault->second)});
      faults_.erase(fault);
    } else {
      out.payloads.emplace_back(reinterpret_cast<const char*>(wanted.to) + kFrameHeaderBytes,
                                wanted.place.bytes - kFrameBytes);
    }
  }
  out.buffer = std::move(batch.buffer);
  return Step::kRecords;
}

// As many of the next records as may be held. False when there is no memory for them now.
bool RecordFetcher::take_part() {
  uint64_t bytes = 0;
  size_t end = part_end_;
  for (; end < wanted_.size(); ++end) {
    const uint64_t more = wanted_[end].place.bytes;
    if (end > part_end_ && bytes + more > options_.most_bytes_held) break;
    bytes += more;
  }
  const bool too_large = bytes > kFrameBytes + options_.max_record_bytes && end == part_end_ + 1;
  const auto asked = static_cast<int64_t>(too_large ? 0 : bytes);
  const auto for_frames = static_cast<int64_t>(options_.frame_bytes);
  if (options_.memory != nullptr) {
    if (!options_.memory->admit(asked + for_frames)) return false;
    admitted_for_frames_ = for_frames;
  }
  part_begin_ = std::exchange(part_end_, end);
  cut_batches();
  if (options_.memory != nullptr) options_.memory->taken(asked);
  sorted_.clear();
  for (const uint32_t wanted : by_place_) {
    if (wanted >= part_begin_ && wanted < part_end_ && wanted_[wanted].to != nullptr) sorted_.push_back(wanted);
  }
  lines_.clear();
  next_line_ = 0;
  add_pieces();
  return true;
}

void RecordFetcher::cut_batches() {
  for (size_t first = part_begin_; first < part_end_;) {
    uint64_t bytes = 0;
    size_t end = first;
    for (; end < part_end_ && end - first < options_.batch_records; ++end) {
      const FetchedRecords::Place& place = wanted_[end].place;
      const bool too_large = place.bytes - kFrameBytes > options_.max_record_bytes;
      const uint64_t more = too_large ? 0 : place.bytes;
      if (bytes > 0 && bytes + more > options_.batch_bytes) break;
      bytes += more;
      if (too_large) {
        fail(end, {.code = ErrorCode::kRecordTooLarge,
                   .message = fmt::format("the record's length is {} bytes, the limit {}", place.bytes - kFrameBytes,
                                          options_.max_record_bytes)});
      }
    }
    Batch batch{.first = first, .count = end - first, .buffer = {}};
    if (bytes > 0) batch.buffer = pool_.allocate(bytes);
    uint64_t at = 0;
    for (size_t i = first; i < end; ++i) {
      Wanted& wanted = wanted_[i];
      const bool is_read = wanted.place.bytes - kFrameBytes <= options_.max_record_bytes;
      wanted.to = is_read ? batch.buffer->data() + at : nullptr;
      if (is_read) at += wanted.place.bytes;
    }
    batches_.push_back(std::move(batch));
    first = end;
  }
}

void RecordFetcher::add_pieces() {
  const uint64_t most = std::min(options_.most_bytes_a_read, options_.most_bytes_held);
  for (size_t i = 0; i < sorted_.size(); ++i) {
    const uint32_t shard = wanted_[sorted_[i]].place.shard;
    const bool is_next = lines_.empty() || lines_.back().shard != shard;
    if (is_next) lines_.push_back({.shard = shard, .pieces = {}, .next = 0});
    const RecordPiece piece = piece_of(lines_.size() - 1, i);
    if (!is_next) {
      RecordPiece& last = lines_.back().pieces.back();
      // A record may be asked for twice.
      if (piece.begin <= last.end + options_.merge_gap && piece.end <= std::max(last.begin + most, last.end)) {
        ++last.count;
        last.end = std::max(last.end, piece.end);
        last.num_frames = std::max(last.num_frames, piece.first_frame + piece.num_frames - last.first_frame);
        continue;
      }
    }
    add_piece(piece);
  }
}

// What is read for one of `sorted_` alone.
RecordPiece RecordFetcher::piece_of(size_t line, size_t first) const {
  const FetchedRecords::Place& place = wanted_[sorted_[first]].place;
  RecordPiece piece{.line = line, .first = first, .count = 1, .begin = place.offset, .end = place.offset + place.bytes};
  const ShardIndex& index = indexes_->index(place.shard);
  if (!index.has_frames()) return piece;
  const size_t last = index.frame_with(piece.end - 1);
  piece.first_frame = index.frame_with(piece.begin);
  piece.num_frames = last + 1 - piece.first_frame;
  piece.begin = index.frame(piece.first_frame).begin;
  piece.end = index.frame(last).end;
  return piece;
}

void RecordFetcher::add_piece(RecordPiece piece) {
  lines_[piece.line].pieces.push_back(piece);
  ++pieces_left_;
}

// Starts what may be read and takes what came, until all is there. False when something is on its way.
bool RecordFetcher::read() {
  std::vector<std::shared_ptr<PieceRead>> done;
  while (true) {
    // A storage that answers inside the call is asked for one piece after the other, with one file of a shard.
    while (start_read()) {
      if (inbox_->take(done, false)) finish_reads(done);
    }
    if (in_flight_.empty()) {
      reading_ends();
      return true;
    }
    if (!inbox_->take(done, true)) return false;
    finish_reads(done);
  }
}

// The next piece of a shard with an idle file; where none is, all shards in turn get one more. False when nothing more
// may be read now.
bool RecordFetcher::start_read() {
  if (pieces_left_ == 0 || in_flight_.size() >= options_.reads_in_flight) return false;
  while (!idle_.empty() && lines_[idle_.back().line].next == lines_[idle_.back().line].pieces.size()) {
    files_->give_back(lines_[idle_.back().line].shard, std::move(idle_.back().file));
    idle_.pop_back();
  }
  if (idle_.empty()) {
    while (lines_[next_line_].next == lines_[next_line_].pieces.size()) next_line_ = (next_line_ + 1) % lines_.size();
  }
  Line& line = lines_[idle_.empty() ? next_line_ : idle_.back().line];
  const RecordPiece piece = line.pieces[line.next];
  const uint64_t bytes = piece.is_in_place() ? 0 : piece.end - piece.begin;
  if (bytes > 0 && bytes_in_flight_ > 0 && bytes_in_flight_ + bytes > options_.most_bytes_held) return false;
  std::shared_ptr<RangeReader> file;
  if (idle_.empty()) {
    next_line_ = (next_line_ + 1) % lines_.size();
    file = files_->take(line.shard);
  } else {
    file = std::move(idle_.back().file);
    idle_.pop_back();
  }
  ++line.next;
  --pieces_left_;
  bytes_in_flight_ += bytes;
  ++num_reads_;
  num_bytes_read_ += piece.end - piece.begin;
  const size_t first = sorted_[piece.first];
  Buffer buffer = piece.is_in_place() ? buffer_of(first) : pool_.allocate(bytes);
  const size_t at = piece.is_in_place() ? static_cast<size_t>(wanted_[first].to - buffer->data()) : 0;
  auto read = std::make_shared<PieceRead>(inbox_, piece, std::move(buffer), at,
                                          indexes_->index(line.shard).fingerprint().bytes);
  in_flight_.push_back(read);
  inbox_->expect();
  read->start(storage_, indexes_->path(line.shard), std::move(file));
  return true;
}

void RecordFetcher::finish_reads(std::vector<std::shared_ptr<PieceRead>>& done) {
  for (const std::shared_ptr<PieceRead>& read : done) {
    const auto found = std::find(in_flight_.begin(), in_flight_.end(), read);
    *found = std::move(in_flight_.back());
    in_flight_.pop_back();
    finish_read(read);
  }
}

void RecordFetcher::finish_read(const std::shared_ptr<PieceRead>& read) {
  const RecordPiece& piece = read->piece;
  if (!piece.is_in_place()) bytes_in_flight_ -= piece.end - piece.begin;
  if (read->error) {
    // Which of the records cannot be read is seen when they are read one by one.
    if (piece.count > 1 && read->file != nullptr) {
      for (size_t i = piece.first; i < piece.first + piece.count; ++i) add_piece(piece_of(piece.line, i));
      return;
    }
    for (size_t i = piece.first; i < piece.first + piece.count; ++i) fail(sorted_[i], *read->error);
    return;
  }
  idle_.push_back({piece.line, std::move(read->file)});
  if (piece.is_packed()) return unpack(*read);
  for (size_t i = piece.first; i < piece.first + piece.count; ++i) {
    const Wanted& wanted = wanted_[sorted_[i]];
    const std::byte* const frame = read->data() + (wanted.place.offset - piece.begin);
    check(sorted_[i], frame);
    if (frame != wanted.to) std::memcpy(wanted.to, frame, wanted.place.bytes);
  }
}

// The records of a piece from its frames, one frame after the other.
void RecordFetcher::unpack(const PieceRead& read) {
  const RecordPiece& piece = read.piece;
  const ShardIndex& index = indexes_->index(lines_[piece.line].shard);
  const size_t end = piece.first + piece.count;
  size_t first = piece.first;  // of the records, those that do not end before the frame
  for (size_t i = 0; i < piece.num_frames && first < end; ++i) {
    const ShardIndex::Frame frame = index.frame(piece.first_frame + i);
    const auto begins_after = [&](size_t one) { return wanted_[sorted_[one]].place.offset >= frame.end_offset; };
    const auto ends_before = [&](size_t one) {
      const FetchedRecords::Place& place = wanted_[sorted_[one]].place;
      return place.offset + place.bytes <= frame.offset;
    };
    while (first < end && ends_before(first)) ++first;
    if (first == end || begins_after(first)) continue;
    // A frame that is all of one record, or in one, is unpacked to where it stays.
    const Wanted& one = wanted_[sorted_[first]];
    const auto bytes = static_cast<size_t>(frame.end_offset - frame.offset);
    const bool is_in_place = one.place.offset <= frame.offset && one.place.offset + one.place.bytes >= frame.end_offset;
    if (!is_in_place && (!unpacked_ || unpacked_->capacity() < bytes)) unpacked_ = pool_.allocate(bytes);
    std::byte* const to = is_in_place ? one.to + (frame.offset - one.place.offset) : unpacked_->data();
    const std::span<const std::byte> packed(read.data() + (frame.begin - piece.begin), frame.end - frame.begin);
    const std::optional<Error> error = unpacker_.unpack(packed, frame.begin, {to, bytes});
    for (size_t j = first; j < end && !begins_after(j); ++j) {
      if (ends_before(j)) continue;
      if (error) {
        fail(sorted_[j], *error);
        continue;
      }
      const Wanted& wanted = wanted_[sorted_[j]];
      const uint64_t from = std::max(wanted.place.offset, frame.offset);
      const uint64_t until = std::min(wanted.place.offset + wanted.place.bytes, frame.end_offset);
      std::byte* const place = wanted.to + (from - wanted.place.offset);
      const std::byte* const source = to + (from - frame.offset);
      if (place != source) std::memcpy(place, source, until - from);
    }
  }
  for (size_t i = piece.first; i < end; ++i) {
    if (!faults_.contains(sorted_[i])) check(sorted_[i], wanted_[sorted_[i]].to);
  }
}

// Whether a frame is that of the record. What a reader says of one that goes through the whole shard is said here too.
void RecordFetcher::check(size_t wanted, const std::byte* frame) {
  const FetchedRecords::Place& place = wanted_[wanted].place;
  const ShardIndex& index = indexes_->index(place.shard);
  const uint64_t payload_bytes = place.bytes - kFrameBytes;
  const auto length = load_frame_field<uint64_t>(frame);
  const auto length_crc = load_frame_field<uint32_t>(frame + 8);
  const std::string_view payload(reinterpret_cast<const char*>(frame) + kFrameHeaderBytes, payload_bytes);
  const auto payload_crc = load_frame_field<uint32_t>(frame + place.bytes - 4);
  const bool has_tag = index.tag(place.record) == static_cast<uint16_t>(payload_crc);
  if (const uint32_t found = masked_crc32c_of_length(length); found != length_crc) {
    return fail(wanted, bad_length_crc(length, found, length_crc));
  }
  if (length != payload_bytes) {
    // A forged length in front of the indexed record is damage; another record is of another file.
    return fail(wanted, {.code = has_tag ? ErrorCode::kLengthCrc : ErrorCode::kIndex,
                         .message = fmt::format("record {} has {} bytes, by the index {}", place.record, length,
                                                payload_bytes)});
  }
  if (const uint32_t found = masked_crc32c(payload); found != payload_crc) {
    return fail(wanted, bad_payload_crc(length, found, payload_crc));
  }
  if (!has_tag) {
    fail(wanted, {.code = ErrorCode::kIndex,
                  .message = fmt::format("the CRC of record {} ends in {:04x}, by the index in {:04x}", place.record,
                                         payload_crc & 0xffff, index.tag(place.record))});
  }
}

void RecordFetcher::fail(size_t wanted, Error error) {
  const FetchedRecords::Place& place = wanted_[wanted].place;
  error.shard = indexes_->path(place.shard);
  error.offset = static_cast<int64_t>(place.offset);
  error.record = static_cast<int64_t>(place.record);
  if (error.code == ErrorCode::kIndex) error.message += "; run: dataset_index --force " + error.shard;
  faults_.insert_or_assign(wanted, std::move(error));
}

// Of what is held: all of it has come, or nobody wants it.
void RecordFetcher::reading_ends() {
  for (Idle& idle : idle_) files_->give_back(lines_[idle.line].shard, std::move(idle.file));
  idle_.clear();
  unpacked_ = {};
  if (admitted_for_frames_ > 0) options_.memory->taken(std::exchange(admitted_for_frames_, 0));
}

Buffer RecordFetcher::buffer_of(size_t wanted) const {
  const auto after = std::upper_bound(batches_.begin(), batches_.end(), wanted,
                                      [](size_t value, const Batch& batch) { return value < batch.first; });
  return (after - 1)->buffer;
}

}  // namespace millrace
