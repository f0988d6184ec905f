#include "millrace/trainer/metrics/constant_columns.h"

#include <gtest/gtest.h>

namespace millrace::constant_columns_test {
namespace {

TEST(ConstantColumns, CountsThoseThatSpearmanLeavesOut) {
  // Scores are all equal in the second column, labels in the third.
  const std::vector<float> labels = {0, 0, 1, 1, 1, 1, 2, 0, 1};
  ConstantColumns constant;
  Spearman spearman;
  for (Metric* metric : {static_cast<Metric*>(&constant), static_cast<Metric*>(&spearman)}) {
    metric->add(
        BatchView({{"labels", labels, {3, 3}}}),
        {.rows = 3,
         .columns = {{.name = "scores", .row_shape = {3}, .values = std::vector<float>{1, 5, 1, 2, 5, 2, 3, 5, 3}}}});
  }
  EXPECT_EQ(constant.value(), 2);
  EXPECT_EQ(spearman.value(), 1);
}

}  // namespace
}  // namespace millrace::constant_columns_test
