#pragma once

#include <functional>
#include <string>

#include "millrace/formats/storage/growing_file.h"
#include "millrace/trainer/callback.h"

namespace millrace {

/// Writes one JSON object a line: `event` is `start`, `phase`, `skip` (an update that was not finite), `report`,
/// `evaluation`, `epoch`, `checkpoint` or `end`; the other names are those of the structs in callback.h. Each line is
/// one write, so a process that is killed leaves whole lines (a full disk or a crash of the machine may tear the last
/// one); a training that is resumed appends. Numbers that are not finite are null.
///
///     {"event":"report","step":10,"epoch":0,"loss":9.21,"learning_rate":0.0004,...,"input_wait_share":0.003,...}
class JsonlLog final : public Callback {
 public:
  /// What a path of a checkpoint or model is called in the log.
  using Shown = std::function<std::string(const std::string& path)>;
  /// Throws `kIo` naming the file when it cannot be opened. `shown`: for runs whose files go elsewhere. Default: paths
  /// as they are.
  explicit JsonlLog(const std::string& path, Shown shown = nullptr);

  void train_starts(const TrainingStart& start) override;
  void phase_begins(const PhaseStart& start) override;
  void step_ends(const StepEnd& end) override;
  void report(const TrainingReport& report) override;
  void evaluation_ends(const EvaluationReport& report) override;
  void model_kept(const ModelKept& kept) override;
  void epoch_ends(const EpochEnd& end) override;
  void checkpoint_written(const std::string& path) override;
  void train_ends(const TrainingSummary& summary) override;

 private:
  void write(const std::string& line) { file_.write(line); }

  std::string shown(const std::string& path) const { return shown_ ? shown_(path) : path; }

  GrowingFile file_;
  const Shown shown_;
};

}  // namespace millrace
