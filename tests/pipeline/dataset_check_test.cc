#include "pipeline/dataset_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/dataset.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// `tokens` of the lengths 1, 2, 3, 1, 2, 3, …, all 7.
Dataset rows(int64_t count) {
  std::vector<std::vector<int64_t>> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.emplace_back(static_cast<size_t>(i % 3 + 1), 7);
  return Dataset::rows({{"tokens", tokens}});
}

TEST(DatasetCheck, SaysWhatThereIs) {
  const CheckReport report = rows(7).padded_batch(2).check();
  EXPECT_EQ(report.cardinality, Cardinality::known(4));
  EXPECT_EQ(report.remainder, "padded_batch keeps it");
  EXPECT_EQ(report.elements, 4);
  EXPECT_EQ(report.rows, 7);
  EXPECT_TRUE(report.whole);
  ASSERT_EQ(report.shapes.size(), 3U);
  EXPECT_EQ(report.shapes[0].shapes, "tokens [2,2]");
  EXPECT_EQ(report.shapes[0].first, 0);
  EXPECT_EQ(report.shapes[1].shapes, "tokens [2,3]");
  EXPECT_EQ(report.shapes[1].elements, 2);
  EXPECT_EQ(report.shapes[1].first, 1);
  EXPECT_EQ(report.shapes[2].shapes, "tokens [1,1]");
  EXPECT_THAT(report.broken, IsEmpty());
  EXPECT_THAT(report.to_string(), HasSubstr("  tokens int64 [?,?], not fixed\ncardinality: 4\n"));
}

TEST(DatasetCheck, ReadsNoMoreThanAskedFor) {
  int64_t told = 0;
  const CheckReport report = rows(4).repeat().check({.elements = 10, .on_element = [&](int64_t n) { told = n; }});
  EXPECT_EQ(report.elements, 10);
  EXPECT_FALSE(report.whole);
  EXPECT_EQ(told, 10);
  EXPECT_EQ(report.remainder, "");
  EXPECT_EQ(rows(2000).check({.elements = 0}).elements, 2000);
  EXPECT_THROW((void)rows(4).repeat().check({.elements = 0}), ErrorException);
}

TEST(DatasetCheck, CountsWhatLooksLikePadding) {
  // [[7,0,0,0],[7,7,0,0],[7,7,7,0]]: the third row has one zero at its end, which is no run.
  const CheckReport report = rows(3).padded_batch(3, {.length = PadLength::fixed(4)}).check();
  ASSERT_EQ(report.padding.size(), 1U);
  EXPECT_EQ(report.padding[0].feature, "tokens");
  EXPECT_EQ(report.padding[0].value, "0");
  EXPECT_EQ(report.padding[0].padded, 5);
  EXPECT_EQ(report.padding[0].values, 12);
}

TEST(DatasetCheck, WhatIsNotAsAskedForIsSaid) {
  const Dataset dataset = rows(6).filter(RowPredicate{"all", [](const RowView&) { return true; }}).padded_batch(1);
  const CheckReport report = dataset.check(
      {.max_distinct_shapes = 2, .max_padding = {{"tokens", 0.5}}, .fixed_shapes = true, .known_cardinality = true});
  EXPECT_THAT(report.broken,
              ElementsAre("the cardinality is unknown", "the shape of 'tokens', [?,?], is not fixed",
                          "3 different shapes, at most 2 are wanted; element 2 brings one too many: tokens [1,3]",
                          "83.3% of 'tokens' are padding, at most 50.0% are wanted"));
  EXPECT_THAT(report.to_string(), HasSubstr("NOT AS ASKED FOR: the cardinality is unknown\n"));
  EXPECT_THAT(rows(6)
                  .padded_batch(2, {.drop_remainder = true, .length = PadLength::fixed(4)})
                  .check({.max_distinct_shapes = 1, .fixed_shapes = true, .known_cardinality = true})
                  .broken,
              IsEmpty());
}

TEST(DatasetCheck, TellsManyShapesApartUpToALimit) {
  std::vector<std::vector<int64_t>> tokens(370);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i].resize(i);
  const Dataset lengths = Dataset::rows({{"a", tokens}});
  const Dataset pairs = lengths.flat_map(DatasetFunction{
      .name = "pairs",
      .gives = {{.name = "a", .dtype = DType::kInt64, .shape = {kVaries}},
                {.name = "b", .dtype = DType::kInt64, .shape = {kVaries}}},
      .make = [=](const RowView& row) {
        const std::vector<std::vector<int64_t>> same(180, std::vector<int64_t>(row.values<int64_t>("a").size()));
        return Dataset::rows(
            {{"a", same}, {"b", std::vector<std::vector<int64_t>>(tokens.begin(), tokens.begin() + 180)}});
      }});
  const CheckReport report = pairs.check({.elements = 0, .max_distinct_shapes = 8});
  EXPECT_EQ(report.elements, 370 * 180);
  EXPECT_EQ(report.shapes.size(), 65536U);
  EXPECT_EQ(report.elements_of_more_shapes, 370 * 180 - 65536);
  ASSERT_EQ(report.broken.size(), 1U);
  EXPECT_THAT(report.broken[0],
              HasSubstr("65536 different shapes, at most 8 are wanted; element 8 brings one too many"));
}

TEST(DatasetCheck, NamesTheNearestBatches) {
  const Dataset batches = rows(9).padded_batch(2, {.length = PadLength::fixed(3)});
  EXPECT_EQ(batches.rebatch(4, {.drop_remainder = true}).check().remainder, "rebatch drops it");
  EXPECT_EQ(rows(9).window(2, {}, PaddedBatchOptions{.drop_remainder = true}).check().remainder, "window drops it");
  EXPECT_EQ(rows(9)
                .bucket_by_sequence_length({"tokens"}, {3}, {2, 2}, {.padding = {.drop_remainder = true}})
                .prefetch(1)
                .check()
                .remainder,
            "bucket_by_sequence_length drops it");
  EXPECT_EQ(batches.unbatch().check().remainder, "");
}

TEST(DatasetCheck, RefusesWhatCannotBe) {
  const Dataset dataset = rows(1);
  EXPECT_THROW((void)dataset.check({.elements = -1}), ErrorException);
  EXPECT_THROW((void)dataset.check({.max_distinct_shapes = 0}), ErrorException);
  EXPECT_THROW((void)dataset.check({.max_padding = {{"tokens", 1.5}}}), ErrorException);
  EXPECT_THROW((void)dataset.check({.max_padding = {{"token", 0.5}}}), ErrorException);
  EXPECT_THROW((void)rows(3).ragged_batch(3).check({.max_padding = {{"tokens", 0.5}}}), ErrorException);
  EXPECT_THAT(Dataset::range(0, 3).batch(2).check({.max_padding = {{"value", 0.5}}}).broken,
              ElementsAre("no padding of 'value' could be counted: it has no rows"));
}

}  // namespace
}  // namespace millrace
