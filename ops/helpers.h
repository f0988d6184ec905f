#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/columnar/buffer.h"

namespace millrace {

/// Work that a stage leaves to others.
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

/// Other threads that work for a stage, beside it.
class Helpers {
 public:
  /// So many jobs wait or are worked on at most.
  virtual size_t most_jobs() const noexcept = 0;
  /// Has a job run, soon, and lets go of it; where the pipeline stops it may never be run. False where there are
  /// `most_jobs()` already: nothing happens. Never waits.
  [[nodiscard]] virtual bool help(const Ref<Job>& job) noexcept = 0;

 protected:
  ~Helpers() = default;
};

}  // namespace millrace
