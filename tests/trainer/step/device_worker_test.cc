// Workers of a program's own, through the options of a trainer: none of them decides anything but where a replica runs.
#include "millrace/trainer/step/device_worker.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include "millrace/trainer/predictor.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"

namespace millrace::device_worker_test {
namespace {

using oneapi::tbb::global_control;
using test::TemporaryFolder;
using testing::Pair;
using testing_models::Regression;
using testing_models::RegressionSource;
using testing_models::thrown_by;
using testing_models::ToyTraining;

constexpr int kReplicas = 8;

// What the workers of a training do, and what they were asked for.
struct Device {
  // Called by a replica before its work and, if that did not throw, after it.
  std::function<void(const ReplicaContext&)> before = [](const ReplicaContext&) {};
  std::function<void(const ReplicaContext&)> after = [](const ReplicaContext&) {};

  std::mutex mutex;                          // of what follows
  std::vector<std::pair<int64_t, int>> ran;  // batch and replica, in the order in which they were done
  int evaluations = 0;
  int predictions = 0;
  std::atomic<int> made{0};
  std::atomic<int> alive{0};

  // How often each replica of each batch ran; fails where batches did not come one after the other.
  std::map<int64_t, std::map<int, int>> calls() {
    EXPECT_TRUE(std::ranges::is_sorted(ran, {}, &std::pair<int64_t, int>::first)) << "steps are not in order";
    std::map<int64_t, std::map<int, int>> counts;
    for (const auto& [batch, replica] : ran) ++counts[batch][replica];
    return counts;
  }
};

// What all replicas once are, of batches `first` to `end`.
std::map<int64_t, std::map<int, int>> each_once(int64_t first, int64_t end) {
  std::map<int64_t, std::map<int, int>> counts;
  for (int64_t batch = first; batch < end; ++batch) {
    for (int replica = 0; replica < kReplicas; ++replica) counts[batch][replica] = 1;
  }
  return counts;
}

// A device with a memory of its own, played by the host: weights are copied in, each gradient out when it is final.
class StagedWorker final : public DeviceWorker {
 public:
  explicit StagedWorker(const Model& model)
      : model_(model),
        workspace_(model.make_workspace()),
        weights_(model.layout().size()),
        gradients_(model.layout().size()) {}

  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext context) override {
    copy_in(weights);
    CopyOut copy_out(model_.layout(), gradients_, context);
    context.gradients = gradients_.span();
    context.listener = &copy_out;
    context.workspace = workspace_.get();
    return model_.train_step(rows, weights_.data(), context);
  }
  StepResult evaluate(const BatchView& rows, const float* weights) override {
    copy_in(weights);
    return model_.evaluate(rows, weights_.data(), *workspace_);
  }
  Predictions predict(const BatchView& rows, const float* weights) override {
    copy_in(weights);
    return model_.predict(rows, weights_.data(), *workspace_);
  }

 private:
  class CopyOut final : public GradientListener {
   public:
    CopyOut(const ParameterLayout& layout, const FlatBuffer& from, const ReplicaContext& to)
        : layout_(layout), from_(from), to_(to.gradients), listener_(*to.listener) {}
    void backward_begins() override { listener_.backward_begins(); }
    void gradient_final(int id) override {
      const Parameter& parameter = layout_.parameters()[static_cast<size_t>(id)];
      const auto values =
          from_.span().subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
      std::ranges::copy(values, to_.data() + parameter.offset);
      listener_.gradient_final(id);
    }

   private:
    const ParameterLayout& layout_;
    const FlatBuffer& from_;
    const std::span<float> to_;
    GradientListener& listener_;
  };

  void copy_in(const float* weights) { std::copy_n(weights, weights_.size(), weights_.data()); }

  const Model& model_;
  const std::unique_ptr<Workspace> workspace_;
  FlatBuffer weights_;
  FlatBuffer gradients_;
};

// Delays, fails and counts as its device says; the work is another worker's.
class WatchedWorker final : public DeviceWorker {
 public:
  WatchedWorker(Device& device, std::unique_ptr<DeviceWorker> worker) : device_(device), worker_(std::move(worker)) {
    ++device_.made;
    ++device_.alive;
  }
  ~WatchedWorker() override { --device_.alive; }

  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext context) override {
    EXPECT_EQ(context.workspace, nullptr);
    return alone([&] {
      device_.before(context);
      StepResult result = worker_->train_step(rows, weights, context);
      {
        const std::lock_guard lock(device_.mutex);
        device_.ran.emplace_back(context.batch, context.replica);
      }
      device_.after(context);
      return result;
    });
  }
  StepResult evaluate(const BatchView& rows, const float* weights) override {
    return alone([&] {
      const std::lock_guard lock(device_.mutex);
      ++device_.evaluations;
      return worker_->evaluate(rows, weights);
    });
  }
  Predictions predict(const BatchView& rows, const float* weights) override {
    return alone([&] {
      const std::lock_guard lock(device_.mutex);
      ++device_.predictions;
      return worker_->predict(rows, weights);
    });
  }

