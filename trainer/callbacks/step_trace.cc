#include "millrace/trainer/callbacks/step_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr uint64_t kLoopRow = 0;

uint64_t row_of_thread(int thread) { return static_cast<uint64_t>(thread) + 1; }

}  // namespace

StepTrace::StepTrace(StepTraceOptions options) : options_(std::move(options)) {
  if (options_.first_step < 0 || options_.steps < 0) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a trace of {} steps after the first {}; at least 0 is needed for both",
                                     options_.steps, options_.first_step));
  }
  file_ = std::make_unique<GrowingFile>(options_.path);
}

StepTrace::~StepTrace() {
  try {
    close();
  } catch (const std::exception&) {  // whoever needs to know has called train_ends
    file_.reset();
  }
}

void StepTrace::close() {
  if (!file_) return;
  writer_.end();
  file_->write(writer_.take());
  file_.reset();
}

void StepTrace::span(uint64_t row, const std::string& name, TimePoint begin, TimePoint end) {
  const auto ns = [](auto time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); };
  writer_.span(row, name, ns(begin - began_), ns(end - begin));
}

void StepTrace::train_starts(const TrainingStart&) {
  if (has_begun_) close();  // that training ended by an error
  if (!file_) return;
  has_begun_ = true;
  began_ = std::chrono::steady_clock::now();
  writer_.row_name(kLoopRow, "loop");
}

void StepTrace::name_threads(const StepTimeline& timeline) {
  int threads = timeline.decision.thread + 1;
  for (const BatchTimeline& batch : timeline.batches) {
    for (const ReplicaTime& replica : batch.replicas) threads = std::max(threads, replica.thread + 1);
  }
  for (const TimeSpan& update : timeline.updates) threads = std::max(threads, update.thread + 1);
  for (; named_threads_ < threads; ++named_threads_) {
    writer_.row_name(row_of_thread(named_threads_), fmt::format("thread {}", named_threads_));
  }
}

void StepTrace::draw(const BatchTimeline& batch) {
  for (size_t i = 0; i < batch.replicas.size(); ++i) {
    const ReplicaTime& replica = batch.replicas[i];
    if (replica.end.count() == 0) continue;  // it had no rows
    const uint64_t row = row_of_thread(replica.thread);
    span(row, fmt::format("forward of replica {}", i), batch.began + replica.begin, batch.began + replica.backward);
    span(row, fmt::format("backward of replica {}", i), batch.began + replica.backward, batch.began + replica.end);
  }
  for (size_t bucket = 0; bucket < batch.reductions.size(); ++bucket) {
    const TimeSpan& reduction = batch.reductions[bucket];
    span(row_of_thread(reduction.thread), fmt::format("reduce bucket {}", bucket), batch.began + reduction.begin,
         batch.began + reduction.end);
  }
}

void StepTrace::draw_update(const StepTimeline& timeline) {
  const auto draw_span = [&](const TimeSpan& part, const std::string& name) {
    span(row_of_thread(part.thread), name, timeline.began + part.begin, timeline.began + part.end);
  };
  draw_span(timeline.decision, "decision");
  for (size_t bucket = 0; bucket < timeline.updates.size(); ++bucket) {
    draw_span(timeline.updates[bucket], fmt::format("optimizer of bucket {}", bucket));
  }
}

void StepTrace::step_ends(const StepEnd& end) {
  const int64_t step = steps_seen_++;
  if (!file_ || step < options_.first_step || step - options_.first_step >= options_.steps) return;
  const StepTimeline& timeline = end.step.timeline;
  name_threads(timeline);
  span(kLoopRow, fmt::format("step {}", end.since_report.step), timeline.batches.front().began, timeline.ended);
  for (size_t i = 0; i < timeline.batches.size(); ++i) {
    const BatchTimeline& batch = timeline.batches[i];
    if (timeline.batches.size() > 1) {
      span(kLoopRow, fmt::format("batch {} of step {}", i, end.since_report.step), batch.began, batch.ended);
    }
    draw(batch);
  }
  draw_update(timeline);
  for (const ClockSpan& wait : end.waits) span(kLoopRow, "waiting for input", wait.begin, wait.end);
  for (const ClockSpan& event : end.events) {
    if (event.begin >= began_) span(kLoopRow, "callbacks", event.begin, event.end);
  }
  file_->write(writer_.take());
  if (step - options_.first_step == options_.steps - 1) close();
}

void StepTrace::train_ends(const TrainingSummary&) { close(); }

}  // namespace millrace
