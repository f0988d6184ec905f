#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/keyed_permutation.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/index/shard_indexes.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::global_shuffle_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

InlineExecutor& executor() {
  static InlineExecutor inline_executor;
  return inline_executor;
}
LocalStorage& local_storage() {
  static LocalStorage storage(executor());
  return storage;
}

// Record r of shard s is `s:r`, with dots after it: up to 40 of them.
std::string record(size_t shard, int64_t index) {
  return fmt::format("{}:{}", shard, index) + std::string(static_cast<size_t>(index * 7 % 41), '.');
}

/// Shards with their indexes.
class GlobalShuffleTest : public testing::Test {
 protected:
  void write(const std::vector<int64_t>& counts, Compression compression = Compression::kNone,
             size_t frame_bytes = ZstdPacker::kDefaultFrameBytes) {
    counts_ = counts;
    for (size_t shard = 0; shard < counts.size(); ++shard) {
      RecordWriter writer(path(shard), {.compression = compression, .frame_bytes = frame_bytes});
      for (int64_t i = 0; i < counts[shard]; ++i) writer.write(record(shard, i));
      writer.close();
      write_index(shard);
    }
  }
  void write_index(size_t shard) {
    write_atomically(index_path(path(shard)), build_shard_index(local_storage(), path(shard)).serialize());
  }

  std::string path(size_t shard) const { return folder_.path(fmt::format("{:03}.tfrecord", shard)); }
  Shards shards() const {
    std::vector<std::string> paths;
    for (size_t shard = 0; shard < counts_.size(); ++shard) paths.push_back(path(shard));
    return Shards::files(std::move(paths));
  }
  Dataset dataset(const GlobalShuffleOptions& options = {}) const { return Dataset::global_shuffle(shards(), options); }

  // What an epoch is to be.
  std::vector<std::string> expected(uint64_t seed = 0, int64_t epoch = 0) const {
    std::vector<std::string> all;
    for (size_t shard = 0; shard < counts_.size(); ++shard) {
      for (int64_t i = 0; i < counts_[shard]; ++i) all.push_back(record(shard, i));
    }
    const KeyedPermutation order(all.size(), seed, {.epoch = epoch});
    std::vector<std::string> ordered;
    for (uint64_t i = 0; i < all.size(); ++i) ordered.push_back(all[order(i)]);
    return ordered;
  }

  static void take(Pipeline& pipeline, size_t count, std::vector<std::string>& records) {
    for (size_t i = 0; i < count; ++i) {
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) return;
      records.emplace_back(batch->values<std::string_view>("record")[0]);
    }
  }
  static std::vector<std::string> run(const Dataset& dataset, const StartOptions& options = {.threads = 2}) {
    const WorkerLimit limit(std::max(options.threads, 1));
    Pipeline pipeline = dataset.start(options);
    std::vector<std::string> records;
    take(pipeline, SIZE_MAX, records);
    return records;
  }
  // The error that starting or running a dataset comes to.
  static Error error_of(const Dataset& dataset, const StartOptions& options = {.threads = 2}) {
    try {
      run(dataset, options);
    } catch (const PipelineError& error) {
      return error.error();
    } catch (const ErrorException& exception) {
      return exception.error();
    }
    ADD_FAILURE() << "no error";
    return {};
  }
  // What refuses to start a dataset.
  static Error refusal_of(const Dataset& dataset, const StartOptions& options = {.threads = 2}) {
    try {
      Pipeline pipeline = dataset.start(options);
    } catch (const ErrorException& exception) {
      return exception.error();
    }
    ADD_FAILURE() << "it starts";
    return {};
  }

  // Changes bytes of a shard, behind the back of its index.
  void change(size_t shard, uint64_t offset, const std::string& bytes) {
    std::string content = test::read_file(path(shard));
    content.replace(offset, bytes.size(), bytes);
    test::write_file(path(shard), content);
  }
  uint64_t offset_of(size_t shard, uint64_t index) const {
    return read_shard_index(local_storage(), path(shard))->offset(index);
  }

  test::TemporaryFolder folder_;
  std::vector<int64_t> counts_;
};

