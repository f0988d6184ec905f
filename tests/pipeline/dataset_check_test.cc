#include "millrace/pipeline/dataset_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "millrace/pipeline/dataset.h"

namespace millrace::dataset_check_test {
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

// As tf.data has it, a var_len of a misspelt name is empty, and a model would train on nothing.
TEST(DatasetCheck, NamesFeaturesOfWhichNothingWasThere) {
  ExampleWriter example;
  example.add("words", std::vector<int64_t>{1, 2});
  const std::string record = example.finish();
  const Dataset records = Dataset::rows({{"record", std::vector<std::string>{record, record}}});
  const auto parsed = [&](const std::string& name) {
    return records.parse_example({var_len(name, DType::kInt64), var_len("tags", DType::kBytes)})
        .padded_batch(2)
        .check();
  };
  EXPECT_THAT(parsed("words").without_values, ElementsAre("tags"));
  const CheckReport misspelt = parsed("word");
  EXPECT_THAT(misspelt.without_values, ElementsAre("word", "tags"));
  EXPECT_THAT(misspelt.broken, IsEmpty());
  EXPECT_THAT(misspelt.to_string(),
              HasSubstr("no value of 'word' in any of them: has a record a feature of this name?\n"));
  EXPECT_THAT(rows(3).ragged_batch(2).check().without_values, IsEmpty());
  EXPECT_THAT(Dataset::range(0, 3).take(0).check().without_values, IsEmpty()) << "nothing was read";
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

// Rows of `t` with these lengths, all 1: what the values are does not matter.
Dataset lengths(const std::vector<size_t>& sizes, const std::string& feature = "t") {
  std::vector<std::vector<int64_t>> rows;
  for (const size_t size : sizes) rows.emplace_back(size, 1);
  return Dataset::rows({{feature, rows}});
}

std::vector<std::string> padding_of(const Dataset& dataset, const CheckOptions& options = {}) {
  std::vector<std::string> counts;
  for (const PaddingCount& count : dataset.check(options).padding) {
    counts.push_back(
        fmt::format("{} {}: {} of {} in {}", count.op, count.feature, count.padded, count.values, count.elements));
  }
  return counts;
}

TEST(DatasetCheck, CountsThePaddingThatIsPutIn) {
  // [[1,0],[1,1],[1,0],[1,1]]: one zero at the end of a row is padding too.
  EXPECT_THAT(padding_of(lengths({1, 2, 1, 2}).padded_batch(4)), ElementsAre("padded_batch t: 2 of 8 in 1"));
  EXPECT_THAT(padding_of(lengths({3, 2, 0, 4, 1}).padded_batch(2, {.length = PadLength::multiple_of(4), .value = -1})),
              ElementsAre("padded_batch t: 10 of 20 in 3"));
  // Padding with the value of the rows.
  EXPECT_THAT(padding_of(lengths({1, 2, 3}).padded_batch(3, {.length = PadLength::fixed(4), .value = 1})),
              ElementsAre("padded_batch t: 6 of 12 in 1"));
  EXPECT_THAT(padding_of(lengths({1, 2, 3}).padded_batch(1)), ElementsAre("padded_batch t: 0 of 6 in 3"));
  EXPECT_THAT(padding_of(lengths({4, 4}).batch(2)), IsEmpty());
  EXPECT_THAT(padding_of(Dataset::range(0, 3).padded_batch(2)), IsEmpty()) << "scalars are never padded";
  const CheckReport report = lengths({4, 4}).batch(2).check();
  EXPECT_THAT(report.to_string(), HasSubstr("padding: no operator pads\n"));
  EXPECT_THAT(lengths({1, 2, 1, 2}).padded_batch(4).check().to_string(),
              HasSubstr("padding, where it is put in\n  padded_batch t: 25.0% of 8 values in 1 elements\n"));
}

TEST(DatasetCheck, CountsThePaddingOfEachOperatorThatPads) {
  const Dataset rows = lengths({1, 3, 2, 3, 1, 4});
  const PaddedBatchOptions padded;
  // Below 2: [1],[1]. Below 4: [3,2], [3], padded to 3. From 4: [4].
  EXPECT_THAT(padding_of(rows.bucket_by_sequence_length({"t"}, {2, 4}, {2, 2, 2})),
              ElementsAre("bucket_by_sequence_length t: 1 of 15 in 4"));
  EXPECT_THAT(padding_of(rows.bucket_by_sequence_length({"t"}, {3, 6}, {2, 2, 2}, {.pad_to_bucket_boundary = true})),
              ElementsAre("bucket_by_sequence_length t: 7 of 21 in 4"));
  // [1,3] and [3,1] are odd, [2,4] even.
  const RowKey odd{"odd", [](const RowView& row) { return static_cast<int64_t>(row.values<int64_t>("t").size() % 2); }};
  EXPECT_THAT(padding_of(rows.group_by_window(odd, 2, padded)), ElementsAre("group_by_window t: 6 of 20 in 3"));
  EXPECT_THAT(padding_of(rows.group_by_window(odd, 2, RaggedBatchOptions{})), IsEmpty());
  // [1,3,2] [3,2,3] [2,3,1] [3,1,4] [1,4] [4]: a row counts in each window that has it.
  EXPECT_THAT(padding_of(rows.window(3, {.shift = 1}, padded)), ElementsAre("window t: 14 of 51 in 6"));
  // [4] [3,1] [3,1] [2]: each row begins with what has waited longest.
  EXPECT_THAT(padding_of(rows.pack(4)), ElementsAre("pack t: 2 of 16 in 4"));
  EXPECT_THAT(padding_of(rows.pack(4, {.segment_ids = "s", .positions = "p"})), ElementsAre("pack t: 2 of 16 in 4"));
}

TEST(DatasetCheck, CountsPaddingBeforeOtherOperators) {
  const Dataset batches = lengths({1, 2, 3, 1}).padded_batch(2);  // 1 of 4, 2 of 6
  EXPECT_THAT(padding_of(batches.unbatch()), ElementsAre("padded_batch t: 3 of 10 in 2"));
  EXPECT_THAT(padding_of(batches.take(1)), ElementsAre("padded_batch t: 1 of 4 in 1"));
  EXPECT_THAT(padding_of(batches, {.elements = 1}), ElementsAre("padded_batch t: 1 of 4 in 1"));
  EXPECT_THAT(padding_of(batches.repeat().take(5)), ElementsAre("padded_batch t: 3 of 10 in 2"));
  EXPECT_THAT(padding_of(batches.rename({{"t", "u"}}).prefetch(1)), ElementsAre("padded_batch t: 3 of 10 in 2"));
  EXPECT_THAT(padding_of(Dataset::zip({batches, lengths({1, 1, 1, 2}, "u").padded_batch(2)})),
              ElementsAre("padded_batch t: 3 of 10 in 2", "padded_batch u: 1 of 6 in 2"));
  EXPECT_THAT(padding_of(Dataset::concatenate({batches, batches})), ElementsAre("padded_batch t: 3 of 10 in 2"))
      << "one operator";
  EXPECT_THAT(padding_of(batches.unbatch().padded_batch(4)),
              ElementsAre("padded_batch t: 3 of 10 in 2", "padded_batch t: 2 of 12 in 1"));
}

TEST(DatasetCheck, CountsPaddingOfTextsAndOfHigherRank) {
  // [2,?] of the lengths 1 and 3, each from two rows.
  const Dataset matrices = lengths({1, 1, 3, 3}).padded_batch(2);
  EXPECT_THAT(padding_of(matrices.padded_batch(2)),
              ElementsAre("padded_batch t: 0 of 8 in 2", "padded_batch t: 4 of 12 in 1"));
  const std::vector<std::vector<std::string>> texts = {{"a"}, {"b", ""}, {}};
  EXPECT_THAT(padding_of(Dataset::rows({{"s", texts}}).padded_batch(3)), ElementsAre("padded_batch s: 3 of 6 in 1"));
  // A name that is taken.
  const std::vector<std::vector<int64_t>> rows = {{1}, {1, 2}};
  EXPECT_THAT(padding_of(Dataset::rows({{"t", rows}, {"values of t", rows}}).padded_batch(2)),
              ElementsAre("padded_batch t: 1 of 4 in 1", "padded_batch values of t: 1 of 4 in 1"));
}

TEST(DatasetCheck, CountsThePaddingOfWhatIsNoError) {
  // The second batch is too long.
  const Dataset batches = lengths({1, 2, 5, 1, 2, 2}).padded_batch(2, {.length = PadLength::fixed(2)}).ignore_errors();
  EXPECT_EQ(batches.check().elements, 2);
  EXPECT_THAT(padding_of(batches), ElementsAre("padded_batch t: 1 of 8 in 2"));
}

TEST(DatasetCheck, WhatIsNotAsAskedForIsSaid) {
  // [1,2] [3,1] [2,3] [1]: 4 of 17 values are padding.
  const Dataset dataset = rows(7).filter(RowPredicate{"all", [](const RowView&) { return true; }}).padded_batch(2);
  const CheckReport report = dataset.check(
      {.max_distinct_shapes = 2, .max_padding = {{"tokens", 0.2}}, .fixed_shapes = true, .known_cardinality = true});
  EXPECT_THAT(report.broken,
              ElementsAre("the cardinality is unknown", "the shape of 'tokens', [?,?], is not fixed",
                          "3 different shapes, at most 2 are wanted; element 3 brings one too many: tokens [1,1]",
                          "23.5% of 'tokens' are padding of padded_batch, at most 20.0% are wanted"));
  EXPECT_THAT(dataset.check({.max_padding = {{"tokens", 0.24}}}).broken, IsEmpty());
  EXPECT_THAT(report.to_string(), HasSubstr("NOT AS ASKED FOR: the cardinality is unknown\n"));
  EXPECT_THAT(rows(6)
                  .padded_batch(2, {.drop_remainder = true, .length = PadLength::fixed(4)})
                  .check({.max_distinct_shapes = 1, .fixed_shapes = true, .known_cardinality = true})
                  .broken,
              IsEmpty());
  EXPECT_THAT(rows(0).padded_batch(2).check({.max_padding = {{"tokens", 0.5}}}).broken,
              ElementsAre("no padding of 'tokens' could be counted: padded_batch gave nothing"));
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
  const Dataset kept = Dataset::range(0, 10, 1, "b").batch(4);
  const Dataset dropped = Dataset::range(0, 10, 1, "a").batch(3, {.drop_remainder = true});
  EXPECT_EQ(Dataset::zip({dropped, kept}).check().remainder, "batch drops it, batch keeps it");
  EXPECT_EQ(
      Dataset::zip({kept, dropped}).map(RowFunction{"none", {}, [](const RowView&, RowWriter&) {}}).check().remainder,
      "batch keeps it, batch drops it");
  EXPECT_EQ(Dataset::zip({Dataset::range(0, 10, 1, "c"), dropped}).check().remainder, "batch drops it");
  EXPECT_EQ(Dataset::zip({kept, Dataset::range(0, 10, 1, "a").batch(4)}).unbatch().check().remainder, "");
}

TEST(DatasetCheck, RefusesWhatCannotBe) {
  const Dataset dataset = rows(1);
  EXPECT_THROW((void)dataset.check({.elements = -1}), ErrorException);
  EXPECT_THROW((void)dataset.check({.max_distinct_shapes = 0}), ErrorException);
  EXPECT_THROW((void)dataset.padded_batch(1).check({.max_padding = {{"tokens", 1.5}}}), ErrorException);
  const auto message = [](const Dataset& checked, const std::string& feature) {
    try {
      (void)checked.check({.max_padding = {{feature, 0.5}}});
    } catch (const ErrorException& exception) {
      return exception.error().message;
    }
    return std::string();
  };
  EXPECT_EQ(message(rows(3).ragged_batch(3), "tokens"),
            "check: max_padding of 'tokens', which no operator pads; padded features: none");
  EXPECT_EQ(message(rows(3).enumerate().padded_batch(3), "index"),
            "check: max_padding of 'index', which no operator pads; padded features: tokens");
}

}  // namespace
}  // namespace millrace::dataset_check_test
