#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"
#include "millrace/pipeline/trace.h"
#include "millrace/pipeline/watch/storage_lifetime.h"

namespace millrace {

/// Another storage whose reads go into a trace: those that are answered inside the call on the thread that calls, the
/// others on lanes of reads in flight. Files and opens in flight may outlive it, but not the trace.
class TracedStorage final : public Storage {
 public:
  TracedStorage(std::shared_ptr<Storage> wrapped, std::shared_ptr<Trace> trace);
  ~TracedStorage() override;
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return wrapped_->glob(pattern); }

 private:
  const std::shared_ptr<Storage> wrapped_;
  const std::shared_ptr<Trace> trace_;
  const std::shared_ptr<StorageLifetime> lifetime_ = std::make_shared<StorageLifetime>();
};

}  // namespace millrace