std::shared_ptr<Storage> slow(uint64_t seed) {
  return std::make_shared<test::InjectingStorage>(local_storage(),
                                                  test::InjectionOptions{.seed = seed,
                                                                         .min_latency = std::chrono::microseconds(50),
                                                                         .max_latency = std::chrono::microseconds(900),
                                                                         .max_read_bytes = 300,
                                                                         .retriable_error_rate = 0.05});
}

TEST_F(GlobalShuffleTest, GivesEveryRecordOnceInTheOrderOfThePermutation) {
  for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{
           {0, 50, 0, 1, 2900, 2, 0}, {1}, {0}, {0, 0, 0}, {1, 1, 1, 1}, {700}, {300, 300, 300}}) {
    write(counts);
    EXPECT_EQ(run(dataset({.seed = 7})), expected(7)) << counts.size();
  }
}

TEST_F(GlobalShuffleTest, EachEpochHasAnotherOrderUnlessOneIsWanted) {
  write({60, 0, 41});
  std::vector<std::string> two = expected(3, 0);
  const std::vector<std::string> second = expected(3, 1);
  ASSERT_NE(two, second);
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_EQ(run(dataset({.seed = 3}).repeat(2)), two);

  const std::vector<std::string> once = expected(3, 0);
  std::vector<std::string> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(run(dataset({.seed = 3, .reshuffle_each_iteration = false}).repeat(2)), twice);
}

TEST_F(GlobalShuffleTest, TheStreamIsTheSameHoweverItIsRead) {
  write({500, 0, 333, 1, 900});
  const std::vector<std::string> all = expected(1);
  for (const int threads : {1, 2, 8}) {
    for (const int64_t window : {1, 100, 8192}) {
      for (const int64_t merge_gap : {0, 100, 1 << 20}) {
        const Dataset data =
            dataset({.seed = 1, .window = window, .merge_gap = merge_gap, .reads_in_flight = window == 100 ? 8 : 128});
        EXPECT_EQ(run(data, {.threads = threads}), all) << threads << ' ' << window << ' ' << merge_gap;
      }
    }
    EXPECT_EQ(run(dataset({.seed = 1, .window = 200}), {.threads = threads, .storage = slow(9)}), all) << threads;
    EXPECT_EQ(run(dataset({.seed = 1, .merge_gap = 4000}), {.threads = threads, .storage = slow(5)}), all) << threads;
    EXPECT_EQ(run(dataset({.seed = 1}), {.threads = threads, .memory_budget = 1 << 20}), all) << threads;
  }
}

TEST_F(GlobalShuffleTest, GoesOnFromAnyElementWithAStateOfLessThanAKilobyte) {
  write({40, 0, 25, 1, 300});
  const Dataset twice = dataset({.seed = 4}).repeat(2);
  std::vector<std::string> all = expected(4, 0);
  const std::vector<std::string> second = expected(4, 1);
  all.insert(all.end(), second.begin(), second.end());
  for (size_t place = 0; place <= all.size(); place += place < 5 || place > 725 ? 1 : 60) {
    Pipeline first = twice.start({.threads = 2});
    std::vector<std::string> records;
    take(first, place, records);
    const std::string bytes = first.save().serialize();
    EXPECT_LT(bytes.size(), 1024U);
    // Speed is no part of the state.
    Pipeline again = dataset({.seed = 4, .window = 10, .merge_gap = 0})
                         .repeat(2)
                         .start({.threads = 1, .state = PipelineState::parse(bytes)});
    take(again, 3, records);
    Pipeline third = twice.start({.threads = 1, .state = again.save()});
    take(third, SIZE_MAX, records);
    ASSERT_EQ(records, all) << place;
  }
}

