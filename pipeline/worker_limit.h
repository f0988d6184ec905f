#pragma once

#include <memory>

namespace millrace {

/// Sets how many of oneTBB's threads can run pipelines in this process, while it lives; each pipeline of several
/// threads has one more, its reserved slot (pipeline/run/consumer_waiter.h), unless functions of a user run in it.
/// oneTBB caps an arena silently at the number of cores less one, so a program that wants `threads = N` workers (also
/// on fewer cores) holds a `WorkerLimit(N)`. The smallest limit that is alive anywhere in the process wins; a library
/// should leave this to the program.
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