 private:
  // One call at a time, and none after one that threw.
  template <typename Call>
  std::invoke_result_t<const Call&> alone(const Call& call) {
    EXPECT_FALSE(busy_.exchange(true)) << "lent to two replicas, or used again after it threw";
    auto result = call();
    busy_ = false;
    return result;
  }

  Device& device_;
  const std::unique_ptr<DeviceWorker> worker_;
  std::atomic<bool> busy_{false};
};

// A training whose replicas run on workers of a device.
struct DeviceTraining {
  DeviceTraining(Device& device, TrainerOptions options)
      : trainer(model, std::make_unique<Adam>(model.layout(), adamw(0.1, "bias")),
                linear_warmup_decay({.learning_rate = 0.02, .warmup_steps = 3, .total_steps = 100}),
                with_workers(device, model, std::move(options))) {}

  static TrainerOptions with_workers(Device& device, const Model& model, TrainerOptions options) {
    options.step.make_worker = [&device, &model] {
      return std::make_unique<WatchedWorker>(device, std::make_unique<StagedWorker>(model));
    };
    return options;
  }
  std::vector<float> weights() { return {trainer.weights().begin(), trainer.weights().end()}; }

  const Regression model;
  Trainer trainer;
};

// The weights after so many steps of a training on the host, by one thread.
std::vector<float> expected_weights(TrainerOptions options, int64_t first_batch = 0) {
  options.step.threads = 1;
  options.checkpoint_folder = {};
  ToyTraining toy(options);
  RegressionSource source(1000, first_batch);
  toy.trainer.train(source);
  return toy.weights();
}

