// What schedules say and refuse. Their tables are compared with those of the originals in tests/trainer/golden.
#include "trainer/schedules/schedule.h"

#include <gtest/gtest.h>

#include "formats/error.h"

namespace millrace {
namespace {

TEST(Schedules, SayWhatTheyAre) {
  EXPECT_EQ(linear_warmup_decay({.learning_rate = 0.001, .warmup_steps = 12, .total_steps = 250})->describe(),
            "linear_warmup_decay(learning_rate=0.001, warmup_steps=12, total_steps=250, end_rate=0)");
  EXPECT_EQ(constant_rate(0.5)->learning_rate(1000000), 0.5);
}

TEST(Schedules, RefuseNumbersThatCannotWork) {
  EXPECT_THROW(linear_warmup_decay({.warmup_steps = 11, .total_steps = 10}), ErrorException);
  EXPECT_THROW(linear_warmup_decay({.warmup_steps = 0, .total_steps = 0}), ErrorException);
  EXPECT_THROW(constant_rate(-1), ErrorException);
  EXPECT_THROW(cosine_warmup({.maximum_rate = 1, .decay_steps = 0}), ErrorException);
  EXPECT_THROW(milestones(1, {3, 2}, 0.5), ErrorException);
  // All warm-up: the end rate comes right after it.
  EXPECT_EQ(linear_warmup_decay({.learning_rate = 1, .warmup_steps = 10, .total_steps = 10})->learning_rate(10), 0);
}

}  // namespace
}  // namespace millrace
