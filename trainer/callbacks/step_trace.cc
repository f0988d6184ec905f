#include "trainer/callbacks/step_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {
namespace {

constexpr int kLoopRow = 0;

int row_of_thread(int thread) { return thread + 1; }

double microseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

StepTrace::StepTrace(StepTraceOptions options) : options_(std::move(options)) {
  if (options_.first_step < 0 || options_.steps < 0) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a trace of {} steps behind the first {}; at least 0 is needed for both",
                                     options_.steps, options_.first_step));
  }
  file_ = std::make_unique<GrowingFile>(options_.path);
}

StepTrace::~StepTrace() = default;

// The closing bracket may be missing, says the format: so a file of a run that goes on, or was killed, can be read.
void StepTrace::write(std::string_view event) {
  events_ += first_event_ ? "[\n" : ",\n";
  events_ += event;
  first_event_ = false;
}

void StepTrace::name_row(int row, const std::string& name) {
  write(fmt::format(R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}})", row, name));
}

void StepTrace::span(int row, const std::string& name, TimePoint begin, TimePoint end) {
  write(fmt::format(R"({{"name":"{}","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f}}})", name, row,
                    microseconds(begin - began_), microseconds(end - begin)));
}

void StepTrace::train_starts(const TrainingStart&) {
  began_ = std::chrono::steady_clock::now();
  name_row(kLoopRow, "loop");
}

void StepTrace::step_ends(const StepEnd& end) {
  const int64_t step = steps_seen_++;
  if (step < options_.first_step || step - options_.first_step >= options_.steps) return;
  const StepTimeline& timeline = end.step.timeline;
  int threads = timeline.decision.thread + 1;
  for (const ReplicaTime& replica : timeline.replicas) threads = std::max(threads, replica.thread + 1);
  for (const TimeSpan& update : timeline.updates) threads = std::max(threads, update.thread + 1);
  for (; named_threads_ < threads; ++named_threads_) {
    name_row(row_of_thread(named_threads_), fmt::format("thread {}", named_threads_));
  }

  for (const ClockSpan& wait : end.waits) span(kLoopRow, "waiting for input", wait.begin, wait.end);
  for (const ClockSpan& event : end.events) {
    if (event.begin >= began_) span(kLoopRow, "callbacks", event.begin, event.end);
  }
  const auto at = [&](std::chrono::nanoseconds time) { return timeline.began + time; };
  span(kLoopRow, fmt::format("step {}", end.since_report.step), at({}), at(timeline.total));
  for (size_t i = 0; i < timeline.replicas.size(); ++i) {
    const ReplicaTime& replica = timeline.replicas[i];
    if (replica.end.count() == 0) continue;  // it had no rows
    const int row = row_of_thread(replica.thread);
    span(row, fmt::format("forward of replica {}", i), at(replica.begin), at(replica.backward));
    span(row, fmt::format("backward of replica {}", i), at(replica.backward), at(replica.end));
  }
  for (size_t bucket = 0; bucket < timeline.reductions.size(); ++bucket) {
    const TimeSpan& reduction = timeline.reductions[bucket];
    span(row_of_thread(reduction.thread), fmt::format("reduce bucket {}", bucket), at(reduction.begin),
         at(reduction.end));
  }
  span(row_of_thread(timeline.decision.thread), "decision", at(timeline.decision.begin), at(timeline.decision.end));
  for (size_t bucket = 0; bucket < timeline.updates.size(); ++bucket) {
    const TimeSpan& update = timeline.updates[bucket];
    span(row_of_thread(update.thread), fmt::format("optimizer of bucket {}", bucket), at(update.begin), at(update.end));
  }
  file_->write(events_);
  events_.clear();
}

}  // namespace millrace
