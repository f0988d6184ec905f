#include "tools/shard_verification.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/shard_reader.h"

namespace millrace {
namespace {

/// Lets a thread sleep until a reader wakes it; a wake before the sleep counts.
class Wakening {
 public:
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return woken_; });
    woken_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

// The index to read with. One of a shard of this name and size is used even where its fingerprint differs, which damage
// at the shard's ends does too: it is compared with each record.
std::shared_ptr<const ShardIndex> find_index(Storage& storage, const std::string& path, ShardVerification& found) {
  try {
    auto index = read_shard_index(storage, path);
    if (!index) return nullptr;
    found.has_index = true;
    const ShardFingerprint found_fingerprint = read_shard_fingerprint(storage, path);
    if (auto text = difference(index->fingerprint(), found_fingerprint)) {
      found.index_problem = Error{.code = ErrorCode::kIndex, .message = *text, .shard = index_path(path)};
    }
    return index->fingerprint().name == found_fingerprint.name && index->fingerprint().bytes == found_fingerprint.bytes
               ? index
               : nullptr;
  } catch (const ErrorException& exception) {
    // What the shard itself has is told when it is read.
    if (exception.error().code == ErrorCode::kIndex || exception.error().shard == index_path(path)) {
      found.has_index = true;
      found.index_problem = exception.error();
    }
    return nullptr;
  }
}

void read_all(Storage& storage, const VerificationOptions& options, ShardVerification& found) {
  const std::string& path = found.path;
  BufferPool pool;
  Wakening wakening;
  ShardReader reader(storage, pool, path,
                     {.compression = options.compression,
                      .num_records = options.num_records,
                      .index = options.use_index ? find_index(storage, path, found) : nullptr,
                      .max_record_bytes = options.max_record_bytes},
                     [&wakening] { wakening.wake(); });
  RecordBatch batch;
  for (bool ended = false; !ended;) {
    switch (reader.next(batch)) {
      case ShardReader::Step::kRecords:
        found.records += batch.size();
        for (const std::string_view payload : batch.payloads) found.bytes += payload.size() + 16;
        break;
      case ShardReader::Step::kError:
        if (reader.fault().error.code == ErrorCode::kIndex) {
          if (!found.index_problem) found.index_problem = reader.fault().error;
        } else {
          found.damage.push_back(reader.fault());
        }
        break;
      case ShardReader::Step::kPending: wakening.wait(); break;
      case ShardReader::Step::kEnd: ended = true; break;
    }
    if (options.on_progress) options.on_progress(reader.num_file_bytes_read());
  }
  found.file_bytes = reader.file_bytes();
  found.compression = reader.compression();
}

ShardVerification read_shard(Storage& storage, const std::string& path, const VerificationOptions& options) {
  ShardVerification found;
  found.path = path;
  try {
    read_all(storage, options, found);
  } catch (...) {
    // It ends this shard, not those beside it.
    Error error = current_exception_as_error();
    if (error.shard.empty()) error.shard = path;
    found.damage.push_back(
        {.error = std::move(error), .begin = found.bytes, .end = found.bytes, .end_is_known = false});
  }
  return found;
}

}  // namespace

ShardVerification verify_shard(Storage& storage, const std::string& path, const VerificationOptions& options) {
  ShardVerification found = read_shard(storage, path, options);
  if (!found.index_problem || found.damage.empty()) return found;
  // Damage, or only an index of another content? By itself a good shard shows none.
  VerificationOptions without = options;
  without.use_index = false;
  without.on_progress = nullptr;
  ShardVerification alone = read_shard(storage, path, without);
  if (!alone.damage.empty()) return found;
  alone.has_index = true;
  alone.index_problem = std::move(found.index_problem);
  return alone;
}

}  // namespace millrace
