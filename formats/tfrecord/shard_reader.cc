#include "millrace/formats/tfrecord/shard_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/recognition.h"
#include "millrace/formats/tfrecord/warm_chunk.h"

namespace millrace {
namespace {

// Deflate packs at most 258 bytes into two bits, zstd a block of 128 KiB into four bytes.
constexpr uint64_t kMostInflation = 1032;
constexpr uint64_t kMostZstdInflation = 32 << 10;
constexpr size_t kUnpackedBytes = 256 << 10;
// Of a long record, as much as is read at a time from the page cache: it is in the core's cache still for its checksum.
constexpr size_t kPieceBytes = 512 << 10;

uint64_t most_unpacked_bytes(Compression compression, uint64_t file_bytes) {
  const uint64_t factor = compression == Compression::kZstd ? kMostZstdInflation : kMostInflation;
  return file_bytes > UINT64_MAX / factor - 1 ? UINT64_MAX : file_bytes * factor + factor;
}

}  // namespace

ShardReader::ShardReader(Storage& storage, BufferPool& pool, std::string path, ShardReaderOptions options,
                         std::function<void()> wake)
    : storage_(storage),
      pool_(pool),
      path_(std::move(path)),
      options_(std::move(options)),
      known_{.index = options_.index, .frames = nullptr},
      feed_(std::make_shared<FileFeed>(pool,
                                       FileFeedOptions{.chunk_bytes = options_.chunk_bytes,
                                                       .read_ahead = options_.read_ahead,
                                                       .num_files = options_.num_files,
                                                       .most_bytes = options_.most_bytes_ahead,
                                                       .max_attempts = options_.max_attempts},
                                       std::move(wake))) {}

ShardReader::~ShardReader() { feed_->close(); }

uint64_t ShardReader::num_file_bytes_read() const { return feed_->num_read(); }

ShardReader::Step ShardReader::next(RecordBatch& batch, size_t max_records) {
  batch.clear();
  while (!ended_) {
    if (index_problem_) return refuse_index(*std::exchange(index_problem_, std::nullopt));
    if (records_) {
      size_t most = max_records;
      if (resync_) {
        const uint64_t record = records_->position().record;
        if (const std::optional<Resync::Place> place = resync_->take_due(record); place && !enter(*place)) continue;
        most = std::min<uint64_t>(most, resync_->num_before(record));
      }
      switch (records_->next(batch, most)) {
        case RecordReader::Step::kRecords: plan(); return Step::kRecords;
        case RecordReader::Step::kError:
          fault_ = records_->fault();
          if (fault_.error.code == ErrorCode::kIndex) {
            known_.index = nullptr;
            if (resync_) resync_->cancel();
          } else if (resync_ && !known_.empty() && !resync_->passes(fault_)) {
            fault_.can_continue = resync(fault_.begin + 1);
          }
          lost_the_rest_ = ended_ = !fault_.can_continue;
          return Step::kError;
        case RecordReader::Step::kEnd: return end();
        case RecordReader::Step::kNeedBytes: break;
      }
    }
    if (failure_) return failed();
    switch (!opened_ ? open() : !records_ ? begin() : fetch()) {
      case Got::kBytes: break;
      case Got::kNothing: {
        if (records_) {
          records_->finish();
          break;
        }
        return end();  // an empty file
      }
      case Got::kPending: return Step::kPending;
      case Got::kFailed: break;  // failure_ is set
    }
  }
  return Step::kEnd;
}

void ShardReader::leave_buffer() {
  if (records_ && !feed_->reads_directly()) records_->leave_buffer();
}

ShardReader::Step ShardReader::refuse_index(std::string message) {
  fault_ = {.error = {.code = ErrorCode::kIndex,
                      .message = std::move(message) + "; reading goes on without it",
                      .shard = path_,
                      .offset = static_cast<int64_t>(position().offset),
                      .record = static_cast<int64_t>(position().record)},
            .can_continue = true,
            .begin = position().offset,
            .end = position().offset,
            .num_records_lost = 0};
  return Step::kError;
}

// What is wrong with the bytes themselves, as the storage or the inflater says.
ShardReader::Step ShardReader::failed() {
  Error error = std::move(*std::exchange(failure_, std::nullopt));
  // Of a compressed shard nobody knows how much it would have been.
  const uint64_t lost_to = unpacked_ ? records_->next_byte() : file_bytes_;
  (void)fail(std::move(error), std::max(lost_to, position().offset));
  if (!std::exchange(failure_is_damage_, false)) return Step::kError;
  if (unpacked_->pass_bad_trailer()) {
    fault_.end = fault_.begin;
    fault_.end_is_known = true;
    fault_.num_records_lost = 0;
    fault_.can_continue = true;
  } else if (!known_.empty()) {
    const uint64_t bad_frame = unpacked_->stream_begin();
    fault_.can_continue = resync(resync_->end_of_bad_frame(fault_, bad_frame, records_->next_byte()));
  }
  ended_ = !fault_.can_continue;
  return Step::kError;
}

// Goes on with the first record that can be reached from an unpacked byte on, and says what is lost. False, with the
// rest lost, when there is none.
bool ShardReader::resync(uint64_t from) {
  const std::optional<RecordPosition> end = known_.end();
  if (const std::optional<Resync::Place> place = resync_->next_place(from, position())) {
    if (enter(*place)) {
      lose_up_to(place->next, fault_);
      return true;
    }
    if (index_problem_) fault_.error.message += "; " + *std::exchange(index_problem_, std::nullopt);
  }
  if (end) lose_up_to(*end, fault_);
  return false;
}

// Goes on at a place; bytes before its record are dropped. False when its point makes no sense.
bool ShardReader::enter(const Resync::Place& place) {
  try {
    unpacked_.emplace(feed_, Unpacker(*compression_, place.point, known_.frames));
  } catch (const ErrorException& exception) {
    index_problem_ = exception.error().message;
    known_.index = nullptr;
    return false;
  }
  resync_->entered(place.point.offset);
  records_->restart(place.point.offset, place.next);
  failure_.reset();
  feed_->restart(place.point.bit / 8);
  return true;
}

ShardReader::Step ShardReader::fail(Error error, uint64_t end) {
  ended_ = true;
  if (error.shard.empty()) error.shard = path_;
  error.offset = static_cast<int64_t>(position().offset);
  error.record = static_cast<int64_t>(position().record);
  fault_ = {.error = std::move(error),
            .begin = position().offset,
            .end = end,
            .end_is_known = compression_ == Compression::kNone};
  if (const std::optional<RecordPosition> last = known_.end()) lose_up_to(*last, fault_);
  return Step::kError;
}

ShardReader::Step ShardReader::end() {
  ended_ = true;
  if (lost_the_rest_ || !options_.num_records || *options_.num_records == position().record) return Step::kEnd;
  const std::string message =
      fmt::format("{} records were promised, {} are there", *options_.num_records, position().record);
  (void)fail(Error{.code = ErrorCode::kCardinality, .message = message}, position().offset);
  fault_.end_is_known = true;
  return Step::kError;
}

// What of the index does not fit what is known before anything was read.
std::optional<std::string> ShardReader::index_difference() const {
  ShardFingerprint found = known_.index->fingerprint();  // the content is compared while it is read
  found.name = path_.substr(path_.rfind('/') + 1);
  found.bytes = file_bytes_;
  if (std::optional<std::string> text = difference(known_.index->fingerprint(), found)) return text;
  if (options_.compression && *options_.compression != known_.index->compression()) {
    return fmt::format("it is of a shard with compression {}, declared is {}", to_string(known_.index->compression()),
                       to_string(*options_.compression));
  }
  const RecordPosition& start = options_.start;
  if (start.record > known_.index->num_records()) return fmt::format("it has {} records", known_.index->num_records());
  if (const uint64_t offset = known_.index->offset(start.record); offset != start.offset) {
    return fmt::format("by the index record {} begins at {}", start.record, offset);
  }
  return std::nullopt;
}

ShardReader::Got ShardReader::open() {
  if (!std::exchange(open_started_, true)) feed_->open(storage_, path_);
  if (feed_->look() == FileFeed::Now::kBusy) return Got::kPending;
  if (std::optional<Error> error = feed_->error()) {
    failure_ = std::move(error);
    return Got::kFailed;
  }
  opened_ = true;
  File& file = feed_->file()->file();
  file_bytes_ = file.size();
  file_version_ = file.version();
  if (known_.index) {
    index_problem_ = index_difference();
    if (index_problem_) known_.index = nullptr;
  }
  // Only the beginning shows how a file is stored.
  const std::optional<Compression> known = known_.index ? known_.index->compression() : options_.compression;
  if (options_.start.offset > 0 && known == Compression::kNone) {
    if (options_.start.offset > file_bytes_) {
      failure_ = Error{.code = ErrorCode::kState, .message = fmt::format("the file has only {} bytes", file_bytes_)};
      return Got::kFailed;
    }
    feed_->seek(options_.start.offset);
  } else if (options_.start.offset > 0 && known == Compression::kZstd) {
    frame_table_reader_.emplace(feed_);
  } else if (options_.start.offset > 0 && known_.index) {
    choose_entry();
  }
  return Got::kBytes;
}

// Looks for the place in a compressed shard from which on the first record wanted can be unpacked.
void ShardReader::choose_entry() {
  if (options_.start.offset == 0) return;
  if (known_.frames && known_.frames->num_bytes() > 0) {
    entry_ =
        FrameTable::point(known_.frames->frame_with(std::min(options_.start.offset, known_.frames->num_bytes() - 1)));
  } else if (const SeekPoint* const point =
                 known_.index ? known_.index->point_before(options_.start.offset) : nullptr) {
    entry_ = *point;
  }
  if (!entry_) return;
  first_.reset();
  feed_->seek(entry_->bit / 8);
}

void ShardReader::take_frame_table(const FrameTableReader& reader) {
  frame_table_was_read_ = true;
  known_.frames = reader.table();
  if (reader.problem() && !index_problem_) index_problem_ = reader.problem();
}

ShardReader::Got ShardReader::read_frame_table() {
  switch (frame_table_reader_->read()) {
    case Got::kPending: return Got::kPending;
    case Got::kFailed: failure_ = feed_->error(); return Got::kFailed;
    default: break;
  }
  take_frame_table(*frame_table_reader_);
  frame_table_reader_.reset();
  feed_->seek(first_ ? first_->end - first_->begin : 0);
  choose_entry();
  return Got::kBytes;
}

ShardReader::Got ShardReader::first_chunk() {
  switch (feed_->look()) {
    case FileFeed::Now::kBusy: return Got::kPending;
    case FileFeed::Now::kBytes: first_ = feed_->take_chunk(); return Got::kBytes;
    case FileFeed::Now::kIdle: break;
  }
  failure_ = feed_->error();
  if (failure_) return Got::kFailed;
  if (feed_->at_end()) return Got::kNothing;
  feed_->start_chunk(std::max(options_.chunk_bytes, kRecognitionBytes));
  feed_->run();
  return Got::kBytes;
}

// Each call is a step on the way to the first bytes of records.
ShardReader::Got ShardReader::begin() {
  if (frame_table_reader_) return read_frame_table();
  if (!first_) return first_chunk();
  const size_t first_bytes = first_->end - first_->begin;
  const bool at_beginning = feed_->next_offset() == first_bytes;
  if (entry_) {
    compression_ = known_.index ? known_.index->compression() : Compression::kZstd;
  } else if (at_beginning) {
    const std::string_view bytes(reinterpret_cast<const char*>(first_->buffer->data()) + first_->begin, first_bytes);
    if (known_.index && known_.index->compression() != Compression::kNone && begins_like_records(bytes)) {
      index_problem_ = "it is of a compressed shard, this one is not";
      known_.index = nullptr;
    }
    // Damage in the first bytes must not hide how the shard is stored.
    try {
      compression_ = known_.index ? known_.index->compression() : recognize_compression(bytes, options_.compression);
    } catch (const ErrorException& exception) {
      failure_ = exception.error();
      return Got::kFailed;
    }
    if (compression_ == Compression::kZstd && !frame_table_was_read_) {
      frame_table_reader_.emplace(feed_);
      if (first_bytes < file_bytes_) return Got::kBytes;
      frame_table_reader_->read_from(bytes);
      take_frame_table(*frame_table_reader_);
      frame_table_reader_.reset();
      choose_entry();
      return Got::kBytes;
    }
  } else {
    compression_ = Compression::kNone;
  }
  RecordReaderOptions options{
      .shard = path_, .start = options_.start, .max_record_bytes = options_.max_record_bytes, .index = known_.index};
  FileFeed::Chunk chunk = *std::exchange(first_, std::nullopt);
  if (compression_ == Compression::kNone) {
    options.max_shard_bytes = file_bytes_;
    options.size_is_exact = true;
    records_.emplace(pool_, options);
    if (at_beginning && options_.start.offset > 0) {
      feed_->seek(options_.start.offset);  // the beginning was read only to see how the file is stored
    } else {
      records_->feed(std::move(chunk.buffer), chunk.begin, chunk.end);
    }
    return Got::kBytes;
  }
  const std::optional<SeekPoint> entry = std::exchange(entry_, std::nullopt);
  try {
    unpacked_.emplace(feed_,
                      entry ? Unpacker(*compression_, *entry, known_.frames) : Unpacker(*compression_, known_.frames),
                      std::move(chunk));
  } catch (const ErrorException& exception) {
    index_problem_ = exception.error().message;
    known_.index = nullptr;
    feed_->seek(0);
    return Got::kBytes;
  }
  options.max_shard_bytes = most_unpacked_bytes(*compression_, file_bytes_);
  options.difference_is_damage = true;
  records_.emplace(pool_, options);
  records_->restart(entry ? entry->offset : 0, options_.start);
  resync_.emplace(known_, *compression_);
  const bool distrusts = options_.starts_after_damage && known_.index && compression_ != Compression::kZstd;
  if (distrusts) resync_->resync_after(options_.start.offset);
  return Got::kBytes;
}

ShardReader::Got ShardReader::fetch() { return unpacked_ ? fetch_unpacked() : fetch_plain(); }

ShardReader::Got ShardReader::fetch_plain() {
  // A long record is read straight to its place: no chunks of it ahead.
  feed_->allow_read_ahead(records_->num_missing() <= feed_->chunk_bytes());
  switch (feed_->look()) {
    case FileFeed::Now::kBusy: return Got::kPending;
    case FileFeed::Now::kBytes:
      if (const std::optional<size_t> bytes = feed_->take_direct()) {
        records_->commit(*bytes);
      } else if (!take_chunk()) {
        return Got::kPending;
      }
      feed_->read_ahead();
      return Got::kBytes;
    case FileFeed::Now::kIdle: break;
  }
  if (std::optional<Error> error = feed_->error()) {
    failure_ = std::move(error);
    return Got::kFailed;
  }
  if (feed_->at_end()) return Got::kNothing;
  const bool is_slow = feed_->is_slow();
  const auto [offset, record] = records_->position();
  const size_t warm_bytes = most_warm_chunk_bytes(record == 0 ? 0 : offset / record);
  auto room = prepare(is_slow ? options_.chunk_bytes : std::min(options_.chunk_bytes, warm_bytes));
  if (!room) return Got::kPending;
  if (!is_slow) room = room->first(std::min(room->size(), std::max(options_.chunk_bytes, kPieceBytes)));
  feed_->start_direct(*room, records_->buffer());
  feed_->run();
  feed_->read_ahead();
  return Got::kBytes;
}

// Takes memory for `needed` bytes, if there is no room for them, or does not when that must wait (false): the memory
// gate wakes then.
template <typename Take>
bool ShardReader::take_memory(uint64_t needed, uint64_t taken, bool ahead, const Take& take) {
  const auto bytes = static_cast<int64_t>(taken);
  const bool ask = options_.memory != nullptr && !records_->has_room_for(needed) &&
                   taken > std::max(options_.chunk_bytes, kUnpackedBytes);
  if (ask && !(ahead ? options_.memory->admit_ahead(bytes) : options_.memory->admit(bytes))) return false;
  const AdmittedMemory admitted(ask ? options_.memory : nullptr, bytes);
  take();
  return true;
}

// Memory for the bytes that follow, or nothing when that must wait.
std::optional<std::span<std::byte>> ShardReader::prepare(size_t wanted, bool ahead) {
  std::optional<std::span<std::byte>> room;
  // What is unpacked does not take long to begin, wherever it comes from.
  const bool whole_records = unpacked_ || !feed_->is_slow();
  const uint64_t missing = records_->num_missing();
  (void)take_memory(missing, std::max<uint64_t>(wanted, missing), ahead,
                    [&] { room = records_->prepare(wanted, whole_records); });
  return room;
}

// Walks on in the chunk that has come. False when a record that goes on in it, and is longer than goes in front of a
// chunk, must wait for memory.
bool ShardReader::take_chunk() {
  const uint64_t bytes = records_->copies_chunks() ? records_->room_for_chunk(feed_->chunk_bytes()) : 0;
  return take_memory(bytes, bytes, /*ahead=*/false, [this] {
    std::optional<FileFeed::Chunk> chunk = feed_->take_chunk();
    if (chunk) records_->feed(std::move(chunk->buffer), chunk->begin, chunk->end);
  });
}

// While the caller works on a batch, a slow store reads what the walk needs next.
void ShardReader::plan() {
  if (unpacked_ || records_->num_missing() == 0 || !feed_->is_slow()) return;
  if (!feed_->is_idle() || feed_->error() || feed_->at_end()) return;
  feed_->allow_read_ahead(records_->num_missing() <= feed_->chunk_bytes());
  const auto room = prepare(options_.chunk_bytes, /*ahead=*/true);
  if (!room) return;
  feed_->start_direct(*room, records_->buffer());
  feed_->run();
  feed_->read_ahead();
}

ShardReader::Got ShardReader::fetch_unpacked() {
  const auto prepared = prepare(std::max(kUnpackedBytes, options_.chunk_bytes));
  if (!prepared) return Got::kPending;
  if (prepared->empty()) {
    failure_ = Error{.code = ErrorCode::kCompression,
                     .message = fmt::format("{} compressed bytes unpack to more than is possible", file_bytes_)};
    failure_is_damage_ = true;
    return Got::kFailed;
  }
  size_t filled = 0;
  const Got got = unpacked_->fill(*prepared, filled);
  if (got == Got::kFailed) {
    failure_ = unpacked_->error();
    failure_is_damage_ = unpacked_->error_is_damage();
  }
  records_->commit(filled);
  return filled > 0 ? Got::kBytes : got;
}

}  // namespace millrace
