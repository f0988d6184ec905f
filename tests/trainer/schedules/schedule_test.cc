// Against the tables of the original implementations, in float64.
#include "trainer/schedules/schedule.h"

#include <cmath>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"

namespace millrace {
namespace {

using Json = nlohmann::json;

std::unique_ptr<Schedule> make(const std::string& kind, const Json& c) {
  if (kind == "hf_linear_warmup_decay") {
    return linear_warmup_decay(
        {c["lr"].get<double>(), c["W"].get<int64_t>(), c["N"].get<int64_t>(), c["end_lr"].get<double>()});
  }
  if (kind == "models_repo_warmup_decay") {
    return models_repo_warmup_decay({c["lr"].get<double>(), c["W"].get<int64_t>(), c["N"].get<int64_t>(),
                                     c["end_lr"].get<double>(), c["power"].get<double>()});
  }
  if (kind == "cosine_warmup") {
    return cosine_warmup({c["init"].get<double>(), c["max"].get<double>(), c["W"].get<int64_t>(), c["D"].get<int64_t>(),
                          c["alpha"].get<double>()});
  }
  if (kind == "milestones") {
    return milestones(c["lr"].get<double>(), c["milestones"].get<std::vector<int64_t>>(), c["factor"].get<double>(),
                      c["at_milestone"] == "new value" ? AtMilestone::kNewValue : AtMilestone::kOldValue);
  }
  return nullptr;
}

TEST(Schedules, MatchTheTablesOfTheOriginals) {
  const Json golden = Json::parse(std::ifstream(MILLRACE_TEST_DATA "/trainer/schedules.json"));
  std::set<std::string> kinds;
  for (const Json& table : golden["tables"]) {
    SCOPED_TRACE(table["kind"].dump() + table["config"].dump());
    kinds.insert(table["kind"]);
    const std::unique_ptr<Schedule> schedule = make(table["kind"], table["config"]);
    ASSERT_NE(schedule, nullptr);
    for (const Json& row : table["table"]) {
      const double expected = row[1].get<double>();
      EXPECT_NEAR(schedule->learning_rate(row[0].get<int64_t>()), expected, 1e-12 * std::abs(expected) + 1e-19)
          << "at step " << row[0];
    }
  }
  EXPECT_EQ(kinds.size(), 4u);
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
