#include "millrace/pipeline/plan/defer_parse.h"

#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::defer_parse_test {
namespace {

namespace fs = std::filesystem;

/// What a run gave: its batches, then the message of its error.
struct Outcome {
  std::vector<uint64_t> batches;
  std::string error;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << fmt::format("{} batches [{:x}], then '{}'", outcome.batches.size(), fmt::join(outcome.batches, " "),
                      outcome.error);
}

/// One shard of 60 records, record r with the id r; some are no Examples, some have a payload that does not match its
/// CRC. The stream, errors included, must be the one of the plan as written.
class DeferParse : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  Dataset parsed(const std::set<int>& no_examples, const std::set<int>& bad_crcs = {}) const {
    const std::string path = (folder_ / "a.tfrecord").string();
    std::vector<size_t> flipped;
    size_t offset = 0;
    RecordWriter writer(path);
    for (int r = 0; r < 60; ++r) {
      ExampleWriter example;
      const std::vector<int64_t> id{r};
      example.add("id", std::span<const int64_t>(id));
      const std::vector<int64_t> tokens(static_cast<size_t>(r % 7), r);
      example.add("tokens", std::span<const int64_t>(tokens));
      const std::string record = no_examples.contains(r) ? "this is text" : std::string(example.finish());
      if (bad_crcs.contains(r)) flipped.push_back(offset + 12);
      writer.write(record);
      offset += record.size() + 16;
    }
    writer.close();
    for (const size_t at : flipped) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(at));
      file.put('\x55');
    }
    return Dataset::tfrecord(Shards::files({path}), {.cycle_length = 1}).parse_example(features_);
  }

  // A field of a protobuf message: up to 127 bytes.
  static std::string field(char tag, const std::string& content) {
    return std::string{tag, static_cast<char>(content.size())} + content;
  }

  static Outcome run(const Dataset& dataset, int threads, bool rewritten) {
    const WorkerLimit limit(threads);
    StartOptions options{.threads = threads};
    if (!rewritten) options.disabled_rewrites = {"defer_parse"};
    Outcome outcome;
    try {
      Pipeline pipeline = dataset.start(options);
      while (const std::optional<Batch> batch = pipeline.next()) outcome.batches.push_back(batch_hash(*batch));
    } catch (const ErrorException& e) {
      outcome.error = e.what();
    }
    return outcome;
  }

  // The same as without the rewrite, which ends with an error that begins like this and names this record.
  static void expect_same(const Dataset& dataset, const std::string& begins, int record) {
    const Outcome expected = run(dataset, 1, false);
    EXPECT_TRUE(expected.error.starts_with(begins)) << expected.error;
    EXPECT_NE(expected.error.find(fmt::format(", record {}", record)), std::string::npos) << expected.error;
    for (const int threads : {1, 4}) EXPECT_EQ(run(dataset, threads, true), expected) << threads << " threads";
  }

  std::vector<FeatureDescription> features_{fixed_len("id", {}, DType::kInt64)};
  fs::path folder_ =
      fs::temp_directory_path() / fmt::format("millrace_defer_parse_{}_{}", ::getpid(),
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(DeferParse, TheFirstOfTwoErrorsInABatchEndsTheStream) {
  expect_same(parsed({19}, {21}).batch(8), "parse: ", 19);
  expect_same(parsed({21}, {19}).batch(8), "payload_crc: ", 19);
  expect_same(parsed({16}, {23}).batch(8), "parse: ", 16);
  expect_same(parsed({19, 20}, {21, 22}).shuffle(1).repeat().batch(8, {.drop_remainder = true}), "parse: ", 19);
  // Rows of batches before are no part of the lost one.
  expect_same(parsed({19}, {25}).batch(8), "parse: ", 19);
  // 58 % 8 rows of the first epoch are open when the second one begins.
  expect_same(parsed({}, {59}).batch(8), "payload_crc: ", 59);
  expect_same(parsed({57}, {59}).batch(8), "parse: ", 57);
}

TEST_F(DeferParse, AnErrorInADroppedRemainderIsFound) {
  expect_same(parsed({58}).batch(8, {.drop_remainder = true}), "parse: ", 58);
  expect_same(parsed({58}).batch(8, {.drop_remainder = true}).repeat(), "parse: ", 58);
  expect_same(parsed({8}).take(10).batch(8, {.drop_remainder = true}), "parse: ", 8);
  // A whole stream ends as before.
  const Outcome whole = run(parsed({}).batch(8, {.drop_remainder = true}).repeat(2), 2, true);
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.batches.size(), 14U);
}

