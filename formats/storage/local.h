#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace {

/// Runs functions that may block on the device. A pipeline implements it with a few I/O threads.
class IoExecutor {
 public:
  virtual ~IoExecutor() = default;
  /// Runs `function` soon, on a thread that may block; it does not throw. Any thread. A function that can no longer be
  /// run (the executor is stopping) is still run, or run inline.
  virtual void submit(std::function<void()> function) = 0;
};

/// Runs every function inside `submit`. For tools that read one file after the other and may block.
class InlineExecutor final : public IoExecutor {
 public:
  void submit(std::function<void()> function) override { function(); }
};

/// Files of the local file system. What lies in the page cache is read inside the call, without blocking (`preadv2`
/// with `RWF_NOWAIT`, `openat2` with `RESOLVE_CACHED`); the rest goes to the executor.
///
///     InlineExecutor executor;
///     LocalStorage storage(executor);
///     for (const std::string& path : storage.glob("data/train-*.tfrecord")) storage.open(path, sink);
class LocalStorage final : public Storage {
 public:
  /// `executor` must outlive every read.
  explicit LocalStorage(IoExecutor& executor) : executor_(executor) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override;

 private:
  IoExecutor& executor_;
};

/// What a message about a local file that is not there adds where its name is a URL. Empty for others.
[[nodiscard]] std::string note_on_url(std::string_view path);
/// Of what is written to the local disk alone: a path that is a URL would be that of a folder `s3:`. Throws
/// `kInvalidArgument` for one.
void require_no_url(const std::string& path);

/// What `LocalStorage::glob` does; needs no executor. A pattern that is the name of a file is that file alone, whatever
/// else it could match. Folders end in `/`.
[[nodiscard]] std::vector<std::string> glob_local(const std::string& pattern);

}  // namespace millrace
