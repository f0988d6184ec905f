#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/callback.h"
#include "millrace/trainer/parameters.h"
#include "millrace/trainer/tensorboard/writer.h"

namespace millrace {

struct TensorboardLogOptions {
  std::string folder = {};                  ///< of the event files, made if it is not there
  const ParameterLayout* layout = nullptr;  ///< with `weights`: of the histograms. Default: null, none of weights
  std::span<const float> weights = {};      ///< `[layout->size()]`, as `Trainer::weights()` gives them
  int64_t histogram_every = 100;            ///< steps between the histograms of weights. Default: 100
};

/// Shows a training in TensorBoard (`tensorboard --logdir FOLDER`). With each report the scalars `train/loss`,
/// `train/learning_rate`, `train/gradient_norm`, `train/rows_per_second` (and `tokens`, and the model's metrics) and
/// the time of a step and its parts in seconds (`time/step`, `time/input`, `time/forward`, `time/backward`,
/// `time/reduce`, `time/optimizer`, `time/callbacks`), and a histogram of the steps' times; with each evaluation
/// `evaluation/loss` and its metrics; histograms of the weights by their names. Groups of parameters with schedules of
/// their own have `train/learning_rate/GROUP`. A training that goes on adds a file, and of the files before it only
/// what is not after its checkpoint is shown.
class TensorboardLog final : public Callback {
 public:
  /// Throws `kInvalidArgument` for fewer than 1 step between histograms.
  explicit TensorboardLog(TensorboardLogOptions options);

  /// Makes the file. Throws `kIo` naming what could not be made.
  void train_starts(const TrainingStart& start) override;
  void step_ends(const StepEnd& end) override;
  void report(const TrainingReport& report) override;
  void evaluation_ends(const EvaluationReport& report) override;
  void train_ends(const TrainingSummary& summary) override;
  /// The file that is being written; empty before the training starts.
  std::string path() const { return writer_ ? writer_->path() : std::string(); }

 private:
  void write_weights(int64_t step);

  TensorboardLogOptions options_;
  std::optional<TensorboardWriter> writer_;
  std::vector<float> step_seconds_;  // since the last report
};

}  // namespace millrace