TEST(DeviceWorker, EveryReplicaOfEveryBatchRunsOnceOnAWorkerInTheOrderOfSteps) {
  for (const int threads : {1, 2, 4}) {
    const global_control limit(global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    Device device;
    const TrainerOptions options{.step = {.threads = threads, .seed = 5}, .accumulate = 2, .total_steps = 6};
    DeviceTraining training(device, options);
    RegressionSource source(1000);
    training.trainer.train(source);
    EXPECT_EQ(device.calls(), each_once(0, 12));
    EXPECT_EQ(training.weights(), expected_weights(options)) << threads << " threads";
    EXPECT_LE(device.made, threads) << "as many as run at once";
    EXPECT_EQ(device.alive, device.made);
  }
}

TEST(DeviceWorker, EvaluationsAndPredictionsRunOnWorkersToo) {
  Device device;
  TrainerOptions options{.step = {.threads = 1}, .total_steps = 2};
  options.evaluation = [] { return std::make_unique<RegressionSource>(3); };
  options.evaluate_every = 1;
  DeviceTraining training(device, options);
  RegressionSource source(1000);
  const TrainingSummary summary = training.trainer.train(source);
  EXPECT_EQ(device.evaluations, 2 * 3 * kReplicas);
  ToyTraining toy(options);
  RegressionSource same(1000);
  EXPECT_EQ(summary.last_evaluation->sum_loss, toy.trainer.train(same).last_evaluation->sum_loss);

  const FlatBuffer weights(training.model.layout().size());
  Predictor predictor(
      training.model, weights.span(),
      {.threads = 1, .make_worker = DeviceTraining::with_workers(device, training.model, {}).step.make_worker});
  RegressionSource rows(2);
  int64_t predicted = 0;
  predictor.predict(rows, [&](const GlobalBatch&, const Predictions& predictions) { predicted += predictions.rows; });
  EXPECT_EQ(predicted, 16 + 15);
  EXPECT_EQ(device.predictions, 2 * kReplicas);
}

// In each batch another replica is the last one, because it waits until all others are done.
TEST(DeviceWorker, AReplicaThatIsLateChangesNoWeight) {
  for (const int threads : {2, 4}) {
    const global_control limit(global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    Device device;
    std::condition_variable changed;
    int done = 0;  // of this batch
    const auto late = [](const ReplicaContext& context) {
      return context.replica == static_cast<int>(context.batch % kReplicas);
    };
    device.before = [&](const ReplicaContext& context) {
      if (!late(context)) return;
      std::unique_lock lock(device.mutex);
      changed.wait(lock, [&] { return done == kReplicas - 1; });
      done = 0;
    };
    device.after = [&](const ReplicaContext& context) {
      if (late(context)) return;
      const std::lock_guard lock(device.mutex);
      ++done;
      changed.notify_all();
    };
    const TrainerOptions options{.step = {.threads = threads}, .total_steps = 9};
    DeviceTraining training(device, options);
    RegressionSource source(1000);
    training.trainer.train(source);
    EXPECT_EQ(device.calls(), each_once(0, 9));
    for (int64_t batch = 0; batch < 9; ++batch) {
      const auto& last = device.ran[static_cast<size_t>((batch + 1) * kReplicas - 1)];
      EXPECT_THAT(last, Pair(batch, static_cast<int>(batch % kReplicas)));
    }
    EXPECT_EQ(training.weights(), expected_weights(options)) << threads << " threads";
  }
}

TEST(DeviceWorker, AFailureNamesReplicaAndStepAndTheTrainingGoesOnWithOtherWorkers) {
  for (const int threads : {1, 4}) {
    Device device;
    std::atomic<bool> broken{true};
    // Half of the work is done: some gradients have been announced, and buckets added.
    device.after = [&](const ReplicaContext& context) {
      if (context.batch != 5 || !broken) return;
      if (context.replica == 2 || context.replica == 6) {
        throw ErrorException({.code = ErrorCode::kIo, .message = "the device does not answer"});
      }
    };
    const TrainerOptions options{.step = {.threads = threads}, .accumulate = 2, .total_steps = 6};
    DeviceTraining training(device, options);
    RegressionSource source(1000);
    EXPECT_EQ(thrown_by([&] { training.trainer.train(source); }),
              "io: replica 2, step 3 (batch 5): the device does not answer");
    EXPECT_EQ(training.trainer.step(), 2);
    EXPECT_EQ(training.weights(), expected_weights({.step = {.threads = threads}, .accumulate = 2, .total_steps = 2}));
    EXPECT_LT(device.alive, device.made) << "the workers that failed are gone";

    // The whole step is made again, on workers that did not fail.
    broken = false;
    const auto before = std::exchange(device.ran, {});
    EXPECT_EQ(std::ranges::count(before, int64_t{4}, &std::pair<int64_t, int>::first), kReplicas);
    RegressionSource rest(1000, 4);
    training.trainer.train(rest);
    EXPECT_EQ(device.calls(), each_once(4, 12));
    EXPECT_EQ(training.weights(), expected_weights(options));
  }
}

TEST(DeviceWorker, AResumedTrainingCallsWorkersForTheRestOnly) {
  const TemporaryFolder folder;
  TrainerOptions options{.step = {.threads = 2, .seed = 3}, .accumulate = 2, .total_steps = 3};
  options.checkpoint_folder = folder.path();
  Device first_device;
  DeviceTraining first(first_device, options);
  RegressionSource head(1000);
  const TrainingSummary summary = first.trainer.train(head);
  EXPECT_EQ(first_device.calls(), each_once(0, 6));

  options.total_steps = 7;
  Device second_device;
  DeviceTraining second(second_device, options);
  second.trainer.resume(summary.last_checkpoint);
  RegressionSource tail(1000, 6);
  second.trainer.train(tail);
  EXPECT_EQ(second_device.calls(), each_once(6, 14));
  EXPECT_EQ(second.weights(), expected_weights(options));
}

TEST(DeviceWorker, AWorkerThatIsNotMadeIsAnErrorOfItsReplica) {
  const auto error_with = [](const MakeWorker& make_worker) {
    ToyTraining toy({.step = {.threads = 1, .make_worker = make_worker}, .total_steps = 1});
    RegressionSource source(10);
    return thrown_by([&] { toy.trainer.train(source); });
  };
  EXPECT_EQ(error_with([]() -> std::unique_ptr<DeviceWorker> { return nullptr; }),
            "invalid_argument: replica 0, step 1 (batch 0): make_worker gave no worker");
  EXPECT_EQ(error_with([]() -> std::unique_ptr<DeviceWorker> { throw std::runtime_error("no such device"); }),
            "user_function: replica 0, step 1 (batch 0): no such device");
}

}  // namespace
}  // namespace millrace::device_worker_test
