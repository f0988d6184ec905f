#include "millrace/trainer/run/row_groups.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/examples/mlm/preparation_text.h"

namespace millrace::row_groups_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// `t` for each training group and `v` for each of validation.
std::string splits_of(int num_rows, GroupOptions options) {
  const std::vector<std::string> rows = test::numbered_rows(num_rows);
  RowGroups groups(test::source_of(rows), options);
  std::string splits;
  size_t row = 0;
  for (RowGroup group; groups.next(group);) {
    EXPECT_EQ(group.index, static_cast<int64_t>(splits.size()));
    splits += group.split == Split::kTrain ? 't' : 'v';
    for (size_t i = 0; i < group.size(); ++i) EXPECT_EQ(group.row(i), rows.at(row++));
    EXPECT_TRUE(row == rows.size() || static_cast<int64_t>(group.size()) == options.rows_per_group);
  }
  EXPECT_EQ(row, rows.size());
  return splits;
}

TEST(RowGroups, EveryTwentiethGroupIsValidation) {
  EXPECT_EQ(splits_of(20000, {}), "tttttttttttttttttttv");
  EXPECT_EQ(splits_of(42 * 10, {.rows_per_group = 10}), "tttttttttttttttttttvtttttttttttttttttttvtt");
}

TEST(RowGroups, LastGroupHoldsTheRowsThatAreLeft) {
  const std::vector<std::string> rows = {"a", "", "ccc", "dd", "e"};
  RowGroups groups(test::source_of(rows), {.rows_per_group = 3, .validation_every = 2});
  RowGroup group;
  ASSERT_TRUE(groups.next(group));
  EXPECT_EQ(group.text, "accc");
  EXPECT_THAT(group.ends, ElementsAre(1, 1, 4));
  ASSERT_TRUE(groups.next(group));
  EXPECT_EQ(group.text, "dde");
  EXPECT_THAT(group.ends, ElementsAre(2, 3));
  EXPECT_FALSE(groups.next(group));
  EXPECT_FALSE(groups.next(group));
}

TEST(RowGroups, ShortTextGivesItsLastGroupToValidation) {
  EXPECT_EQ(splits_of(0, {}), "");
  EXPECT_EQ(splits_of(1, {}), "t");
  EXPECT_EQ(splits_of(1000, {}), "t");
  EXPECT_EQ(splits_of(1001, {}), "tv");
  EXPECT_EQ(splits_of(3000, {}), "ttv");
  EXPECT_EQ(splits_of(18500, {}), "ttttttttttttttttttv");
  // With 20 groups and more the rule alone counts.
  EXPECT_EQ(splits_of(21000, {}), "tttttttttttttttttttvt");
}

TEST(RowGroups, NothingLeftToTrainOnIsRefused) {
  EXPECT_THROW(RowGroups({}, {.validation_every = 1}), ErrorException);
  EXPECT_THROW(RowGroups({}, {.rows_per_group = 0}), ErrorException);
}

TEST(CutIntoRecords, DropsWhatDoesNotFillARecord) {
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7};
  const auto records = cut_into_records(ids, 3);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(records[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(records[1], ElementsAre(4, 5, 6));
  EXPECT_EQ(cut_into_records(ids, 7).size(), 1U);
  EXPECT_THAT(cut_into_records(ids, 8), IsEmpty());
}

}  // namespace
}  // namespace millrace::row_groups_test
