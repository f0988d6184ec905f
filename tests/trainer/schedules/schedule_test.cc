// What schedules say and refuse. Their tables are compared with those of the originals in tests/trainer/golden.
#include "millrace/trainer/schedules/schedule.h"

#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::schedule_test {
namespace {

TEST(Schedules, SayWhatTheyAre) {
  EXPECT_EQ(linear_warmup_decay({.learning_rate = 0.001, .warmup_steps = 12, .total_steps = 250})->describe(),
            "linear_warmup_decay(learning_rate=0.001, warmup_steps=12, total_steps=250, end_rate=0)");
  EXPECT_EQ(
      linear_warmup_decay({.learning_rate = 1, .warmup_steps = 2, .total_steps = 4, .start_rate = 0.5})->describe(),
      "linear_warmup_decay(learning_rate=1, warmup_steps=2, total_steps=4, end_rate=0, start_rate=0.5)");
  EXPECT_EQ(constant_rate(0.5)->learning_rate(1000000), 0.5);
}

TEST(Schedules, RefuseNumbersThatCannotWork) {
  EXPECT_THROW(linear_warmup_decay({.warmup_steps = 11, .total_steps = 10}), ErrorException);
  EXPECT_THROW(linear_warmup_decay({.warmup_steps = 0, .total_steps = 0}), ErrorException);
  EXPECT_THROW(constant_rate(-1), ErrorException);
  EXPECT_THROW(cosine_warmup({.maximum_rate = 1, .decay_steps = -1}), ErrorException);
  EXPECT_THROW(models_repo_warmup_decay({.warmup_steps = 2, .total_steps = 0}), ErrorException);
  EXPECT_THROW(models_repo_warmup_decay({.warmup_steps = -1, .total_steps = 5}), ErrorException);
  EXPECT_THROW(milestones(1, {3, 2}, 0.5), ErrorException);
  // All warm-up: the end rate comes right after it.
  EXPECT_EQ(linear_warmup_decay({.learning_rate = 1, .warmup_steps = 10, .total_steps = 10})->learning_rate(10), 0);
}

// As their formulas have it.
TEST(Schedules, HoldAtTheEndsOfTheirNumbers) {
  const auto rates = [](const Schedule& schedule) {
    std::vector<double> found;
    for (int64_t step = 0; step < 8; ++step) found.push_back(schedule.learning_rate(step));
    return found;
  };
  EXPECT_EQ(rates(*cosine_warmup({.initial_rate = 1, .maximum_rate = 3, .warmup_steps = 4, .alpha = 0.5})),
            (std::vector<double>{1, 1.5, 2, 2.5, 3, 3, 3, 3}));
  EXPECT_EQ(rates(*cosine_warmup({.initial_rate = 1, .maximum_rate = 3})), std::vector<double>(8, 3));
  EXPECT_EQ(rates(*models_repo_warmup_decay(
                {.learning_rate = 5, .warmup_steps = 5, .total_steps = 3, .end_rate = 1, .power = 2})),
            (std::vector<double>{0, 1, 2, 3, 4, 1, 1, 1}));
  EXPECT_EQ(rates(*linear_warmup_decay(
                {.learning_rate = 3, .warmup_steps = 4, .total_steps = 6, .end_rate = 2, .start_rate = 1})),
            (std::vector<double>{1, 1.5, 2, 2.5, 3, 2.5, 2, 2}));
}

}  // namespace
}  // namespace millrace::schedule_test