TEST_F(GlobalShuffleTest, AStateIsRefusedWhenTheRecordsLieElsewhere) {
  write({2000, 2000});
  Pipeline pipeline = dataset().start({.threads = 1});
  std::vector<std::string> records;
  take(pipeline, 5, records);
  const PipelineState state = PipelineState::parse(pipeline.save().serialize());
  // The same size, the same ends, other records in the middle.
  std::string content = test::read_file(path(1));
  const uint64_t place = offset_of(1, 1000);
  const uint64_t end = offset_of(1, 1001);
  content[place + 12] = 'x';
  const uint32_t crc = masked_crc32c(std::string_view(content).substr(place + 12, end - place - 16));
  std::memcpy(content.data() + end - 4, &crc, sizeof(crc));
  test::write_file(path(1), content);
  write_index(1);
  const Error error = error_of(dataset(), {.threads = 1, .state = state});
  EXPECT_EQ(error.code, ErrorCode::kState);
  EXPECT_THAT(error.message, HasSubstr("the indexes of the shards are others than when the state was made"));
}

TEST_F(GlobalShuffleTest, AStateIsRefusedWhereRecordsOfOtherLengthsAreErrors) {
  write({20});
  Pipeline pipeline = dataset().start({.threads = 1});
  const PipelineState state = PipelineState::parse(pipeline.save().serialize());
  const Error error = refusal_of(dataset({.max_record_bytes = 30}), {.threads = 1, .state = state});
  EXPECT_EQ(error.code, ErrorCode::kState);
  EXPECT_THAT(error.message, HasSubstr("max_record_bytes=30), in the state it is global_shuffle(shards=1)"));
}

TEST_F(GlobalShuffleTest, ShardsWithoutAnIndexAreRefusedAtTheStartWithTheCommand) {
  write({5, 5, 5, 5, 5, 5});
  std::filesystem::remove(index_path(path(1)));
  std::filesystem::remove(index_path(path(3)));
  Error error = refusal_of(dataset());
  EXPECT_EQ(error.code, ErrorCode::kIndex);
  EXPECT_EQ(error.message, fmt::format("2 of 6 shards have no index; run: dataset_index {} {}", path(1), path(3)));
  EXPECT_EQ(error.stage, "global_shuffle");
  // Also where they would be read only later.
  error = refusal_of(Dataset::concatenate({Dataset::tfrecord(shards()), dataset()}));
  EXPECT_EQ(error.code, ErrorCode::kIndex);
  for (size_t shard = 0; shard < 6; ++shard) std::filesystem::remove(index_path(path(shard)));
  EXPECT_THAT(refusal_of(dataset()).message,
              AllOf(HasSubstr("6 of 6 shards have no index; run: dataset_index "), HasSubstr("003.tfrecord …")));
  write_index(0);
}

TEST_F(GlobalShuffleTest, IndexesThatCannotBeRightAreRefused) {
  write({5, 6});
  const std::string index = test::read_file(index_path(path(0)));
  std::string broken = index;
  broken[100] = static_cast<char>(broken[100] ^ 1);
  test::write_file(index_path(path(0)), broken);
  EXPECT_THAT(refusal_of(dataset()).to_string(),
              AllOf(HasSubstr("index: the index is broken"), HasSubstr("run: dataset_index " + path(0))));

  test::write_file(index_path(path(0)), test::read_file(index_path(path(1))));
  EXPECT_THAT(refusal_of(dataset()).to_string(),
              AllOf(HasSubstr("it was made of '001.tfrecord'"), HasSubstr("run: dataset_index " + path(0))));

  test::write_file(index_path(path(0)), index);
  test::write_file(path(0), test::read_file(path(0)) + "more");
  const Error error = error_of(dataset());
  EXPECT_EQ(error.code, ErrorCode::kIndex);
  EXPECT_EQ(error.shard, path(0));
  EXPECT_THAT(error.message, AllOf(HasSubstr("the index does not belong to this file: it was made of"),
                                   HasSubstr("run: dataset_index --force " + path(0))));
}

