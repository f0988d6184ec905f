// Against the tables of the original implementations, in float64.
#include "trainer/schedules/schedule.h"

#include <set>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "tests/trainer/optimizers/golden_updates.h"

namespace millrace {
namespace {

TEST(Schedules, MatchTheTablesOfTheOriginals) {
  const test::GoldenReport report = test::check_schedules(MILLRACE_TEST_DATA "/trainer/schedules.json");
  std::set<std::string> kinds;
  for (const auto& golden : report.cases) {
    EXPECT_EQ(golden.failure, "") << golden.name;
    kinds.insert(golden.name.substr(0, golden.name.find(' ')));
  }
  EXPECT_EQ(kinds.size(), 4U);
}

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
