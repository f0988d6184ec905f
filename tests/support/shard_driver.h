#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/formats/tfrecord/shard_reader.h"

namespace millrace::test {

/// Lets a thread sleep until it is woken. A wake before the sleep counts.
class WakeFlag {
 public:
  void wake();
  /// False when nobody woke for 60 seconds: a lost wake-up.
  [[nodiscard]] bool wait();
  /// Whether a wait would end at once.
  [[nodiscard]] bool is_woken();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

struct ReadRecord {
  uint64_t index = 0;
  uint64_t offset = 0;
  std::string payload;
  friend bool operator==(const ReadRecord&, const ReadRecord&) = default;
};

struct ReadShard {
  std::vector<ReadRecord> records;
  std::vector<RecordFault> faults;
  bool hung = false;
};

/// Reads a whole shard, blocking while it is pending. `stop_at_error`: the policy `fail`, which ends at the first
/// error; otherwise reading goes on as far as it can. `leave_buffer`: after each batch, whose records are copied.
/// `answer`: for a storage that answers when it is told to, called until the reader is woken or nothing is left
/// (false).
ReadShard read_shard(Storage& storage, BufferPool& pool, const std::string& path, const ShardReaderOptions& options,
                     bool stop_at_error, size_t max_records = SIZE_MAX, bool leave_buffer = false,
                     const std::function<bool()>& answer = {});

}  // namespace millrace::test
