#include "formats/tfrecord/shard_reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "formats/tfrecord/index.h"
#include "formats/tfrecord/recognition.h"

namespace millrace {
namespace {

// Deflate packs at most 258 bytes into two bits.
constexpr uint64_t kMostInflation = 1032;
constexpr size_t kInflatedBytes = 256 << 10;

uint64_t most_inflated_bytes(uint64_t file_bytes) {
  constexpr uint64_t kMost = UINT64_MAX / kMostInflation - 1;
  return file_bytes > kMost ? UINT64_MAX : file_bytes * kMostInflation + kMostInflation;
}

}  // namespace

// The side that reads in flight may still touch when the reader is gone: everything that a completion needs. A read
// goes either to a chunk of its own (read-ahead, and all chunks of compressed shards) or straight into the memory of
// the record reader (`direct`).
class ShardReader::Feed final : public ReadSink, public OpenSink, public std::enable_shared_from_this<Feed> {
 public:
  struct Chunk {
    Buffer buffer;
    size_t begin = 0;
    size_t end = 0;
  };

  Feed(BufferPool pool, const ShardReaderOptions& options, std::function<void()> wake)
      : pool_(std::move(pool)),
        chunk_bytes_(std::max<size_t>(options.chunk_bytes, 1)),
        read_ahead_(options.read_ahead),
        max_attempts_(options.max_attempts),
        wake_(std::move(wake)) {}

  // --- called by the reader -------------------------------------------------------------------------------------

  void open(Storage& storage, const std::string& path) {
    busy_ = true;
    open_with_retries(storage, path, max_attempts_, shared_from_this());
  }

  /// Only while nothing is in flight.
  void seek(uint64_t offset) {
    const std::lock_guard lock(mutex_);
    next_offset_ = offset;
  }

  /// Starts reading one chunk, into a buffer of its own.
  void start_chunk(size_t max_bytes) {
    const std::lock_guard lock(mutex_);
    prepare_chunk(max_bytes);
  }

  /// Starts reading into `destination`, a part of `buffer`.
  void start_direct(std::span<std::byte> destination, const Buffer& buffer) {
    const std::lock_guard lock(mutex_);
    direct_ = true;
    set_in_flight(buffer, static_cast<size_t>(destination.data() - buffer->data()), destination.size());
  }

  /// Calls the storage for what was started. Apart from starting, because an answer may come inside the call.
  void run() {
    std::span<std::byte> destination;
    uint64_t offset = 0;
    {
      const std::lock_guard lock(mutex_);
      destination = {in_flight_.buffer->data() + in_flight_.begin, in_flight_.end - in_flight_.begin};
      offset = next_offset_;
      calling_ = true;
    }
    file_->read(offset, destination, shared_from_this());
    const std::lock_guard lock(mutex_);
    calling_ = false;
  }

  /// What there is now. One look under one lock: an answer cannot slip between two.
  enum class Now {
    kBytes,  ///< `take_direct` or `take_chunk` has something to give
    kBusy,   ///< something is in flight: `wake` will be called
    kIdle,   ///< neither; see `error` and `at_end`
  };
  Now look() {
    const std::lock_guard lock(mutex_);
    if (direct_bytes_ || !chunks_.empty()) return Now::kBytes;
    waiting_ = busy_;
    return busy_ ? Now::kBusy : Now::kIdle;
  }
  /// Like `look` for somebody who does not wait.
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return !busy_ && !direct_bytes_ && chunks_.empty();
  }

  /// What a direct read brought, if one is done.
  std::optional<size_t> take_direct() {
    const std::lock_guard lock(mutex_);
    return std::exchange(direct_bytes_, std::nullopt);
  }
  std::optional<Chunk> take_chunk() {
    const std::lock_guard lock(mutex_);
    if (chunks_.empty()) return std::nullopt;
    Chunk chunk = std::move(chunks_.front());
    chunks_.pop_front();
    return chunk;
  }
  std::optional<Error> error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  /// True when nothing more can be asked for.
  bool at_end() {
    const std::lock_guard lock(mutex_);
    return next_offset_ >= file_bytes_;
  }
  uint64_t next_offset() {
    const std::lock_guard lock(mutex_);
    return next_offset_;
  }
  /// Whether the last answer came later than its call returned: then it pays to read ahead.
  bool is_slow() {
    const std::lock_guard lock(mutex_);
    return slow_;
  }
  /// Whether completions go on with the next chunk by themselves.
  void allow_read_ahead(bool allowed) {
    const std::lock_guard lock(mutex_);
    may_read_ahead_ = allowed;
  }
  /// Starts a chunk ahead of the walk if that is wanted and nothing is in flight.
  void read_ahead() {
    {
      const std::lock_guard lock(mutex_);
      if (!wants_chunk()) return;
      prepare_chunk(chunk_bytes_);
    }
    run();
  }

