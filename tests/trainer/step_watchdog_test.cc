#include "trainer/step_watchdog.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/toy_models.h"
#include "trainer/optimizers/sgd.h"
#include "trainer/step_graph.h"

namespace millrace::step_watchdog_test {
namespace {

using testing::HasSubstr;
using testing_models::Regression;
using testing_models::RegressionBatch;

// A replica that does not go on until the watchdog has barked.
class Barked {
 public:
  void bark(const Stall& stall) {
    const std::lock_guard lock(mutex_);
    stalls_.push_back(stall);
    changed_.notify_all();
  }
  void wait(size_t stalls = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return stalls_.size() >= stalls; });
  }
  std::vector<Stall> stalls() {
    const std::lock_guard lock(mutex_);
    return stalls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Stall> stalls_;
};

struct Watched {
  explicit Watched(double seconds)
      : state(model.layout(), sgd),
        graph(model, sgd, state,
              {.threads = 2, .watchdog = seconds, .on_stall = [this](const Stall& stall) { barked.bark(stall); }}) {
    model.initialize(state.weights.span(), 3);
  }
  Barked barked;
  Regression model;
  Sgd sgd;
  TrainedState state;
  StepGraph graph;
};

TEST(StepWatchdog, NamesTheReplicaThatAStepWaitsForInItsForwardPass) {
  Watched watched(1.0);
  watched.model.before_step = [&](const ReplicaContext& context) {
    if (context.replica == 3) watched.barked.wait();
  };
  watched.graph.train(RegressionBatch(20).view(), {.step = 11, .batch = 11}, 0.1);
  const auto stalls = watched.barked.stalls();
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_GE(stalls[0].seconds, 1.0);
  EXPECT_THAT(stalls[0].cause,
              testing::StartsWith("step 12 (batch 11) waits for replica 3, which is in its forward pass"));
  EXPECT_THAT(stalls[0].report, HasSubstr("7 of 8 replicas are done, 0 have not begun"));
}

TEST(StepWatchdog, GoesOnAndSaysSoWhenWhoIsToldOfAStallThrows) {
  for (const bool known : {true, false}) {
    Barked barked;
    Regression model;
    const Sgd sgd;
    TrainedState state(model.layout(), sgd);
    const auto on_stall = [&](const Stall& stall) {
      barked.bark(stall);
      if (known) throw std::runtime_error("no space left for the report");
      throw 7;
    };
    std::optional<StepGraph> graph(std::in_place, model, sgd, state,
                                   StepGraphOptions{.threads = 2, .watchdog = 0.2, .on_stall = on_stall});
    size_t waited = 0;  // for so many stalls
    model.before_step = [&](const ReplicaContext& context) {
      if (context.replica == 3) barked.wait(waited);
    };
    testing::internal::CaptureStderr();
    for (waited = 1; waited <= 2; ++waited) graph->train(RegressionBatch(20).view(), {}, 0.1);
    graph.reset();  // its watchdog has ended
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_GE(barked.stalls().size(), 2U);
    EXPECT_THAT(printed, HasSubstr("waits for replica "));
    EXPECT_THAT(printed, HasSubstr(known ? "\non_stall failed: no space left for the report\n"
                                         : "\non_stall failed: an exception that is no std::exception\n"));
  }
}

TEST(StepWatchdog, SaysHowFarTheBackwardPassHasCome) {
  Watched watched(1.0);
  watched.model.before_last_gradients = [&](const ReplicaContext& context) {
    if (context.replica == 5) watched.barked.wait();
  };
  watched.graph.train(RegressionBatch(20).view(), {}, 0.1);
  const auto stalls = watched.barked.stalls();
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_THAT(stalls[0].cause, HasSubstr("waits for replica 5, which is in its backward pass"));
  EXPECT_THAT(stalls[0].report, HasSubstr("replica 5: in its backward pass, behind the gradient of 'second.weight'"));
}

// SGD whose update of the parameter 1 waits for the bark.
class Hanging final : public Optimizer {
 public:
  explicit Hanging(Barked& barked) : barked_(barked) {}
  std::string describe() const override { return "hanging"; }
  std::span<const std::string_view> slot_names() const override { return {}; }
  void update(const UpdateRange& range, const UpdateStep&, const UpdateBuffers&) const override {
    if (range.parameter == 1) barked_.wait();
  }

 private:
  Barked& barked_;
};

TEST(StepWatchdog, NamesTheBucketWhoseUpdateAStepWaitsFor) {
  Barked barked;
  const Regression model;
  const Hanging optimizer(barked);
  TrainedState state(model.layout(), optimizer);
  StepGraph graph(model, optimizer, state,
                  {.threads = 2, .watchdog = 1.0, .on_stall = [&](const Stall& stall) { barked.bark(stall); }});
  const auto& buckets = model.layout().buckets();
  const auto bucket = std::ranges::find_if(buckets, [](const Bucket& b) { return b.parameters.front() == 1; });
  ASSERT_NE(bucket, buckets.end());
  graph.train(RegressionBatch(20).view(), {.step = 4, .batch = 4}, 0.1);
  const auto stalls = barked.stalls();
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_THAT(stalls[0].cause,
              testing::StartsWith(fmt::format("step 5 (batch 4) waits for the update of bucket {} ('first.bias'",
                                              bucket - buckets.begin())));
  EXPECT_THAT(stalls[0].report, HasSubstr(fmt::format("\n  {} of {} updates are done, 0 have not begun",
                                                      buckets.size() - 1, buckets.size())));
}

TEST(StepWatchdog, IsSilentWhileStepsMoveAndBetweenThem) {
  Watched watched(2.0);
  for (int64_t step = 0; step < 200; ++step) {
    const RegressionBatch batch(16, static_cast<uint64_t>(step));
    watched.graph.train(batch.view(), {.step = step, .batch = step, .update = step + 1}, 0.01);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // the caller does something else
  watched.graph.evaluate(RegressionBatch(16).view());
  EXPECT_THAT(watched.barked.stalls(), testing::IsEmpty());
}

TEST(StepWatchdog, RefusesALimitBelowZero) {
  EXPECT_THAT(testing_models::thrown_by([] { Watched watched(-1); }), HasSubstr("watchdog is -1"));
}

}  // namespace
}  // namespace millrace::step_watchdog_test
