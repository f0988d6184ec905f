#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/benchmarks/image_message.h"
#include "tests/benchmarks/workload_shards.h"
#include "tests/support/child_process.h"
#include "tests/support/encoded_pictures.h"
#include "tests/support/places.h"
#include "tests/support/stalled_child.h"
#include "tests/support/temporary_folder.h"

namespace millrace::dataset_bench_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using test::ChildResult;
using test::run_child;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kRecords = 300;
constexpr int kBad = 41;
constexpr size_t kFrame = 16;  // bytes of a record's frame: length, its CRC, the payload's CRC

/// Two shards as the workload `mlm` wants them, `a` and `b`.
class DatasetBench : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    for (const char* name : {"a", "b"}) write_shard(name, good_record(kBad));
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string record(const std::map<std::string, std::vector<int64_t>>& features) {
    ExampleWriter example;
    for (const auto& [name, values] : features) example.add(name, std::span<const int64_t>(values));
    return std::string(example.finish());
  }
  static std::string good_record(int number) {
    return record(
        {{"input_ids", std::vector<int64_t>(512, 5 + number)}, {"attention_mask", std::vector<int64_t>(512, 1)}});
  }

  // Good records, but for this one in place of number kBad.
  void write_shard(const std::string& name, const std::string& in_the_middle,
                   Compression compression = Compression::kNone) {
    RecordWriter writer(path(name), {.compression = compression});
    offset_ = 0;
    for (int r = 0; r < kRecords; ++r) {
      if (r < kBad) offset_ += good_record(r).size() + kFrame;
      writer.write(r == kBad ? in_the_middle : good_record(r));
    }
    writer.close();
  }

  void change_byte(const std::string& name, size_t at) const {
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 4));
    ASSERT_TRUE(file.good());
  }

  std::string path(const std::string& name) const { return (folder_ / (name + ".tfrecord")).string(); }
  std::string place(const std::string& name, const std::string& stage = "") const {
    return fmt::format("(shard {}, offset {}, record {}{})", path(name), offset_, kBad,
                       stage.empty() ? "" : ", stage " + stage);
  }
  std::string glob() const { return (folder_ / "*.tfrecord").string(); }

  static ChildResult bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::kDatasetBench);
    return run_child(arguments);
  }
  ChildResult bench_shards(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--shards", glob(), "--batch", "8"});
    return bench(std::move(arguments));
  }
  ChildResult hashed(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--batches", "100", "--json"});
    return bench_shards(std::move(arguments));
  }

  static void expect_refused(const ChildResult& result, const std::string& line) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "dataset_bench: " + line + "\n");
  }

  // One line that says what and where, the same whatever the threads and the plan.
  void expect_error(const std::string& workload, const std::string& begins, const std::string& ends) const {
    std::string line;
    for (const char* threads : {"1", "8"}) {
      for (const bool defer_parse : {true, false}) {
        std::vector<std::string> arguments = {workload, "--threads", threads};
        if (!defer_parse) arguments.insert(arguments.end(), {"--no-rewrite", "defer_parse"});
        const ChildResult result = hashed(arguments);
        EXPECT_EQ(result.exit_code, 1);
        EXPECT_EQ(result.out, "");
        EXPECT_THAT(result.err, StartsWith("dataset_bench: " + begins));
        EXPECT_THAT(result.err, EndsWith(ends + "\n"));
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
        if (line.empty()) line = result.err;
        EXPECT_EQ(result.err, line) << threads << " threads";
      }
    }
  }

  fs::path folder_ =
      fs::temp_directory_path() / fmt::format("millrace_dataset_bench_{}_{}", ::getpid(),
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
  size_t offset_ = 0;  // of record kBad
};