TEST_F(GlobalShuffleTest, CompressedShardsAreRefusedWithWhatToDoInstead) {
  write({9, 9}, Compression::kGzip);
  const Error error = refusal_of(dataset());
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.shard, path(0));
  EXPECT_THAT(error.message, AllOf(HasSubstr("GZIP"), HasSubstr("write the shards without compression or as ZSTD")));
  // As the zstd program writes it, which makes one frame of all.
  counts_ = {60};
  std::filesystem::copy_file(test::data_path("zstd/one_frame.tfrecord.zst"), path(0),
                             std::filesystem::copy_options::overwrite_existing);
  write_index(0);
  const Error without_table = refusal_of(dataset());
  EXPECT_EQ(without_table.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(without_table.message, AllOf(HasSubstr("a ZSTD shard without a seek table"), HasSubstr("RecordWriter")));
}

TEST_F(GlobalShuffleTest, GivesTheSameOfZstdShardsAsOfPlainOnes) {
  const std::vector<int64_t> counts{40, 0, 700, 1, 333};
  for (const size_t frame_bytes : {1, 300, 4000, 1 << 20}) {
    write(counts, Compression::kZstd, frame_bytes);
    for (const int64_t window : {1, 20, 8192}) {
      EXPECT_EQ(run(dataset({.seed = 4, .window = window, .merge_gap = window})), expected(4)) << window;
    }
    EXPECT_EQ(run(dataset({.seed = 4, .window = 100}), {.threads = 2, .storage = slow(3)}), expected(4));
  }
  // From the middle too.
  Pipeline pipeline = dataset({.seed = 4}).start({.threads = 2});
  std::vector<std::string> records;
  take(pipeline, 500, records);
  Pipeline resumed = dataset({.seed = 4}).start({.threads = 1, .state = pipeline.save()});
  take(resumed, SIZE_MAX, records);
  EXPECT_EQ(records, expected(4));
}

TEST_F(GlobalShuffleTest, RecordsThatLieInSeveralFramesComeWhole) {
  counts_ = {60};
  const auto records_of = [&](const char* name) {
    std::filesystem::copy_file(test::data_path(name), path(0), std::filesystem::copy_options::overwrite_existing);
    write_index(0);
    return run(dataset({.seed = 9, .window = 7}));
  };
  const std::vector<std::string> plain = records_of("tfrecord/few.tfrecord");
  EXPECT_EQ(plain.size(), 60U);
  EXPECT_EQ(records_of("zstd/seekable.tfrecord.zst"), plain);
}

TEST_F(GlobalShuffleTest, ADamagedFrameOfAZstdShardIsAnErrorOfEachOfItsRecords) {
  write({500}, Compression::kZstd, 1000);
  const std::string good = test::read_file(path(0));
  std::string bytes = good;
  bytes[good.size() / 2] = static_cast<char>(bytes[good.size() / 2] ^ 1);
  test::write_file(path(0), bytes);
  const Error error = error_of(dataset());
  EXPECT_EQ(error.code, ErrorCode::kCompression);
  EXPECT_THAT(error.message, HasSubstr("zstd frame at compressed byte"));
  const Dataset skipping = dataset({.damage = {.action = DamagePolicy::kSkip}});
  Pipeline pipeline = skipping.start({.threads = 2});
  std::vector<std::string> records;
  take(pipeline, SIZE_MAX, records);
  const int64_t lost = pipeline.skipped().counts.records;
  EXPECT_GT(lost, 5);
  EXPECT_LT(lost, 70);  // what fits in 1,000 bytes
  EXPECT_EQ(records.size() + static_cast<size_t>(lost), 500U);
  std::vector<std::string> all = expected();
  std::erase_if(
      all, [&](const std::string& one) { return std::find(records.begin(), records.end(), one) == records.end(); });
  EXPECT_EQ(records, all);
}

