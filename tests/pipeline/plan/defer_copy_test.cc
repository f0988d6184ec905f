#include "millrace/pipeline/plan/defer_copy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace millrace::defer_copy_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A shard of 300 records with an id, `kValues` numbers that cannot be packed, tokens and marks that can, and weights;
/// `bad` is no Example.
class LateCopy : public testing::Test {
 protected:
  static constexpr int kRecords = 300;
  static constexpr int kValues = 500;
  static constexpr int kTokens = 21;

  Dataset parsed(int bad = -1) const {
    RecordWriter writer(path_);
    for (int r = 0; r < kRecords; ++r) {
      ExampleWriter example;
      const std::vector<int64_t> id{r};
      example.add("id", std::span<const int64_t>(id));
      std::vector<int64_t> values;
      for (int64_t i = 0; i < kValues; ++i) values.push_back(3 * r + 4'000'000 * i);
      example.add("values", std::span<const int64_t>(values));
      std::vector<int64_t> tokens;
      for (int64_t i = 0; i < kTokens; ++i) tokens.push_back((r * 977 + i * 4421) % 65'000 - 100);
      example.add("tokens", std::span<const int64_t>(tokens));
      example.add("marks", std::span<const int64_t>(std::vector<int64_t>(kTokens, r % 2)));
      example.add("weights", std::span<const float>(std::vector<float>{0.5F * static_cast<float>(r), -1.0F}));
      writer.write(r == bad ? "this is text" : example.finish());
    }
    writer.close();
    return Dataset::tfrecord(Shards::files({path_}), {.cycle_length = 1})
        .parse_example({fixed_len("id", {}, DType::kInt64),
                        fixed_len("values", {kValues}, DType::kInt64).as(DType::kInt32),
                        fixed_len("tokens", {kTokens}, DType::kInt64), fixed_len("marks", {kTokens}, DType::kInt64),
                        fixed_len("weights", {2}, DType::kFloat32)});
  }

  // The hash of each batch with its epoch, then the error; from a state on.
  static std::vector<std::string> run(const Dataset& dataset, int threads, bool rewritten,
                                      const std::optional<PipelineState>& state = std::nullopt) {
    const WorkerLimit limit(threads);
    StartOptions options{.threads = threads};
    if (!rewritten) options.disabled_rewrites = {"defer_copy"};
    options.state = state;
    std::vector<std::string> stream;
    Pipeline pipeline = dataset.start(options);
    try {
      while (const std::optional<Batch> batch = pipeline.next()) {
        stream.push_back(fmt::format("{:016x} epoch {}", batch_hash(*batch), batch->epoch()));
      }
    } catch (const PipelineError& error) {
      stream.emplace_back(error.what());
    }
    return stream;
  }

  // The most bytes of buffers in use while one thread runs all of it.
  static int64_t peak_bytes(const Dataset& dataset, std::vector<std::string> disabled_rewrites = {}) {
    Pipeline pipeline = dataset.start({.threads = 1, .disabled_rewrites = std::move(disabled_rewrites)});
    while (pipeline.next()) {
    }
    return pipeline.stats().peak_buffer_bytes;
  }

  static void expect_same(const Dataset& dataset) {
    EXPECT_THAT(dataset.explain(), HasSubstr("defer_copy: "));
    EXPECT_THAT(dataset.explain(), HasSubstr("decode_rows"));
    const std::vector<std::string> expected = run(dataset, 2, false);
    EXPECT_GT(expected.size(), 3U);
    for (const int threads : {1, 4}) EXPECT_EQ(run(dataset, threads, true), expected) << threads << " threads";
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("a.tfrecord");
};

TEST_F(LateCopy, TheStreamIsTheSame) {
  expect_same(parsed().cache().shuffle(100, {.seed = 3}).repeat(3).batch(7));
  expect_same(parsed().cache().shuffle(40, {.seed = 3}).repeat(3).batch(64, {.drop_remainder = true}));
  expect_same(parsed().cache().repeat(4).batch(300));
  expect_same(parsed().cache().shuffle(500).repeat(2));
  expect_same(parsed().cache().skip(3).take(200).shard(3, 1).shuffle(20).batch(5).repeat(3).take(30));
  // Elements that are batches.
  expect_same(parsed().batch(8, {.drop_remainder = true}).cache().shuffle(10).repeat(2).batch(3));
  // A second batch, and what follows, gets elements.
  expect_same(parsed().cache().shuffle(10).repeat(2).batch(4).batch(3).cast("id", DType::kInt32));
  expect_same(parsed().cache().shuffle(10).cache().shuffle(10, {.seed = 2}).repeat(3).batch(4));
}

TEST_F(LateCopy, ErrorsStayInTheirPlaces) {
  expect_same(parsed(97).cache().shuffle(30).repeat(2).batch(4));
  expect_same(parsed(299).cache().repeat(2).batch(7));
  const std::vector<std::string> stream = run(parsed(97).cache().repeat(2).batch(4), 2, true);
  EXPECT_THAT(stream.back(), HasSubstr("record 97"));
  EXPECT_EQ(stream.size(), 25U);
}

// Records as they are stay in the cache without a rewrite.
TEST_F(LateCopy, RecordsAreThoseOfTheFile) {
  (void)parsed();
  const Dataset records = Dataset::tfrecord(Shards::files({path_}));
  for (const int threads : {1, 4}) {
    EXPECT_EQ(run(records.cache().shuffle(100, {.seed = 3}).repeat(3).batch(7), threads, true),
              run(records.shuffle(100, {.seed = 3}).repeat(3).batch(7), 1, true));
  }
}

TEST_F(LateCopy, StatesAreTheSame) {
  const Dataset dataset = parsed().cache().shuffle(100, {.seed = 3}).repeat(3).batch(60);
  const std::vector<std::string> stream = run(dataset, 2, true);
  Pipeline pipeline = dataset.start({.threads = 2});
  for (size_t place = 0; place <= stream.size(); ++place) {
    const PipelineState state = PipelineState::parse(pipeline.save().serialize());
    const std::vector<std::string> rest(stream.begin() + static_cast<std::ptrdiff_t>(place), stream.end());
    EXPECT_EQ(run(dataset, 1 + static_cast<int>(place % 3), place % 2 == 0, state), rest) << place;
    (void)pipeline.next();
  }
}

TEST_F(LateCopy, LeavesTheRestAsItIs) {
  const auto explained = [](const Dataset& dataset) { return dataset.explain(); };
  EXPECT_THAT(explained(parsed().cache().repeat(2)), Not(HasSubstr("defer_copy")));
  EXPECT_THAT(explained(parsed().cache().cast("id", DType::kInt32).shuffle(10)), Not(HasSubstr("defer_copy")));
  EXPECT_THAT(explained(parsed().shuffle(10).batch(4)), Not(HasSubstr("defer_copy")));
  EXPECT_THAT(explained(Dataset::rows({{"value", std::vector<std::string>{"a", "b"}}}).cache().shuffle(2)),
              Not(HasSubstr("defer_copy")));
}

// After the cache no row is copied before its batch: a shuffle over all of it takes no second copy.
TEST_F(LateCopy, AShuffleOfCachedRowsHoldsNoneOfThem) {
  const WorkerLimit limit(2);
  constexpr int64_t kRowBytes = 8 + 4 * kValues;
  const Dataset shuffled = parsed().cache().shuffle(kRecords).repeat(4).batch(10);
  const int64_t with_copies = peak_bytes(parsed().cache().batch(10).unbatch().shuffle(kRecords).repeat(4).batch(10));
  EXPECT_LT(peak_bytes(shuffled) + kRecords * kRowBytes / 2, with_copies);
}

TEST_F(LateCopy, NarrowIntegersTakeLessMemory) {
  // 44,000 rows and, for ThreadSanitizer, 12,000: 16 bytes each for the views, 60 for tokens of two bytes and marks
  // that are all one, instead of 336.
  constexpr int64_t kEpochs = test::kThreadSanitized ? 40 : 147;
  const Dataset many = parsed().select({"tokens", "marks"}).repeat(kEpochs).cache().shuffle(2).batch(8);
  EXPECT_LT(peak_bytes(many), 2 * peak_bytes(many, {"defer_copy"}) / 5);
}

// What a block of packed rows becomes is bounded: rows of zeros are cut into blocks as others are.
TEST_F(LateCopy, BlocksOfRowsThatPackWellStaySmall) {
  constexpr int64_t kZeros = 4096;
  RecordWriter writer(path_);
  for (int r = 0; r < kRecords; ++r) {
    ExampleWriter example;
    example.add("zeros", std::span<const int64_t>(std::vector<int64_t>(kZeros, 0)));
    writer.write(example.finish());
  }
  writer.close();
  const Dataset rows = Dataset::tfrecord(Shards::files({path_}), {.cycle_length = 1, .chunk_bytes = 16 << 10})
                           .parse_example({fixed_len("zeros", {kZeros}, DType::kInt64)})
                           .repeat(4)
                           .cache();
  constexpr int64_t kAll = 4 * kRecords * kZeros * 8;  // 39 MB
  for (const Dataset& dataset : {rows.shuffle(2).repeat(3).batch(4), rows.shuffle(2).repeat(3)}) {
    EXPECT_LT(peak_bytes(dataset), kAll / 2);
  }
}

}  // namespace
}  // namespace millrace::defer_copy_test
