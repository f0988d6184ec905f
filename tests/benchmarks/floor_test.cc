#include "benchmarks/floor/floor.h"

#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "benchmarks/floor/floor_run.h"
#include "benchmarks/floor/read_plan.h"
#include "millrace/formats/error.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/benchmarks/workload_shards.h"
#include "tests/support/child_process.h"
#include "tests/support/encoded_pictures.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::floor_test {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// Shards as the workloads want them.
class FloorTest : public testing::Test {
 protected:
  void write(const std::function<std::string(int)>& record, Compression compression = Compression::kNone) {
    test::write_workload_shards(folder_.path(), record, compression);
  }

  BenchOptions options(const std::string& workload, int threads) const {
    BenchOptions options;
    options.workload = workload;
    options.shards = folder_.path("*.tfrecord");
    options.threads = threads;
    options.batch = 8;
    options.shuffle = 1000;
    options.cycle_length = 3;
    return options;
  }

  // What its batches hold, whatever the threads, and pass after pass.
  static void expect_the_engines_batches(BenchOptions options, const std::vector<int>& all_threads = {1, 2, 8}) {
    for (const int threads : all_threads) {
      const WorkerLimit limit(threads);
      options.threads = threads;
      const std::unique_ptr<Floor> floor = make_floor(options);
      ASSERT_GT(floor->expected().size(), 100U);
      EXPECT_GT(floor->rows(), 1000);
      EXPECT_GT(floor->bytes(), floor->rows());
      for (int pass = 0; pass < 2; ++pass) {
        std::vector<uint64_t> digests;
        floor->pass(&digests);
        EXPECT_THAT(digests, ElementsAreArray(floor->expected())) << threads << " threads, pass " << pass;
      }
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(FloorTest, MakesTheEnginesBatchesOfRecords) {
  write([](int number) { return std::string(static_cast<size_t>(number * 37 % 900), static_cast<char>(number)); });
  expect_the_engines_batches(options("read", 1));
}

TEST_F(FloorTest, MakesTheEnginesBatchesOfMaskedTokens) {
  write(test::mlm_record);
  expect_the_engines_batches(options("mlm", 1));
}

TEST_F(FloorTest, MakesTheEnginesBatchesOfCompressedShards) {
  for (const Compression compression : {Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    write(test::mlm_record, compression);
    expect_the_engines_batches(options("mlm", 1), {3});
  }
}

TEST_F(FloorTest, MakesTheEnginesBatchesOfQuestionsAndAnswers) {
  write(test::quest_record);
  expect_the_engines_batches(options("quest", 1));
}

TEST_F(FloorTest, MakesTheEnginesBatchesOfRowsInMemory) {
  write(test::quest_record);
  BenchOptions cached = options("quest", 1);
  cached.cache = true;
  expect_the_engines_batches(cached, {1, 4});
}

TEST_F(FloorTest, MakesTheEnginesBatchesOfTokensOfAnyNumber) {
  write(test::tokens_record);
  for (const char* workload : {"bucket", "pad"}) expect_the_engines_batches(options(workload, 1), {1, 4});
}

TEST_F(FloorTest, MakesTheEnginesBatchesOfNumbers) {
  BenchOptions numbers = options("noop", 1);
  numbers.batch = 1 << 16;
  expect_the_engines_batches(numbers, {1, 4});
}

TEST_F(FloorTest, MakesTheEnginesBatchesOfImages) {
  std::vector<uint64_t> others;
  for (const char* workload : {"images", "jpeg", "jpeg_scaled"}) {
    const bool encoded = workload != std::string_view("images");
    test::write_workload_shards(folder_.path(), encoded ? test::jpeg_record : test::images_record, Compression::kNone,
                                40);
    for (const int threads : {1, 4}) {
      const std::unique_ptr<Floor> floor = make_floor(options(workload, threads));
      ASSERT_GT(floor->expected().size(), 6U);
      std::vector<uint64_t> digests;
      floor->pass(&digests);
      EXPECT_THAT(digests, ElementsAreArray(floor->expected())) << workload << ", " << threads << " threads";
      EXPECT_TRUE(threads > 1 || digests != std::exchange(others, digests)) << workload;
    }
  }
}

TEST_F(FloorTest, OfPicturesRefusesWhatLibjpegMakesNoRgbOf) {
  const auto refused = [&](const std::string& picture) {
    test::write_workload_shards(
        folder_.path(), [&](int number) { return test::picture_record(picture, number); }, Compression::kNone, 40);
    try {
      make_floor(options("jpeg", 1))->pass(nullptr);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kParse);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refused(test::written_png(test::drawn_picture(20, 30, 3))),
              AllOf(HasSubstr("Not a JPEG file"), HasSubstr("(shard " + folder_.path()), HasSubstr(", offset "),
                    HasSubstr(", record ")));
  EXPECT_THAT(refused(test::written_jpeg(test::drawn_picture(20, 30, 4))),
              AllOf(HasSubstr("color conversion"), HasSubstr("(shard "), HasSubstr(", record ")));
}

TEST_F(FloorTest, NamesTheShardThatChangesMeanwhile) {
  write(test::mlm_record);
  const std::unique_ptr<Floor> floor = make_floor(options("mlm", 2));
  const std::string path = folder_.path("3.tfrecord");
  std::string bytes = test::read_file(path);
  bytes[bytes.size() / 2] ^= 4;
  test::write_file(path, bytes);
  try {
    floor->pass(nullptr);
    FAIL() << "the damage was not seen";
  } catch (const ErrorException& error) {
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
}

TEST_F(FloorTest, IsPrintedAsTheEnginesTimeOverItsOwn) {
  write(test::mlm_record);
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {test::kDatasetBench, "mlm", "--shards", folder_.path("*.tfrecord"), "--floor",
                                         "--threads", "2", "--seconds", "0.05", "--warmup-seconds", "0"});
    return test::run_child(arguments);
  };
  const test::ChildResult result = run({"--json", "--rounds", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const ordered_json json = ordered_json::parse(result.out);
  EXPECT_EQ(json["threads"], 2);
  EXPECT_GT(json["compared_batches"], 100);
  ASSERT_EQ(json["rounds"].size(), 3U);
  std::vector<double> ratios;
  for (const ordered_json& round : json["rounds"]) {
    EXPECT_GT(round["floor_us_cpu_per_record"], 0);
    // From one core to another a line takes longer than an instruction. With one core there is no other.
    EXPECT_GT(round["line_hand_off_ns"], std::thread::hardware_concurrency() > 1 ? 1 : -1);
    ratios.push_back(round["engine_us_wall_per_record"].get<double>() /
                     round["floor_us_wall_per_record"].get<double>());
  }
  std::sort(ratios.begin(), ratios.end());
  EXPECT_DOUBLE_EQ(json["engine_over_floor"], ratios[1]);
  EXPECT_THAT(run({}).out, HasSubstr("mlm on 2 threads"));
  const test::ChildResult refused = run({"--state", "x"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--state has no effect with --floor"));
}

class FloorOfHashes final : public Floor {
 public:
  FloorOfHashes(std::vector<uint64_t> made, std::vector<uint64_t> expected)
      : made_(std::move(made)), expected_(std::move(expected)) {}
  int64_t rows() const override { return 1; }
  int64_t bytes() const override { return 1; }
  std::span<const uint64_t> expected() const override { return expected_; }
  void pass(std::vector<uint64_t>* digests) override {
    if (digests != nullptr) *digests = made_;
  }

 private:
  std::vector<uint64_t> made_;
  std::vector<uint64_t> expected_;
};

TEST(FloorContent, IsRefusedWhereItIsNotTheEngines) {
  const std::vector<uint64_t> engine = {7, 8, 9};
  FloorOfHashes same(engine, engine);
  EXPECT_NO_THROW(require_same_content(same));
  for (const auto& [made, said] : {std::pair(std::vector<uint64_t>{7, 8, 10},
                                             "batch 2 of 3 is another one than the engine's: 000000000000000a, "
                                             "not 0000000000000009"),
                                   std::pair(std::vector<uint64_t>{8, 7, 9}, "batch 0 of 3"),
                                   std::pair(std::vector<uint64_t>{7, 8}, "it makes 2 batches, the engine 3"),
                                   std::pair(std::vector<uint64_t>{7, 8, 9, 9}, "it makes 4 batches, the engine 3")}) {
    FloorOfHashes other(made, engine);
    try {
      require_same_content(other);
      FAIL() << said;
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kCardinality);
      EXPECT_THAT(error.what(), HasSubstr(said));
    }
  }
}

// Memory is not given to a record before the batch that needed it was written.
TEST(ReadPlan, GivesMemoryToOneRecordAtATime) {
  constexpr uint32_t kRows = 4000;
  Schedule schedule;
  schedule.shards.resize(3);
  for (ScheduledShard& shard : schedule.shards) {
    uint64_t offset = 0;
    for (uint32_t r = 0; r < kRows; ++r) {
      shard.records.push_back({offset, 500 + r * 97 % 1000});
      offset += shard.records.back().bytes + 16;
    }
  }
  for (uint32_t pass = 0; pass < 2; ++pass) {
    for (uint32_t i = 0; i < 3 * kRows; ++i) {
      // Neighbours change places, as in a shuffle.
      const uint32_t at = i / 3;
      schedule.rows.push_back({i % 3, at < kRows / 64 * 64 ? at / 64 * 64 + 63 - at % 64 : at, pass});
    }
  }
  for (size_t row = 0; row + 16 <= schedule.rows.size(); row += 16) {
    schedule.batches.push_back({.first_row = row, .num_rows = 16});
  }
  for (const bool copies : {true, false}) {
    const ReadPlan plan(schedule, copies, 2);
    ASSERT_GT(plan.windows.size(), 10U);
    std::vector<size_t> read_in(schedule.rows.size(), SIZE_MAX);
    std::vector<size_t> used_until(plan.memory / 64, 0);  // window after the last one that uses these 64 bytes
    std::vector<size_t> needed_in(schedule.rows.size());
    for (size_t w = 0; w < plan.windows.size(); ++w) {
      const ReadPlan::Window& window = plan.windows[w];
      for (size_t b = window.first_batch; b < window.first_batch + window.num_batches; ++b) {
        for (size_t i = 0; i < 16; ++i) needed_in[schedule.batches[b].first_row + i] = w;
      }
    }
    for (size_t w = 0; w < plan.windows.size(); ++w) {
      const ReadPlan::Window& window = plan.windows[w];
      for (size_t c = window.first_chunk; c < window.first_chunk + window.num_chunks; ++c) {
        const ReadPlan::Chunk& chunk = plan.chunks[c];
        size_t last = w;
        for (size_t r = chunk.first_record; r < chunk.first_record + chunk.num_records; ++r) {
          const ReadPlan::Record& record = plan.records[r];
          if (record.row == ReadPlan::kNoRow) continue;
          EXPECT_EQ(read_in[record.row], SIZE_MAX);
          read_in[record.row] = w;
          EXPECT_LE(w, needed_in[record.row]);
          last = std::max(last, needed_in[record.row]);
          if (!copies) continue;
          const uint64_t bytes = schedule.record(schedule.rows[record.row]).bytes;
          for (uint64_t at = record.place / 64; at <= (record.place + bytes - 1) / 64; ++at) {
            ASSERT_LE(used_until[at], w);
            used_until[at] = needed_in[record.row] + ReadPlan::kWindowsApart;
          }
        }
        if (copies) continue;
        for (uint64_t at = chunk.place / 64; at <= (chunk.place + chunk.end - chunk.begin - 1) / 64; ++at) {
          ASSERT_LE(used_until[at], w);
          used_until[at] = last + ReadPlan::kWindowsApart;
        }
      }
    }
    for (size_t row = 0; row < 16 * schedule.batches.size(); ++row) EXPECT_NE(read_in[row], SIZE_MAX) << row;
  }
}

}  // namespace
}  // namespace millrace::floor_test
