#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace millrace {

/// A part of a step's time, since its beginning.
struct TimeSpan {
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds end{0};
  int thread = 0;  ///< that worked on it; threads count from 0 in the order in which they came
};

/// When a replica's work was done, and by whom.
struct ReplicaTime {
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds backward{0};  ///< the forward pass ended
  std::chrono::nanoseconds end{0};
  std::chrono::nanoseconds reducing{0};  ///< of the backward pass: the additions that this replica's thread did
  int thread = 0;
};

/// Where the time of a step went, on the clock: while the replicas run, in proportion to what their threads did.
struct StepPhases {
  double forward = 0;  ///< seconds
  double backward = 0;
  double reduce = 0;     ///< adding replicas
  double optimizer = 0;  ///< from the end of the last backward pass on: decision and updates

  void add(const StepPhases& other);
};

/// When the work on one batch of a step ran.
struct BatchTimeline {
  std::chrono::steady_clock::time_point began = {};  ///< what the other times count from
  std::vector<ReplicaTime> replicas = {};  ///< the reductions that a replica's thread did among it; empty ones are 0
  /// By bucket: the last addition of its tree, that to the batches before, and its sum of squares.
  std::vector<TimeSpan> reductions = {};
  std::chrono::steady_clock::time_point ended = {};  ///< for the last batch of a step: with the step

  /// When the last replica's backward pass ended.
  std::chrono::nanoseconds backward_end() const;
  /// Buckets that were complete before that.
  int reduced_during_backward() const;
  /// Where the time went: up to the end of the last backward pass in proportion to what the replicas' threads did.
  StepPhases phases() const;
};

/// When each part of a step ran.
struct StepTimeline {
  std::vector<BatchTimeline> batches = {};           ///< in their order; at least one
  std::chrono::steady_clock::time_point began = {};  ///< what `decision` and `updates` count from
  TimeSpan decision = {};                            ///< norm, finiteness, clipping
  std::vector<TimeSpan> updates = {};                ///< by bucket; empty when the update was skipped
  std::chrono::steady_clock::time_point ended = {};
  std::chrono::nanoseconds total{0};           ///< spent on the batches and the update, without waits in between
  std::chrono::nanoseconds after_backward{0};  ///< of it: after the last backward pass
};

/// Collects when the parts of a step run: `begin_batch` and `end_batch` for each of its batches, `begin` for an update
/// without one, `finish`. Spans of different replicas and buckets may be written from different threads at once.
class StepTimes {
 public:
  /// What `now` and the spans count from, until the next.
  void begin() { began_ = std::chrono::steady_clock::now(); }
  void begin_batch(int replicas, int buckets);
  std::chrono::steady_clock::time_point began() const { return began_; }
  std::chrono::nanoseconds now() const { return std::chrono::steady_clock::now() - began_; }

  ReplicaTime& replica(int replica) { return batch_.replicas[static_cast<size_t>(replica)]; }
  TimeSpan& reduction(int bucket) { return batch_.reductions[static_cast<size_t>(bucket)]; }
  TimeSpan& decision() { return step_.decision; }
  void begin_updates(int buckets) { step_.updates.resize(static_cast<size_t>(buckets)); }
  TimeSpan& update(int bucket) { return step_.updates[static_cast<size_t>(bucket)]; }

  /// The batch that has begun is done, and its update not yet.
  void end_batch() { end_batch(now()); }
  /// The step is done. `with_batch`: together with the batch that has begun.
  void finish(bool with_batch, StepTimeline& timeline, StepPhases& phases);
  /// The step is given up.
  void discard();

 private:
  void end_batch(std::chrono::nanoseconds time);

  std::chrono::steady_clock::time_point began_;
  BatchTimeline batch_;
  StepTimeline step_;
  StepPhases phases_;
};

/// Numbers for threads, from 0 in the order in which they come. Thread safe.
class ThreadNumbers {
 public:
  /// Of the calling thread.
  int number();
  /// Threads that have come.
  int count() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::thread::id, int> numbers_;
};

}  // namespace millrace
