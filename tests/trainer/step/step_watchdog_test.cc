#include "millrace/trainer/step/step_watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/step/step_graph.h"
#include "tests/trainer/toy_models.h"

namespace millrace::step_watchdog_test {
namespace {

using testing::HasSubstr;
using testing_models::Regression;
using testing_models::RegressionBatch;

using Clock = std::chrono::steady_clock;

constexpr double kLimit = 0.1;

// A stall that a test waits for: how its cause begins, and what its report holds.
struct Expected {
  std::string cause;
  std::string report;
};

// What the watchdog says, to whom a replica that stands still listens. On a busy machine it may bark before the step
// has come to the place where it stands still, and after it.
class Barked {
 public:
  void bark(const Stall& stall) {
    const std::lock_guard lock(mutex_);
    stalls_.push_back(stall);
    changed_.notify_all();
  }
  void wait_for(const Expected& expected) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return !those(expected).empty(); });
  }
  std::vector<Stall> find(const Expected& expected) {
    const std::lock_guard lock(mutex_);
    return those(expected);
  }
  std::vector<Stall> all() { return find({}); }
  std::string reports() {
    std::string text = "told:";
    for (const Stall& stall : all()) text += "\n" + stall.report;
    return text;
  }

 private:
  std::vector<Stall> those(const Expected& expected) const {
    std::vector<Stall> found;
    std::ranges::copy_if(stalls_, std::back_inserter(found), [&](const Stall& stall) {
      return stall.cause.starts_with(expected.cause) && stall.report.find(expected.report) != std::string::npos;
    });
    return found;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Stall> stalls_;
};

struct Watched {
  explicit Watched(double seconds, int threads = 2)
      : limit(threads),
        state(model.layout(), sgd),
        graph(model, sgd, state, {.threads = threads, .watchdog = seconds, .on_stall = [this](const Stall& stall) {
                                    barked.bark(stall);
                                  }}) {
    model.initialize(state.weights.span(), 3);
  }
  WorkerLimit limit;
  Barked barked;
  Regression model;
  Sgd sgd;
  TrainedState state;
  StepGraph graph;
};

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(StepWatchdog, NamesTheReplicaThatAStepWaitsForInItsForwardPassAndSaysItOnce) {
  const Expected held{.cause = "step 12 (batch 11) waits for replica 3, which is in its forward pass",
                      .report = "7 of 8 replicas are done, 0 have not begun"};
  Watched watched(kLimit);
  watched.model.before_step = [&](const ReplicaContext& context) {
    if (context.replica != 3) return;
    watched.barked.wait_for(held);
    sleep_for(4 * kLimit);
  };
  watched.graph.train(RegressionBatch(20).view(), {.step = 11, .batch = 11}, 0.1);
  const std::vector<Stall> stalls = watched.barked.find(held);
  ASSERT_EQ(stalls.size(), 1U) << watched.barked.reports();
  EXPECT_GE(stalls[0].seconds, kLimit);
}

TEST(StepWatchdog, GoesOnAndSaysSoWhenWhoIsToldOfAStallThrows) {
  for (const bool known : {true, false}) {
    const WorkerLimit limit(2);
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
                                   StepGraphOptions{.threads = 2, .watchdog = kLimit, .on_stall = on_stall});
    testing::internal::CaptureStderr();
    for (int64_t step = 0; step < 2; ++step) {
      const Expected held{.cause = fmt::format("step {} (batch {}) waits for replica 3,", step + 1, step)};
      model.before_step = [&](const ReplicaContext& context) {
        if (context.replica == 3) barked.wait_for(held);
      };
      graph->train(RegressionBatch(20).view(), {.step = step, .batch = step}, 0.1);
      EXPECT_FALSE(barked.find(held).empty()) << barked.reports();
    }
    graph.reset();  // its watchdog has ended
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_THAT(printed, HasSubstr("waits for replica 3"));
    EXPECT_THAT(printed, HasSubstr(known ? "\non_stall failed: no space left for the report\n"
                                         : "\non_stall failed: an exception that is no std::exception\n"));
  }
}

