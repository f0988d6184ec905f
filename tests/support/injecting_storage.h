#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace::test {

struct InjectionOptions {
  /// Decides, with the name of the file and the number of the call on it, what happens to a call. Default: 1.
  uint64_t seed = 1;
  /// Each answer comes between `min_latency` and `max_latency` after its call, from a thread of the storage. Default:
  /// 0, as the wrapped storage answers.
  std::chrono::microseconds min_latency{0};
  std::chrono::microseconds max_latency{0};
  /// Reads bring 1 to so many bytes. Default: 0, as many as the wrapped storage brings.
  size_t max_read_bytes = 0;
  /// Share of calls that end in a retriable error, never more than two in a row on one file. Default: 0.
  double retriable_error_rate = 0;
  /// Share of reads that end in a final error. Default: 0.
  double final_error_rate = 0;
  /// What files advise. Default: one read at a time.
  ReadAdvice advice = {};
};

/// What has been injected so far: a test that wants faults can see that there were some.
struct InjectionCounts {
  uint64_t opens = 0;
  uint64_t reads = 0;
  uint64_t retriable_errors = 0;
  uint64_t final_errors = 0;
  uint64_t short_reads = 0;
  uint64_t cancels = 0;
};

/// A storage that behaves like a slow, unreliable one: delays, short reads and errors on top of another storage. What
/// happens is a pure function of seed, file name (without folders) and the number of the call; only the times of
/// answers vary. The destructor answers what is still in flight and joins the timer thread, so it must outlive the
/// readers' threads, not their reads.
class InjectingStorage final : public Storage {
 public:
  InjectingStorage(Storage& wrapped, InjectionOptions options);
  ~InjectingStorage() override;
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override;
  InjectionCounts counts() const;

 private:
  class InjectedFile;
  struct Shared;
  Storage& wrapped_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace millrace::test
