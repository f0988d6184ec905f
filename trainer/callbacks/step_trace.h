#pragma once

#include <memory>
#include <string>

#include "millrace/formats/chrome_trace/writer.h"
#include "millrace/formats/storage/growing_file.h"
#include "millrace/trainer/callback.h"

namespace millrace {

struct StepTraceOptions {
  std::string path = {};   ///< the file; what was there is lost
  int64_t first_step = 0;  ///< steps of this run that are left out before. Default: 0
  int64_t steps = 100;     ///< that are written, about 10 KiB for each batch. Default: 100
};

/// Draws what the threads of a training do: a file for chrome://tracing or https://ui.perfetto.dev. On the row `loop`
/// lie the waits for input, the steps (with their batches, when they are several) and the callbacks between them; on a
/// row for each thread the forward and backward passes of the replicas that it ran, within these the last addition of
/// each bucket (`reduce`), then the decision and the updates (`optimizer`). Viewers can read the file while the
/// training runs; it is whole JSON from its last step, or from the end of the training on (one that ended by an error:
/// when the next one starts or the StepTrace is destroyed). Draws the first training that it is attached to.
class StepTrace final : public Callback {
 public:
  /// Throws `kIo` naming the file when it cannot be made, `kInvalidArgument` for negative numbers.
  explicit StepTrace(StepTraceOptions options);
  /// Closes the file, as well as that goes.
  ~StepTrace() override;

  void train_starts(const TrainingStart& start) override;
  void step_ends(const StepEnd& end) override;
  /// Throws `kIo` naming the file.
  void train_ends(const TrainingSummary& summary) override;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  void span(uint64_t row, const std::string& name, TimePoint begin, TimePoint end);
  void name_threads(const StepTimeline& timeline);
  void draw(const BatchTimeline& batch);
  void draw_update(const StepTimeline& timeline);
  void close();

  StepTraceOptions options_;
  std::unique_ptr<GrowingFile> file_;  // null when it is closed
  bool has_begun_ = false;             // whether a training has begun
  TimePoint began_;
  int64_t steps_seen_ = 0;
  int named_threads_ = 0;
  ChromeTraceWriter writer_;
};

}  // namespace millrace