TEST_F(DatasetBench, GivesOneStreamHashForAnyNumberOfThreadsAndEveryPlan) {
  const auto hash = [&](std::vector<std::string> arguments) {
    const ChildResult result = hashed(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return ordered_json::parse(result.out).at("stream_hash").get<std::string>();
  };
  for (const char* workload : {"mlm", "read"}) {
    const std::string expected = hash({workload, "--threads", "1"});
    EXPECT_EQ(expected.size(), 16U);
    for (const char* threads : {"2", "4", "8"}) {
      EXPECT_EQ(hash({workload, "--threads", threads}), expected) << threads << " threads";
    }
    EXPECT_EQ(hash({workload, "--threads", "2", "--no-rewrite", "defer_parse"}), expected);
    EXPECT_EQ(hash({workload, "--consumer-us", "200"}), expected);
    EXPECT_EQ(hash({workload, "--cycle-length", "999999999999"}), expected);
    EXPECT_NE(hash({workload, "--cycle-length", "1"}), expected);
  }
  EXPECT_NE(hash({"mlm", "--seed", "1"}), hash({"mlm", "--seed", "2"}));
}

TEST_F(DatasetBench, GivesOneStreamHashInEveryWorkload) {
  const fs::path folder = folder_ / "workloads";
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, int records, const std::function<void(int, ExampleWriter&)>& add,
                         Compression compression = Compression::kNone) {
    for (const char* shard : {"0", "1"}) {
      RecordWriter writer((folder / (name + shard + ".tfrecord")).string(), {.compression = compression});
      ExampleWriter example;
      for (int i = 0; i < records; ++i) {
        add(*shard == '0' ? i : records + i, example);
        writer.write(example.finish());
      }
      writer.close();
    }
  };
  const auto add_ids = [](ExampleWriter& example, const char* key, size_t count, int64_t value) {
    example.add(key, std::span<const int64_t>(std::vector<int64_t>(count, value)));
  };
  write("quest", 40, [&](int i, ExampleWriter& example) {
    for (const char* key : {"input_ids_question", "input_mask_question"}) add_ids(example, key, 416, i);
    for (const char* key : {"input_ids_answer", "input_mask_answer"}) add_ids(example, key, 480, 2 * i);
    example.add("labels", std::span<const float>(std::vector<float>(30, 0.25F)));
  });
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const auto add_row = [&](int i, ExampleWriter& example) {
      for (const char* key : {"input_ids", "attention_mask"}) add_ids(example, key, 512, i % 40 + 5);
    };
    write(compression == Compression::kNone ? "masked" : "packed", 80, add_row, compression);
  }
  write("tokens", 200, [&](int i, ExampleWriter& example) {
    add_ids(example, "tokens", static_cast<size_t>(i * 37 % 600), i);
    add_ids(example, "label", 1, i % 2);
  });
  write("pairs", 3, [&](int i, ExampleWriter& example) {
    for (const int64_t side : {int64_t{128}, int64_t{512}}) {
      const std::string image = test::image_message(side, static_cast<float>(i));
      const std::string_view bytes(image);
      example.add(side == 128 ? "low_res_image" : "high_res_image", std::span<const std::string_view>(&bytes, 1));
    }
  });
  test::index_workload_shards((folder / "tokens*.tfrecord").string());
  struct Case {
    std::vector<std::string> arguments;
    std::string shards;
    const char* batches;
    std::string stream_hash;  // as it was when the test was written: where it changes, runs do not go on as they were
  };
  const std::string masked_batches = "f06264bf4f5e5452";
  const std::string quest_batches = "13d709253c93fa3e";
  const std::string numbers = "79f68787a58680e8";
  const std::vector<Case> cases = {{{"mlm"}, "masked", "9", masked_batches},
                                   {{"mlm_gz"}, "packed", "9", masked_batches},
                                   {{"read"}, "masked", "9", "ba16faeb87ea18fb"},
                                   {{"quest"}, "quest", "9", quest_batches},
                                   {{"quest", "--cache"}, "quest", "9", quest_batches},
                                   {{"bucket"}, "tokens", "9", "a79f3fd25ef55b40"},
                                   {{"pad"}, "tokens", "9", "724bc61dc3730e1b"},
                                   {{"images"}, "pairs", "3", "4f01869c52e223c5"},
                                   {{"examples"}, "tokens", "9", "7efd617c51ed0fa4"},
                                   {{"global_shuffle"}, "tokens", "9", "d9605dd4c6e3e025"},
                                   {{"noop"}, "", "9", numbers},
                                   {{"noop_rows"}, "", "9", numbers}};
  // Of each the stream is the same for any number of threads, without the rewrites, and in every build.
  const std::vector<std::vector<std::string>> ways = {
      {"--threads", "1"},
      {"--threads", "4"},
      {"--threads", "2", "--no-rewrite", "defer_parse", "--no-rewrite", "defer_copy"}};
  for (const Case& one : cases) {
    for (const std::vector<std::string>& way : ways) {
      std::vector<std::string> arguments = one.arguments;
      arguments.insert(arguments.end(), way.begin(), way.end());
      if (!one.shards.empty()) {
        arguments.insert(arguments.end(), {"--shards", (folder / (one.shards + "*.tfrecord")).string()});
      }
      arguments.insert(arguments.end(), {"--batches", one.batches, "--json"});
      const ChildResult result = bench(arguments);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const auto json = ordered_json::parse(result.out);
      EXPECT_GT(json.at("records"), 0);
      const auto hash = json.at("stream_hash").get<std::string>();
      EXPECT_EQ(hash, one.stream_hash) << fmt::format("{} {}", fmt::join(one.arguments, " "), fmt::join(way, " "));
    }
  }
}

TEST_F(DatasetBench, FindsOutWhatExamplesAreLike) {
  const ChildResult result = bench({glob(), "--batch", "8", "--batches", "3", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "256 records looked at; all features are parsed, shuffled and batched:\n"
            "parse_example({\n"
            "    fixed_len(\"attention_mask\", {512}, DType::kInt64),  // 512 values\n"
            "    fixed_len(\"input_ids\", {512}, DType::kInt64),       // 512 values\n"
            "})\n");
  const auto json = ordered_json::parse(result.out);
  EXPECT_EQ(json.at("workload"), "examples");
  EXPECT_EQ(json.at("records"), 24);
  EXPECT_EQ(json.at("stream_hash"),
            ordered_json::parse(bench({"examples", "--shards", glob(), "--batch", "8", "--batches", "3", "--json"}).out)
                .at("stream_hash"));
}

TEST_F(DatasetBench, DecodesThePicturesOfRecordsThatHaveSome) {
  RecordWriter writer(path("pictures"), {});
  for (unsigned i = 1; i <= 20; ++i) {
    const test::Picture picture = test::drawn_picture(30, 40 + static_cast<int>(i), 3, i);
    const std::string encoded = i % 2 == 0 ? test::written_png(picture) : test::written_jpeg(picture);
    ExampleWriter example;
    example.add("image/encoded", std::array<std::string_view, 1>{encoded});
    example.add("image/class/label", std::array<int64_t, 1>{i});
    example.add("image/height", std::array<int64_t, 1>{30});
    writer.write(example.finish());
  }
  writer.close();
  const ChildResult result = bench({path("pictures"), "--batch", "4", "--batches", "10", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("20 records looked at; shuffled and decoded: random resized crops of 224, flipped, "
                                    "normalized and batched:"));
  const auto json = ordered_json::parse(result.out);
  EXPECT_EQ(json.at("records"), 40);
  EXPECT_EQ(
      json.at("stream_hash"),
      ordered_json::parse(bench({path("pictures"), "--batch", "4", "--batches", "10", "--threads", "1", "--json"}).out)
          .at("stream_hash"));
  // The workloads by name do the same. No window is large enough to be decoded at a half of its size.
  const auto hash = [&](const char* workload, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {workload,  "--shards", path("pictures"), "--shuffle", "7",
                                          "--batch", "4",        "--batches",      "10",        "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ChildResult run = bench(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return ordered_json::parse(run.out).at("stream_hash");
  };
  const auto expected = hash("examples", {});
  for (const char* workload : {"jpeg", "jpeg_scaled"}) {
    EXPECT_EQ(hash(workload, {"--threads", "1"}), expected) << workload;
    EXPECT_EQ(hash(workload, {"--threads", "4", "--no-rewrite", "defer_parse"}), expected) << workload;
  }
  EXPECT_NE(hash("jpeg", {"--seed", "43"}), expected);
  const ChildResult shown = bench({path("pictures"), "--batch", "4", "--print", "1"});
  EXPECT_THAT(shown.out + shown.err, HasSubstr("image/encoded float32 [4,224,224,3]"));
}

TEST_F(DatasetBench, PrintsNoNameOfAFeatureRaw) {
  RecordWriter writer(path("names"), {});
  writer.write(record({{"\x1b[31mred", {1}}, {"new\nline", {2}}, {"c1\xc2\x9b", {3, 4}}}));
  writer.close();
  for (const std::vector<std::string>& way :
       std::vector<std::vector<std::string>>{{"--print", "1"},
                                             {"--check"},
                                             {"--explain"},
                                             {"--explain-dot"},
                                             {"--max-padding", "\x1b[31mnone=0.5", "--check"},
                                             {"--batches", "1"},
                                             {"--batches", "1", "--json"}}) {
    std::vector<std::string> arguments = {path("names"), "--batch", "1"};
    arguments.insert(arguments.end(), way.begin(), way.end());
    const ChildResult result = bench(arguments);
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("\x1b"))) << way[0];
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("new\nline"))) << way[0];
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("\xc2\x9b"))) << way[0];
    EXPECT_EQ(result.exit_code, way[0] == "--max-padding" ? 1 : 0) << result.err;
  }
  const ChildResult printed = bench({path("names"), "--batch", "1", "--print", "1"});
  EXPECT_THAT(printed.out, HasSubstr("  \\x1b[31mred int64 [1]: 1\n"));
  EXPECT_THAT(printed.out, HasSubstr("  new\\nline int64 [1]: 2\n"));
  EXPECT_THAT(printed.err, HasSubstr("fixed_len(\"\\033[31mred\", {}, DType::kInt64)"));
}

