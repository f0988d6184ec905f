#include "tests/support/shard_driver.h"

#include <chrono>

namespace millrace::test {

void WakeFlag::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_one();
}

bool WakeFlag::wait() {
  std::unique_lock lock(mutex_);
  const bool woken = changed_.wait_for(lock, std::chrono::seconds(60), [this] { return woken_; });
  woken_ = false;
  return woken;
}

bool WakeFlag::is_woken() {
  const std::lock_guard lock(mutex_);
  return woken_;
}

ReadShard read_shard(Storage& storage, BufferPool& pool, const std::string& path, const ShardReaderOptions& options,
                     bool stop_at_error, size_t max_records, bool leave_buffer, const std::function<bool()>& answer) {
  ReadShard read;
  WakeFlag flag;
  ShardReader reader(storage, pool, path, options, [&flag] { flag.wake(); });
  RecordBatch batch;
  for (;;) {
    switch (reader.next(batch, max_records)) {
      case ShardReader::Step::kRecords:
        for (size_t i = 0; i < batch.size(); ++i) {
          read.records.push_back({batch.first_record + i, batch.offsets[i], std::string(batch.payloads[i])});
        }
        if (leave_buffer) {
          batch.clear();
          reader.leave_buffer();
        }
        break;
      case ShardReader::Step::kPending:
        while (answer && !flag.is_woken() && answer()) {
        }
        if (!flag.wait()) {
          read.hung = true;
          return read;
        }
        break;
      case ShardReader::Step::kError:
        read.faults.push_back(reader.fault());
        if (stop_at_error) return read;
        break;
      case ShardReader::Step::kEnd: return read;
    }
  }
}

}  // namespace millrace::test
