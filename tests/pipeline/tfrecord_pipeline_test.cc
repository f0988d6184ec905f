#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/ops/sources/tfrecord.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/gathered_bodies.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/manual_storage.h"

namespace millrace::tfrecord_pipeline_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLength = 24;
constexpr int kShards = 11;
constexpr int kRecordsPerShard = 57;

/// A folder of small shards: record r of shard s holds the ids 1000 s + r, … of kLength positions.
class TfrecordPipeline : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("millrace_pipeline_" + std::to_string(::getpid()) + "_" +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    for (int s = 0; s < kShards; ++s) {
      RecordWriter writer(path(s));
      ExampleWriter example;
      for (int r = 0; r < kRecordsPerShard; ++r) {
        std::vector<int64_t> ids;
        for (int64_t p = 0; p < kLength; ++p) ids.push_back(p == 0 ? 1 : 1000 * s + r + 2);
        std::vector<int64_t> mask(kLength, 1);
        example.add("input_ids", std::span<const int64_t>(ids));
        example.add("attention_mask", std::span<const int64_t>(mask));
        writer.write(example.finish());
      }
      writer.close();
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(int shard) const {
    return (folder_ / ("part-" + std::to_string(100 + shard) + ".tfrecord")).string();
  }

  Dataset records(const TfrecordOptions& options = {.cycle_length = 4}) const {
    return Dataset::tfrecord(Shards::glob((folder_ / "*.tfrecord").string()), options);
  }

  static Dataset parse(const Dataset& records) {
    return records.parse_example({fixed_len("input_ids", {kLength}, DType::kInt64).as(DType::kInt32),
                                  fixed_len("attention_mask", {kLength}, DType::kInt64)});
  }

  Dataset masked_language_model() const {
    return parse(records({.cycle_length = 4, .shuffle_shards = true, .seed = 5}))
        .shuffle(100, {.seed = 5})
        .repeat(3)
        .batch(16, {.drop_remainder = true})
        .mask_tokens({.vocab_size = 20000, .mask_token = 4, .special_tokens = {0, 1}, .seed = 5})
        .prefetch(2);
  }

  static std::string hash_of(const Dataset& dataset, const StartOptions& options) {
    const WorkerLimit limit(options.threads);
    Pipeline pipeline = dataset.start(options);
    StreamHash hash;
    while (std::optional<Batch> batch = pipeline.next()) hash.add(*batch);
    return hash.hex();
  }

  fs::path folder_;
};

TEST_F(TfrecordPipeline, GivesOneStreamForAnyNumberOfThreadsThatReallyRan) {
  // Enough blocks of batches for every thread to hold one.
  const Dataset batches = masked_language_model().repeat(40);
  const auto hash_with = [&](int threads) {
    const WorkerLimit limit(threads);
    test::Gathering gathering(threads);
    Pipeline pipeline = test::with_gathered_bodies(batches, gathering).start({.threads = threads});
    StreamHash hash;
    while (const std::optional<Batch> batch = pipeline.next()) hash.add(*batch);
    EXPECT_GE(gathering.most(), threads);
    EXPECT_GE(pipeline.stats().distinct_workers, threads);
    return hash.hex();
  };
  const std::string expected = hash_with(1);
  for (const int threads : {2, 4, 8}) EXPECT_EQ(hash_with(threads), expected) << threads << " threads";
}

TEST_F(TfrecordPipeline, GivesTheSameStreamWithoutRewrites) {
  EXPECT_NE(masked_language_model().explain().find("defer_parse: parse_example after batch"), std::string::npos);
  EXPECT_EQ(hash_of(masked_language_model(), {.threads = 2}),
            hash_of(masked_language_model(), {.threads = 2, .disabled_rewrites = {"defer_parse"}}));
}

TEST_F(TfrecordPipeline, GivesTheSameStreamFromASlowUnreliableStorage) {
  const std::string expected = hash_of(masked_language_model(), {.threads = 2});
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  for (const int threads : {1, 4}) {
    const auto storage = std::make_shared<test::InjectingStorage>(
        local, test::InjectionOptions{.seed = static_cast<uint64_t>(threads),
                                      .max_latency = std::chrono::microseconds(3000),
                                      .max_read_bytes = 777,
                                      .retriable_error_rate = 0.1});
    EXPECT_EQ(hash_of(masked_language_model(), {.threads = threads, .storage = storage}), expected);
    EXPECT_GT(storage->counts().retriable_errors, 0U);
    EXPECT_GT(storage->counts().short_reads, 0U);
  }
}

// A shard of 1 MiB and more.
void write_large_shard(const std::string& path) {
  RecordWriter writer(path);
  for (int r = 0; r < 1100; ++r) writer.write(std::string(1000, static_cast<char>('a' + r % 26)));
  writer.close();
}

TEST_F(TfrecordPipeline, GivesTheSameStreamHoweverShardsAreRead) {
  write_large_shard(path(kShards));
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  const std::string expected = hash_of(records(), {.threads = 2});
  std::map<size_t, uint64_t> reads;
  for (const size_t chunk_bytes : {size_t{1} << 30, size_t{64} << 10, size_t{16} << 10}) {
    for (const size_t read_ahead : {size_t{0}, size_t{1}, size_t{9}}) {
      const auto storage = std::make_shared<test::InjectingStorage>(
          local, test::InjectionOptions{.max_latency = std::chrono::microseconds(300)});
      const Dataset dataset = records({.cycle_length = 4, .chunk_bytes = chunk_bytes, .read_ahead = read_ahead});
      EXPECT_EQ(hash_of(dataset, {.threads = 2, .storage = storage}), expected);
      reads[chunk_bytes] = storage->counts().reads;
    }
  }
  EXPECT_LT(reads[size_t{1} << 30], reads[size_t{64} << 10]);
  EXPECT_LT(reads[size_t{64} << 10], reads[size_t{16} << 10]);
}

class IgnoreWakes final : public Waker {
 public:
  void wake() noexcept override {}
};

// The stage alone, polled where the storage answers: beside a thread that answers, a reader that the system keeps away
// inside of a call takes a slow storage for a fast one.
TEST_F(TfrecordPipeline, ReadsAsManyChunksAheadAsItIsTold) {
  write_large_shard(path(kShards));
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  BufferPool pool;
  for (const size_t read_ahead : {size_t{0}, size_t{3}, size_t{50}}) {
    test::ManualStorage storage(local, {.opens = test::ManualStorage::kAll});
    const TfrecordOperator op(Shards::files({path(kShards)}), {.chunk_bytes = 16 << 10, .read_ahead = read_ahead});
    IgnoreWakes waker;
    InlineLanes lanes;
    const auto stage = op.open({}, {.pool = pool, .waker = waker, .lanes = lanes, .storage = &storage});
    Block block;
    while (stage->next(block) == Poll::kPending) ASSERT_TRUE(storage.answer_one());
    storage.answer_all();
    EXPECT_EQ(storage.num_reads(), 2 + read_ahead) << "the first chunk, the one that the next block needs, and others";
  }
}

TEST_F(TfrecordPipeline, RefusesChunksThatAreTooSmallOrTooLarge) {
  const auto refusal = [this](const TfrecordOptions& options) -> std::string {
    try {
      records(options);
    } catch (const ErrorException& exception) {
      return exception.error().message;
    }
    return "none";
  };
  EXPECT_EQ(refusal({.chunk_bytes = 16383}), "tfrecord: chunk_bytes must be between 16384 and 1073741824, not 16383");
  EXPECT_EQ(refusal({.chunk_bytes = (1 << 30) + 1}),
            "tfrecord: chunk_bytes must be between 16384 and 1073741824, not 1073741825");
  EXPECT_EQ(refusal({.read_ahead = 1025}), "tfrecord: read_ahead must be at most 1024, not 1025");
}

// Threads of this process now.
int num_threads() {
  return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

// The data is endless: a destructor that drained it instead of cancelling would never return.
TEST_F(TfrecordPipeline, DroppedDuringTheFirstReadsCancelsEndlessDataAndLeavesNoThread) {
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  constexpr int kRounds = 20;
  const int threads_before = num_threads();
  for (int i = 0; i < kRounds; ++i) {
    const auto storage = std::make_shared<test::InjectingStorage>(
        local, test::InjectionOptions{.min_latency = std::chrono::milliseconds(5),
                                      .max_latency = std::chrono::milliseconds(20)});
    const Pipeline pipeline = masked_language_model().repeat().start({.threads = 2, .storage = storage});
    while (storage->counts().reads == 0) std::this_thread::yield();
  }
  // Workers of oneTBB stay, and may be new; each pipeline has I/O threads and each storage a timer besides.
  EXPECT_LT(num_threads(), threads_before + kRounds);
}

TEST_F(TfrecordPipeline, EachEpochHasEveryRecordOnceAndItsOwnMasksAndOrder) {
  std::vector<std::vector<int32_t>> orders;
  std::vector<std::string> masks;
  Pipeline pipeline = parse(records())
                          .shuffle(1000, {.seed = 1})
                          .batch(kShards * kRecordsPerShard)
                          .mask_tokens({.vocab_size = 20000, .mask_token = 4, .special_tokens = {1}})
                          .repeat(2)
                          .start({.threads = 2});
  while (std::optional<Batch> batch = pipeline.next()) {
    EXPECT_EQ(batch->epoch(), static_cast<int64_t>(orders.size()));
    const auto labels = batch->values<int32_t>("labels");
    std::vector<int32_t> order;
    std::string mask;
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      int32_t id = -1;
      for (int64_t p = 1; p < kLength; ++p) {
        const int32_t label = labels[static_cast<size_t>(row * kLength + p)];
        mask += label == -100 ? '.' : 'x';
        if (label != -100) id = label;
      }
      order.push_back(id);
    }
    orders.push_back(std::move(order));
    masks.push_back(std::move(mask));
  }
  ASSERT_EQ(orders.size(), 2U);
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(masks[0], masks[1]);
}

TEST_F(TfrecordPipeline, ATruncatedShardIsOneErrorThatNamesThePlace) {
  fs::resize_file(path(2), fs::file_size(path(2)) - 5);
  Pipeline pipeline = records({.cycle_length = 1}).start({.threads = 2});
  int delivered = 0;
  try {
    while (pipeline.next()) ++delivered;
    FAIL() << "no error";
  } catch (const PipelineError& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kTruncated) << e.what();
    EXPECT_EQ(e.error().shard, path(2));
    EXPECT_EQ(e.error().record, kRecordsPerShard - 1);
  }
  EXPECT_EQ(delivered, 3 * kRecordsPerShard - 1);
  EXPECT_EQ(pipeline.next(), std::nullopt);
}

