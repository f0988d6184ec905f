#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/batch_source.h"
#include "millrace/trainer/callback.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/metrics/metric.h"
#include "millrace/trainer/step/loss_scaling.h"
#include "millrace/trainer/step/step_graph_options.h"

namespace millrace {

/// Keeps the models with the best evaluations.
struct KeepBest {
  std::string folder = {};          ///< one directory for each model
  BestModels::Options models = {};  ///< how many, by which metric and direction. Default: 1, the lowest loss
  /// Its value in an evaluation. Default: null, the loss or the metric of the name `models.metric`
  std::function<double(const EvaluationReport&)> value = nullptr;
  /// Writes the model with these weights (in its layout) into a directory. Default: `model.safetensors`, by the
  /// parameters' names
  std::function<void(const std::string& directory, std::span<const float> weights)> write = nullptr;
  /// Writes further files into the directory it is given (a model's configuration, ...), after `write`. Default: none
  std::function<void(const std::string& directory)> more_files = nullptr;
};

// Limits of `TrainerOptions`: their product is a number of batches, which fits 64 bits.
inline constexpr int64_t kMostAccumulate = 1'000'000;
inline constexpr int64_t kMostSteps = 1'000'000'000'000;

struct TrainerOptions {
  StepGraphOptions step = {};  ///< replicas, threads, seed, clipping, devices
  /// Global batches (micro-batches) whose gradients make one step, as if they were one batch. An epoch's end completes
  /// a step that has fewer. 1 to `kMostAccumulate`. Default: 1
  int64_t accumulate = 1;
  /// Parameters whose name contains a match of this regular expression (RE2) stay as they are: they have no
  /// gradient and no optimizer slot. Default: empty, none
  std::string frozen = {};
  std::optional<LossScaling> loss_scaling = std::nullopt;  ///< Default: none, gradients are computed as they are
  int64_t total_steps = 0;    ///< in all, those before a resume included. Default: 0, to the end of the data
  int64_t report_every = 10;  ///< steps; the training's first step and its last are always reported. Default: 10
  std::vector<std::string> token_features = {};  ///< features whose values are counted as tokens. Default: none
  /// Starts a source over the rows to evaluate on, each time anew, and once when a training starts: one that never ends
  /// is refused then. Default: none
  std::function<std::unique_ptr<BatchSource>()> evaluation = nullptr;
  /// Makes the metrics of an evaluation, over its rows' predictions (`Model::predict`): of those of the training, and
  /// of `Trainer::evaluate`. Default: null, the loss alone
  std::function<std::vector<std::unique_ptr<Metric>>()> metrics = nullptr;
  int64_t evaluate_every = 0;         ///< steps. Default: 0, when an epoch ends; and always at the end of the training
  int64_t evaluate_every_epochs = 1;  ///< at the end of every n-th epoch. Default: 1
  std::optional<KeepBest> keep_best = std::nullopt;  ///< Default: none
  /// What the batches are, in words: data, batch size, order. A checkpoint that was made with others is refused.
  /// Default: empty
  std::string batches = {};
  std::string checkpoint_folder = {};          ///< Default: none, no checkpoints
  CheckpointFolder::Options checkpoints = {};  ///< how many are kept, what else they hold
  int64_t checkpoint_every = 0;  ///< steps. Default: 0, when an epoch ends; and always at the end of the training
  int64_t checkpoint_every_epochs = 1;  ///< at the end of every n-th epoch. Default: 1
  int64_t most_skipped_in_a_row = 10;   ///< updates that were not finite; one more ends the training. Default: 10

  /// Throws `kInvalidArgument` for options out of range, and those that need one another.
  void check() const;
  /// How gradients are made into updates, beside the optimizer, where these parameters are frozen: what checkpoints are
  /// compared by.
  std::string describe_gradients(const std::string& frozen_parameters) const;
};

}  // namespace millrace
