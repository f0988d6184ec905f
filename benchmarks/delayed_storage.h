#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace {

/// Another storage, each of whose answers comes so much later, however many are waited for: what a store far away looks
/// like whose bandwidth is no limit. Has a thread of its own; the destructor answers what is in flight and joins it.
class DelayedStorage final : public Storage {
 public:
  /// `of` must outlive this.
  DelayedStorage(Storage& of, std::chrono::nanoseconds delay);
  ~DelayedStorage() override;
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return of_.glob(pattern); }

 private:
  class Timer;
  class DelayedFile;

  Storage& of_;
  const std::shared_ptr<Timer> timer_;
};

}  // namespace millrace
