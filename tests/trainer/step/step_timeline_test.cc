#include "millrace/trainer/step/step_timeline.h"

#include <thread>

#include <gtest/gtest.h>

namespace millrace::step_timeline_test {
namespace {

using namespace std::chrono_literals;

// Two replicas, one after the other; the second had rows, the third none.
BatchTimeline two_replicas() {
  BatchTimeline batch;
  batch.replicas = {{.begin = 0s, .backward = 2s, .end = 5s, .reducing = 1s},
                    {.begin = 5s, .backward = 6s, .end = 8s, .reducing = 0s},
                    {}};
  batch.reductions = {{.begin = 3s, .end = 4s}, {.begin = 8s, .end = 8s}, {.begin = 8s, .end = 9s}};
  batch.ended = batch.began + 10s;
  return batch;
}

TEST(StepTimeline, DividesABatchesTimeInProportionToWhatItsThreadsDid) {
  const BatchTimeline batch = two_replicas();
  EXPECT_EQ(batch.backward_end(), 8s);
  EXPECT_EQ(batch.reduced_during_backward(), 1);
  StepPhases phases = batch.phases();
  EXPECT_DOUBLE_EQ(phases.forward, 3);
  EXPECT_DOUBLE_EQ(phases.backward, 4);
  EXPECT_DOUBLE_EQ(phases.reduce, 1);
  EXPECT_DOUBLE_EQ(phases.optimizer, 2);
  phases.add(phases);
  EXPECT_DOUBLE_EQ(phases.reduce, 2);
}

TEST(StepTimeline, GathersTheBatchesOfAStepAndBeginsTheNextWithNone) {
  StepTimes times;
  times.begin_batch(2, 3);
  times.replica(1) = {.begin = 1ns, .backward = 2ns, .end = 3ns};
  times.end_batch();
  times.begin_batch(2, 3);
  times.reduction(2) = {.begin = 1ns, .end = 2ns};
  times.begin_updates(3);
  times.update(2).thread = 7;
  StepTimeline timeline;
  StepPhases phases;
  times.finish(/*with_batch=*/true, timeline, phases);
  ASSERT_EQ(timeline.batches.size(), 2U);
  EXPECT_EQ(timeline.batches[0].replicas[1].end, 3ns);
  EXPECT_EQ(timeline.batches[1].reductions[2].end, 2ns);
  EXPECT_EQ(timeline.updates[2].thread, 7);
  EXPECT_EQ(timeline.ended, timeline.batches[1].ended);
  EXPECT_EQ(timeline.total,
            (timeline.batches[0].ended - timeline.batches[0].began) + (timeline.ended - timeline.began));
  EXPECT_EQ(timeline.after_backward, timeline.ended - timeline.began);

  // Updates without a batch: the next, and one after a batch that was given up.
  for (const bool given_up : {false, true}) {
    if (given_up) {
      times.begin_batch(1, 1);
      times.end_batch();
      times.discard();
    }
    times.begin();
    times.finish(/*with_batch=*/false, timeline, phases);
    EXPECT_TRUE(timeline.batches.empty());
    EXPECT_TRUE(timeline.updates.empty());
    EXPECT_EQ(timeline.total, timeline.ended - timeline.began);
    EXPECT_EQ(phases.forward, 0);
    EXPECT_DOUBLE_EQ(phases.optimizer, std::chrono::duration<double>(timeline.total).count());
  }
}

TEST(ThreadNumbers, CountFromZeroInTheOrderInWhichThreadsCome) {
  ThreadNumbers numbers;
  EXPECT_EQ(numbers.number(), 0);
  std::jthread([&] { EXPECT_EQ(numbers.number(), 1); }).join();
  EXPECT_EQ(numbers.number(), 0);
  EXPECT_EQ(numbers.count(), 2);
}

}  // namespace
}  // namespace millrace::step_timeline_test
