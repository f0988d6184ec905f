#include "examples/mlm/shard_preparation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/mlm/mlm_shards.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/parser.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/local.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/support/shard_driver.h"

namespace millrace::shard_preparation_test {
namespace {

namespace fs = std::filesystem;
using test::files_below;
using test::letter_encoder;
using test::numbered_rows;
using test::source_of;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Ids = std::vector<int64_t>;

// The rule as its description says it, step by step, with nothing else in it.
struct PlainReference {
  std::map<std::string, std::vector<Ids>> records;  // by split
  std::map<std::string, int64_t> dropped;
  std::map<std::string, int64_t> rows;

  PlainReference(const std::vector<std::string>& text, size_t rows_per_group, size_t max_length) {
    const size_t num_groups = (text.size() + rows_per_group - 1) / rows_per_group;
    for (size_t group = 0; group < num_groups; ++group) {
      const bool only_hope = num_groups < 20 && num_groups > 1 && group == num_groups - 1;
      const std::string split = group % 20 == 19 || only_hope ? "validation" : "train";
      Ids ids;
      for (size_t row = group * rows_per_group; row < std::min(text.size(), (group + 1) * rows_per_group); ++row) {
        ids.push_back(0);
        for (const char letter : text[row]) ids.push_back(5 + (letter - 'a'));
        ids.push_back(1);
        ++rows[split];
      }
      const size_t whole = ids.size() / max_length;
      for (size_t i = 0; i < whole; ++i) {
        records[split].emplace_back(ids.begin() + static_cast<int64_t>(i * max_length),
                                    ids.begin() + static_cast<int64_t>((i + 1) * max_length));
      }
      dropped[split] += static_cast<int64_t>(ids.size() - whole * max_length);
    }
  }
};

// What our reader finds in the shards of a split, in the order of their numbers.
std::vector<Ids> read_split(const std::string& folder, const std::string& split, size_t length) {
  std::vector<Ids> records;
  const Shape shape = {static_cast<int64_t>(length)};
  const ExampleParser parser(
      {fixed_len("input_ids", shape, DType::kInt64), fixed_len("attention_mask", shape, DType::kInt64)});
  BufferPool pool;
  InlineExecutor executor;
  LocalStorage storage(executor);
  for (int i = 0;; ++i) {
    const std::vector<std::string> matches = glob_local(fmt::format("{}/{}/dataset-{}-*.tfrecord", folder, split, i));
    if (matches.empty()) return records;
    EXPECT_EQ(matches.size(), 1U);
    const Shards shard = Shards::files(matches).counts_from("dataset-{index}-{count}.tfrecord");
    // The reader itself checks the number in the name, and both CRCs of each record.
    const test::ReadShard read = test::read_shard(storage, pool, matches[0], {.num_records = shard.count(0)}, true);
    EXPECT_THAT(read.faults, IsEmpty()) << matches[0];
    for (const test::ReadRecord& record : read.records) {
      Ids ids(length);
      Ids mask(length);
      const std::array<std::byte*, 2> destinations = {reinterpret_cast<std::byte*>(ids.data()),
                                                      reinterpret_cast<std::byte*>(mask.data())};
      const std::optional<Error> error = parser.parse(record.payload, pool, destinations);
      EXPECT_FALSE(error) << error->to_string();
      EXPECT_EQ(mask, Ids(length, 1));
      records.push_back(ids);
    }
  }
}

ShardStatistics prepare(const std::vector<std::string>& rows, const std::string& folder,
                        const ShardPreparationOptions& options) {
  const std::optional<ShardStatistics> statistics = prepare_shards(source_of(rows), letter_encoder(), folder, options);
  EXPECT_TRUE(statistics);
  return *statistics;
}

TEST(ShardPreparation, RecordsAreThoseOfAPlainReference) {
  for (const int num_rows : {21, 137, 210}) {
    for (const int max_length : {7, 50}) {
      SCOPED_TRACE(fmt::format("{} rows, length {}", num_rows, max_length));
      const std::vector<std::string> rows = numbered_rows(num_rows);
      const TemporaryFolder folder;
      const ShardStatistics statistics =
          prepare(rows, folder.path("shards"),
                  {.max_length = max_length, .groups = {.rows_per_group = 10}, .records_per_shard = 97, .threads = 2});
      PlainReference expected(rows, 10, static_cast<size_t>(max_length));
      for (const Split split : kTrainAndValidation) {
        const std::string name(to_string(split));
        EXPECT_EQ(read_split(folder.path("shards"), name, static_cast<size_t>(max_length)), expected.records[name])
            << name;
        EXPECT_EQ(statistics.of(split).records, static_cast<int64_t>(expected.records[name].size()));
        EXPECT_EQ(statistics.of(split).dropped_tokens, expected.dropped[name]);
        EXPECT_EQ(statistics.of(split).rows, expected.rows[name]);
      }
    }
  }
}

TEST(ShardPreparation, FilesHaveTheirNamesAndCounts) {
  const TemporaryFolder folder;
  prepare(numbered_rows(210), folder.path(),
          {.max_length = 80, .groups = {.rows_per_group = 10}, .records_per_shard = 20, .threads = 1});
  const PlainReference expected(numbered_rows(210), 10, 80);
  const size_t num_train = expected.records.at("train").size();
  const size_t num_validation = expected.records.at("validation").size();
  ASSERT_EQ(num_train / 20, 2U);
  ASSERT_LT(num_validation, 20U);
  std::vector<std::string> names;
  const auto files = files_below(folder.path());
  for (const auto& [name, bytes] : files) names.push_back(name);
  EXPECT_THAT(names, UnorderedElementsAre("train/dataset-0-20.tfrecord", "train/dataset-1-20.tfrecord",
                                          fmt::format("train/dataset-2-{}.tfrecord", num_train - 40),
                                          fmt::format("validation/dataset-0-{}.tfrecord", num_validation),
                                          "split-train-records-count.txt", "split-validation-records-count.txt",
                                          "statistics.json"));
  EXPECT_EQ(files.at("split-train-records-count.txt"), fmt::format("Total train records: {}\n", num_train));
  EXPECT_EQ(files.at("split-validation-records-count.txt"),
            fmt::format("Total validation records: {}\n", num_validation));
}

TEST(ShardPreparation, ZstdShardsReplacePlainOnesAndAreFoundByTheTrainer) {
  const TemporaryFolder folder;
  const ShardPreparationOptions options{
      .max_length = 80, .groups = {.rows_per_group = 10}, .records_per_shard = 20, .threads = 1};
  prepare(numbered_rows(210), folder.path(), options);
  const MlmShards plain = MlmShards::find(folder.path());
  ShardPreparationOptions zstd = options;
  zstd.compression = Compression::kZstd;
  prepare(numbered_rows(210), folder.path(), zstd);
  const auto files = files_below(folder.path());
  EXPECT_TRUE(files.contains("train/dataset-1-20.tfrecord.zst"));
  EXPECT_FALSE(files.contains("train/dataset-1-20.tfrecord"));
  EXPECT_EQ(guess_compression(files.at("train/dataset-1-20.tfrecord.zst")).compression, Compression::kZstd);
  const MlmShards found = MlmShards::find(folder.path());
  EXPECT_EQ(found.train.size(), plain.train.size());
  EXPECT_EQ(found.train.num_records(), plain.train.num_records());
  EXPECT_EQ(found.validation->num_records(), plain.validation->num_records());
  prepare(numbered_rows(210), folder.path(), options);
  EXPECT_EQ(MlmShards::find(folder.path()).train, plain.train);
}

TEST(ShardPreparation, FullLastShardIsNotFollowedByAnEmptyOne) {
  const TemporaryFolder folder;
  // Rows of 2 + 8 tokens: a group of 4 rows is 4 records of 10.
  const std::vector<std::string> rows(8, "abcdefgh");
  prepare(rows, folder.path(), {.max_length = 10, .groups = {.rows_per_group = 4}, .records_per_shard = 4});
  EXPECT_EQ(files_below(folder.path()).count("train/dataset-0-4.tfrecord"), 1U);
  EXPECT_EQ(files_below(folder.path()).count("validation/dataset-0-4.tfrecord"), 1U);
  EXPECT_EQ(files_below(folder.path()).size(), 5U);
}

TEST(ShardPreparation, BytesAreTheSameForAnyNumberOfThreads) {
  const std::vector<std::string> rows = numbered_rows(4000);
  std::map<std::string, std::string> expected;
  for (const int threads : {1, 2, 4, 8}) {
    const WorkerLimit limit(threads);
    const TemporaryFolder folder;
    std::mutex mutex;
    std::condition_variable all_came;
    std::set<std::thread::id> seen;
    RowEncoder encoder = letter_encoder();
    encoder.encode = [&, plain = encoder.encode](std::string_view row, std::vector<int32_t>& ids) {
      {
        // The first group of each thread waits until every thread has one.
        std::unique_lock lock(mutex);
        if (seen.insert(std::this_thread::get_id()).second) all_came.notify_all();
        all_came.wait_for(lock, std::chrono::minutes(1), [&] { return seen.size() >= static_cast<size_t>(threads); });
      }
      // Groups take unlike times, so that they end in another order than they began.
      if (row.size() == 7) std::this_thread::sleep_for(std::chrono::microseconds(100));
      plain(row, ids);
    };
    prepare_shards(source_of(rows), encoder, folder.path(),
                   {.max_length = 32, .groups = {.rows_per_group = 20}, .records_per_shard = 100, .threads = threads});
    EXPECT_GE(seen.size(), static_cast<size_t>(threads));  // a thread may go and another come in its place
    if (threads == 1) expected = files_below(folder.path());
    EXPECT_EQ(files_below(folder.path()), expected) << threads << " threads";
  }
  EXPECT_GT(expected.size(), 20U);
}

TEST(ShardPreparation, StatisticsAreThoseOfAPlainComputation) {
  const TemporaryFolder folder;
  const ShardStatistics statistics =
      prepare(numbered_rows(500), folder.path(), {.max_length = 30, .groups = {.rows_per_group = 10}});
  std::map<std::string, std::map<int64_t, double>> counts;
  std::map<std::string, int64_t> tokens;
  for (const std::string split : {"train", "validation"}) {
    for (const Ids& ids : read_split(folder.path(), split, 30)) {
      for (const int64_t id : ids) {
        ++tokens[split];
        if (id > 4) ++counts[split][id];
      }
    }
  }
  // 27 ordinary tokens: 26 letters and one that never occurs, which counts as if it did once.
  double train_total = 0;
  for (int64_t id = 5; id < 32; ++id) train_total += std::max(1.0, counts["train"][id]);
  double nats = 0;
  double num_validation = 0;
  for (const auto& [id, count] : counts["validation"]) {
    nats -= count * std::log(counts["train"][id] / train_total);
    num_validation += count;
  }
  ASSERT_TRUE(statistics.unigram_entropy);
  EXPECT_NEAR(*statistics.unigram_entropy, nats / num_validation, 1e-12);
  EXPECT_EQ(statistics.unseen_tokens, 0);
  EXPECT_EQ(statistics.validation.ordinary_tokens, static_cast<int64_t>(num_validation));
  EXPECT_EQ(statistics.train.ordinary_tokens, static_cast<int64_t>(train_total) - 1);
  EXPECT_EQ(statistics.train.tokens, tokens["train"]);
  EXPECT_EQ(statistics.validation.tokens, tokens["validation"]);
  EXPECT_EQ(statistics.vocabulary_size, 32);
  EXPECT_EQ(statistics.max_length, 30);
  EXPECT_EQ(find_shard_statistics(folder.path()), statistics);
}

TEST(ShardPreparation, TokensThatOnlyValidationHasAreCounted) {
  const TemporaryFolder folder;
  const std::vector<std::string> rows = {"aaaa", "abbb", "azzb"};
  const ShardStatistics statistics =
      prepare(rows, folder.path(), {.max_length = 6, .groups = {.rows_per_group = 2, .validation_every = 2}});
  EXPECT_EQ(statistics.unseen_tokens, 2);
  EXPECT_NEAR(statistics.unigram_entropy.value(),
              std::log(33.0) - (std::log(5.0) + std::log(3.0) + 2 * std::log(1.0)) / 4, 1e-12);
}

TEST(ShardPreparation, TextWithoutValidationHasNoEntropy) {
  const TemporaryFolder folder;
  const ShardStatistics statistics = prepare({"abcdef"}, folder.path(), {.max_length = 4});
  EXPECT_EQ(statistics.unigram_entropy, std::nullopt);
  EXPECT_THAT(files_below(folder.path()).at("statistics.json"), HasSubstr("\"unigram_entropy\": null"));
  EXPECT_EQ(files_below(folder.path()).at("split-validation-records-count.txt"), "Total validation records: 0\n");
  EXPECT_TRUE(fs::is_directory(folder.path("validation")));
  EXPECT_EQ(find_shard_statistics(folder.path()), statistics);
}

TEST(ShardPreparation, ProgressComesAfterEachGroupAndEndsAtTheSum) {
  const TemporaryFolder folder;
  std::vector<PreparationProgress> reports;
  const ShardStatistics statistics =
      prepare(numbered_rows(95), folder.path(),
              {.max_length = 16,
               .groups = {.rows_per_group = 10},
               .threads = 4,
               .on_progress = [&reports](const PreparationProgress& progress) { reports.push_back(progress); }});
  ASSERT_EQ(reports.size(), 10U);
  EXPECT_EQ(reports[3].rows, 40);
  EXPECT_EQ(reports.back().rows, 95);
  EXPECT_EQ(reports.back().records, statistics.train.records + statistics.validation.records);
  EXPECT_EQ(reports.back().tokens, statistics.train.tokens + statistics.validation.tokens);
}

TEST(ShardPreparation, StoppingLeavesTheFolderAsItWas) {
  const TemporaryFolder folder;
  prepare(numbered_rows(100), folder.path("out"), {.max_length = 16, .groups = {.rows_per_group = 10}});
  const auto before = files_below(folder.path());
  int groups = 0;
  ShardPreparationOptions options = {.max_length = 8, .groups = {.rows_per_group = 10}};
  options.stop_requested = [&groups] { return ++groups > 5; };
  EXPECT_EQ(prepare_shards(source_of(numbered_rows(100)), letter_encoder(), folder.path("out"), options), std::nullopt);
  EXPECT_EQ(files_below(folder.path()), before);
  groups = 0;
  EXPECT_EQ(prepare_shards(source_of(numbered_rows(100)), letter_encoder(), folder.path("new"), options), std::nullopt);
  EXPECT_FALSE(fs::exists(folder.path("new")));
}

TEST(ShardPreparation, ErrorsOfTheSourceAndTheEncoderComeOutAndLeaveTheFolderAsItWas) {
  const TemporaryFolder folder;
  prepare(numbered_rows(100), folder.path(), {.max_length = 16, .groups = {.rows_per_group = 10}});
  const auto before = files_below(folder.path());
  const ShardPreparationOptions options = {.max_length = 8, .groups = {.rows_per_group = 10}, .threads = 4};
  int row = 0;
  const RowSource failing = [&row]() -> std::optional<std::string_view> {
    if (++row == 55) throw ErrorException({.code = ErrorCode::kParse, .message = "not UTF-8", .shard = "a.txt"});
    return "text";
  };
  EXPECT_THROW(prepare_shards(failing, letter_encoder(), folder.path(), options), ErrorException);
  EXPECT_EQ(row, 55);
  EXPECT_EQ(files_below(folder.path()), before);
  RowEncoder wrong = letter_encoder();
  wrong.vocabulary_size = 20;
  try {
    prepare_shards(source_of(numbered_rows(100)), wrong, folder.path(), options);
    FAIL() << "no error";
  } catch (const ErrorException& e) {
    EXPECT_THAT(e.what(), HasSubstr("of a vocabulary of 20"));
  }
  EXPECT_EQ(files_below(folder.path()), before);
}

TEST(ShardPreparation, TextThatGivesNoRecordIsRefused) {
  const TemporaryFolder folder;
  const auto message_of = [&](const std::vector<std::string>& rows) -> std::string {
    try {
      prepare_shards(source_of(rows), letter_encoder(), folder.path("out"), {});
      return "no error";
    } catch (const ErrorException& e) {
      EXPECT_EQ(e.error().code, ErrorCode::kInvalidArgument);
      return e.what();
    }
  };
  EXPECT_THAT(message_of({}), HasSubstr("the text has no line"));
  EXPECT_THAT(message_of({"abc", "def"}), HasSubstr("its 2 lines have 10 tokens"));
  EXPECT_FALSE(fs::exists(folder.path("out")));
}

}  // namespace
}  // namespace millrace::shard_preparation_test
