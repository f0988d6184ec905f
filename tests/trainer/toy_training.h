#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/trainer/batch_source.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/trainer.h"
#include "tests/trainer/toy_models.h"

namespace millrace::testing_models {

/// Batches `first` to `end` of an endless stream of RegressionBatches; `per_epoch` of them make an epoch.
class RegressionSource final : public BatchSource {
 public:
  explicit RegressionSource(int64_t end, int64_t first = 0, int64_t per_epoch = 1 << 20, int64_t rows = 16)
      : next_(first), end_(end), per_epoch_(per_epoch), rows_(rows) {}

  std::optional<GlobalBatch> next() override {
    if (next_ == end_) return std::nullopt;
    // Batches of unlike sizes: a step's work is not the same for all replicas.
    const int64_t rows = rows_ - next_ % 3;
    auto batch = std::make_shared<RegressionBatch>(rows, static_cast<uint64_t>(next_));
    if (next_ >= spoilt_from && next_ < spoilt_to) batch->y[3] = spoilt_with;
    const BatchView view = batch->view();
    return GlobalBatch{.view = view, .owner = std::move(batch), .epoch = next_++ / per_epoch_};
  }

  std::string limiting_stage() const override { return limit; }

  int64_t spoilt_from = 0;  ///< batches with a target that is not finite
  int64_t spoilt_to = 0;
  float spoilt_with = std::nanf("");
  std::string limit = "2:map";

 private:
  int64_t next_;
  int64_t end_;
  int64_t per_epoch_;
  int64_t rows_;
};

/// A training of the Regression model by AdamW under a falling learning rate.
struct ToyTraining {
  explicit ToyTraining(const TrainerOptions& options, int64_t schedule_steps = 100)
      : trainer(model, std::make_unique<Adam>(model.layout(), adamw(0.1, "bias")),
                linear_warmup_decay({.learning_rate = 0.02, .warmup_steps = 3, .total_steps = schedule_steps}),
                options) {}

  std::vector<float> weights() { return {trainer.weights().begin(), trainer.weights().end()}; }

  Regression model;
  Trainer trainer;
};

/// Evaluates after each step, and keeps the best n models.
inline void keep_best(TrainerOptions& options, const std::string& folder, int64_t n) {
  options.evaluation = [] { return std::make_unique<RegressionSource>(3); };
  options.evaluate_every = 1;
  options.keep_best = {.folder = folder, .models = {.keep = static_cast<int>(n)}};
}

constexpr int64_t kLongTrainingSteps = 1'000'000;

/// The training of the program `toy_training`, and in a test the one that it is compared with.
struct LongTraining : ToyTraining {
  explicit LongTraining(const TrainerOptions& options) : ToyTraining(options, kLongTrainingSteps) {}
};

}  // namespace millrace::testing_models