TEST(StepWatchdog, SaysHowFarTheBackwardPassHasCome) {
  const Expected held{.cause = "step 1 (batch 0) waits for replica 5, which is in its backward pass",
                      .report = "replica 5: in its backward pass, after the gradient of 'second.weight'"};
  Watched watched(kLimit);
  watched.model.before_last_gradients = [&](const ReplicaContext& context) {
    if (context.replica == 5) watched.barked.wait_for(held);
  };
  watched.graph.train(RegressionBatch(20).view(), {}, 0.1);
  EXPECT_FALSE(watched.barked.find(held).empty()) << watched.barked.reports();
}

// SGD whose update of the parameter 1 waits for a stall.
class Hanging final : public Optimizer {
 public:
  Hanging(Barked& barked, const Expected& held) : barked_(barked), held_(held) {}
  std::string describe() const override { return "hanging"; }
  std::span<const std::string_view> slot_names() const override { return {}; }
  void update(const UpdateRange& range, const UpdateStep&, const UpdateBuffers&) const override {
    if (range.parameter == 1) barked_.wait_for(held_);
  }

 private:
  Barked& barked_;
  const Expected& held_;
};

TEST(StepWatchdog, NamesTheBucketWhoseUpdateAStepWaitsFor) {
  const WorkerLimit limit(2);
  const Regression model;
  const auto& buckets = model.layout().buckets();
  const auto bucket = std::ranges::find_if(buckets, [](const Bucket& b) { return b.parameters.front() == 1; });
  ASSERT_NE(bucket, buckets.end());
  const Expected held{
      .cause =
          fmt::format("step 5 (batch 4) waits for the update of bucket {} ('first.bias'", bucket - buckets.begin()),
      .report = fmt::format("\n  {} of {} updates are done, 0 have not begun", buckets.size() - 1, buckets.size())};
  Barked barked;
  const Hanging optimizer(barked, held);
  TrainedState state(model.layout(), optimizer);
  StepGraph graph(model, optimizer, state,
                  {.threads = 2, .watchdog = kLimit, .on_stall = [&](const Stall& stall) { barked.bark(stall); }});
  graph.train(RegressionBatch(20).view(), {.step = 4, .batch = 4}, 0.1);
  EXPECT_FALSE(barked.find(held).empty()) << barked.reports();
}

TEST(StepWatchdog, IsSilentWhileAStepMovesAndBetweenThem) {
  constexpr size_t kSteps = 3;
  Watched watched(kLimit, 1);
  std::vector<Clock::time_point> moments;  // between any two of them something moves
  watched.model.before_step = [&](const ReplicaContext&) {
    moments.push_back(Clock::now());
    sleep_for(kLimit / 4);  // twice the limit for the eight replicas
  };
  // Where nothing stood still for so long as the limit. On a busy machine there are other steps too.
  std::vector<std::string> moved;
  int quick_evaluations = 0;
  for (int64_t step = 0; (moved.size() < kSteps || quick_evaluations == 0) && step < 200; ++step) {
    moments = {Clock::now()};
    watched.graph.train(RegressionBatch(16).view(), {.step = step, .batch = step, .update = step + 1}, 0.01);
    moments.push_back(Clock::now());
    ASSERT_EQ(moments.size(), 10U);
    bool quick = true;
    for (size_t i = 1; i < moments.size(); ++i) {
      quick = quick && std::chrono::duration<double>(moments[i] - moments[i - 1]).count() < kLimit / 2;
    }
    if (quick) moved.push_back(fmt::format("step {} ", step + 1));
    sleep_for(2 * kLimit);  // the caller does something else
    const auto begin = Clock::now();
    const size_t before = watched.barked.find({.cause = "in an evaluation "}).size();
    watched.graph.evaluate(RegressionBatch(16).view());
    if (std::chrono::duration<double>(Clock::now() - begin).count() < kLimit) {
      ++quick_evaluations;
      EXPECT_EQ(watched.barked.find({.cause = "in an evaluation "}).size(), before) << watched.barked.reports();
    }
    sleep_for(2 * kLimit);
  }
  EXPECT_GE(moved.size(), kSteps);
  EXPECT_GE(quick_evaluations, 1);
  for (const std::string& place : moved) {
    EXPECT_THAT(watched.barked.find({.cause = place}), testing::IsEmpty()) << watched.barked.reports();
  }
}

TEST(StepWatchdog, RefusesALimitBelowZero) {
  EXPECT_THAT(testing_models::thrown_by([] { Watched watched(-1); }), HasSubstr("watchdog is -1"));
}

}  // namespace
}  // namespace millrace::step_watchdog_test