  WholeReader* file() const { return file_.get(); }

  void close() {
    {
      const std::lock_guard lock(wake_mutex_);
      wake_ = nullptr;
    }
    bool reading;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      chunks_.clear();
      reading = busy_ && file_ != nullptr;
    }
    if (reading) file_->file().cancel();
  }

  // --- called by the storage ------------------------------------------------------------------------------------

  void open_done(OpenResult result) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (result.file) {
        file_bytes_ = result.file->size();
        file_ = std::make_shared<WholeReader>(std::move(result.file), max_attempts_);
      } else {
        error_ = std::move(result.error.error);
      }
      busy_ = false;
    }
    wake();
  }

  void read_done(ReadResult result) noexcept override {
    bool again = false;
    {
      const std::lock_guard lock(mutex_);
      slow_ = !calling_;
      Chunk chunk = std::move(in_flight_);
      in_flight_ = {};
      busy_ = false;
      const size_t asked = chunk.end - chunk.begin;
      next_offset_ += result.bytes;
      if (!result.ok) {
        error_ = std::move(result.error.error);
      } else if (result.bytes < asked) {
        error_ = Error{.code = ErrorCode::kTruncated,
                       .message = fmt::format("the file had {} bytes when it was opened and now ends after {}",
                                              file_bytes_, next_offset_)};
      }
      if (std::exchange(direct_, false)) {
        direct_bytes_ = result.bytes;
      } else if (result.bytes > 0 && !closed_) {
        chunk.end = chunk.begin + result.bytes;
        chunks_.push_back(std::move(chunk));
      }
      if (wants_chunk()) {
        again = true;
        prepare_chunk(chunk_bytes_);
      }
    }
    wake();
    if (again) run();
  }

 private:
  bool wants_chunk() const {
    return may_read_ahead_ && slow_ && !busy_ && !closed_ && !error_ && next_offset_ < file_bytes_ &&
           chunks_.size() < read_ahead_;
  }

  void prepare_chunk(size_t max_bytes) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(max_bytes, file_bytes_ - next_offset_));
    set_in_flight(pool_.allocate(kChunkHeadroom + size), kChunkHeadroom, size);
  }

  void set_in_flight(Buffer buffer, size_t begin, size_t size) {
    in_flight_ = {std::move(buffer), begin, begin + size};
    busy_ = true;
  }

  void wake() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(waiting_, false)) return;
    }
    // Not under mutex_: whoever is woken may ask for the next records at once.
    const std::lock_guard lock(wake_mutex_);
    if (wake_) wake_();
  }

  BufferPool pool_;
  const size_t chunk_bytes_;
  const size_t read_ahead_;
  const int max_attempts_;

  std::mutex wake_mutex_;
  std::function<void()> wake_;

  std::mutex mutex_;
  bool busy_ = false;     // an open or a read is in flight
  bool calling_ = false;  // the call that started it has not returned
  bool waiting_ = false;  // somebody was told kPending
  bool closed_ = false;
  bool slow_ = false;
  bool may_read_ahead_ = false;
  bool direct_ = false;  // the read in flight goes into the memory of the record reader
  std::optional<size_t> direct_bytes_;
  Chunk in_flight_;
  std::deque<Chunk> chunks_;
  uint64_t next_offset_ = 0;
  uint64_t file_bytes_ = 0;
  std::optional<Error> error_;
  std::shared_ptr<WholeReader> file_;
};

ShardReader::ShardReader(Storage& storage, BufferPool& pool, std::string path, ShardReaderOptions options,
                         std::function<void()> wake)
    : storage_(storage),
      pool_(pool),
      path_(std::move(path)),
      options_(std::move(options)),
      index_(options_.index),
      feed_(std::make_shared<Feed>(pool, options_, std::move(wake))) {}

ShardReader::~ShardReader() { feed_->close(); }