TEST_F(GlobalShuffleTest, AnotherNumberOfRecordsThanPromisedIsRefused) {
  write({});
  const std::string path = folder_.path("part-0-8.tfrecord");
  RecordWriter writer(path, {});
  for (int64_t i = 0; i < 7; ++i) writer.write(record(0, i));
  writer.close();
  write_atomically(index_path(path), build_shard_index(local_storage(), path).serialize());
  const Dataset data = Dataset::global_shuffle(Shards::files({path}).counts_from("part-{index}-{count}.tfrecord"));
  EXPECT_EQ(data.cardinality(), Cardinality::known(8));
  const Error error = refusal_of(data);
  EXPECT_EQ(error.code, ErrorCode::kCardinality);
  EXPECT_EQ(error.message, "the shard has 7 records, expected 8");
}

TEST_F(GlobalShuffleTest, AShardThatIsGoneIsAnErrorOfItsRecords) {
  write({5, 6});
  std::filesystem::remove(path(1));
  for (const DamagePolicy::Action action : {DamagePolicy::kFail, DamagePolicy::kSkip}) {
    const Error error = error_of(dataset({.damage = {.action = action}}));
    EXPECT_EQ(error.code, ErrorCode::kIo);
    EXPECT_EQ(error.shard, path(1));
  }
}

// A record of each kind of damage, in the middle of a range that is read in one piece.
struct DamageCase {
  const char* name;
  ErrorCode code;
  const char* message;
  void (*damage)(std::string& frame);
};

void set_length(std::string& frame, uint64_t length) {
  const uint32_t crc = masked_crc32c_of_length(length);
  std::memcpy(frame.data(), &length, sizeof(length));
  std::memcpy(frame.data() + 8, &crc, sizeof(crc));
}

const std::array kDamage{
    DamageCase{"payload", ErrorCode::kPayloadCrc, "bytes have the masked CRC",
               [](std::string& frame) { frame[13] = static_cast<char>(frame[13] ^ 4); }},
    DamageCase{"payload CRC", ErrorCode::kPayloadCrc, "its field says",
               [](std::string& frame) { frame.back() = static_cast<char>(frame.back() ^ 4); }},
    DamageCase{"length", ErrorCode::kLengthCrc, "the record's length",
               [](std::string& frame) { frame[0] = static_cast<char>(frame[0] ^ 4); }},
    DamageCase{"forged length", ErrorCode::kLengthCrc, "by the index",
               [](std::string& frame) { set_length(frame, 5); }},
};

TEST_F(GlobalShuffleTest, DamageIsAnErrorInThePlaceOfTheRecord) {
  for (const DamageCase& damaged : kDamage) {
    write({50, 60});
    const uint64_t begin = offset_of(1, 33);
    const uint64_t bytes = offset_of(1, 34) - begin;
    std::string frame = test::read_file(path(1)).substr(begin, bytes);
    damaged.damage(frame);
    change(1, begin, frame);
    for (const int64_t merge_gap : {0, 1 << 20}) {
      Pipeline pipeline = dataset({.merge_gap = merge_gap}).start({.threads = 2});
      std::vector<std::string> records;
      try {
        take(pipeline, SIZE_MAX, records);
        FAIL() << damaged.name;
      } catch (const PipelineError& error) {
        EXPECT_EQ(error.error().code, damaged.code) << damaged.name;
        EXPECT_THAT(error.error().message, HasSubstr(damaged.message));
        EXPECT_EQ(error.error().shard, path(1));
        EXPECT_EQ(error.error().offset, static_cast<int64_t>(begin));
        EXPECT_EQ(error.error().record, 33);
      }
      std::vector<std::string> before = expected();
      before.resize(static_cast<size_t>(std::find(before.begin(), before.end(), record(1, 33)) - before.begin()));
      EXPECT_EQ(records, before) << damaged.name;
    }
  }
}

