#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "millrace/formats/storage/remote/object_now.h"
#include "millrace/formats/storage/remote/output_options.h"

namespace millrace {

class RemoteStorage;

struct ObjectLockOptions {
  std::chrono::milliseconds renew_every = std::chrono::minutes(1);
  /// One that was not renewed for so long is broken. Default: 5 min
  std::chrono::milliseconds breaks_after = std::chrono::minutes(5);
  /// Whether one that another process may hold is watched. Default: true; false: it is refused
  bool waits = true;
  /// How often the lock of another one is looked at, to see whether it is renewed. Default: 5 s
  std::chrono::milliseconds look_every = std::chrono::seconds(5);
  /// Is told what takes time, and what the lock cannot do. Default: nobody
  std::function<void(const std::string& line)> tell = nullptr;
};

/// Keeps two processes from writing one folder of a bucket: an object of this URL, made only where there is none
/// (`If-None-Match`), that says who holds it, and is renewed by a thread of its own.
///
/// One that another process holds: where that process ran on this machine and has ended, the lock is taken at once;
/// else it is watched, and taken when it was not renewed for five minutes; a renewal means that somebody is at it. A
/// store without conditions is found out, and told: there two that begin in the same moment may both have it.
class ObjectLock {
 public:
  /// Takes it; may wait. Throws `kInvalidArgument` where another process has it, "another process is `doing` it: …";
  /// `kIo`.
  ObjectLock(std::string url, std::string doing, ObjectLockOptions options = {});
  /// Removes it.
  ~ObjectLock();
  ObjectLock(const ObjectLock&) = delete;
  ObjectLock& operator=(const ObjectLock&) = delete;

  /// Renews it now: before what another one that holds it must not find done. Throws `kIo` when it is no longer this
  /// one's, and where that cannot be seen and it was not renewed for so long that another process may have broken it.
  void require_held();
  /// Whether another process has taken it, or somebody has removed it: as far as that has been seen. Asks nobody.
  [[nodiscard]] bool is_lost() const;

 private:
  void take();
  void take_from(const ObjectNow& held);
  void write(const std::string& replaced);
  void check_conditions();
  void put(const OutputOptions& options) const;
  void run();
  void renew();
  void tell(const std::string& line) const;
  [[noreturn]] void refuse(const std::string& holder) const;

  const std::string url_;
  const std::string doing_;
  const ObjectLockOptions options_;
  const std::string id_;
  const std::shared_ptr<RemoteStorage> storage_;  // what it has found out of the store holds as long as the lock

  mutable std::mutex mutex_;
  std::condition_variable ends_changed_;
  bool ends_ = false;
  std::string lost_;                        // empty: it is this one's
  std::chrono::nanoseconds renewed_at_{0};  // by the clock since the machine started
  std::mutex renewing_;
  std::thread thread_;
};

}  // namespace millrace
