#include <filesystem>
#include <functional>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::error_place_test {
namespace {

namespace fs = std::filesystem;

constexpr int kShards = 5;
constexpr int kRecordsPerShard = 400;
constexpr int kBadShard = 3;
constexpr int kBadRecord = 137;
constexpr int64_t kLength = 6;

/// Shards of good records but for one in the middle of one shard: errors must say which, wherever they are found.
class ErrorPlace : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  // A record whose ids are all `value`.
  static std::string good_record(int64_t value, int64_t length = kLength) {
    ExampleWriter example;
    const std::vector<int64_t> ids(static_cast<size_t>(length), value);
    const std::vector<float> weights(3, 0.5F);
    example.add("ids", std::span<const int64_t>(ids));
    example.add("weights", std::span<const float>(weights));
    return std::string(example.finish());
  }

  void write_shards(const std::string& bad_record, Compression compression = Compression::kNone) {
    fs::create_directories(folder_);
    for (int s = 0; s < kShards; ++s) {
      RecordWriter writer(path(s), {.compression = compression});
      int64_t offset = 0;
      for (int r = 0; r < kRecordsPerShard; ++r) {
        const bool bad = s == kBadShard && r == kBadRecord;
        const std::string record = bad ? bad_record : good_record(1000 * s + r);
        if (bad) bad_offset_ = offset;
        writer.write(record);
        offset += static_cast<int64_t>(record.size()) + 16;
      }
      writer.close();
    }
  }

  std::string path(int shard) const { return (folder_ / fmt::format("part-{}.tfrecord", shard)).string(); }
  std::string bad_place(const std::string& stage = "") const {
    return fmt::format("(shard {}, offset {}, record {}{})", path(kBadShard), bad_offset_, kBadRecord,
                       stage.empty() ? "" : ", stage " + stage);
  }

  Dataset records() const {
    return Dataset::tfrecord(Shards::glob((folder_ / "*.tfrecord").string()), {.cycle_length = 3});
  }
  Dataset parsed() const {
    return records().parse_example(
        {fixed_len("ids", {kLength}, DType::kInt64), fixed_len("weights", {3}, DType::kFloat32)});
  }

  // The message of the one error, and how many elements came before it.
  static std::pair<std::string, int> first_error(const Dataset& dataset, const StartOptions& options) {
    const WorkerLimit limit(options.threads);
    Pipeline pipeline = dataset.start(options);
    int elements = 0;
    std::string message;
    try {
      while (pipeline.next()) ++elements;
    } catch (const PipelineError& e) {
      message = e.what();
    }
    EXPECT_FALSE(pipeline.next().has_value()) << "something after the error";
    return {message, elements};
  }

  // The same line, after the same elements, for any number of threads, with and without rewrites.
  static void expect_error(const Dataset& dataset, const std::string& expected) {
    const int before = first_error(dataset, {.threads = 1}).second;
    for (const int threads : {1, 2, 4, 8}) {
      for (const bool defer_parse : {true, false}) {
        StartOptions options{.threads = threads};
        if (!defer_parse) options.disabled_rewrites = {"defer_parse"};
        const auto [message, elements] = first_error(dataset, options);
        EXPECT_EQ(message, expected) << threads << " threads, defer_parse " << defer_parse;
        EXPECT_EQ(elements, before) << threads << " threads, defer_parse " << defer_parse;
        EXPECT_EQ(message.find('\n'), std::string::npos);
      }
    }
  }

  void expect_error_after_every_stage(const std::string& what) {
    expect_error(parsed(), what + " " + bad_place("parse_example"));
    expect_error(parsed().batch(7), what + " " + bad_place("parse_example"));
    expect_error(parsed().shuffle(500, {.seed = 3}).batch(7), what + " " + bad_place("parse_example"));
    expect_error(parsed().shard(2, bad_place_in_order() % 2).skip(3).shuffle(50).repeat(2).batch(16).prefetch(2),
                 what + " " + bad_place("parse_example"));
  }

  // The number of the bad record in the interleaved stream.
  int64_t bad_place_in_order() const {
    Pipeline pipeline = records().start({.threads = 1});
    for (int64_t i = 0;; ++i) {
      const auto record = pipeline.next();
      Error error;
      record->block().locate(0, error);
      if (error.shard == path(kBadShard) && error.record == kBadRecord) return i;
    }
  }

