#pragma once

#include <memory>

namespace millrace {

/// Sets how many pipeline threads can really run in this process, while it lives. oneTBB caps an arena silently at the
/// number of cores less one, so a program that wants `threads = N` workers (also on fewer cores) holds a
/// `WorkerLimit(N)`. The smallest limit that is alive anywhere in the process wins; a library should leave this to the
/// program.
///
///     WorkerLimit limit(8);
///     Pipeline pipeline = dataset.start({.threads = 8});
class WorkerLimit {
 public:
  explicit WorkerLimit(int workers);
  ~WorkerLimit();
  WorkerLimit(const WorkerLimit&) = delete;
  WorkerLimit& operator=(const WorkerLimit&) = delete;

 private:
  struct Control;
  std::unique_ptr<Control> control_;
};

}  // namespace millrace