TEST_F(GlobalShuffleTest, DamageIsLeftOutWhereTheBudgetAllowsIt) {
  for (const DamageCase& damaged : kDamage) {
    write({50, 60});
    const uint64_t begin = offset_of(1, 33);
    const uint64_t end = offset_of(1, 34);
    std::string frame = test::read_file(path(1)).substr(begin, end - begin);
    damaged.damage(frame);
    change(1, begin, frame);
    std::vector<std::string> left = expected();
    left.erase(std::find(left.begin(), left.end(), record(1, 33)));
    const Dataset data = dataset({.damage = {.action = DamagePolicy::kSkip, .max_records = 1}});
    std::vector<SkippedRegion> skipped;
    EXPECT_EQ(run(data, {.threads = 2, .on_skip = [&](const SkippedRegion& region) { skipped.push_back(region); }}),
              left)
        << damaged.name;
    ASSERT_EQ(skipped.size(), 1U);
    EXPECT_EQ(skipped[0].shard, path(1));
    EXPECT_EQ(skipped[0].begin, begin);
    EXPECT_EQ(skipped[0].end, end);
    EXPECT_EQ(skipped[0].first_record, 33U);
    EXPECT_EQ(skipped[0].records, 1U);
    EXPECT_EQ(skipped[0].code, damaged.code);
    EXPECT_EQ(error_of(dataset({.damage = {.action = DamagePolicy::kSkip, .max_records = 0}})).code,
              ErrorCode::kDamageBudget);
  }
}

TEST_F(GlobalShuffleTest, GoodRecordsThatAreNotThoseOfTheIndexAreNoDamage) {
  write({50, 60});
  // Of one length: the records of two places, exchanged.
  ASSERT_EQ(record(1, 10).size(), record(1, 51).size());
  const std::string content = test::read_file(path(1));
  const uint64_t bytes = offset_of(1, 11) - offset_of(1, 10);
  change(1, offset_of(1, 10), content.substr(offset_of(1, 51), bytes));
  change(1, offset_of(1, 51), content.substr(offset_of(1, 10), bytes));
  for (const DamagePolicy::Action action : {DamagePolicy::kFail, DamagePolicy::kSkip}) {
    const Error error = error_of(dataset({.damage = {.action = action}}));
    EXPECT_EQ(error.code, ErrorCode::kIndex);
    EXPECT_THAT(error.message, AllOf(HasSubstr("by the index in"), HasSubstr("run: dataset_index --force " + path(1))));
  }
}

TEST_F(GlobalShuffleTest, LongRecordsAreErrorsAndNotRead) {
  write({3});
  const std::string long_record(600000, 'x');
  RecordWriter writer(path(0), {});
  for (const std::string& one : {std::string("a"), long_record, std::string("b")}) writer.write(one);
  writer.close();
  write_index(0);
  Error error = error_of(dataset({.max_record_bytes = 500000}));
  EXPECT_EQ(error.code, ErrorCode::kRecordTooLarge);
  EXPECT_EQ(error.message, "the record's length is 600000 bytes, the limit 500000");
  EXPECT_EQ(error.record, 1);
  error = error_of(dataset(), {.threads = 2, .memory_budget = 1 << 20});
  EXPECT_EQ(error.code, ErrorCode::kMemoryBudget);
  EXPECT_THAT(error.message, HasSubstr("a quarter of the memory budget of 1048576 bytes"));
  EXPECT_EQ(run(dataset(), {.threads = 2, .memory_budget = 4 << 20}).size(), 3U);
}

TEST_F(GlobalShuffleTest, IndexesThatTakeMoreThanHalfTheBudgetAreRefusedAtTheStart) {
  counts_ = {70000};
  RecordWriter writer(path(0), {});
  for (int64_t i = 0; i < 70000; ++i) writer.write("");
  writer.close();
  write_index(0);
  const Error error = refusal_of(dataset(), {.threads = 2, .memory_budget = 1 << 20});
  EXPECT_EQ(error.code, ErrorCode::kMemoryBudget);
  EXPECT_EQ(error.message,
            "the indexes of 1 of 1 shards take 560008 bytes of memory, no more than 524288 may be kept for the whole "
            "run, half of the memory budget");
  EXPECT_EQ(run(dataset(), {.threads = 2, .memory_budget = 2 << 20}).size(), 70000U);
}

