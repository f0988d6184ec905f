#include <atomic>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/tfrecord/writer.h"
#include "millrace/ops/operator.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/pipeline.h"
#include "tests/support/temporary_folder.h"

namespace millrace::stored_rows_test {
namespace {

// How often stages were opened with somewhere to put their rows, and without.
struct Opened {
  std::atomic<int> with_store = 0;
  std::atomic<int> without = 0;
};

/// What its input gives, as its input gives it.
class Probe final : public StageOperator {
 public:
  Probe(SchemaPtr schema, std::shared_ptr<Opened> opened)
      : StageOperator(std::move(schema)), opened_(std::move(opened)) {}
  std::string_view name() const override { return "probe"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  OperatorTraits traits() const override { return {.forwards_row_views = true, .checkpoint_blocker = ""}; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override {
    ++(context.row_store != nullptr ? opened_->with_store : opened_->without);
    return inputs[0](context);
  }

 private:
  const std::shared_ptr<Opened> opened_;
};

// Shards whose records go straight to the memory of a shuffle, where one asks for that.
class StoredRowsTest : public ::testing::Test {
 protected:
  StoredRowsTest() {
    for (int shard = 0; shard < 4; ++shard) {
      RecordWriter writer(folder_.path(fmt::format("{}.tfrecord", shard)));
      for (int i = 0; i < 400; ++i) writer.write(fmt::format("{}:{}{}", shard, i, std::string(i % 70, '.')));
      writer.close();
    }
  }
  Dataset records() const {
    const Dataset source = Dataset::tfrecord(Shards::glob(folder_.path("*.tfrecord")));
    return Dataset::from_operator({source}, [opened = opened_](std::span<const SchemaPtr> inputs) {
      return std::make_shared<Probe>(inputs[0], opened);
    });
  }

  static std::vector<std::string> rows(const Dataset& dataset) {
    std::vector<std::string> all;
    Pipeline pipeline = dataset.start({.threads = 2});
    while (const std::optional<Batch> element = pipeline.next()) {
      all.emplace_back(element->values<std::string_view>(dataset.schema().features()[0].name)[0]);
    }
    return all;
  }
  // After a map the shuffle copies.
  static Dataset copied(const Dataset& dataset) {
    return dataset.map(RowFunction{.name = "same", .writes = {}, .function = [](const RowView&, RowWriter&) {}});
  }
  // The order of a shuffle is that of its positions, whoever copies.
  void expect_same_rows(const Dataset& dataset, size_t count, bool stored) {
    EXPECT_EQ(rows(dataset).size(), count);
    for (const int64_t buffer_size : {1, 100, 5000}) {
      const std::vector<std::string> expected = rows(copied(dataset).shuffle(buffer_size));
      opened_->with_store = opened_->without = 0;
      EXPECT_EQ(rows(dataset.shuffle(buffer_size)), expected) << buffer_size;
      EXPECT_EQ(opened_->with_store > 0, stored);
      EXPECT_EQ(opened_->without > 0, !stored);
    }
  }
  static Dataset nested(const Dataset& dataset) { return Dataset::range(0, 2).flat_map(function(dataset)); }
  static DatasetFunction function(const Dataset& dataset) {
    return {
        .name = "nested", .gives = dataset.schema().features(), .make = [dataset](const RowView&) { return dataset; }};
  }

  test::TemporaryFolder folder_;
  const std::shared_ptr<Opened> opened_ = std::make_shared<Opened>();
};

TEST_F(StoredRowsTest, ArriveThroughWhatHandsThemOn) {
  expect_same_rows(records(), 1600, true);
  expect_same_rows(records().skip(1000).repeat(3), 1800, true);
  expect_same_rows(records().shard(53, 17).repeat(2), 60, true);
  expect_same_rows(records().prefetch(2).take(900).assert_cardinality(900), 900, true);
  expect_same_rows(records().unique("record"), 1600, true);
  expect_same_rows(
      records().take_while(
          {.name = "first",
           .keep = [](const RowView& row) { return row.value<std::string_view>("record") != "3:7......."; }}),
      31, true);
  expect_same_rows(records().damage_budget({.action = DamagePolicy::kSkip, .max_records = 7}), 1600, true);
}

TEST_F(StoredRowsTest, ArriveThroughMapsThatLeaveRowsOut) {
  expect_same_rows(records().ignore_errors(), 1600, true);
  expect_same_rows(
      records()
          .filter(RowPredicate{
              .name = "short",
              .keep = [](const RowView& row) { return row.value<std::string_view>("record").size() % 3 == 0; }})
          .ignore_errors(),
      532, true);
  // One that makes other rows among them.
  expect_same_rows(copied(records().ignore_errors()).ignore_errors(), 1600, false);
}

TEST_F(StoredRowsTest, ArriveFromInputsSideBySideAndOneAfterTheOther) {
  expect_same_rows(Dataset::concatenate({records().take(700), records()}), 2300, true);
  expect_same_rows(Dataset::flat_map({records(), records().prefetch(1)}), 3200, true);
  expect_same_rows(Dataset::interleave({records(), records().skip(10)}), 3190, true);
  expect_same_rows(Dataset::sample_from_datasets({records(), records().skip(100)}, {.weights = {0.9, 0.1}}), 3100,
                   true);
  expect_same_rows(Dataset::choose_from_datasets({records(), records()}, Dataset::range(0, 2).repeat(500)), 1000, true);
}

// As datasets of files are written elsewhere.
TEST_F(StoredRowsTest, ArriveFromDatasetsThatAFunctionMakes) {
  expect_same_rows(nested(records()), 3200, true);
  expect_same_rows(Dataset::range(0, 3).interleave(function(records().take(500)), {.cycle_length = 2}), 1500, true);
}

// Some rows of a block are in the store, others are not.
TEST_F(StoredRowsTest, MixWithRowsThatAreCopied) {
  const Dataset mixed = Dataset::interleave({records(), copied(records()), records().shard(3, 1)});
  const std::vector<std::string> expected = rows(copied(mixed).shuffle(100));
  EXPECT_EQ(expected.size(), 3733U);
  EXPECT_EQ(rows(mixed.shuffle(100)), expected);
}

// A row that is there several times leaves several times, and the first time it is given back.
TEST_F(StoredRowsTest, AreNotHandedOnByWhatGivesARowSeveralTimes) {
  const Dataset repeated = records().window(8, {.shift = 1}).unbatch();
  const size_t count = rows(repeated).size();
  EXPECT_GT(count, 12'000U);
  expect_same_rows(repeated, count, false);
  for (const int64_t buffer_size : {1, 100, 5000}) {
    EXPECT_EQ(rows(nested(repeated.shuffle(buffer_size))), rows(nested(copied(repeated).shuffle(buffer_size))));
  }
  expect_same_rows(records().cache().repeat(2), 3200, false);
}

}  // namespace
}  // namespace millrace::stored_rows_test
