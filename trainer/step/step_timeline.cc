#include "millrace/trainer/step/step_timeline.h"

#include <algorithm>
#include <utility>

namespace millrace {

using std::chrono::nanoseconds;

namespace {

double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

nanoseconds BatchTimeline::backward_end() const {
  nanoseconds end{0};
  for (const ReplicaTime& replica : replicas) end = std::max(end, replica.end);
  return end;
}

int BatchTimeline::reduced_during_backward() const {
  return static_cast<int>(
      std::ranges::count_if(reductions, [end = backward_end()](const TimeSpan& span) { return span.end < end; }));
}

void StepPhases::add(const StepPhases& other) {
  forward += other.forward;
  backward += other.backward;
  reduce += other.reduce;
  optimizer += other.optimizer;
}

StepPhases BatchTimeline::phases() const {
  nanoseconds forward{0};
  nanoseconds backward{0};
  nanoseconds reduce{0};
  for (const ReplicaTime& replica : replicas) {
    forward += replica.backward - replica.begin;
    backward += replica.end - replica.backward - replica.reducing;
    reduce += replica.reducing;
  }
  const nanoseconds last_end = backward_end();
  const double all = std::max(1e-12, seconds(forward + backward + reduce));
  const double wall = seconds(last_end);
  return {.forward = wall * seconds(forward) / all,
          .backward = wall * seconds(backward) / all,
          .reduce = wall * seconds(reduce) / all,
          .optimizer = seconds(ended - began - last_end)};
}

void StepTimes::begin_batch(int replicas, int buckets) {
  batch_.replicas.assign(static_cast<size_t>(replicas), {});
  batch_.reductions.assign(static_cast<size_t>(buckets), {});
  begin();
}

void StepTimes::end_batch(nanoseconds time) {
  batch_.began = began_;
  batch_.ended = began_ + time;
  phases_.add(batch_.phases());
  step_.total += time;
  step_.batches.push_back(std::exchange(batch_, {}));
}

void StepTimes::finish(bool with_batch, StepTimeline& timeline, StepPhases& phases) {
  const nanoseconds time = now();
  const nanoseconds backward_end = with_batch ? batch_.backward_end() : nanoseconds{0};
  if (with_batch) {
    end_batch(time);
  } else {
    step_.total += time;
    phases_.optimizer += seconds(time);
  }
  step_.began = began_;
  step_.ended = began_ + time;
  step_.after_backward = time - backward_end;
  timeline = std::exchange(step_, {});
  phases = std::exchange(phases_, {});
}

void StepTimes::discard() {
  step_ = {};
  phases_ = {};
}

int ThreadNumbers::number() {
  const std::lock_guard lock(mutex_);
  return numbers_.try_emplace(std::this_thread::get_id(), static_cast<int>(numbers_.size())).first->second;
}

int ThreadNumbers::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(numbers_.size());
}

}  // namespace millrace