TEST_F(GlobalShuffleTest, NoMoreIndexesAreReadWhenThoseThereAreTakeTooMuch) {
  counts_.assign(60, 3000);
  for (size_t shard = 0; shard < counts_.size(); ++shard) {
    RecordWriter writer(path(shard), {});
    for (int64_t i = 0; i < 3000; ++i) writer.write("");
    writer.close();
    write_index(shard);
  }
  const auto counted = std::make_shared<test::InjectingStorage>(local_storage(), test::InjectionOptions{});
  const Error error = refusal_of(dataset(), {.threads = 2, .storage = counted, .memory_budget = 1 << 20});
  EXPECT_EQ(error.code, ErrorCode::kMemoryBudget);
  EXPECT_THAT(error.message, HasSubstr("of 60 shards take 528176 bytes of memory"));
  EXPECT_LT(counted->counts().opens, 40U);
  // One that could never fit is not read at all.
  test::write_file(index_path(path(0)), std::string(600000, 'x'));
  EXPECT_THAT(refusal_of(dataset(), {.threads = 2, .memory_budget = 1 << 20}).message,
              HasSubstr("the index has 600000 bytes, the memory that is left for indexes 524288"));
}

TEST_F(GlobalShuffleTest, TheWatchdogSeesAStartThatWaitsForIndexes) {
  write({5, 6});
  using std::chrono_literals::operator""h;
  const auto silent = std::make_shared<test::InjectingStorage>(
      local_storage(), test::InjectionOptions{.min_latency = 1h, .max_latency = 1h});
  Stall seen;
  const auto on_stall = [&](const Stall& stall) {
    seen = stall;
    throw ErrorException(ErrorCode::kStalled, "given up");
  };
  const Error error = refusal_of(dataset(), {.threads = 1, .storage = silent, .watchdog = 0.05, .on_stall = on_stall});
  EXPECT_EQ(error.code, ErrorCode::kStalled);
  EXPECT_THAT(seen.cause, testing::ContainsRegex("^start\\(\\) waits for the storage: opening .*/00[01].tfrecord.index "
                                                 "has not been answered for [0-9.]+ s, nor have 1 other requests$"));
  EXPECT_THAT(seen.report, HasSubstr("the caller of start() has waited for "));
}

TEST_F(GlobalShuffleTest, FramesThatTheMemoryBudgetHasNoRoomForAreRefusedAtTheStart) {
  counts_ = {2000};
  RecordWriter writer(path(0), {.compression = Compression::kZstd, .frame_bytes = size_t{1} << 20});
  for (int64_t i = 0; i < 2000; ++i) writer.write(record(0, i) + std::string(4000, '.'));  // more than the budget
  writer.close();
  write_index(0);
  const Error error = refusal_of(dataset(), {.threads = 2, .memory_budget = 2 << 20});
  EXPECT_EQ(error.code, ErrorCode::kMemoryBudget);
  EXPECT_THAT(error.message, HasSubstr("to read and unpack a frame of the shards takes 1"));
  const WorkerLimit limit(2);
  Pipeline pipeline = dataset().start({.threads = 2, .memory_budget = 6 << 20});
  std::vector<std::string> records;
  take(pipeline, SIZE_MAX, records);
  EXPECT_EQ(records.size(), 2000U);
  EXPECT_LE(pipeline.stats().peak_buffer_bytes, 6 << 20);
}

TEST_F(GlobalShuffleTest, BuffersStayWithinTheBudget) {
  counts_ = {400, 400, 400};
  for (size_t shard = 0; shard < 3; ++shard) {
    RecordWriter writer(path(shard), {});
    for (int64_t i = 0; i < 400; ++i) writer.write(record(shard, i) + std::string(10000, 'x'));
    writer.close();
    write_index(shard);
  }
  const WorkerLimit limit(4);
  Pipeline pipeline = dataset({.merge_gap = 1 << 20}).batch(4).start({.threads = 4, .memory_budget = 4 << 20});
  int64_t rows = 0;
  while (std::optional<Batch> batch = pipeline.next()) rows += batch->num_rows();
  EXPECT_EQ(rows, 1200);
  EXPECT_LE(pipeline.stats().peak_buffer_bytes, 4 << 20);
}