TEST_F(DeferParse, WhatAShuffleGivesBeforeTheErrorIsTheSame) {
  // A row that does not parse would have counted otherwise in take, and begun another batch after it.
  expect_same(parsed({10}).batch(4).shuffle(6, {.seed = 3}), "parse: ", 10);
  expect_same(parsed({10}).batch(4).cast("id", DType::kInt32).shuffle(6, {.seed = 3}), "parse: ", 10);
  expect_same(parsed({10}).take(20).shuffle(18, {.seed = 3}), "parse: ", 10);
  expect_same(parsed({10}).shuffle(18, {.seed = 3}).batch(4), "parse: ", 10);
}

TEST_F(DeferParse, APaddedBatchParsesItsRowsItself) {
  features_.push_back(var_len("tokens", DType::kInt64));
  const std::string plan = parsed({}).shuffle(10).repeat().padded_batch(8).explain();
  EXPECT_NE(plan.find("parse_example inside padded_batch"), std::string::npos) << plan;
  for (const int threads : {1, 4}) {
    const Dataset whole = parsed({}).shuffle(10).repeat(3).padded_batch(8);
    EXPECT_EQ(run(whole, threads, true), run(whole, 1, false)) << threads << " threads";
    EXPECT_EQ(run(whole, threads, true).batches.size(), 23U);
  }
  for (const bool drop : {false, true}) {
    const PaddedBatchOptions options{.drop_remainder = drop};
    expect_same(parsed({19}, {21}).padded_batch(8, options), "parse: ", 19);
    expect_same(parsed({21}, {19}).padded_batch(8, options), "payload_crc: ", 19);
    expect_same(parsed({16}, {23}).padded_batch(8, options), "parse: ", 16);
    expect_same(parsed({58}).padded_batch(8, options), "parse: ", 58);
    expect_same(parsed({0}).shuffle(20).repeat().padded_batch(8, options), "parse: ", 0);
    expect_same(parsed({8}).take(10).padded_batch(8, options), "parse: ", 8);
  }
  // Row 3 is too long, and is found before row 19 is.
  const Dataset too_long = parsed({19}).padded_batch(8, {.length = PadLength::fixed(2)});
  const Outcome expected = run(too_long, 1, false);
  EXPECT_TRUE(expected.error.starts_with("wrong_shape: ")) << expected.error;
  for (const int threads : {1, 4}) EXPECT_EQ(run(too_long, threads, true), expected);
}

// Records for padded batches, which are plain: their lists are packed. `odd`: those of some are not, so that their
// batches are made by way of rows. `last`: one more.
class PaddedParse : public DeferParse {
 protected:
  // An Example of one Feature; `list`: Int64List or FloatList with its tag.
  static std::string example_of(const std::string& key, const std::string& list) {
    return field('\x0a', field('\x0a', field('\x0a', key) + field('\x12', list)));
  }
  static std::string unpacked_tokens(int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += std::string{'\x08', static_cast<char>(i)};
    return example_of("tokens", field('\x1a', list));
  }
  static void add(ExampleWriter& example, const char* key, const std::vector<int64_t>& values) {
    example.add(key, std::span<const int64_t>(values));
  }

  Dataset records(bool odd, const std::string& last = "") const {
    const std::string path = (folder_ / "odd.tfrecord").string();
    RecordWriter writer(path);
    for (int r = 0; r < 400; ++r) {
      ExampleWriter example;
      add(example, "id", {r});
      if (r % 4 != 2) add(example, "pair", {r, -r});
      const bool unpacked = odd && (r == 0 || r == 33 || r == 50 || r == 135);
      if (r % 11 != 3 && !unpacked) {
        add(example, "tokens", std::vector<int64_t>(static_cast<size_t>(r * 7 % 39), r - 100));
      }
      if (r % 5 != 1)
        example.add("scores", std::span<const float>(std::vector<float>(static_cast<size_t>(r % 3), 0.5F)));
      std::string record(example.finish());
      if (r % 90 == 9) record += record;  // of each key the last counts
      if (unpacked) record += unpacked_tokens(1 + r % 20);
      if (r == 77) record += example_of("scores", "");  // no list at all
      writer.write(record);
    }
    if (!last.empty()) writer.write(last);
    writer.close();
    return Dataset::tfrecord(Shards::files({path}), {.cycle_length = 1});
  }

