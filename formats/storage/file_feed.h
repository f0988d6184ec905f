#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/storage/closable_callback.h"
#include "millrace/formats/storage/range_reader.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

/// Room in front of the bytes of a chunk: whoever walks over chunks puts there what the one before ended with.
constexpr size_t kChunkHeadroom = 16 << 10;

/// Brings the bytes of one file in chunks, in order, without ever blocking, and reads ahead where the storage is slow.
/// It is the side of a reader that reads in flight may still touch when the reader is gone, so it is shared and then
/// closed: everything that a completion needs is here. A read goes either to a chunk of its own (`start_chunk`, and
/// what is read ahead) or straight into memory of the reader's (`start_direct`). One reader thread; answers come on
/// any.
class FileFeed final : public ReadSink, public OpenSink, public std::enable_shared_from_this<FileFeed> {
 public:
  struct Chunk {
    Buffer buffer;  ///< with kChunkHeadroom bytes before `begin`
    size_t begin = 0;
    size_t end = 0;
  };

  /// `chunk_bytes`: of a chunk that is read ahead; `read_ahead`: the most of these. `wake` is called, on any thread,
  /// when something has come after `look` said that it was awaited.
  FileFeed(BufferPool pool, size_t chunk_bytes, size_t read_ahead, int max_attempts, std::function<void()> wake);

  // --- called by the reader -------------------------------------------------------------------------------------

  void open(Storage& storage, const std::string& path);
  /// Only while nothing is in flight.
  void seek(uint64_t offset);
  /// Goes on elsewhere; what was read and what is in flight is thrown away. Only chunks may be in flight.
  void restart(uint64_t offset);
  /// Starts reading one chunk, into a buffer of its own.
  void start_chunk(size_t max_bytes);
  /// Starts reading into `destination`, a part of `buffer`.
  void start_direct(std::span<std::byte> destination, const Buffer& buffer);
  /// Calls the storage for what was started. Apart from starting, because an answer may come inside the call.
  void run();

  /// What there is now. One look under one lock: an answer cannot slip between two.
  enum class Now {
    kBytes,  ///< `take_direct` or `take_chunk` has something to give
    kBusy,   ///< something is in flight: `wake` will be called
    kIdle,   ///< neither; see `error` and `at_end`
  };
  Now look();
  /// Like `look` for somebody who does not wait.
  bool is_idle();
  /// Whether a direct read is in flight, or was not taken yet.
  bool reads_directly();

  /// What a direct read brought, if one is done.
  std::optional<size_t> take_direct();
  std::optional<Chunk> take_chunk();
  /// What asking for bytes led to.
  enum class Got {
    kBytes,    ///< they are there
    kNothing,  ///< the file has ended
    kPending,  ///< not now: `wake` will be called
    kFailed,   ///< there is an error
  };
  /// Makes `chunk` the next chunk of the file, or empty; asks the storage for it where nothing is in flight. Starts the
  /// one after it if that is wanted.
  Got next_chunk(Chunk& chunk);
  std::optional<Error> error();
  /// True when nothing more can be asked for.
  bool at_end();
  uint64_t next_offset();
  uint64_t num_read();
  /// Whether the last answer came later than its call returned: then it pays to read ahead.
  bool is_slow();
  /// Whether completions go on with the next chunk by themselves.
  void allow_read_ahead(bool allowed);
  /// Starts a chunk ahead of the walk if that is wanted and nothing is in flight.
  void read_ahead();

  /// Null until it is open.
  RangeReader* file() const { return file_.get(); }

  /// `wake` is not called any more.
  void close();

  // --- called by the storage ------------------------------------------------------------------------------------

  void open_done(OpenResult result) noexcept override;
  void read_done(ReadResult result) noexcept override;

 private:
  void take(ReadResult& result, Chunk chunk);
  bool wants_chunk() const;
  void prepare_chunk(size_t max_bytes);
  void set_in_flight(Buffer buffer, size_t begin, size_t size);
  void wake() noexcept;

  BufferPool pool_;
  const size_t chunk_bytes_;
  const size_t read_ahead_;
  const int max_attempts_;

  ClosableCallback wake_;

  std::mutex mutex_;
  bool busy_ = false;     // an open or a read is in flight
  bool calling_ = false;  // the call that started it has not returned
  bool waiting_ = false;  // `look` has returned kBusy
  bool closed_ = false;
  bool slow_ = false;
  bool may_read_ahead_ = false;
  bool direct_ = false;  // the read in flight goes into memory of the reader's
  std::optional<size_t> direct_bytes_;
  Chunk in_flight_;
  std::deque<Chunk> chunks_;
  uint64_t next_offset_ = 0;
  uint64_t num_read_ = 0;
  std::optional<uint64_t> restart_at_;  // the read in flight is not wanted any more
  uint64_t file_bytes_ = 0;
  std::optional<Error> error_;
  std::shared_ptr<RangeReader> file_;
};

}  // namespace millrace
