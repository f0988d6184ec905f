#include "millrace/ops/flow/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::scan_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }

ScanFunction running_sum() {
  ScanFunction scan;
  scan.name = "running_sum";
  scan.writes = {{.name = "sum", .dtype = DType::kInt64, .shape = {}}};
  scan.initial.integers = {0};
  scan.function = [](ScanNumbers& carried, const RowView& row, RowWriter& out) {
    carried.integers[0] += row.value<int64_t>("x");
    if (row.value<int64_t>("x") == 9) throw std::runtime_error("nine");
    out.set("sum", carried.integers[0]);
  };
  return scan;
}

TEST(ScanTest, CarriesNumbersFromElementToElementWithinAnIteration) {
  EXPECT_THAT(range(1, 5).then<ScanOperator>(running_sum()).elements(),
              ElementsAre("x=1 sum=1", "x=2 sum=3", "x=3 sum=6", "x=4 sum=10"));
  EXPECT_THAT(range(1, 3).then<ScanOperator>(running_sum()).then<RepeatOperator>(2).elements(),
              ElementsAre("x=1 sum=1", "x=2 sum=3", "x=1 sum=1", "x=2 sum=3"));
  EXPECT_THAT(range(1, 3).then<RepeatOperator>(2).then<ScanOperator>(running_sum()).elements(),
              ElementsAre("x=1 sum=1", "x=2 sum=3", "x=1 sum=4", "x=2 sum=6"));
  EXPECT_EQ(range(10, 3000).then<ScanOperator>(running_sum()).elements().back(), "x=2999 sum=4498455");
}

TEST(ScanTest, AnElementForWhichTheFunctionThrowsLeavesNoTrace) {
  EXPECT_THAT(range(8, 11).then<ScanOperator>(running_sum()).elements(),
              ElementsAre("x=8 sum=8", "error: user_function: scan 'running_sum': nine", "x=10 sum=18"));
}

TEST(ScanTest, TheFunctionDoesNotSeeErrors) {
  const Chain input = Chain::source<FaultyRange>(5, std::vector<int64_t>{1}, std::vector<int64_t>{2});
  EXPECT_THAT(input.then<ScanOperator>(running_sum()).elements(),
              ElementsAre("x=0 sum=0", HasSubstr("at 1"), HasSubstr("note at 2"), "x=3 sum=3", "x=4 sum=7"));
}

TEST(ScanTest, CarriesRealsToo) {
  ScanFunction mean;
  mean.name = "running_mean";
  mean.writes = {{.name = "mean", .dtype = DType::kFloat32, .shape = {}}};
  mean.initial.integers = {0};
  mean.initial.reals = {0};
  mean.keep_others = false;
  mean.function = [](ScanNumbers& carried, const RowView& row, RowWriter& out) {
    carried.reals[0] += static_cast<double>(row.value<int64_t>("x"));
    out.set("mean", static_cast<float>(carried.reals[0] / static_cast<double>(++carried.integers[0])));
  };
  EXPECT_THAT(range(1, 4).then<ScanOperator>(mean).elements(), ElementsAre("mean=1", "mean=1.5", "mean=2"));
}

TEST(ScanTest, ToCarryAnotherNumberOfNumbersIsAnError) {
  ScanFunction grows = running_sum();
  grows.function = [](ScanNumbers& carried, const RowView&, RowWriter& out) {
    carried.integers.push_back(1);
    out.set("sum", int64_t{0});
  };
  EXPECT_THAT(range(1, 3).then<ScanOperator>(grows).elements(),
              ElementsAre(HasSubstr("carries another number of numbers"), HasSubstr("another number")));
}

TEST(ScanTest, WhatItBeginsWithIsPartOfTheDataset) {
  ScanFunction later = running_sum();
  later.initial.integers = {-7};
  later.initial.reals = {0.1};
  EXPECT_EQ(text_of_argument(later, /*all=*/true), R"("running_sum" from [-7] [0.1])");
  EXPECT_THROW(ScanOperator(range(0, 1).schema(), ScanFunction{}), ErrorException);
}

}  // namespace
}  // namespace millrace::scan_test
