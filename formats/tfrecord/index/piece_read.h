#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/closable_callback.h"
#include "millrace/formats/storage/range_reader.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

/// Neighbours among the records that a RecordFetcher wants of a shard, which are read in one piece.
struct RecordPiece {
  size_t line = 0;     ///< where it belongs
  size_t first = 0;    ///< of the records in the order of their places
  size_t count = 0;    ///< of them
  uint64_t begin = 0;  ///< bytes of the file
  uint64_t end = 0;
  size_t first_frame = 0;  ///< of a zstd shard: the frames that these bytes are
  size_t num_frames = 0;

  bool is_packed() const { return num_frames > 0; }
  /// A single record of a plain shard is read to where it stays.
  bool is_in_place() const { return count == 1 && !is_packed(); }
};

class PieceRead;

/// Where reads that are done wait for who started them; what reads in flight may still touch when that one is gone.
/// `put` from any thread; the rest is the owner's.
class PieceInbox {
 public:
  explicit PieceInbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  /// Before a read is started: it will be put here.
  void expect();
  void put(std::shared_ptr<PieceRead> read) noexcept;
  /// What is done; when that is nothing and somebody waits, the next one wakes.
  bool take(std::vector<std::shared_ptr<PieceRead>>& done, bool waits);
  /// Nobody takes anything any more, nor is woken.
  void close();
  bool closed();

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<PieceRead>> done_;  // has room for all that are expected
  size_t num_expected_ = 0;
  bool waiting_ = false;
  bool closed_ = false;
  ClosableCallback wake_;
};

/// One piece on its way from the storage to a buffer, and then into the inbox. Opens its file when no open one was at
/// hand; one of another size than its index says is the error `index`. Made with std::make_shared.
class PieceRead final : public OpenSink, public ReadSink, public std::enable_shared_from_this<PieceRead> {
 public:
  /// `at`: of the piece in the buffer.
  PieceRead(std::shared_ptr<PieceInbox> inbox, const RecordPiece& of, Buffer to, size_t at, uint64_t bytes_of_file)
      : piece(of), buffer(std::move(to)), begin(at), inbox_(std::move(inbox)), bytes_of_file_(bytes_of_file) {}

  /// `storage` must outlive the answer.
  void start(Storage& storage, const std::string& path, std::shared_ptr<RangeReader> open_file);
  /// Nobody needs the answer any more.
  void cancel();

  void open_done(OpenResult result) noexcept override;
  void read_done(ReadResult result) noexcept override;

  const std::byte* data() const { return buffer->data() + begin; }

  const RecordPiece piece;
  const Buffer buffer;
  const size_t begin;
  // Written before the answer is put into the inbox.
  std::shared_ptr<RangeReader> file;  ///< null when it could not be opened
  std::optional<Error> error;

 private:
  std::span<std::byte> destination() const {
    return {buffer->data() + begin, static_cast<size_t>(piece.end - piece.begin)};
  }
  void read(std::shared_ptr<File> opened);
  void finish(Error what) noexcept;

  const std::shared_ptr<PieceInbox> inbox_;
  const uint64_t bytes_of_file_;
  std::mutex mutex_;  // of `file` while it may be canceled
};

}  // namespace millrace
