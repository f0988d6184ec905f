#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/columnar/buffer.h"

namespace millrace {

/// Work that a stage leaves to other threads.
class Job : public Resource {
 public:
  /// What it was: rows and their bytes.
  struct Done {
    int64_t rows = 0;
    int64_t bytes = 0;
  };
  /// Does it, on whichever thread.
  virtual Done run() noexcept = 0;
};

/// Who runs the jobs of a stage, beside it.
class JobRunner {
 public:
  /// So many jobs wait or run at most.
  virtual size_t most_jobs() const noexcept = 0;
  /// Has a job run soon, and lets go of it; where the pipeline stops it may never run. False where there are
  /// `most_jobs()` already: nothing happens. Never waits.
  [[nodiscard]] virtual bool take(const Ref<Job>& job) noexcept = 0;

 protected:
  ~JobRunner() = default;
};

}  // namespace millrace