TEST_F(DatasetBench, SaysWhatOfUnknownRecordsIsLeftOut) {
  const std::string no_kind("\x0a\x05\x0a\x03\x0a\x01z", 7);
  RecordWriter writer(path("c"), {});
  for (int i = 0; i < 3; ++i) writer.write(record({{"id", {1}}}) + no_kind);
  writer.close();
  const ChildResult result = bench({path("c"), "--batch", "1", "--batches", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("3 records looked at; their features are parsed, but for 1 that is left out, "
                                    "shuffled and batched:\n"));
  EXPECT_THAT(result.err, HasSubstr("    // left out: \"z\", of which no record has a value"));

  RecordWriter none(path("d"), {});
  none.write(no_kind);
  none.close();
  const ChildResult read = bench({path("d"), "--batch", "1", "--batches", "1"});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_EQ(read.err,
            "1 records looked at; they are no tensorflow.Examples with features (left out: \"z\", of which no "
            "record has a value, so that its type is not known): shuffled and batched as they are\n");
}

TEST_F(DatasetBench, NamesTheRecordThatKeepsItFromTellingWhatTheFirstRecordsAreLike) {
  const std::string first = record({{"id", {1}}});
  ExampleWriter other;
  const float one = 1;
  other.add("id", std::span<const float>(&one, 1));
  RecordWriter writer(path("c"), {});
  writer.write(first);
  writer.write(std::string(other.finish()));
  writer.close();
  expect_refused(bench({(folder_ / "[c]*").string(), "--batches", "1"}),
                 "parse: feature 'id' holds float32, and int64 in an earlier record; what the first "
                 "records are like cannot be told: measure them as they are with the workload read, or write the "
                 "pipeline down for --pipeline (shard " +
                     path("c") + fmt::format(", offset {}, record 1)", first.size() + kFrame));
}

TEST_F(DatasetBench, MeasuresRecordsThatAreNoExamplesAsTheyAre) {
  RecordWriter writer(path("c"), {});
  for (int i = 0; i < 20; ++i) writer.write("no protobuf");
  writer.close();
  const ChildResult result = bench({path("c"), "--batch", "5", "--batches", "3", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(
      result.err,
      "20 records looked at; they are no tensorflow.Examples with features (an invalid wire type at byte 1 of the "
      "record): shuffled and batched as they are\n");
  EXPECT_EQ(ordered_json::parse(result.out).at("records"), 15);
}

// Of which 16,384 take more.
TEST_F(DatasetBench, ShufflesAsManyRecordsOfAGlobAsTakeAGibibyte) {
  RecordWriter writer(path("c"), {});
  const std::string record(100'000, '\xff');
  for (int i = 0; i < 8; ++i) writer.write(record);
  writer.close();
  const std::vector<std::string> options = {path("c"), "--batch", "2", "--batches", "3", "--json"};
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = options;
    all.insert(all.end(), more.begin(), more.end());
    return bench(all);
  };
  const ChildResult by_default = run({});
  EXPECT_THAT(by_default.err, HasSubstr("shuffled by 10737 and batched"));
  EXPECT_EQ(ordered_json::parse(by_default.out).at("options").at("shuffle"), 10737);
  EXPECT_EQ(ordered_json::parse(run({"--shuffle", "300"}).out).at("options").at("shuffle"), 300);
  // One stream, whatever the budget is.
  const ChildResult swept = run({"--sweep", "memory-mb=100,200", "--rounds", "1"});
  EXPECT_EQ(swept.exit_code, 0) << swept.err;
  const ordered_json runs = ordered_json::parse(swept.out).at("runs");
  ASSERT_EQ(runs.size(), 2U);
  for (const auto& one : runs) {
    EXPECT_EQ(one.at("result").at("options").at("shuffle"), 10737);
  }
}

TEST_F(DatasetBench, SaysWhatToDoAboutRecordsOfWhichSomeAreNoExamples) {
  RecordWriter writer(path("c"), {});
  writer.write(record({{"x", {1}}}));
  writer.write("no protobuf");
  writer.close();
  expect_refused(bench({path("c"), "--batches", "3"}),
                 "parse: an invalid wire type at byte 1 of the record; what the first records are "
                 "like cannot be told: measure them as they are with the workload read, or write the pipeline down "
                 "for --pipeline (shard " +
                     path("c") + fmt::format(", offset {}, record 1)", record({{"x", {1}}}).size() + kFrame));
  RecordWriter(path("empty"), {.compression = Compression::kGzip}).close();
  expect_refused(bench({path("empty"), "--batches", "3"}),
                 "invalid_argument: there are no records (file " + path("empty") + ")");
}

TEST_F(DatasetBench, GivesOneStreamHashWhenAllItsThreadsRan) {
  const auto run = [&](const std::string& threads, int batches) {
    const ChildResult result =
        bench_shards({"mlm", "--threads", threads, "--batches", std::to_string(batches), "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ordered_json::parse(result.out);
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  for (const int threads : {2, 4, 8}) {
    // Workers come when there is work for them, and when the system lets them: a run that was too short for all of them
    // is made longer, or again.
    int batches = 400;
    ordered_json parallel = run(std::to_string(threads), batches);
    while (parallel["distinct_workers"].get<int>() < threads && std::chrono::steady_clock::now() < deadline) {
      batches = std::min(4 * batches, 25600);
      parallel = run(std::to_string(threads), batches);
    }
    EXPECT_GE(parallel["distinct_workers"].get<int>(), threads) << batches << " batches";
    EXPECT_EQ(parallel["stream_hash"], run("1", batches)["stream_hash"]) << threads << " threads";
  }
}

TEST_F(DatasetBench, PrintsOneJsonObjectWithItsKeys) {
  const auto keys =
      ElementsAre("workload", "records", "records_per_s", "bytes_per_s", "us_wall_per_record", "us_cpu_per_record",
                  "first_batch_ms", "peak_rss_mb", "threads", "distinct_workers", "bottleneck", "limited_by", "batches",
                  "stream_hash", "peak_buffer_mb", "next_us", "pipeline_s", "consumer_waiting_s", "stages", "samples",
                  "options", "shards", "machine");
  const auto keys_of = [](const ordered_json& json) {
    std::vector<std::string> names;
    for (const auto& [name, value] : json.items()) names.push_back(name);
    return names;
  };
  const ChildResult counted = hashed({"mlm", "--threads", "2"});
  ASSERT_EQ(counted.exit_code, 0) << counted.err;
  EXPECT_EQ(counted.out.find('\n'), counted.out.size() - 1);
  const ordered_json json = ordered_json::parse(counted.out);
  EXPECT_THAT(keys_of(json), keys);
  EXPECT_EQ(json["workload"], "mlm");
  EXPECT_EQ(json["batches"], 100);
  EXPECT_EQ(json["records"], 800);
  EXPECT_EQ(json["threads"], 2);
  EXPECT_TRUE(json["stream_hash"].is_string());
  // Two ids and a mask of 512 values: int32, int32, int64.
  const double bytes_per_record = json["bytes_per_s"].get<double>() / json["records_per_s"].get<double>();
  EXPECT_NEAR(bytes_per_record, 512 * (4 + 4 + 8), 1e-6);
  EXPECT_NEAR(json["us_wall_per_record"].get<double>() * json["records_per_s"].get<double>(), 1e6, 1);
  EXPECT_GT(json["peak_rss_mb"], 1);
  EXPECT_GT(json["first_batch_ms"], 0);

  const ChildResult timed = bench_shards({"read", "--json", "--seconds", "0.05", "--warmup-seconds", "0.01"});
  ASSERT_EQ(timed.exit_code, 0) << timed.err;
  const ordered_json timed_json = ordered_json::parse(timed.out);
  EXPECT_THAT(keys_of(timed_json), keys);
  EXPECT_TRUE(timed_json["stream_hash"].is_null());
  EXPECT_EQ(timed_json["records"].get<int64_t>(), 8 * timed_json["batches"].get<int64_t>());
  EXPECT_GT(timed_json["batches"], 0);
}

TEST_F(DatasetBench, PrintsATableForPeople) {
  const ChildResult result = bench_shards({"mlm", "--batches", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* word : {"stage", "parse_example", "records/s", "first batch", "limited by", "stream_hash"}) {
    EXPECT_THAT(result.out, HasSubstr(word));
  }
  EXPECT_THAT(result.out, HasSubstr("24 in 3 batches"));
}

TEST_F(DatasetBench, PrintsElements) {
  const ChildResult result = bench_shards({"mlm", "--print", "2", "--cycle-length", "1", "--shuffle", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("element 0\n  input_ids int32 [8,512]: "));
  EXPECT_THAT(result.out, HasSubstr("\n  attention_mask int64 [8,512]: [1 1 1 1 "));
  EXPECT_THAT(result.out, HasSubstr("\n  labels int32 [8,512]: "));
  EXPECT_THAT(result.out, HasSubstr("\nelement 1\n"));
  EXPECT_EQ(result.out.find("element 2"), std::string::npos);
}

TEST_F(DatasetBench, PrintsTheRowsOfElements) {
  const std::string path = (folder_ / "rows.txtpb").string();
  const auto printed = [&](const std::string& steps) {
    std::ofstream(path) << "version: 1\n" << steps;
    return bench({"--pipeline", path, "--print", "1"}).out;
  };
  const std::string rows =
      R"(steps { rows { features { name: "t" dtype: INT64 integers: [1,2,3,4,5,6] row_lengths { sizes: [1,2,0,2,1] } } } }
)";
  EXPECT_EQ(printed(rows + "steps { ragged_batch { size: 2 } }\nsteps { batch { size: 2 } }"),
            "element 0\n  t int64 [2,ragged,ragged]: [[1] [2 3]] [[] [4 5]]\n");
  EXPECT_EQ(printed(rows + "steps { ragged_batch { size: 5 } }"),
            "element 0\n  t int64 [5,ragged]: [1] [2 3] [] [4 5] [6]\n");
  EXPECT_EQ(printed(rows + "steps { padded_batch { size: 5 } }\nsteps { batch { size: 1 } }"),
            "element 0\n  t int64 [1,5,2]: [[1 0] [2 3] [0 0] [4 5] [6 0]]\n");
  const std::string range = "steps { range { start: 0 stop: 100 } }\nsteps { batch { size: 18 } }\n";
  EXPECT_EQ(printed(range), "element 0\n  value int64 [18]: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ...\n");
  EXPECT_EQ(printed(range + "steps { batch { size: 1 } }"),
            "element 0\n  value int64 [1,18]: [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ...\n");
  EXPECT_EQ(printed("steps { range { start: 0 stop: 16 } }\nsteps { batch { size: 8 } }\nsteps { batch { size: 2 } }"),
            "element 0\n  value int64 [2,8]: [0 1 2 3 4 5 6 7] [8 9 10 11 12 13 14 15]\n");
  EXPECT_EQ(printed(R"(steps { rows { features { name: "t" dtype: INT64 row_lengths { sizes: [0,0] } } } }
steps { repeat { count: 10 } }
steps { ragged_batch { size: 18 } })"),
            "element 0\n  t int64 [18,0]: [] [] [] [] [] [] [] [] [] [] [] [] [] [] [] [] ...\n");
}

TEST_F(DatasetBench, ExplainsThePlan) {
  const ChildResult result = bench_shards({"mlm", "--explain", "--threads", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("as written:\n"));
  EXPECT_THAT(result.out, HasSubstr("\nrewrites:\ndefer_parse: "));
  EXPECT_THAT(result.out, HasSubstr("\nas it runs:\n"));
  EXPECT_THAT(result.out, HasSubstr("shuffle(buffer_size=16384, seed=42)"));
  EXPECT_THAT(bench_shards({"mlm", "--explain", "--no-rewrite", "defer_parse"}).out, HasSubstr("\nrewrites:\nnone\n"));
}

TEST_F(DatasetBench, DrawsThePlan) {
  const ChildResult result = bench_shards({"read", "--explain-dot"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("digraph pipeline {\n  node [shape=box];\n  n0 [label=\"tfrecord\n"));
  EXPECT_THAT(result.out, HasSubstr("  n1 [label=\"repeat\"];\n  n0 -> n1 [label=\"record bytes []\"];\n"));
  EXPECT_THAT(result.out, EndsWith("  n2 -> n3 [label=\"record bytes [8]\"];\n}\n"));
}

TEST_F(DatasetBench, RunsASavedPipeline) {
  const auto hash = [](const ChildResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ordered_json::parse(result.out).at("stream_hash").get<std::string>();
  };
  for (const char* workload : {"mlm", "read"}) {
    const std::string expected = hash(hashed({workload, "--threads", "2"}));
    for (const std::string& file : {(folder_ / "def.txtpb").string(), (folder_ / "def.json").string()}) {
      ASSERT_EQ(bench_shards({workload, "--save-pipeline", file}).err, "");
      EXPECT_EQ(hash(bench({"--pipeline", file, "--batches", "100", "--json"})), expected) << file;
    }
  }
  const std::string file = (folder_ / "def.txtpb").string();
  expect_refused(bench({"--pipeline", file, "--shards", glob()}),
                 "invalid_argument: --shards has no effect with --pipeline, which says it");
  expect_refused(bench({"mlm", "--pipeline", file}),
                 "invalid_argument: the workload mlm and --pipeline are two pipelines; give one");
  std::ofstream(file, std::ios::app) << "steps { butch { size: 2 } }\n";
  const ChildResult wrong = bench({"--pipeline", file});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, StartsWith("dataset_bench: invalid_argument: " + file + ":"));
  EXPECT_THAT(wrong.err, HasSubstr("has no field named \"butch\""));
}

TEST_F(DatasetBench, SavesElements) {
  const std::string saved = (folder_ / "saved").string();
  const ChildResult result = bench_shards({"mlm", "--save", saved, "--batches", "3"});
  EXPECT_THAT(result.out, ContainsRegex("saved 3 elements to .*/saved: [0-9.]+ MB in [0-9.]+ s, [0-9.]+ MB/s\n"));
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(fs::exists(saved + "/description"));
  expect_refused(
      bench_shards({"mlm", "--save", saved, "--batches", "3"}),
      "invalid_argument: '" + saved +
          "' holds 3 elements already, which save wrote; overwriting them puts others in their place (stage save)");
  const ChildResult again = bench_shards({"mlm", "--save", saved, "--batches", "5", "--overwrite", "--json"});
  EXPECT_EQ(ordered_json::parse(again.out).at("elements"), 5) << again.err;
  expect_refused(bench_shards({"mlm", "--save", saved}), "invalid_argument: save: the dataset has no end");
  expect_refused(bench_shards({"mlm", "--save", saved, "--print", "2"}),
                 "invalid_argument: --print has no effect with --save");
  expect_refused(bench_shards({"mlm", "--overwrite"}), "invalid_argument: --overwrite has no effect without --save");
}

TEST_F(DatasetBench, ChecksADataset) {
  const ChildResult result = bench_shards({"mlm", "--check", "--check-elements", "5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("spec\n  input_ids int32 [8,512]\n"));
  EXPECT_THAT(result.out, HasSubstr("cardinality: infinite\na short last batch: batch drops it\n"
                                    "read: 5 elements, 40 rows, there are more\ndifferent shapes: 1\n"));
  const ChildResult broken =
      bench_shards({"mlm", "--check", "--json", "--require-known-cardinality", "--require-fixed-shapes"});
  EXPECT_EQ(broken.exit_code, 1);
  const auto json = ordered_json::parse(broken.out);
  EXPECT_EQ(json["distinct_shapes"], 1);
  EXPECT_EQ(json["broken"], ordered_json::array({"the cardinality is infinite"}));
  EXPECT_EQ(json["without_values"], ordered_json::array());
  EXPECT_EQ(json["padding"], ordered_json::array());
  expect_refused(
      bench_shards({"mlm", "--check", "--max-padding", "attention_mask=0.25"}),
      "invalid_argument: check: max_padding of 'attention_mask', which no operator pads; padded features: none");
  const std::string path = (folder_ / "padded.txtpb").string();
  std::ofstream(path) << R"(version: 1
steps { rows { features { name: "t" dtype: INT64 integers: [1,2,3,4,5,6] row_lengths { sizes: [1,2,1,2] } } } }
steps { padded_batch { size: 4 } }
)";
  const ChildResult padded = bench({"--pipeline", path, "--check", "--json", "--max-padding", "t=0.1"});
  EXPECT_EQ(padded.exit_code, 1) << padded.err;
  EXPECT_EQ(ordered_json::parse(padded.out)["padding"], ordered_json::array({{{"operator", "padded_batch"},
                                                                              {"feature", "t"},
                                                                              {"elements", 1},
                                                                              {"values", 8},
                                                                              {"padded", 2},
                                                                              {"share", 0.25}}}));
  EXPECT_EQ(bench({"--pipeline", path, "--check", "--max-padding", "t=0.25"}).exit_code, 0);
  expect_refused(bench_shards({"mlm", "--check", "--max-padding", "input_ids"}),
                 "invalid_argument: --max-padding is 'input_ids', must be FEATURE=SHARE, 0 to 1");
  expect_refused(bench_shards({"mlm", "--max-distinct-shapes", "3"}),
                 "invalid_argument: --max-distinct-shapes has no effect without --check");
}

TEST_F(DatasetBench, PrintsItsHelp) {
  const ChildResult result = bench({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* word : {"usage: dataset_bench GLOB", "mlm", "read", "defer_parse", "--consumer-us"}) {
    EXPECT_THAT(result.out, HasSubstr(word));
  }
  // What workloads do begins in one column, after the longest name.
  EXPECT_THAT(result.out, HasSubstr("\n  read           the records as they are"));
  EXPECT_THAT(result.out, HasSubstr("\n  global_shuffle the same in one random order"));
}

TEST_F(DatasetBench, RefusesACommandLineThatCannotWorkInOneLine) {
  const std::string see = "; see dataset_bench --help";
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {
      {{}, "nothing to measure: TFRecord files such as 'data/*.tfrecord', a workload or --pipeline" + see},
      {{"mlm"}, "--shards is missing" + see},
      {{"mlm", "--shards", ""}, "--shards is missing" + see},
      {{"mln", "--shards", glob()},
       "no workload and no file 'mln'; workloads: read, global_shuffle, examples, mlm, mlm_gz, quest, bucket, pad, "
       "images, jpeg, jpeg_scaled, noop, noop_rows"},
      {{"--shards", glob()},
       "--shards needs a workload, as in `dataset_bench mlm --shards FILES`; `dataset_bench FILES` needs none"},
      {{glob(), "--shards", glob()}, glob() + " and --shards are two data sets; give one"},
      {{"mlm", "more", "--shards", glob()},
       "'more' is a word too many (patterns such as 'data/*.tfrecord' go in quotes, so that the shell leaves them "
       "alone)" +
           see},
      {{"mlm", "--shards", glob(), "--thread", "2"}, "unrecognised option '--thread'" + see},
      {{"mlm", "--shards", glob(), "-threads", "2"}, "unrecognised option '-threads'" + see},
      {{"mlm", "--shards", glob(), "--threads", "two"}, "--threads is two; 0 to 1024 are possible"},
      {{"mlm", "--shards", glob(), "--threads"}, "the required argument for option '--threads' is missing" + see},
      {{"mlm", "--shards", glob(), "--threads", "-1"}, "--threads is -1; 0 to 1024 are possible"},
      {{"mlm", "--shards", glob(), "--threads", "2000"}, "--threads is 2000; 0 to 1024 are possible"},
      {{"mlm", "--shards", glob(), "--batch", "0"}, "--batch is 0; 1 to 1000000000 are possible"},
      {{"mlm", "--shards", glob(), "--batch", "8x"}, "--batch is 8x; 1 to 1000000000 are possible"},
      {{"mlm", "--shards", glob(), "--batches", "0"}, "--batches is 0; 1 to 1000000000000 are possible"},
      {{"mlm", "--shards", glob(), "--batches", "1", "--batches", "2"},
       "option '--batches' cannot be specified more than once" + see},
      {{"mlm", "--shards", glob(), "--shuffle", "0"}, "--shuffle is 0; 1 to 1000000000 are possible"},
      {{"mlm", "--shards", glob(), "--cycle-length", "0"}, "--cycle-length is 0; 1 to 1000000000000 are possible"},
      {{"mlm", "--shards", glob(), "--seconds", "0"}, "--seconds is 0; 0.001 to 100000000 are possible"},
      {{"mlm", "--shards", glob(), "--seconds", "nan"}, "--seconds is nan; 0.001 to 100000000 are possible"},
      {{"mlm", "--shards", glob(), "--seconds", "inf"}, "--seconds is inf; 0.001 to 100000000 are possible"},
      {{"mlm", "--shards", glob(), "--warmup-seconds", "inf"}, "--warmup-seconds is inf; 0 to 100000000 are possible"},
      {{"mlm", "--shards", glob(), "--damage", "maybe"}, "--damage is 'maybe', must be fail or skip"},
      {{"mlm", "--shards", glob(), "--max-skipped-records", "1"},
       "--max-skipped-records has no effect without --damage skip"},
      {{"mlm", "--shards", glob(), "--damage", "skip", "--max-skipped-share", "2"},
       "--max-skipped-share is 2; 0 to 1 are possible"},
      {{"mlm", "--shards", glob(), "--skipped-log", "x"}, "--skipped-log has no effect without --damage skip"},
      {{"mlm", "--shards", glob(), "--watchdog", "-1"}, "--watchdog is -1; 0 to 100000000 are possible"},
      {{"mlm", "--shards", glob(), "--warmup-seconds", "-1"}, "--warmup-seconds is -1; 0 to 100000000 are possible"},
      {{"mlm", "--shards", glob(), "--seed", "-1"}, "--seed is -1; 0 to 9223372036854775807 are possible"},
      {{"mlm", "--shards", glob(), "--consumer-us", "-1"}, "--consumer-us is -1; 0 to 1000000000000 are possible"},
      {{"mlm", "--shards", glob(), "--print", "0"}, "--print is 0; 1 to 1000000000000 are possible"},
      {{"mlm", "--shards", glob(), "--json=yes"}, "option '--json' does not take any arguments" + see},
      {{"mlm", "--shards", glob(), "--no-rewrite", "late_pares"},
       "no rewrite 'late_pares'; there are: defer_parse, defer_copy"},
      {{"mlm", "--shards", glob(), "--no-rewrite", "defer"}, "no rewrite 'defer'; there are: defer_parse, defer_copy"},
      {{"mlm", "--shards", glob(), "--batches", "9", "--seconds", "1"}, "--seconds has no effect with --batches"},
      {{"mlm", "--shards", glob(), "--print", "9", "--json"}, "--json has no effect with --print"},
      {{"mlm", "--shards", glob(), "--explain", "--print", "2"}, "--print has no effect with --explain"},
      {{"mlm", "--shards", glob(), "--explain-dot", "--threads", "2"}, "--threads has no effect with --explain-dot"},
      {{"mlm", "--shards", glob(), "--save-pipeline", path("x"), "--no-rewrite", "defer_parse"},
       "--no-rewrite has no effect with --save-pipeline"},
      {{"read", "--shards", glob(), "--shuffle", "9"}, "--shuffle has no effect with the workload read"},
      {{"read", "--shards", glob(), "--seed", "7"}, "--seed has no effect with the workload read"},
      {{"mlm", "--shards", glob(), "--cache"}, "--cache has no effect with the workload mlm"},
      {{"bucket", "--shards", glob(), "--batch", "7"}, "--batch has no effect with the workload bucket"},
      {{"noop", "--shards", glob()}, "--shards has no effect with the workload noop"},
      {{"noop", "--unordered"}, "--unordered has no effect with the workload noop"},
  };
  for (const auto& [arguments, line] : lines) expect_refused(bench(arguments), "invalid_argument: " + line);
}

TEST_F(DatasetBench, TheNameOfAWorkloadIsNoFileOfThatName) {
  const auto run = [&](const std::string& file) {
    fs::copy_file(path("a"), folder_ / file, fs::copy_options::skip_existing);
    return run_child(
        {"/bin/sh", "-c", "cd \"$0\" && exec \"$1\" \"$2\" --batches 1", folder_.string(), test::kDatasetBench, file});
  };
  EXPECT_THAT(run("mlm").err, HasSubstr("--shards is missing"));
  EXPECT_EQ(run("other").exit_code, 0);
}

TEST_F(DatasetBench, AFolderIsRefusedWithThePatternOfItsFiles) {
  fs::create_directory(folder_ / "data");
  const auto run = [&](const std::string& arguments) {
    return run_child({"/bin/sh", "-c", "cd \"$0\" && exec \"$1\" " + arguments, folder_.string(), test::kDatasetBench});
  };
  const std::string line = " is a folder; for the files in it give 'data/*'";
  expect_refused(run("data"), "invalid_argument: 'data'" + line);
  expect_refused(run("data/"), "invalid_argument: 'data/'" + line);
  expect_refused(run("mlm --shards data"), "invalid_argument: 'data'" + line);
}

TEST_F(DatasetBench, APatternWithoutFilesIsOneLine) {
  const std::string pattern = (folder_ / "train-*.tfrecord").string();
  expect_refused(bench({"mlm", "--shards", pattern}), fmt::format("invalid_argument: no file matches '{}'", pattern));
  expect_refused(bench({"mlm", "--shards", path("c")}),
                 fmt::format("invalid_argument: no file matches '{}'", path("c")));
}

TEST_F(DatasetBench, AShardThatIsNotThereIsOneLine) {
  fs::create_symlink(folder_ / "nowhere", path("c"));
  expect_error("mlm", "io: cannot open: No such file or directory ",
               fmt::format("(shard {}, offset 0, record 0)", path("c")));
}

TEST_F(DatasetBench, ShardsWithoutARecordAreOneLine) {
  // Compressed, so that they have bytes.
  for (const char* name : {"a", "b"}) RecordWriter(path(name), {.compression = Compression::kGzip}).close();
  const std::string line = "cardinality: the data ends after 0 batches of the measurement";
  expect_refused(hashed({"mlm"}), line);
  expect_refused(bench_shards({"read", "--seconds", "0.1"}), line);
}

TEST_F(DatasetBench, ShardsOfNoByteAreOneLine) {
  const auto say = [](const std::string& what, const std::string& file) {
    return "invalid_argument: " + what + " of 0 bytes, without a record; give TFRecord files that hold some (file " +
           file + ")";
  };
  std::ofstream(path("a"), std::ios::trunc).close();
  EXPECT_EQ(hashed({"mlm"}).exit_code, 0) << "b has records";
  std::ofstream(path("b"), std::ios::trunc).close();
  for (const char* workload : {"mlm", "read"}) expect_refused(hashed({workload}), say("2 files", glob()));
  expect_refused(bench({glob()}), say("2 files", glob()));
  expect_refused(bench({path("a")}), say("a file", path("a")));
}

TEST_F(DatasetBench, AFeatureThatARecordLacksIsOneLine) {
  write_shard("b", record({{"input_ids", std::vector<int64_t>(512, 1)}}));
  expect_error("mlm", "missing_feature: feature 'attention_mask' is not in the record and has no default ",
               place("b", "parse_example"));
}

TEST_F(DatasetBench, AFeatureOfAnotherShapeIsOneLine) {
  write_shard("b",
              record({{"input_ids", std::vector<int64_t>(128, 1)}, {"attention_mask", std::vector<int64_t>(512, 1)}}));
  expect_error("mlm", "wrong_shape: feature 'input_ids' has 128 values, shape [512] needs 512 ",
               place("b", "parse_example"));
}

TEST_F(DatasetBench, AnIdThatInt32CannotHoldIsOneLine) {
  write_shard("b", record({{"input_ids", std::vector<int64_t>(512, int64_t{1} << 40)},
                           {"attention_mask", std::vector<int64_t>(512, 1)}}));
  expect_error("mlm", "parse: feature 'input_ids': value 1099511627776 does not fit int32 at byte ",
               place("b", "parse_example"));
}

TEST_F(DatasetBench, ARecordThatIsNoExampleIsOneLine) {
  write_shard("b", "this is text");
  expect_error("mlm", "parse: an invalid wire type at byte 1 of the record ", place("b", "parse_example"));
}

TEST_F(DatasetBench, ATruncatedShardIsOneLine) {
  const std::string in_frame = "truncated: the file ends 5 bytes into the 12 bytes in front of a record ";
  const std::string in_payload =
      fmt::format("truncated: the file ends inside a record of {} bytes; from its beginning 100 bytes are left ",
                  good_record(kBad).size());
  for (const char* workload : {"read", "mlm"}) {
    write_shard("b", good_record(kBad));
    fs::resize_file(path("b"), offset_ + 100);
    expect_error(workload, in_payload, place("b"));
    fs::resize_file(path("b"), offset_ + 5);
    expect_error(workload, in_frame, place("b"));
  }
}

TEST_F(DatasetBench, AFlippedBitIsOneLine) {
  // In the length, in its CRC, in the payload, in its CRC.
  for (const size_t at : {size_t{1}, size_t{9}, size_t{300}, 12 + good_record(kBad).size()}) {
    write_shard("b", good_record(kBad));
    change_byte("b", offset_ + at);
    for (const char* workload : {"read", "mlm"}) {
      expect_error(workload, at < 12 ? "length_crc: " : "payload_crc: ", place("b"));
    }
  }
}

TEST_F(DatasetBench, ACutCompressedShardIsOneLine) {
  write_shard("b", good_record(kBad), Compression::kGzip);
  fs::resize_file(path("b"), fs::file_size(path("b")) - 20);
  expect_error("read", "truncated: ", ")");
  const std::string line = hashed({"read"}).err;
  EXPECT_THAT(line, HasSubstr(fmt::format("(shard {}, offset ", path("b"))));
  EXPECT_THAT(line, HasSubstr(", record "));
}

TEST_F(DatasetBench, LeavesDamageOutAndListsItTheSameForAnyNumberOfThreads) {
  change_byte("b", offset_ + 300);
  const auto skipped = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--damage", "skip"});
    const ChildResult result = hashed(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ordered_json::parse(result.out);
  };
  for (const char* workload : {"read", "mlm"}) {
    const ordered_json one = skipped({workload, "--threads", "1"});
    EXPECT_GE(one.at("skipped").at("regions"), 1);
    EXPECT_EQ(one.at("skipped").at("records"), one.at("skipped").at("regions"));
    EXPECT_THAT(one.at("skipped").at("list").at(0).get<std::string>(),
                StartsWith(fmt::format("{}, bytes {} to {}, 1 record from {} on, epoch 0: payload_crc: ", path("b"),
                                       offset_, offset_ + good_record(kBad).size() + kFrame, kBad)));
    const ordered_json eight = skipped({workload, "--threads", "8"});
    EXPECT_EQ(eight.at("skipped"), one.at("skipped"));
    EXPECT_EQ(eight.at("stream_hash"), one.at("stream_hash"));
  }
  const ChildResult table = bench_shards({"read", "--batches", "60", "--damage", "skip"});
  EXPECT_THAT(table.out, HasSubstr("skipped 1 region, 1 record, "));
  EXPECT_THAT(table.out, HasSubstr("  " + path("b") + ", bytes "));
  EXPECT_THAT(hashed({"read", "--damage", "skip", "--max-skipped-records", "0"}).err,
              StartsWith("dataset_bench: damage_budget: 1 records and "));
  EXPECT_THAT(hashed({"read", "--explain"}).err, HasSubstr("no effect"));
  EXPECT_THAT(bench_shards({"read", "--explain", "--damage", "skip", "--max-skipped-bytes", "7"}).out,
              HasSubstr("[damage={action=skip, max_bytes=7}]"));
}

TEST_F(DatasetBench, ListsWhatItLeftOutBeforeTheErrorThatEndsIt) {
  for (const char* shard : {"a", "b"}) change_byte(shard, offset_ + 300);
  const ChildResult result = hashed({"read", "--damage", "skip", "--max-skipped-records", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              testing::MatchesRegex("skipped 1 region, 1 record, [^\n]*\n  " + path("a") +
                                    ", bytes [^\n]*\ndataset_bench: damage_budget: 2 records and [^\n]*\n"));
}

TEST_F(DatasetBench, KeepsTheListOfWhatItLeftOutAcrossResumes) {
  change_byte("b", offset_ + 300);
  const auto list = [&](const std::string& name) { return (folder_ / name).string(); };
  const auto run = [&](const std::string& name, const char* batches, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"mlm",  "--shuffle",     "100",      "--batches", batches,         "--damage",
                                          "skip", "--skipped-log", list(name), "--json",    "--state-every", "7"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ChildResult result = bench_shards(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const ordered_json json = ordered_json::parse(result.out);
    size_t bytes = 0;
    for (const auto& part : json.at("state_parts")) bytes += part.at("bytes").get<size_t>();
    EXPECT_EQ(bytes, json.at("state_bytes").get<size_t>());
    return json.at("skipped").at("digest").get<std::string>();
  };
  const std::string state = list("run.state");
  const std::string digest = run("straight", "400", {"--state", list("other.state")});
  run("stopped", "150", {"--state", state});
  // What a killed run had written after its last state is written again.
  std::ofstream(list("stopped"), std::ios::app) << "{\"number\":77,";
  EXPECT_EQ(run("stopped", "400", {"--state", state, "--resume", state}), digest);
  const std::string lines = test::read_file(list("straight"));
  EXPECT_GE(std::count(lines.begin(), lines.end(), '\n'), 4);
  EXPECT_EQ(test::read_file(list("stopped")), lines);
  std::istringstream stream(lines);
  int number = 0;
  for (std::string line; std::getline(stream, line); ++number) {
    const ordered_json region = ordered_json::parse(line);
    EXPECT_EQ(region.at("number"), number);
    EXPECT_EQ(region.at("epoch"), number);
    EXPECT_EQ(region.at("first_record"), kBad);
    EXPECT_EQ(region.at("code"), "payload_crc");
  }
  // A list that was lost is not made up.
  fs::remove(list("stopped"));
  const ChildResult lost = bench_shards({"mlm", "--shuffle", "100", "--batches", "500", "--damage", "skip",
                                         "--skipped-log", list("stopped"), "--resume", state});
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.err, HasSubstr("the list of what was skipped has 0 whole lines, the state counts "));
}

TEST_F(DatasetBench, SaysWhatItWaitsForAndExitsWith75WhenReadsDoNotReturn) {
  const auto command = [&](const std::string& workload, double seconds) {
    return std::vector<std::string>{test::kDatasetBenchWithHangingReads,
                                    workload,
                                    "--shards",
                                    glob(),
                                    "--batch",
                                    "8",
                                    "--batches",
                                    "1000",
                                    "--json",
                                    "--watchdog",
                                    std::to_string(seconds)};
  };
  const auto hangs = [](int read) {
    return test::ChildOptions{.environment = {fmt::format("MILLRACE_HANG_READS={}", read)}};
  };
  for (const char* workload : {"mlm", "read"}) {
    for (const int read : {1, 6}) {
      const ChildResult result = test::run_stalled_child(
          [&](double seconds, int) { return command(workload, seconds); }, hangs(read), "the storage: reading bytes ");
      EXPECT_EQ(result.exit_code, 75) << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, StartsWith("millrace: nothing has moved for "));
      EXPECT_THAT(result.err, ContainsRegex("\nnext\\(\\) waits for .*the storage: reading bytes [0-9]+ to [0-9]+ of "
                                            ".*/[ab]\\.tfrecord has not been answered for .*\n$"));
    }
  }
  EXPECT_EQ(run_child(command("read", 60), hangs(1'000'000)).exit_code, 0) << "the same program when nothing hangs";
}

TEST_F(DatasetBench, AFullDiskForItsOutputIsOneLine) {
  const ChildResult result =
      run_child({"/bin/sh", "-c",
                 fmt::format("'{}' read --shards '{}' --batches 1 --json > /dev/full", test::kDatasetBench, glob())});
  expect_refused(result, "cannot write to standard output");
}

TEST_F(DatasetBench, AFullDiskLeavesNoPartOfAReportAndTheOneThatWasThere) {
  const std::string report = (folder_ / "report").string();
  const auto expect_error = [&](const char* option) {
    const ChildResult result =
        run_child({test::kDatasetBench, "read", "--shards", glob(), "--batches", "1", "--no-display", option, report},
                  {.most_file_bytes = 100});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("dataset_bench: io: cannot write"));
    EXPECT_THAT(result.err, EndsWith(fmt::format("(file {})\n", report)));
  };
  for (const char* const option : {"--html", "--trace"}) {
    expect_error(option);
    EXPECT_FALSE(std::filesystem::exists(report)) << option;
  }
  test::write_file(report, "of an earlier run");
  for (const char* const option : {"--html", "--trace"}) {
    expect_error(option);
    EXPECT_EQ(test::read_file(report), "of an earlier run") << option;
  }
}

}  // namespace
}  // namespace millrace::dataset_bench_test