ShardReader::Step ShardReader::next(RecordBatch& batch, size_t max_records) {
  batch.clear();
  while (!ended_) {
    if (index_problem_) return refuse_index(*std::exchange(index_problem_, std::nullopt));
    if (records_) {
      switch (records_->next(batch, max_records)) {
        case RecordReader::Step::kRecords: plan(); return Step::kRecords;
        case RecordReader::Step::kError:
          fault_ = records_->fault();
          lost_the_rest_ = !fault_.can_continue;
          if (fault_.error.code == ErrorCode::kIndex) index_ = nullptr;
          return Step::kError;
        case RecordReader::Step::kEnd: return end();
        case RecordReader::Step::kNeedBytes: break;
      }
    }
    if (failure_) {
      // Of a compressed shard nobody knows how much it would have been.
      const uint64_t lost_to = inflater_ ? records_->next_byte() : file_bytes_;
      return fail(std::move(*failure_), std::max(lost_to, position().offset));
    }
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

ShardReader::Step ShardReader::refuse_index(std::string message) {
  fault_ = {.error = {.code = ErrorCode::kIndex,
                      .message = std::move(message) + "; reading goes on without the index",
                      .shard = path_,
                      .offset = static_cast<int64_t>(position().offset),
                      .record = static_cast<int64_t>(position().record)},
            .can_continue = true,
            .begin = position().offset,
            .end = position().offset,
            .num_records_lost = 0};
  return Step::kError;
}

ShardReader::Step ShardReader::fail(Error error, uint64_t end) {
  ended_ = true;
  if (error.shard.empty()) error.shard = path_;
  error.offset = static_cast<int64_t>(position().offset);
  error.record = static_cast<int64_t>(position().record);
  fault_ = {.error = std::move(error), .begin = position().offset, .end = end, .end_is_known = !inflater_};
  if (index_) {
    fault_.end = std::max(index_->num_bytes(), fault_.begin);
    fault_.end_is_known = true;
    fault_.num_records_lost = index_->num_records() - std::min(index_->num_records(), position().record);
  }
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

ShardReader::Got ShardReader::open() {
  if (!std::exchange(open_started_, true)) feed_->open(storage_, path_);
  if (feed_->look() == Feed::Now::kBusy) return Got::kPending;
  if (std::optional<Error> error = feed_->error()) {
    failure_ = std::move(error);
    return Got::kFailed;
  }
  opened_ = true;
  File& file = feed_->file()->file();
  file_bytes_ = file.size();
  file_version_ = file.version();
  if (index_) {
    ShardDigest found = index_->digest();  // what is inside is compared while it is read
    found.name = path_.substr(path_.rfind('/') + 1);
    found.bytes = file_bytes_;
    index_problem_ = difference(index_->digest(), found);
    if (index_problem_) index_ = nullptr;
  }
  // Only the beginning shows how a file is stored.
  const bool known = options_.compression == Compression::kNone;
  if (options_.start.offset > 0 && known) {
    if (options_.start.offset > file_bytes_) {
      failure_ =
          Error{.code = ErrorCode::kTruncated, .message = fmt::format("the file has only {} bytes", file_bytes_)};
      return Got::kFailed;
    }
    feed_->seek(options_.start.offset);
  }
  return Got::kBytes;
}

ShardReader::Got ShardReader::begin() {
  switch (feed_->look()) {
    case Feed::Now::kBusy: return Got::kPending;
    case Feed::Now::kBytes: break;
    case Feed::Now::kIdle:
      if (std::optional<Error> error = feed_->error()) {
        failure_ = std::move(error);
        return Got::kFailed;
      }
      if (feed_->at_end()) return Got::kNothing;
      feed_->start_chunk(std::max(options_.chunk_bytes, kRecognitionBytes));
      feed_->run();
      return Got::kBytes;  // look again
  }
  std::optional<Feed::Chunk> chunk = feed_->take_chunk();
  const bool at_beginning = feed_->next_offset() == chunk->end - chunk->begin;
  if (at_beginning) {
    const std::string_view bytes(reinterpret_cast<const char*>(chunk->buffer->data()) + chunk->begin,
                                 chunk->end - chunk->begin);
    try {
      compression_ = recognize_compression(bytes, options_.compression);
    } catch (const ErrorException& exception) {
      failure_ = exception.error();
      return Got::kFailed;
    }
  } else {
    compression_ = Compression::kNone;
  }
  if (index_ && index_->compression() != *compression_) {
    index_problem_ = fmt::format("the index is of a shard with compression {}, this one has {}",
                                 to_string(index_->compression()), to_string(*compression_));
    index_ = nullptr;
  }
  RecordReaderOptions options{
      .shard = path_, .start = options_.start, .max_record_bytes = options_.max_record_bytes, .index = index_};
  if (compression_ == Compression::kNone) {
    options.max_shard_bytes = file_bytes_;
    options.size_is_exact = true;
    records_.emplace(pool_, options);
    if (at_beginning && options_.start.offset > 0) {
      feed_->seek(options_.start.offset);  // the beginning was read only to see how the file is stored
    } else {
      records_->feed(std::move(chunk->buffer), chunk->begin, chunk->end);
    }
  } else {
    options.max_shard_bytes = most_inflated_bytes(file_bytes_);
    records_.emplace(pool_, options);
    inflater_.emplace(*compression_);
    num_to_drop_ = options_.start.offset;
    input_ = std::move(chunk->buffer);
    input_begin_ = chunk->begin;
    input_end_ = chunk->end;
    feed_->allow_read_ahead(true);
  }
  return Got::kBytes;
}

ShardReader::Got ShardReader::fetch() { return inflater_ ? fetch_inflated() : fetch_plain(); }

ShardReader::Got ShardReader::fetch_plain() {
  // A long record is read in one piece, straight to its place: no chunks of it ahead.
  feed_->allow_read_ahead(records_->num_missing() <= options_.chunk_bytes);
  switch (feed_->look()) {
    case Feed::Now::kBusy: return Got::kPending;
    case Feed::Now::kBytes:
      if (const std::optional<size_t> bytes = feed_->take_direct()) {
        records_->commit(*bytes);
      } else if (std::optional<Feed::Chunk> chunk = feed_->take_chunk()) {
        records_->feed(std::move(chunk->buffer), chunk->begin, chunk->end);
      }
      feed_->read_ahead();
      return Got::kBytes;
    case Feed::Now::kIdle: break;
  }
  if (std::optional<Error> error = feed_->error()) {
    failure_ = std::move(error);
    return Got::kFailed;
  }
  if (feed_->at_end()) return Got::kNothing;
  const std::span<std::byte> room = records_->prepare(options_.chunk_bytes);
  feed_->start_direct(room, records_->buffer());
  feed_->run();
  return Got::kBytes;
}

// While the caller works on a batch, a slow store reads what the walk needs next.
void ShardReader::plan() {
  if (inflater_ || records_->num_missing() == 0 || !feed_->is_slow()) return;
  if (!feed_->is_idle() || feed_->error() || feed_->at_end()) return;
  feed_->allow_read_ahead(records_->num_missing() <= options_.chunk_bytes);
  const std::span<std::byte> room = records_->prepare(options_.chunk_bytes);
  feed_->start_direct(room, records_->buffer());
  feed_->run();
}

// Makes `input_` hold bytes.
ShardReader::Got ShardReader::take_input() {
  input_ = {};
  input_begin_ = input_end_ = 0;
  for (;;) {
    switch (feed_->look()) {
      case Feed::Now::kBusy: return Got::kPending;
      case Feed::Now::kBytes:
        if (std::optional<Feed::Chunk> chunk = feed_->take_chunk()) {
          input_ = std::move(chunk->buffer);
          input_begin_ = chunk->begin;
          input_end_ = chunk->end;
        }
        feed_->read_ahead();
        return Got::kBytes;
      case Feed::Now::kIdle: break;
    }
    if (std::optional<Error> error = feed_->error()) {
      failure_ = std::move(error);
      return Got::kFailed;
    }
    if (feed_->at_end()) return Got::kNothing;
    feed_->start_chunk(options_.chunk_bytes);
    feed_->run();
  }
}

ShardReader::Got ShardReader::fetch_inflated() {
  std::span<std::byte> room = records_->prepare(std::max(kInflatedBytes, options_.chunk_bytes));
  size_t filled = 0;
  Got got = Got::kBytes;
  if (room.empty()) {
    failure_ = Error{.code = ErrorCode::kCompression,
                     .message = fmt::format("{} compressed bytes unpack to more than is possible", file_bytes_)};
    return Got::kFailed;
  }
  while (filled < room.size()) {
    // While the inflater holds bytes back, it gives them without more input.
    if (!inflater_is_full_ && (!input_ || input_begin_ == input_end_)) {
      got = take_input();
      if (got == Got::kNothing && !inflater_->finish()) {
        failure_ = inflater_->error();
        got = Got::kFailed;
      }
      if (got != Got::kBytes) break;
    }
    std::span<const std::byte> input;
    if (input_) input = {input_->data() + input_begin_, input_end_ - input_begin_};
    const Inflater::Result result = inflater_->run(input, room.subspan(filled));
    input_begin_ += result.num_read;
    inflater_is_full_ = result.status == Inflater::Status::kOutputFull;
    if (num_to_drop_ > 0) {
      const auto dropped = static_cast<size_t>(std::min<uint64_t>(num_to_drop_, result.num_written));
      num_to_drop_ -= dropped;
      std::memmove(room.data(), room.data() + dropped, result.num_written - dropped);
      filled = result.num_written - dropped;
    } else {
      filled += result.num_written;
    }
    if (result.status == Inflater::Status::kError) {
      failure_ = inflater_->error();
      got = Got::kFailed;
      break;
    }
  }
  records_->commit(filled);
  if (filled > 0) return Got::kBytes;
  return got;
}

}  // namespace millrace
