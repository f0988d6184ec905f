#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/storage/closable_callback.h"
#include "millrace/formats/storage/range_reader.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

/// Room in front of the bytes of a chunk: whoever walks over chunks puts there what the one before ended with.
constexpr size_t kChunkHeadroom = 16 << 10;

struct FileFeedOptions {
  /// Of a chunk that is read ahead; more where the file advises it (`File::advice`). Default: 256 KiB
  size_t chunk_bytes = 256 << 10;
  size_t read_ahead = 2;  ///< the most chunks of these. Default: 2
  size_t num_files = 1;   ///< that are read at a time, this one included (`ReadAdvice::in_all`). Default: 1
  /// What the chunks may come to of a file that advises several reads in flight, the one that is walked included.
  /// Default: 0, as much as those of another file
  size_t most_bytes = 0;
  int max_attempts = kDefaultMaxAttempts;  ///< see range_reader.h
};

/// Brings the bytes of one file in chunks, in order, without ever blocking, and reads ahead where the storage is slow;
/// several chunks at a time, each by a handle of its own, where the file advises it. It is the side of a reader that
/// reads in flight may still touch when the reader is gone, so it is shared and then closed: everything that a
/// completion needs is here. A read goes either to a chunk of its own (`start_chunk`, and what is read ahead) or
/// straight into memory of the reader's (`start_direct`). One reader thread; answers come on any.
class FileFeed final : public std::enable_shared_from_this<FileFeed> {
 public:
  struct Chunk {
    Buffer buffer;  ///< with kChunkHeadroom bytes before `begin`
    size_t begin = 0;
    size_t end = 0;
  };

  /// `wake` is called, on any thread, when something has come after `look` said that it was awaited.
  FileFeed(BufferPool pool, FileFeedOptions options, std::function<void()> wake);

  // --- called by the reader -------------------------------------------------------------------------------------

  /// `storage` must outlive the answers of its opens.
  void open(Storage& storage, const std::string& path);
  /// Only while nothing is in flight.
  void seek(uint64_t offset);
  /// Goes on elsewhere; what was read and what is in flight is thrown away. Only chunks may be in flight.
  void restart(uint64_t offset);
  /// Starts reading one chunk, into a buffer of its own. Only while nothing is in flight, as `start_direct`.
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
  /// Makes `chunk` the next chunk of the file, or empty; asks the storage for it where nothing is in flight. Starts
  /// those after it that are wanted.
  Got next_chunk(Chunk& chunk);
  /// What ended the reading, once all that came before it has been taken.
  std::optional<Error> error();
  /// True when nothing more can be asked for.
  bool at_end();
  uint64_t next_offset();
  uint64_t num_read();
  /// Bytes of a chunk that is read ahead.
  size_t chunk_bytes();
  /// Whether the last answer came later than its call returned: then it pays to read ahead.
  bool is_slow();
  /// Whether completions go on with the next chunks by themselves.
  void allow_read_ahead(bool allowed);
  /// Starts the chunks ahead of the walk that are wanted.
  void read_ahead();

  /// Null until it is open.
  RangeReader* file() const { return first_file_.get(); }

  /// `wake` is not called any more.
  void close();

 private:
  class Handle;
  // A piece of the file, on its way or waiting to be taken.
  struct Part {
    Chunk chunk = {};
    uint64_t offset = 0;
    bool direct = false;  // the bytes go into memory of the reader's
    bool done = false;
    ReadResult result = {};
    std::atomic<bool> calling{true};  // the call that started it has not returned

    size_t asked() const { return chunk.end - chunk.begin; }
    bool falls_short() const { return !result.ok || result.bytes < asked(); }
  };
  // What is to be asked of the storage.
  struct Started {
    std::vector<std::shared_ptr<Handle>> reads = {};
    std::shared_ptr<Handle> open = nullptr;
  };

  void opened(Handle& handle, OpenResult result) noexcept;
  void read(Handle& handle, ReadResult result) noexcept;
  void take_advice(const ReadAdvice& advice);
  void need_same(const File& other) const;
  void settle();
  bool wants_chunk() const;
  std::shared_ptr<Handle> free_handle() const;
  Started start_wanted();
  void run(const Started& started) noexcept;
  std::shared_ptr<Part> chunk_part(size_t max_bytes);
  std::shared_ptr<Part> new_part();
  void drop_first_part();
  void assign(const std::shared_ptr<Handle>& handle, std::shared_ptr<Part> part);
  void wake() noexcept;

  BufferPool pool_;
  const FileFeedOptions options_;
  ClosableCallback wake_;
  // Held while the storage opens a further handle, which may be answered inside of the call.
  std::recursive_mutex opening_mutex_;
  Storage* storage_ = nullptr;
  std::string path_;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Handle>> handles_;
  size_t most_handles_ = 1;
  size_t most_parts_;  // in flight and waiting, of those read ahead
  size_t chunk_bytes_;
  size_t num_busy_ = 0;                      // handles that open or read
  std::shared_ptr<Handle> started_;          // by the reader, and not run yet
  std::shared_ptr<Part> spare_;              // to be used again
  std::deque<std::shared_ptr<Part>> parts_;  // in their order in the file; those after the first may be done before it
  bool waiting_ = false;                     // `look` has returned kBusy
  bool closed_ = false;
  bool slow_ = false;
  bool may_read_ahead_ = false;
  bool falls_short_ = false;  // a part does: nothing after it is wanted
  uint64_t next_offset_ = 0;  // of what is started next
  uint64_t num_read_ = 0;
  uint64_t file_bytes_ = 0;
  std::optional<Error> error_;
  std::shared_ptr<RangeReader> first_file_;
};

}  // namespace millrace