  static Dataset parsed(const Dataset& records, bool int32_tokens) {
    const FeatureDescription tokens = var_len("tokens", DType::kInt64);
    return records.parse_example(
        {fixed_len("id", {}, DType::kInt64),
         fixed_len("pair", {2}, DType::kInt64).as(DType::kInt32).default_value(std::vector<int64_t>{-7, 7}),
         int32_tokens ? tokens.as(DType::kInt32) : tokens, var_len("scores", DType::kFloat32)});
  }

  static void expect_same(const Dataset& padded, const std::string& error) {
    const Outcome expected = run(padded, 1, false);
    EXPECT_EQ(expected.error.substr(0, error.size()), error);
    EXPECT_EQ(expected.error.empty(), error.empty()) << expected.error;
    for (const int threads : {1, 4}) EXPECT_EQ(run(padded, threads, true), expected);
  }
};

TEST_F(PaddedParse, BatchesAreTheSameWhateverTheirRecordsAre) {
  std::vector<PaddedBatchOptions> options(4);
  options[1].value = -1;
  options[2] = {.length = PadLength::multiple_of(16), .features = {{"scores", {.value = 0.25}}}};
  options[3].length = PadLength::fixed(64);
  for (const bool odd : {false, true}) {
    const Dataset all = records(odd);
    for (const bool int32_tokens : {false, true}) {
      for (const PaddedBatchOptions& option : options) {
        for (const int64_t size : {1, 3, 17, 400}) {
          expect_same(parsed(all, int32_tokens).padded_batch(size, option), "");
        }
      }
    }
  }
}

TEST_F(PaddedParse, TheFirstErrorIsTheSame) {
  ExampleWriter example;
  add(example, "id", {400});
  add(example, "tokens", std::vector<int64_t>(39, 1));
  const std::string too_long(example.finish());
  expect_same(parsed(records(false, too_long), true).padded_batch(9, {.length = PadLength::fixed(38)}),
              "wrong_shape: ");
  add(example, "id", {400});
  add(example, "tokens", {1, 2, int64_t{1} << 31});
  const std::string too_large(example.finish());
  expect_same(parsed(records(false, too_large), true).padded_batch(9), "parse: ");
  expect_same(parsed(records(false, too_large), false).padded_batch(9), "");
  add(example, "tokens", {1});
  const std::string no_id(example.finish());
  expect_same(parsed(records(false, no_id), true).padded_batch(9), "missing_feature: ");
  add(example, "id", {1, 2});
  const std::string two_ids(example.finish());
  expect_same(parsed(records(false, two_ids), true).padded_batch(9), "wrong_shape: ");
  const std::string id = example_of("id", field('\x1a', field('\x0a', "\x05")));
  const std::string three_bytes = id + example_of("scores", field('\x12', field('\x0a', "abc")));
  expect_same(parsed(records(false, three_bytes), true).padded_batch(9), "parse: ");
  const std::string cut_off = id + example_of("tokens", field('\x1a', field('\x0a', "\x05\x85")));
  expect_same(parsed(records(false, cut_off), true).padded_batch(9), "parse: ");
  const std::string wrong_kind = id + example_of("tokens", field('\x12', field('\x0a', "abcd")));
  expect_same(parsed(records(false, wrong_kind), true).padded_batch(9), "parse: ");
}

TEST_F(PaddedParse, ABatchBeyondTheBudgetIsRefused) {
  for (const bool rewritten : {false, true}) {
    StartOptions start{.threads = 1, .memory_budget = 1 << 20};
    if (!rewritten) start.disabled_rewrites = {"defer_parse"};
    const Dataset dataset = parsed(records(false), false).padded_batch(400, {.length = PadLength::fixed(512)});
    try {
      Pipeline pipeline = dataset.start(start);
      (void)pipeline.next();
      ADD_FAILURE() << "within the budget";
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kMemoryBudget) << error.what();
    }
  }
}

