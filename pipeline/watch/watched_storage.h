#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"
#include "millrace/pipeline/watch/storage_lifetime.h"

namespace millrace {

/// What a file of a WatchedStorage waits for.
struct WatchedFileState {
  enum class Doing { kOpening, kReading, kNothing };
  std::string path;
  Doing doing = Doing::kNothing;
  uint64_t begin = 0;  ///< of the read in flight; with nothing in flight, where the last one ended
  uint64_t end = 0;    ///< of the read in flight
  int64_t ns = 0;      ///< that it is in flight
};

/// Another storage, and a list of what is open and in flight in it: what the watchdog tells when the storage does not
/// answer. Costs a clock read for each read. Files and opens in flight may outlive it.
class WatchedStorage final : public Storage {
 public:
  explicit WatchedStorage(std::shared_ptr<Storage> wrapped);
  ~WatchedStorage() override;
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return wrapped_->glob(pattern); }

  /// Opens and reads that have been answered so far.
  [[nodiscard]] uint64_t answers() const;
  /// The files that are open or being opened, what is in flight for longest first.
  [[nodiscard]] std::vector<WatchedFileState> files() const;

 private:
  class List;
  class Entry;
  class WatchedFile;
  class WatchedOpen;
  const std::shared_ptr<Storage> wrapped_;
  const std::shared_ptr<List> list_;
  const std::shared_ptr<StorageLifetime> lifetime_ = std::make_shared<StorageLifetime>();
};

}  // namespace millrace
