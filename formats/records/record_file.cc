#include "millrace/formats/records/record_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/records/text_splitter.h"

namespace millrace {
namespace {

constexpr size_t kUnpackedBytes = 256 << 10;

}  // namespace

RecordFileReader::RecordFileReader(Storage& storage, BufferPool& pool, std::string path,
                                   std::unique_ptr<RecordSplitter> splitter, const RecordFileOptions& options,
                                   std::function<void()> wake)
    : storage_(storage),
      path_(std::move(path)),
      options_(options),
      splitter_(std::move(splitter)),
      feed_(std::make_shared<FileFeed>(pool,
                                       FileFeedOptions{.chunk_bytes = options.chunk_bytes,
                                                       .read_ahead = options.read_ahead,
                                                       .num_files = options.num_files,
                                                       .most_bytes = options.most_bytes_ahead,
                                                       .max_attempts = options.max_attempts},
                                       std::move(wake))),
      place_(options.start),
      bytes_(pool) {}

RecordFileReader::~RecordFileReader() { feed_->close(); }

RecordFileReader::Step RecordFileReader::next(CutRecords& records, size_t max_records) {
  records.clear();
  while (!ended_) {
    if (passing_ && (bytes_.size() > 0 || last_)) {
      if (pass()) return Step::kError;
    } else if (opened_ && (bytes_.size() > 0 || last_)) {
      const FilePlace before = place_;
      records.first_record = place_.record;
      const std::span<char> bytes(reinterpret_cast<char*>(bytes_.data()), bytes_.size());
      std::optional<Error> error = splitter_->cut(bytes, last_, max_records, place_, records);
      bytes_.drop(static_cast<size_t>(place_.offset - before.offset));
      if (error && records.empty()) {
        if (!may_pass(*error)) return fail(std::move(*error));
        passing_ = {std::move(*error), place_};
        continue;
      }
      if (!records.empty()) {
        records.buffer = bytes_.buffer();
        bytes_.leave_large_buffer();
        return Step::kRecords;  // an error after them is found again
      }
      if (last_) return end();
    }
    if (failure_) return fail(std::move(*std::exchange(failure_, std::nullopt)));
    switch (!opened_ ? open() : fetch()) {
      case Got::kPending: return Step::kPending;
      case Got::kNothing: last_ = true; break;
      case Got::kBytes:
      case Got::kFailed: break;  // failure_ is set
    }
  }
  return Step::kEnd;
}

bool RecordFileReader::may_pass(const Error& error) const {
  const auto* const text = dynamic_cast<const TextSplitter*>(splitter_.get());
  if (text != nullptr && text->refuses_file()) return false;
  return options_.passes_damage && (error.code != ErrorCode::kRecordTooLarge || options_.passes_long_records);
}

// False when its end is not at hand; then nothing is.
bool RecordFileReader::pass() {
  const uint64_t before = passing_->to.offset;
  const std::span<const char> bytes(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  const bool found = splitter_->pass(bytes, last_, passing_->to);
  bytes_.drop(static_cast<size_t>(passing_->to.offset - before));
  if (!found) return false;
  tell(std::move(passing_->error));
  place_ = passing_->to;
  error_.lost_bytes = static_cast<int64_t>(place_.offset) - error_.offset;
  passing_.reset();
  return true;
}

// An error at `place_`.
void RecordFileReader::tell(Error error) {
  error_ = std::move(error);
  if (error_.shard.empty()) error_.shard = path_;
  error_.offset = static_cast<int64_t>(place_.offset);
  error_.record = static_cast<int64_t>(place_.record);
}

RecordFileReader::Step RecordFileReader::fail(Error error) {
  ended_ = true;
  tell(std::move(error));
  // Of a compressed file nobody knows how much it would have been.
  const uint64_t end = unpacked_ ? place_.offset + bytes_.size() : file_bytes_;
  error_.lost_bytes = static_cast<int64_t>(std::max(end, place_.offset) - place_.offset);
  return Step::kError;
}

RecordFileReader::Step RecordFileReader::end() {
  ended_ = true;
  if (!options_.num_records || *options_.num_records == place_.record) return Step::kEnd;
  return fail({.code = ErrorCode::kCardinality,
               .message = fmt::format("{} records were promised, {} are there", *options_.num_records, place_.record)});
}

RecordFileReader::Got RecordFileReader::open() {
  if (!std::exchange(open_started_, true)) feed_->open(storage_, path_);
  if (feed_->look() == FileFeed::Now::kBusy) return Got::kPending;
  failure_ = feed_->error();
  if (failure_) return Got::kFailed;
  opened_ = true;
  file_bytes_ = feed_->file()->file().size();
  if (options_.compression == Compression::kZstd && place_.offset > 0) {
    frame_table_.emplace(feed_);
    return Got::kBytes;
  }
  feed_->allow_read_ahead(true);
  if (options_.compression != Compression::kNone) {
    unpacked_.emplace(feed_, Unpacker(options_.compression));
    num_to_drop_ = place_.offset;
    return Got::kBytes;
  }
  if (!options_.passes_damage) failure_ = splitter_->refuse_size(file_bytes_);
  if (!failure_ && place_.offset > file_bytes_) {
    failure_ = Error{.code = ErrorCode::kState, .message = fmt::format("the file has only {} bytes", file_bytes_)};
  }
  if (failure_) return Got::kFailed;
  feed_->seek(place_.offset);
  return Got::kBytes;
}

// Begins with the frame that has the first record wanted; without a seek table that is of use, with the first one.
RecordFileReader::Got RecordFileReader::find_frame() {
  const Got got = frame_table_->read();
  if (got == Got::kFailed) failure_ = feed_->error();
  if (got != Got::kBytes) return got;
  const std::shared_ptr<const FrameTable> frames = frame_table_->table();
  frame_table_.reset();
  if (frames && frames->num_bytes() > 0) {
    const SeekPoint entry = FrameTable::point(frames->frame_with(std::min(place_.offset, frames->num_bytes() - 1)));
    feed_->seek(entry.bit / 8);
    unpacked_.emplace(feed_, Unpacker(options_.compression, entry, frames));
    num_to_drop_ = place_.offset - entry.offset;
  } else {
    feed_->seek(0);
    unpacked_.emplace(feed_, Unpacker(options_.compression));
    num_to_drop_ = place_.offset;
  }
  return Got::kBytes;
}

RecordFileReader::Got RecordFileReader::fetch() {
  if (frame_table_) return find_frame();
  return unpacked_ ? fetch_unpacked() : fetch_plain();
}

RecordFileReader::Got RecordFileReader::fetch_plain() {
  if (!prepare(options_.chunk_bytes)) return Got::kPending;
  FileFeed::Chunk chunk;
  const Got got = feed_->next_chunk(chunk);
  if (got == Got::kFailed) failure_ = feed_->error();
  if (got != Got::kBytes || bytes_.go_on_in(chunk.buffer, chunk.begin, chunk.end)) return got;
  make_room(chunk.end - chunk.begin);
  bytes_.append({chunk.buffer->data() + chunk.begin, chunk.end - chunk.begin});
  return Got::kBytes;
}

RecordFileReader::Got RecordFileReader::fetch_unpacked() {
  if (!prepare(kUnpackedBytes)) return Got::kPending;
  make_room(kUnpackedBytes);
  size_t filled = 0;
  const Got got = unpacked_->fill(bytes_.room().first(kUnpackedBytes), filled);
  if (got == Got::kFailed) failure_ = unpacked_->error();
  bytes_.commit(filled);
  // Only before the first record: nothing else is at hand.
  const auto dropped = static_cast<size_t>(std::min<uint64_t>(num_to_drop_, filled));
  bytes_.drop(dropped);
  num_to_drop_ -= dropped;
  if (got == Got::kNothing && num_to_drop_ > 0) {
    failure_ = Error{.code = ErrorCode::kState,
                     .message = fmt::format("the file has only {} bytes unpacked", place_.offset - num_to_drop_)};
    return Got::kFailed;
  }
  return got != Got::kFailed && filled > 0 ? Got::kBytes : got;
}

// Room for so many bytes after those of a record that is longer than fits in front of a chunk. False when that must
// wait: the memory gate wakes then.
bool RecordFileReader::prepare(size_t bytes) {
  if (bytes_.size() <= kChunkHeadroom || bytes_.room().size() >= bytes) return true;
  const auto wanted = static_cast<int64_t>(bytes_.size() + std::max(bytes, bytes_.size()));
  if (options_.memory != nullptr && !options_.memory->admit(wanted)) return false;
  const AdmittedMemory admitted(options_.memory, wanted);
  make_room(bytes);
  return true;
}

void RecordFileReader::make_room(size_t bytes) {
  if (bytes_.room().size() >= bytes) return;
  // Twice as much for a long record, so that it is not copied with every chunk.
  bytes_.move_to_room_for(std::max(bytes, bytes_.size() > kChunkHeadroom ? bytes_.size() : 0));
}

}  // namespace millrace
