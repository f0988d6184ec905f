#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "formats/tfrecord/writer.h"
#include "pipeline/dataset.h"
#include "pipeline/pipeline.h"
#include "tests/support/temporary_folder.h"

namespace millrace::stored_rows_test {
namespace {

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
  Dataset records() const { return Dataset::tfrecord(Shards::glob(folder_.path("*.tfrecord"))); }

  static std::vector<std::string> sorted(const Dataset& dataset) {
    std::vector<std::string> all;
    Pipeline pipeline = dataset.start({.threads = 2});
    while (const std::optional<Batch> element = pipeline.next()) {
      all.emplace_back(element->values<std::string_view>("record")[0]);
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  static void expect_same_rows(const Dataset& dataset, size_t count) {
    const std::vector<std::string> expected = sorted(dataset);
    EXPECT_EQ(expected.size(), count);
    for (const int64_t buffer_size : {1, 100, 5000}) EXPECT_EQ(sorted(dataset.shuffle(buffer_size)), expected);
  }
  static Dataset nested(const Dataset& dataset) {
    return Dataset::range(0, 2).flat_map({.name = "nested",
                                          .gives = dataset.schema().features(),
                                          .make = [dataset](const RowView&) { return dataset; }});
  }

  test::TemporaryFolder folder_;
};

TEST_F(StoredRowsTest, ArriveThroughWhatHandsThemOn) {
  expect_same_rows(records(), 1600);
  expect_same_rows(records().skip(1000).repeat(3), 1800);
  expect_same_rows(records().shard(53, 17).repeat(2), 60);
  expect_same_rows(Dataset::concatenate({records().take(700), records()}), 2300);
  expect_same_rows(Dataset::interleave({records(), records().skip(10)}), 3190);
}

// A row that is there several times leaves several times, and the first time it is given back.
TEST_F(StoredRowsTest, AreNotHandedOnByWhatGivesARowSeveralTimes) {
  const Dataset repeated = records().window(8, {.shift = 1}).unbatch();
  const size_t count = sorted(repeated).size();
  EXPECT_GT(count, 12'000U);
  expect_same_rows(repeated, count);
  const std::vector<std::string> twice = sorted(nested(repeated));
  for (const int64_t buffer_size : {1, 100, 5000}) EXPECT_EQ(sorted(nested(repeated.shuffle(buffer_size))), twice);
  const Dataset cached = records().cache();
  expect_same_rows(cached.repeat(2), 3200);
}

}  // namespace
}  // namespace millrace::stored_rows_test