// Examples with two serialized tensors of numbers; some of these are text.
class DeferParseTensor : public DeferParse {
 protected:
  // A float32 tensor, see tensorflow/core/framework/tensor.proto.
  static std::string tensor(const std::vector<float>& values) {
    const std::string size = field('\x12', std::string{'\x08', static_cast<char>(values.size())});
    return std::string{'\x08', '\x01'} + field('\x12', size) +
           field('\x22', {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  Dataset tensors(const std::set<int>& bad_a, const std::set<int>& bad_b, const std::set<int>& no_examples = {},
                  int64_t size_of_b = 3) const {
    const std::string path = (folder_ / "tensors.tfrecord").string();
    RecordWriter writer(path);
    for (int r = 0; r < 60; ++r) {
      ExampleWriter example;
      const auto number = static_cast<float>(r);
      const std::string a = bad_a.contains(r) ? "text" : tensor({number, number + 1});
      const std::string b = bad_b.contains(r) ? "text" : tensor({number, -number, 7});
      for (const auto& [name, bytes] : {std::pair<const char*, std::string_view>{"a", a}, {"b", b}}) {
        example.add(name, std::span<const std::string_view>(&bytes, 1));
      }
      const std::vector<int64_t> id{r};
      example.add("id", std::span<const int64_t>(id));
      writer.write(no_examples.contains(r) ? "this is text" : example.finish());
    }
    writer.close();
    return Dataset::tfrecord(Shards::files({path}), {.cycle_length = 1})
        .parse_example({fixed_len("a", {}, DType::kBytes), fixed_len("b", {}, DType::kBytes), features_[0]})
        .parse_tensor("a", DType::kFloat32, {2})
        .parse_tensor("b", DType::kFloat32, {size_of_b});
  }
};

TEST_F(DeferParseTensor, StandsBehindTheBatchAsOne) {
  const std::string plan = tensors({}, {}).repeat(3).batch(8).explain();
  EXPECT_NE(plan.find("defer_parse: parse_tensor after repeat"), std::string::npos) << plan;
  EXPECT_NE(plan.find("defer_parse: parse_tensor after batch"), std::string::npos) << plan;
  EXPECT_NE(plan.find("b float32 [?,3]"), std::string::npos) << plan;
  for (const bool drop : {false, true}) {
    for (const Dataset& dataset :
         {tensors({}, {}).repeat(3).batch(8, {.drop_remainder = drop}),
          tensors({}, {}).shuffle(20, {.seed = 4}).repeat(2).take(101).batch(64, {.drop_remainder = drop}),
          tensors({}, {}).batch(6, {.drop_remainder = drop}).repeat(2).batch(3), tensors({}, {}).shuffle(7)}) {
      const Outcome expected = run(dataset, 1, false);
      EXPECT_EQ(expected.error, "");
      EXPECT_FALSE(expected.batches.empty());
      for (const int threads : {1, 4}) EXPECT_EQ(run(dataset, threads, true), expected) << threads << " threads";
    }
  }
}

TEST_F(DeferParseTensor, TheFirstErrorByRowsEndsTheStream) {
  for (const bool drop : {false, true}) {
    const BatchOptions options{.drop_remainder = drop};
    expect_same(tensors({19}, {}).batch(8, options), "parse: ", 19);
    expect_same(tensors({21}, {19}).batch(8, options), "parse: ", 19);
    expect_same(tensors({19}, {21}).batch(8, options), "parse: ", 19);
    expect_same(tensors({}, {19}, {21}).batch(8, options), "parse: ", 19);
    expect_same(tensors({}, {21}, {19}).batch(8, options), "parse: ", 19);
    expect_same(tensors({}, {58}).batch(8, options).repeat(), "parse: ", 58);
    expect_same(tensors({}, {30}).shuffle(18, {.seed = 3}).repeat().batch(4, options), "parse: ", 30);
    expect_same(tensors({}, {8}).take(10).batch(8, options), "parse: ", 8);
    expect_same(tensors({}, {}, {}, /*size_of_b=*/4).batch(8, options), "wrong_shape: ", 0);
  }
  const std::string plan = tensors({}, {}, {}, kVaries).batch(8).explain();
  EXPECT_EQ(plan.find("parse_tensor after"), std::string::npos) << plan;
}

TEST_F(DeferParse, StopsAtASecondBatch) {
  const Dataset nested = parsed({}).batch(4).batch(3);
  EXPECT_NE(nested.explain().find("defer_parse: parse_example after batch"), std::string::npos);
  EXPECT_EQ(run(nested, 2, true), run(nested, 2, false));
  EXPECT_EQ(run(nested, 2, true).batches.size(), 5U);
  expect_same(parsed({19}, {21}).batch(4).batch(3), "parse: ", 19);
}

}  // namespace
}  // namespace millrace::defer_parse_test
