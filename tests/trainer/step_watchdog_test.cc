#include "trainer/step_watchdog.h"

#include <condition_variable>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/toy_models.h"
#include "trainer/optimizers/sgd.h"
#include "trainer/step_graph.h"

namespace millrace {
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
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [this] { return !stalls_.empty(); });
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
}  // namespace millrace