  fs::path folder_ =
      fs::temp_directory_path() / fmt::format("millrace_error_place_{}_{}", ::getpid(),
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
  int64_t bad_offset_ = -1;
};

TEST_F(ErrorPlace, OfAMissingFeature) {
  ExampleWriter example;
  const std::vector<float> weights(3, 0.5F);
  example.add("weights", std::span<const float>(weights));
  write_shards(std::string(example.finish()));
  expect_error_after_every_stage("missing_feature: feature 'ids' is not in the record and has no default");
}

TEST_F(ErrorPlace, OfAWrongShape) {
  write_shards(good_record(1, kLength + 1));
  expect_error_after_every_stage("wrong_shape: feature 'ids' has 7 values, shape [6] needs 6");
}

TEST_F(ErrorPlace, OfAWrongType) {
  ExampleWriter example;
  const std::vector<float> ids(kLength, 0.5F);
  const std::vector<float> weights(3, 0.5F);
  example.add("ids", std::span<const float>(ids));
  example.add("weights", std::span<const float>(weights));
  write_shards(std::string(example.finish()));
  expect_error_after_every_stage("parse: feature 'ids' holds float32, expected int64 at byte 13 of the record");
}

TEST_F(ErrorPlace, OfARecordThatIsNoProtobuf) {
  write_shards(good_record(1).substr(0, 20));
  expect_error_after_every_stage("parse: a length of 48 where 18 bytes are left at byte 1 of the record");
}

TEST_F(ErrorPlace, InACompressedShardCountsUncompressedBytes) {
  write_shards(good_record(1, kLength + 1), Compression::kGzip);
  expect_error(parsed().shuffle(500).batch(7),
               "wrong_shape: feature 'ids' has 7 values, shape [6] needs 6 " + bad_place("parse_example"));
}

TEST_F(ErrorPlace, BehindAShuffleOfBatches) {
  write_shards(good_record(1, kLength + 1));
  expect_error(parsed().batch(7).shuffle(40, {.seed = 1}),
               "wrong_shape: feature 'ids' has 7 values, shape [6] needs 6 " + bad_place("parse_example"));
}

TEST_F(ErrorPlace, InABatchOfBatches) {
  write_shards(good_record(1));
  // Every second batch of batches holds one that is short; the rows keep their places.
  const Dataset nested = records().batch(9).batch(2);
  Pipeline pipeline = nested.start({.threads = 2});
  Pipeline flat = records().start({.threads = 1});
  while (const auto batch = pipeline.next()) {
    if (batch->num_rows() != 18) break;
    for (size_t row = 0; row < 18; ++row) {
      Error expected;
      flat.next()->block().locate(0, expected);
      Error found;
      batch->block().locate(0, row, found);
      ASSERT_EQ(found.to_string(), expected.to_string());
      ASSERT_NE(found.shard, "");
    }
  }
}

TEST_F(ErrorPlace, OfAFunctionThatThrowsNamesTheFunctionToo) {
  write_shards(good_record(-5));
  const Dataset mapped = parsed().map(RowFunction{
      .name = "square root",
      .writes = {{.name = "root", .dtype = DType::kInt64, .shape = {}}},
      .function =
          [](const RowView& row, RowWriter& out) {
            if (row.values<int64_t>("ids")[0] < 0) throw std::domain_error("negative");
            out.set("root", int64_t{1});
          },
  });
  const std::string what = "user_function: map 'square root': negative " + bad_place();
  expect_error(mapped, what);
  expect_error(mapped.shuffle(300).batch(5), what);
  expect_error(parsed().shuffle(300).map(RowFunction{.name = "square root",
                                                     .writes = {},
                                                     .function =
                                                         [](const RowView& row, RowWriter&) {
                                                           if (row.values<int64_t>("ids")[0] < 0)
                                                             throw std::domain_error("negative");
                                                         }}),
               what);
  expect_error(parsed().filter(RowPredicate{.name = "positive",
                                            .keep =
                                                [](const RowView& row) {
                                                  if (row.values<int64_t>("ids")[0] < 0)
                                                    throw std::domain_error("negative");
                                                  return true;
                                                }}),
               "user_function: filter 'positive': negative " + bad_place());
}

TEST_F(ErrorPlace, OfAnElementThatABlockFunctionMarks) {
  write_shards(good_record(-5));
  const Dataset marked = parsed().map(BlockFunction{
      .name = "marks",
      .schema = std::make_shared<const Schema>(parsed().schema()),
      .function = [](Block block, BufferPool&) {
        for (size_t i = 0; i < block.num_elements(); ++i) {
          if (block.column("ids").values<int64_t>(i)[0] >= 0) continue;
          block.add_error(i,
                          std::make_shared<const Error>(Error{.code = ErrorCode::kUserFunction, .message = "marked"}));
        }
        return block;
      }});
  expect_error(marked.batch(4), "user_function: marked " + bad_place());
}

TEST_F(ErrorPlace, OfACastBehindABatchIsThatOfTheRow) {
  write_shards(good_record(int64_t{1} << 40));
  const std::string what =
      "out_of_range: cast: feature 'ids' has the value 1099511627776, which int32 cannot hold " + bad_place();
  expect_error(parsed().cast("ids", DType::kInt32), what);
  expect_error(parsed().shuffle(200).batch(13).cast("ids", DType::kInt32), what);
}

TEST_F(ErrorPlace, OfRowsThatDoNotFitInOneBatchIsThatOfTheOddRow) {
  write_shards(good_record(-5));
  const auto lengths = [](const Dataset& dataset) {
    return dataset.map(RowFunction{.name = "cut",
                                   .writes = {{.name = "ids", .dtype = DType::kInt64, .shape = {kVaries}}},
                                   .function = [](const RowView& row, RowWriter& out) {
                                     const auto ids = row.values<int64_t>("ids");
                                     out.set_values("ids", ids[0] < 0 ? ids.first(2) : ids.first(1));
                                   }});
  };
  expect_error(
      lengths(parsed()).batch(10),
      fmt::format("wrong_shape: batch: feature 'ids' has shape [1] in the batch's first row and [2] in row {}; "
                  "all rows of a batch need one shape (padded_batch pads them) {}",
                  bad_place_in_order() % 10, bad_place()));
  PaddedBatchOptions options;
  options.features["ids"].length = PadLength::fixed(1);
  expect_error(
      lengths(parsed()).padded_batch(10, options),
      fmt::format("wrong_shape: padded_batch: feature 'ids' has 2 values in row {} of the batch, more than length 1 {}",
                  bad_place_in_order() % 10, bad_place()));
}

TEST_F(ErrorPlace, RowsFromMemoryHaveNone) {
  const Dataset dataset =
      Dataset::range(0, 10).map(RowFunction{.name = "fails", .writes = {}, .function = [](const RowView&, RowWriter&) {
                                              throw std::runtime_error("always");
                                            }});
  EXPECT_EQ(first_error(dataset, {.threads = 2}).first, "user_function: map 'fails': always");
}

}  // namespace
}  // namespace millrace::error_place_test