TEST_F(TfrecordPipeline, AMissingShardIsAnError) {
  const Dataset dataset = records();
  fs::remove(path(3));
  Pipeline pipeline = dataset.start({.threads = 2});
  EXPECT_THROW(while (pipeline.next()){}, PipelineError);
}

TEST_F(TfrecordPipeline, AFeatureThatTheRecordsLackIsNamed) {
  Pipeline pipeline = records().parse_example({fixed_len("no_such", {kLength}, DType::kInt64)}).start({.threads = 2});
  try {
    pipeline.next();
    FAIL() << "no error";
  } catch (const PipelineError& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kMissingFeature);
    EXPECT_NE(e.error().message.find("'no_such'"), std::string::npos) << e.what();
  }
}

TEST_F(TfrecordPipeline, AWrongShapeIsAnErrorWithBothCounts) {
  Pipeline pipeline = records().parse_example({fixed_len("input_ids", {7}, DType::kInt64)}).start({.threads = 2});
  try {
    pipeline.next();
    FAIL() << "no error";
  } catch (const PipelineError& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kWrongShape);
    EXPECT_EQ(e.error().message, "feature 'input_ids' has 24 values, shape [7] needs 7");
  }
}

}  // namespace
}  // namespace millrace::tfrecord_pipeline_test