TEST_F(GlobalShuffleTest, AnIndexTakesEightBytesARecord) {
  write({1000, 0, 234});
  EXPECT_EQ(load_shard_indexes(local_storage(), shards())->memory_bytes(), 8 * (1234 + 3));
}

TEST_F(GlobalShuffleTest, RunsInsideAFunctionOfAnotherDataset) {
  write({30, 12});
  const Dataset nested =
      Dataset::range(0, 2).flat_map({.name = "shuffled",
                                     .gives = dataset().schema().features(),
                                     .make = [data = dataset({.seed = 2})](const RowView&) { return data; }});
  std::vector<std::string> all = expected(2);
  std::vector<std::string> records = run(nested);
  ASSERT_EQ(records.size(), 84U);
  // Each run is a nested input of its own, with an order of its own.
  std::vector<std::string> second(records.begin() + 42, records.end());
  records.resize(42);
  EXPECT_NE(records, second);
  for (std::vector<std::string>* some : {&records, &second, &all}) std::sort(some->begin(), some->end());
  EXPECT_EQ(records, all);
  EXPECT_EQ(second, all);
  std::filesystem::remove(index_path(path(1)));
  EXPECT_THAT(error_of(nested).message, HasSubstr("1 of 2 shards have no index; run: dataset_index " + path(1)));
}

TEST_F(GlobalShuffleTest, FilesStayOpenFromWindowToWindowAndEpochToEpoch) {
  write({400, 400, 400});
  auto storage = std::make_shared<test::InjectingStorage>(local_storage(), test::InjectionOptions{});
  const WorkerLimit limit(1);
  Pipeline pipeline = dataset({.window = 32}).repeat(10).start({.threads = 1, .storage = storage});
  std::vector<std::string> records;
  take(pipeline, SIZE_MAX, records);
  EXPECT_EQ(records.size(), 12000U);
  EXPECT_LE(storage->counts().opens, 3U + 3U * 8U);  // the indexes; a file for each lane
}

TEST_F(GlobalShuffleTest, NeighboursAreReadInOnePiece) {
  write({1000});
  const auto reads = [&](int64_t window, int64_t merge_gap) {
    auto storage = std::make_shared<test::InjectingStorage>(local_storage(), test::InjectionOptions{});
    EXPECT_EQ(run(dataset({.window = window, .merge_gap = merge_gap}), {.threads = 2, .storage = storage}).size(),
              1000U);
    return storage->counts().reads;
  };
  EXPECT_EQ(reads(256, 1 << 20), 12U + 1U);  // windows: 8 of 64, 4 of 128; and the index
  EXPECT_EQ(reads(1, 1 << 20), 1000U + 1U);
  EXPECT_GT(reads(256, 0), 600U);
}

TEST_F(GlobalShuffleTest, ArgumentsThatCannotWorkAreRefused) {
  write({1});
  const auto refusal = [&](const GlobalShuffleOptions& options) {
    try {
      (void)dataset(options);
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kInvalidArgument);
      return exception.error().message;
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal({.window = 0}), "global_shuffle: window must be 1 to 16777216, not 0");
  EXPECT_EQ(refusal({.window = (1 << 24) + 1}), "global_shuffle: window must be 1 to 16777216, not 16777217");
  EXPECT_EQ(refusal({.merge_gap = -1}), "global_shuffle: merge_gap must be 0 to 1099511627776, not -1");
  EXPECT_EQ(refusal({.reads_in_flight = 7}), "global_shuffle: reads_in_flight must be 8 to 1048576, not 7");
}

TEST_F(GlobalShuffleTest, CanBeDroppedAnywhere) {
  write({300, 300});
  for (const size_t place : {0, 1, 100, 599}) {
    Pipeline pipeline = dataset({.window = 64}).repeat().start({.threads = 2, .storage = slow(place)});
    std::vector<std::string> records;
    take(pipeline, place, records);
    EXPECT_EQ(records.size(), place);
  }
}

}  // namespace
}  // namespace millrace::global_shuffle_test
