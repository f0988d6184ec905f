#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/formats/error.h"

namespace millrace {

/// An error of a storage. `retriable` says that asking again may help (a lost connection, an interrupted call).
struct StorageError {
  Error error = {};
  bool retriable = false;
  bool not_found = false;  ///< there is no file at the path
  bool is_denied = false;  ///< of an object: whoever asks may not read it, and not know whether it is there
};

/// What a read came to: `bytes` read, or an error (`ok` false). Fewer bytes than asked for are no error and say nothing
/// about the end of the file, except that 0 bytes mean that the file ends at or before the offset.
struct ReadResult {
  bool ok = true;
  size_t bytes = 0;
  StorageError error = {};  ///< when not ok; its shard is the path
};

/// Completion of a read. Called exactly once for each read, on any thread, also inside the call that started it;
/// must not block and must not throw.
class ReadSink {
 public:
  virtual ~ReadSink() = default;
  virtual void read_done(ReadResult result) noexcept = 0;
};

/// How a file is best read from beginning to end.
struct ReadAdvice {
  size_t bytes = 0;  ///< of a read, where there is memory for it; 0: any
  /// Reads of the file that should be in flight at a time, each by a handle of its own; from 2 on the storage is one
  /// whose answers come later than its calls return.
  int in_flight = 1;
  /// The same of all files that are read at a time, which share them: of many files each has fewer. Default: 0, there
  /// may be any number
  int in_all = 0;
};

/// One open file. Its content is taken not to change while it is open.
///
/// A handle has one owner, who has at most one read in flight. The owner may drop the handle, and everything else
/// except the destination, while a read is in flight: the read keeps what it needs alive, the sink included, and the
/// sink owns (or keeps alive) the destination.
class File {
 public:
  virtual ~File() = default;
  /// Bytes in the file when it was opened.
  virtual uint64_t size() const = 0;
  /// Text that differs between two contents of the same path (modification time, inode, entity tag).
  virtual std::string version() const = 0;
  /// For whoever reads all of it. Default: one read at a time, of any size.
  virtual ReadAdvice advice() const { return {}; }
  /// Reads up to `destination.size()` (at least 1) bytes from `offset` on.
  virtual void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) = 0;
  /// Asks a read in flight to come to an end soon; its sink is still called, with what was read or a final error. Any
  /// thread. A store whose reads end soon anyway does nothing.
  virtual void cancel() {}
};

/// What opening a file came to: the file, or an error.
struct OpenResult {
  std::shared_ptr<File> file = {};  ///< null on an error
  StorageError error = {};          ///< when there is no file; its shard is the path
};

/// Completion of an open; the rules of `ReadSink`.
class OpenSink {
 public:
  virtual ~OpenSink() = default;
  virtual void open_done(OpenResult result) noexcept = 0;
};

/// Is told, after each page of a store's listing, how many names have come so far. On the thread that asked; what it
/// throws ends the listing.
using GlobProgress = std::function<void(size_t names)>;

/// Files at paths: a local disk, an object store. All calls from any thread. `open` and `File::read` never block:
/// a slow store never holds a worker of a pipeline. Waiting between attempts after a retriable error is the store's
/// business, which has the timers; how often to ask again is the caller's (see range_reader.h).
class Storage {
 public:
  virtual ~Storage() = default;
  virtual void open(const std::string& path, std::shared_ptr<OpenSink> sink) = 0;
  /// The paths that match `pattern` (`*`, `?`, `[a-z]`; not across `/`), sorted by their bytes; those of folders, where
  /// there are such, end in `/`. Blocks: called when a dataset is described, never by a running pipeline. Throws `kIo`
  /// when a folder cannot be read; no match is an empty list.
  [[nodiscard]] virtual std::vector<std::string> glob(const std::string& pattern) = 0;
};

}  // namespace millrace
