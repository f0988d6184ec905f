#include "formats/records/record_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr size_t kInflatedBytes = 256 << 10;

}  // namespace

RecordFileReader::RecordFileReader(Storage& storage, BufferPool& pool, std::string path,
                                   std::unique_ptr<RecordCutter> cutter, const RecordFileOptions& options,
                                   std::function<void()> wake)
    : storage_(storage),
      pool_(pool),
      path_(std::move(path)),
      options_(options),
      cutter_(std::move(cutter)),
      feed_(std::make_shared<FileFeed>(pool, options.chunk_bytes, options.read_ahead, options.max_attempts,
                                       std::move(wake))),
      place_(options.start) {}

RecordFileReader::~RecordFileReader() { feed_->close(); }

RecordFileReader::Step RecordFileReader::next(CutRecords& records, size_t max_records) {
  records.clear();
  while (!ended_) {
    if (opened_ && (num_at_hand() > 0 || last_)) {
      const FilePlace before = place_;
      records.first_record = place_.record;
      const std::span<char> bytes(buffer_ ? reinterpret_cast<char*>(buffer_->data()) + begin_ : nullptr, num_at_hand());
      std::optional<Error> error = cutter_->cut(bytes, last_, max_records, place_, records);
      begin_ += static_cast<size_t>(place_.offset - before.offset);
      if (error && records.empty()) return fail(std::move(*error));
      if (!records.empty()) {
        records.buffer = buffer_;
        leave_large_buffer();
        return Step::kRecords;  // an error behind them is found again
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

RecordFileReader::Step RecordFileReader::fail(Error error) {
  ended_ = true;
  error_ = std::move(error);
  if (error_.shard.empty()) error_.shard = path_;
  error_.offset = static_cast<int64_t>(place_.offset);
  error_.record = static_cast<int64_t>(place_.record);
  // Of a compressed file nobody knows how much it would have been.
  const uint64_t end = inflater_ ? place_.offset + num_at_hand() : file_bytes_;
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
  feed_->allow_read_ahead(true);
  if (options_.compression != Compression::kNone) {
    inflater_.emplace(options_.compression);
    num_to_drop_ = place_.offset;
    return Got::kBytes;
  }
  failure_ = cutter_->refuse_size(file_bytes_);
  if (!failure_ && place_.offset > file_bytes_) {
    failure_ = Error{.code = ErrorCode::kTruncated, .message = fmt::format("the file has only {} bytes", file_bytes_)};
  }
  if (failure_) return Got::kFailed;
  feed_->seek(place_.offset);
  return Got::kBytes;
}

RecordFileReader::Got RecordFileReader::fetch() { return inflater_ ? fetch_inflated() : fetch_plain(); }

// Makes `input_` the next chunk of the file.
RecordFileReader::Got RecordFileReader::take_input() {
  input_ = {};
  while (true) {
    switch (feed_->look()) {
      case FileFeed::Now::kBusy: return Got::kPending;
      case FileFeed::Now::kBytes:
        input_ = std::move(*feed_->take_chunk());
        feed_->read_ahead();
        return Got::kBytes;
      case FileFeed::Now::kIdle: break;
    }
    failure_ = feed_->error();
    if (failure_) return Got::kFailed;
    if (feed_->at_end()) return Got::kNothing;
    feed_->start_chunk(options_.chunk_bytes);
    feed_->run();
  }
}

RecordFileReader::Got RecordFileReader::fetch_plain() {
  if (!prepare(options_.chunk_bytes)) return Got::kPending;
  const Got got = take_input();
  if (got != Got::kBytes) return got;
  const size_t at_hand = num_at_hand();
  if (at_hand <= input_.begin) {
    if (at_hand > 0) std::memcpy(input_.buffer->data() + input_.begin - at_hand, buffer_->data() + begin_, at_hand);
    buffer_ = std::move(input_.buffer);
    begin_ = input_.begin - at_hand;
    end_ = input_.end;
  } else {
    const size_t size = input_.end - input_.begin;
    make_room(size);
    std::memcpy(buffer_->data() + end_, input_.buffer->data() + input_.begin, size);
    end_ += size;
  }
  input_ = {};
  return Got::kBytes;
}

RecordFileReader::Got RecordFileReader::fetch_inflated() {
  if (!prepare(kInflatedBytes)) return Got::kPending;
  make_room(kInflatedBytes);
  const std::span<std::byte> room(buffer_->data() + end_, kInflatedBytes);
  size_t filled = 0;
  Got got = Got::kBytes;
  while (filled < room.size()) {
    // While the inflater holds bytes back, it gives them without more input.
    if (!inflater_is_full_ && input_.begin == input_.end) {
      got = take_input();
      if (got == Got::kNothing && !inflater_->finish()) {
        failure_ = inflater_->error();
        got = Got::kFailed;
      }
      if (got != Got::kBytes) break;
    }
    std::span<const std::byte> input;
    if (input_.buffer) input = {input_.buffer->data() + input_.begin, input_.end - input_.begin};
    const Inflater::Result result = inflater_->run(input, room.subspan(filled));
    input_.begin += result.num_read;
    inflater_is_full_ = result.status == Inflater::Status::kOutputFull;
    filled += result.num_written;
    if (result.status == Inflater::Status::kError) {
      failure_ = inflater_->error();
      got = Got::kFailed;
      break;
    }
  }
  const auto dropped = static_cast<size_t>(std::min<uint64_t>(num_to_drop_, filled));
  if (dropped > 0) {
    // Only before the first record: nothing else is at hand.
    std::memmove(room.data(), room.data() + dropped, filled - dropped);
    num_to_drop_ -= dropped;
  }
  end_ += filled - dropped;
  if (got == Got::kNothing && num_to_drop_ > 0) {
    failure_ = Error{.code = ErrorCode::kTruncated,
                     .message = fmt::format("the file has only {} bytes unpacked", place_.offset - num_to_drop_)};
    return Got::kFailed;
  }
  return got != Got::kFailed && filled > 0 ? Got::kBytes : got;
}

// Room for so many bytes behind those of a record that is longer than fits in front of a chunk. False when that must
// wait: the memory gate wakes then.
bool RecordFileReader::prepare(size_t bytes) {
  if (num_at_hand() <= kChunkHeadroom || (buffer_->capacity() - end_ >= bytes)) return true;
  const auto wanted = static_cast<int64_t>(num_at_hand() + std::max(bytes, num_at_hand()));
  if (options_.memory != nullptr && !options_.memory->admit(wanted)) return false;
  struct Taken {
    MemoryGate* gate;
    int64_t bytes;
    ~Taken() {
      if (gate != nullptr) gate->taken(bytes);
    }
  } const taken{options_.memory, wanted};
  make_room(bytes);
  return true;
}

void RecordFileReader::make_room(size_t bytes) {
  if (buffer_ && buffer_->capacity() - end_ >= bytes) return;
  const size_t at_hand = num_at_hand();
  // Twice as much for a long record, so that it is not copied with every chunk.
  Buffer larger = pool_.allocate(at_hand + std::max(bytes, at_hand > kChunkHeadroom ? at_hand : 0));
  if (at_hand > 0) std::memcpy(larger->data(), buffer_->data() + begin_, at_hand);
  buffer_ = std::move(larger);
  begin_ = 0;
  end_ = at_hand;
}

// What a long record was read into goes with its batch, and does not stay here until the reader is asked again.
void RecordFileReader::leave_large_buffer() {
  constexpr size_t kLarge = 1 << 20;
  const size_t at_hand = num_at_hand();
  if (buffer_->capacity() <= kLarge || at_hand > buffer_->capacity() / 16) return;
  Buffer smaller;
  if (at_hand > 0) {
    smaller = pool_.allocate(at_hand);
    std::memcpy(smaller->data(), buffer_->data() + begin_, at_hand);
  }
  buffer_ = std::move(smaller);
  begin_ = 0;
  end_ = at_hand;
}

}  // namespace millrace
