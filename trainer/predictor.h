#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "millrace/trainer/batch_source.h"
#include "millrace/trainer/callback.h"
#include "millrace/trainer/metrics/metric.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/step/step_graph.h"

namespace millrace {

struct PredictorOptions {
  int replicas = 8;                  ///< views of a batch. Default: 8
  int threads = 0;                   ///< Default: 0, the cores
  MakeWorker make_worker = nullptr;  ///< the devices that replicas run on. Default: null, `CpuWorker`s of the model
};

/// Runs a trained model over rows: each batch is cut into one view for each replica, the replicas predict side by side,
/// and only what they predict (ids, not logits) comes back, in the order of the rows.
///
///     Predictor predictor(model, load_t5_weights(folder, model));
///     predictor.predict(source, [&](const GlobalBatch&, const Predictions& predictions) {
///       for (const int32_t id : predictions.values<int32_t>("ids")) ...
///     });
///
///     const EvaluationReport report = predictor.evaluate(test_rows, metrics_of(Spearman()));
///
/// The result does not depend on replicas or threads. One call at a time.
class Predictor {
 public:
  /// `model` must outlive it; `weights` have the size `[layout().size()]`. Throws `kInvalidArgument` for another size
  /// or options out of range.
  Predictor(const Model& model, FlatBuffer weights, PredictorOptions options = {});
  /// Copies the weights.
  Predictor(const Model& model, std::span<const float> weights, PredictorOptions options = {});

  /// Of all rows of a batch. Throws what the model throws, with the replica in front.
  [[nodiscard]] Predictions predict(const BatchView& batch) { return graph_.predict(batch); }
  /// Of every batch of a source, in order: exactly the source's rows, however many they are, in its order. A
  /// `tfrecord` of several shards takes rows from them in turns, unless its `cycle_length` is 1.
  void predict(BatchSource& source, const std::function<void(const GlobalBatch&, const Predictions&)>& take);
  /// The loss over all rows of a source, which have labels, and metrics of their predictions: of a kept model on a test
  /// set. `EvaluationReport::step` is 0. Throws `kInvalidArgument` for a source that never ends or two numbers of one
  /// name, and what source and model throw.
  [[nodiscard]] EvaluationReport evaluate(BatchSource& source,
                                          const std::vector<std::unique_ptr<Metric>>& metrics = {});

 private:
  Sgd none_;  // never asked: it has no slots, and nothing is trained
  TrainedState state_;
  StepGraph graph_;
};

}  // namespace millrace
