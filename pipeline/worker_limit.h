#pragma once

#include <memory>

namespace millrace {

/// Sets how many of oneTBB's threads can run pipelines in this process, while it lives; each pipeline of several
/// threads has one more, its reserved slot (pipeline/run/consumer_waiter.h), unless functions of a user run in it.
/// oneTBB has one fewer than there are cores, and a pipeline or a training no more than there are at its start: who
/// wants `threads = N` workers (also on fewer cores) holds a `WorkerLimit(N)` before that. The smallest limit that is
/// alive anywhere in the process wins; a library should leave this to the program.
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
