#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/formats/columnar/schema.h"
#include "millrace/trainer/run/run_phases.h"
#include "millrace/trainer/run/training_run.h"

namespace millrace {

/// What a run trains, and on what.
struct RunParts {
  RunModel trained;
  RunData data;
};

/// What a run is, as far as it is known before it starts.
struct RunSpec {
  struct Phase {
    RunPhase phase = {};
    std::string optimizer = {};               ///< its options where the model is known, else its name
    std::optional<int64_t> num_trained = {};  ///< elements
  };
  struct Memory {
    int64_t weights = 0;           ///< bytes, as all of these
    int64_t slots = 0;             ///< of the phase that has most
    int64_t gradients = 0;         ///< at most
    int64_t gradient_buffers = 0;  ///< which these are
    int64_t activations = 0;  ///< of the first batch's replicas that run at once, where most is trained; 0: not known
    int64_t pipeline = 0;     ///< the most that its buffers took for the first batches
    int64_t cache = 0;        ///< that the rest of an epoch's rows takes where `cache` keeps them, in memory mostly
    int64_t pipeline_budget = 0;  ///< that all these may take
  };

  std::string why_not_known = {};  ///< which data are missing; then there are neither model nor batches
  std::optional<std::string> model = {};
  std::optional<int64_t> num_parameters = {};
  std::vector<Phase> phases = {};          ///< empty where their steps follow from epochs of a length that is not known
  std::optional<int64_t> resumed_at = {};  ///< step of the checkpoint of `resume`; none: from the beginning
  std::optional<int64_t> batches_per_epoch = {};
  std::optional<int64_t> steps_per_epoch = {};
  bool leaves_damage_out = false;          ///< then an epoch may have fewer batches, and the run a further one
  std::vector<FeatureSpec> features = {};  ///< of the first batch; empty: not known
  int64_t batches_looked_at = 0;
  int64_t num_shapes = 0;  ///< of these
  /// Share of zeros in these, of the masks; an empty list: there are no masks.
  std::optional<std::vector<std::pair<std::string, double>>> padding = {};
  std::optional<int64_t> dropped_rows = {};                   ///< of an epoch
  std::optional<int64_t> short_batch = {};                    ///< rows of an epoch's last batch; 0: it is a whole one
  std::vector<int64_t> rows_per_replica = {};                 ///< of a whole batch
  std::vector<int64_t> rows_per_replica_of_short_batch = {};  ///< empty: there is none, or it is not known
  std::optional<Memory> memory = {};
};

/// `make`: model and data, or MissingData, which says that they are not known yet. Reads the first batches, and the
/// first one of an evaluation where only the model can say whether it has the metric of `keep_best_by`. Throws what
/// else `make` and the data do, as `phases_of`, `check_evaluation`, `check_frozen` and ShapeLimit do, and as
/// `Trainer::resume` and `check_same_description` for a checkpoint that does not fit.
[[nodiscard]] RunSpec run_spec(const RunOptions& options, const std::function<RunParts()>& make);

/// On standard output, as a table or as one JSON object on a line, in which null is not known.
void print_run_spec(const RunSpec& spec, bool json);

/// `--check` of a program: sees whether options and folder allow the run, and prints its spec. Gives the exit code.
int check_run(const RunOptions& given, const std::function<RunParts()>& make);

}  // namespace millrace
