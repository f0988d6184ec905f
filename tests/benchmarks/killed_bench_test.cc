// dataset_bench as a process that is killed at random moments and goes on from the state that it left.
#include <charconv>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/child_process.h"
#include "tests/support/killed_runs.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::killed_bench_test {
namespace {

namespace fs = std::filesystem;
using test::ChildResult;
using test::read_file;
using test::run_child;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kShards = 5;
constexpr int kRecords = 400;
constexpr int64_t kBatches = 400;  // of 16 rows: over three epochs
constexpr int64_t kStateEvery = 7;

class KilledBench : public testing::Test {
 protected:
  void SetUp() override {
    for (int s = 0; s < kShards; ++s) {
      RecordWriter writer(data_.path(fmt::format("{}.tfrecord", s)),
                          {.compression = s == 4 ? Compression::kGzip : Compression::kNone});
      ExampleWriter example;
      for (int r = 0; r < kRecords; ++r) {
        example.add("input_ids", std::span<const int64_t>(std::vector<int64_t>(512, 1000 * s + r)));
        example.add("attention_mask", std::span<const int64_t>(std::vector<int64_t>(512, 1)));
        writer.write(example.finish());
      }
      writer.close();
    }
  }

  std::vector<std::string> command(const std::vector<std::string>& more, int64_t batches = kBatches) const {
    std::vector<std::string> arguments = {
        test::kDatasetBench, "mlm", "--shards",  data_.path("*.tfrecord"), "--batch", "16",
        "--shuffle",         "300", "--batches", std::to_string(batches),  "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::vector<std::string> logged(int threads, bool resumed) const {
    std::vector<std::string> more = {"--threads",     std::to_string(threads),
                                     "--state",       state_,
                                     "--state-every", std::to_string(kStateEvery),
                                     "--hash-log",    log_,
                                     "--consumer-us", "300"};
    if (resumed) more.insert(more.end(), {"--resume", state_});
    return command(more);
  }

  // Lines that are whole.
  static int64_t lines_of(const std::string& path) {
    const std::string text = read_file(path);
    return std::count(text.begin(), text.end(), '\n');
  }

  const TemporaryFolder data_;
  const TemporaryFolder out_;
  const std::string state_ = out_.path("pipeline.state");
  const std::string log_ = out_.path("hashes");
};

using Hashes = std::map<int64_t, std::string>;

// The lines of a log; those of one batch must be equal.
Hashes hashes_of(const std::string& text) {
  Hashes hashes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const size_t space = text.find(' ', begin);
    EXPECT_LT(space, end);
    const int64_t ordinal = std::stoll(text.substr(begin, space - begin));
    const std::string hash = text.substr(space + 1, end - space - 1);
    EXPECT_EQ(hashes.emplace(ordinal, hash).first->second, hash) << "batch " << ordinal;
    begin = end + 1;
  }
  return hashes;
}

TEST_F(KilledBench, GoesOnByteForByteWheneverItWasKilled) {
  const std::string straight_log = out_.path("straight");
  const ChildResult straight = run_child(command({"--threads", "2", "--hash-log", straight_log}));
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  const Hashes expected = hashes_of(read_file(straight_log));
  ASSERT_EQ(expected.size(), static_cast<size_t>(kBatches));
  const auto stream_hash = nlohmann::json::parse(straight.out).at("stream_hash");

  test::KillHistogram histogram(kStateEvery, kBatches);
  const auto start = [&](uint64_t attempt) { return logged(1 + static_cast<int>(attempt % 3), fs::exists(state_)); };
  const auto batches_in = [](const std::string& lines) {
    const Hashes so_far = hashes_of(lines);
    return so_far.empty() ? 0 : so_far.rbegin()->first + 1;
  };
  for (uint64_t stream = 0; !histogram.has_enough(); ++stream) {
    fs::remove(state_);
    fs::remove(log_);
    // One stream may be killed several times.
    const ChildResult last =
        histogram.kill_until_it_ends({.log = log_, .command = start, .steps_in = batches_in}, stream);
    ASSERT_EQ(last.exit_code, 0) << last.err;
    ASSERT_EQ(hashes_of(read_file(log_)), expected) << "stream " << stream;
    const auto json = nlohmann::json::parse(last.out);
    EXPECT_EQ(json.at("stream_hash"), stream_hash);
    EXPECT_FALSE(json.contains("stream_hash_from"));
  }
  fmt::print("{}\n", histogram.to_string());
  EXPECT_GE(histogram.num_that_count(), test::num_kills());
}

TEST_F(KilledBench, ATornLastLineIsDroppedAndTheLinesBeforeItStay) {
  const auto run = [&](int64_t batches, const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--hash-log", log_, "--state", state_};
    options.insert(options.end(), more.begin(), more.end());
    const ChildResult result = run_child(command(options, batches));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string straight = nlohmann::json::parse(run(40, {})).at("stream_hash");
  const Hashes expected = hashes_of(read_file(log_));
  run(20, {});
  EXPECT_EQ(lines_of(log_), 20) << "a new run makes a new log";
  test::write_file(log_, read_file(log_) + "20 00ab");
  const auto resumed = nlohmann::json::parse(run(40, {"--resume", state_}));
  EXPECT_EQ(resumed.at("stream_hash"), straight);
  EXPECT_EQ(resumed.at("resumed_after"), 20);
  EXPECT_EQ(resumed.at("batches"), 20);
  EXPECT_EQ(lines_of(log_), 40);
  EXPECT_EQ(hashes_of(read_file(log_)), expected);
  // Nothing is left to do.
  EXPECT_EQ(nlohmann::json::parse(run(40, {"--resume", state_})).at("batches"), 0);
}

TEST_F(KilledBench, AStateOfOtherOptionsIsOneLineThatSaysWhatDiffers) {
  ASSERT_EQ(run_child(command({"--state", state_}, 20)).exit_code, 0);
  const ChildResult refused = run_child(command({"--resume", state_, "--seed", "43"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("state: the state is of another dataset: operator 0 is tfrecord("),
                                 HasSubstr("seed=42")));
  test::write_file(state_, "no state");
  EXPECT_THAT(run_child(command({"--resume", state_})).err, HasSubstr("no state of a pipeline"));
  EXPECT_THAT(run_child(command({"--resume", out_.path("none")})).err, HasSubstr("cannot read the state"));
}

}  // namespace
}  // namespace millrace::killed_bench_test
