#include "millrace/pipeline/pipeline_state.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"
#include "pipeline/pipeline_state.pb.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/operator_chain.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace millrace::pipeline_state_test {
namespace {

using test::FaultyRange;
using test::TemporaryFolder;
using testing::HasSubstr;

/// What a pipeline gives from where it stands to its end: a digest of each element, with its epoch, and the error.
std::vector<std::string> rest_of(Pipeline& pipeline, size_t most = SIZE_MAX) {
  std::vector<std::string> rest;
  try {
    while (rest.size() < most) {
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) {
        rest.emplace_back("end");
        break;
      }
      rest.push_back(fmt::format("{:016x} epoch {}", batch_hash(*batch), batch->epoch()));
    }
  } catch (const PipelineError& error) {
    rest.emplace_back(error.what());
  }
  return rest;
}

std::vector<std::string> from(const std::vector<std::string>& stream, size_t first) {
  return {stream.begin() + static_cast<std::ptrdiff_t>(std::min(first, stream.size())), stream.end()};
}

/// Saves at every place of the stream (`is_tried`), goes on from there with another number of threads, saves again some
/// elements further on, and goes on from there too.
void expect_resumes_everywhere(const Dataset& dataset, const StartOptions& options = {}) {
  const WorkerLimit limit(4);
  StartOptions start = options;
  start.threads = 2;
  std::vector<std::string> stream;
  {
    Pipeline pipeline = dataset.start(start);
    stream = rest_of(pipeline);
  }
  Pipeline pipeline = dataset.start(start);
  for (size_t place = 0;; ++place) {
    if (!test::is_tried(place, stream.size())) {
      rest_of(pipeline, 1);
      continue;
    }
    SCOPED_TRACE(fmt::format("saved after {} of {} elements", place, stream.size()));
    const PipelineState state = PipelineState::parse(pipeline.save().serialize());
    EXPECT_EQ(state.num_delivered(), static_cast<int64_t>(std::min(place, stream.size() - 1)));
    StartOptions again = options;
    again.threads = 1 + static_cast<int>(place % 3);
    again.state = state;
    if (place % 4 == 3) again.disabled_rewrites = {"defer_parse", "defer_copy"};
    Pipeline resumed = dataset.start(again);
    if (place % 2 == 0) {
      ASSERT_EQ(rest_of(resumed), from(stream, std::min(place, stream.size() - 1)));
    } else {
      const size_t more = place % 5;
      rest_of(resumed, more);
      again.state = PipelineState::parse(resumed.save().serialize());
      Pipeline twice = dataset.start(again);
      ASSERT_EQ(rest_of(twice), from(stream, std::min(place + more, stream.size() - 1)));
    }
    if (place > stream.size() + 1) break;
    rest_of(pipeline, 1);
  }
}

Dataset numbers(int64_t count) { return Dataset::range(0, count); }

RowPredicate odd() {
  return {"odd", [](const RowView& row) { return row.values<int64_t>("value")[0] % 2 == 1; }};
}

TEST(PipelineState, ASourceGoesOnInTheMiddle) {
  expect_resumes_everywhere(numbers(20));
  expect_resumes_everywhere(numbers(0));
  expect_resumes_everywhere(numbers(3000).batch(100));
  expect_resumes_everywhere(Dataset::rows({{"value", std::vector<std::string>{"a", "b", "", "d"}}}).repeat(3));
}

TEST(PipelineState, EveryOperatorWithStateGoesOn) {
  expect_resumes_everywhere(numbers(30).take(7));
  expect_resumes_everywhere(numbers(30).skip(7));
  expect_resumes_everywhere(numbers(30).shard(4, 1));
  expect_resumes_everywhere(numbers(5).repeat(6));
  expect_resumes_everywhere(numbers(5).take(3).repeat(6).skip(4).take(10));
  expect_resumes_everywhere(numbers(50).batch(7));
  expect_resumes_everywhere(numbers(50).batch(7, {.drop_remainder = true}).repeat(2));
  expect_resumes_everywhere(numbers(50).filter(odd()).batch(4));
  expect_resumes_everywhere(numbers(50).filter(odd()).prefetch(2).filter(odd()).shuffle(5).prefetch(1).batch(4));
  expect_resumes_everywhere(numbers(20).batch(3).batch(2));
  expect_resumes_everywhere(numbers(40).padded_batch(6).repeat(2));
  expect_resumes_everywhere(numbers(30).cache().shuffle(7).repeat(3).batch(4));
}

TEST(PipelineState, ShufflesOfAnySizeGoOn) {
  for (const int64_t buffer : {1, 2, 3, 10, 64, 1000}) {
    expect_resumes_everywhere(numbers(70).shuffle(buffer, {.seed = 9}).repeat(2));
    expect_resumes_everywhere(numbers(20).repeat(6).shuffle(buffer, {.seed = 9}));
  }
  expect_resumes_everywhere(numbers(9000).shuffle(300).batch(100));
  expect_resumes_everywhere(numbers(60).shuffle(7, {.seed = 1}).batch(3).shuffle(5, {.seed = 2}).repeat(2));
}

TEST(PipelineState, NestedInputsGoOn) {
  const auto input = [](int64_t first, int64_t count) { return Dataset::range(first, first + count); };
  for (const size_t block_length : {1, 3}) {
    for (const size_t cycle_length : {1, 2, 5}) {
      expect_resumes_everywhere(
          Dataset::interleave({input(0, 7), input(100, 0), input(200, 2), input(300, 11), input(400, 5), input(500, 1)},
                              {.cycle_length = cycle_length, .block_length = block_length}));
    }
  }
  // Maps inside run in the chain of their input's lane.
  expect_resumes_everywhere(
      Dataset::interleave({numbers(19).filter(odd()).repeat(2), numbers(23).skip(3).filter(odd())},
                          {.cycle_length = 2, .block_length = 2})
          .repeat(2)
          .batch(3));
}

TEST(PipelineState, ErrorsAreGivenAgain) {
  const auto faulty = [](std::vector<int64_t> faults) {
    return Dataset::from_operator(
        {}, [faults](std::span<const SchemaPtr>) { return std::make_shared<const FaultyRange>(20, faults); });
  };
  expect_resumes_everywhere(faulty({13}));
  expect_resumes_everywhere(faulty({13}).batch(4));
  expect_resumes_everywhere(faulty({0}).shuffle(5));
  expect_resumes_everywhere(faulty({3, 4, 9}).ignore_errors().batch(3).repeat(2));
  expect_resumes_everywhere(faulty({3, 4, 9}).batch(3).ignore_errors());
  expect_resumes_everywhere(faulty({3, 4, 9}).shuffle(4).ignore_errors().shuffle(3));
}

class PipelineStateOfShards : public testing::Test {
 protected:
  static constexpr int64_t kLength = 12;
  static constexpr int kShards = 7;

  void write_shards(Compression compression, int records = 29) {
    for (int s = 0; s < kShards; ++s) {
      RecordWriter writer(path(s), {.compression = compression});
      ExampleWriter example;
      for (int r = 0; r < records + s; ++r) {
        std::vector<int64_t> ids;
        for (int64_t p = 0; p < kLength; ++p) ids.push_back(1000 * s + r + 2);
        example.add("input_ids", std::span<const int64_t>(ids));
        example.add("attention_mask", std::span<const int64_t>(std::vector<int64_t>(kLength, 1)));
        writer.write(example.finish());
      }
      writer.close();
    }
  }
  std::string path(int shard) const { return folder_.path(fmt::format("part-{}.tfrecord", shard)); }
  Dataset records() const {
    return Dataset::tfrecord(Shards::glob(folder_.path("*.tfrecord")),
                             {.cycle_length = 3, .block_length = 2, .shuffle_shards = true, .seed = 5});
  }
  static Dataset parse(const Dataset& records) {
    return records.parse_example({fixed_len("input_ids", {kLength}, DType::kInt64).as(DType::kInt32),
                                  fixed_len("attention_mask", {kLength}, DType::kInt64)});
  }
  static Dataset masked(const Dataset& rows) {
    return rows.shuffle(50, {.seed = 5})
        .repeat(3)
        .batch(8, {.drop_remainder = true})
        .mask_tokens({.vocab_size = 20000, .mask_token = 4, .special_tokens = {0, 1}, .seed = 5})
        .prefetch(2);
  }

  TemporaryFolder folder_;
};

TEST_F(PipelineStateOfShards, ATrainingPipelineGoesOnWhateverTheCompressionAndTheStorage) {
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    write_shards(compression);
    expect_resumes_everywhere(masked(parse(records())));
  }
  expect_resumes_everywhere(parse(records()).batch(5));
}

TEST_F(PipelineStateOfShards, ArgumentsThatAreCutInsideACharacterAreRead) {
  write_shards(Compression::kNone);
  for (const std::string& name : {fmt::format("{:é<100}", ""), fmt::format("x{:é<100}", "")}) {
    const Dataset dataset =
        records().parse_example({fixed_len(name, {1}, DType::kInt64).default_value(std::vector<int64_t>{7})});
    Pipeline pipeline = dataset.start({.threads = 1});
    pipeline.next();
    const std::string saved = pipeline.save().serialize();
    Pipeline resumed = dataset.start({.threads = 1, .state = PipelineState::parse(saved)});
    EXPECT_EQ(rest_of(resumed), rest_of(pipeline));
  }
}

TEST_F(PipelineStateOfShards, AStateIsSmall) {
  write_shards(Compression::kNone, 2000);
  const auto bytes_at = [&](int64_t buffer) {
    Pipeline pipeline = parse(records()).shuffle(buffer).repeat().batch(8).start({.threads = 2});
    rest_of(pipeline, 700);
    return pipeline.save().serialize().size();
  };
  const size_t small = bytes_at(64);
  const size_t large = bytes_at(8192);
  EXPECT_LE(small, 2048u);
  EXPECT_LE(large, small + 64);
}

TEST_F(PipelineStateOfShards, AStateSaysWhichStageTakesHowManyOfItsBytes) {
  write_shards(Compression::kNone, 2000);
  Pipeline pipeline = parse(records()).shuffle(64).repeat().batch(8).start({.threads = 2});
  rest_of(pipeline, 150);
  const PipelineState state = pipeline.save();
  std::vector<std::string> names;
  int64_t bytes = 0;
  int64_t shards = 0;
  for (const PipelineState::Part& part : state.parts()) {
    names.push_back(part.name);
    EXPECT_GT(part.bytes, 0) << part.name;
    bytes += part.bytes;
    if (part.name.ends_with("/shard_records")) shards = part.stages;
  }
  EXPECT_EQ(bytes, static_cast<int64_t>(state.serialize().size()));
  EXPECT_THAT(names,
              testing::ElementsAre("batch", "batch/repeat", "batch/repeat/shuffle", "batch/repeat/shuffle/interleave",
                                   "batch/repeat/shuffle/interleave/shard_records", "(dataset and shards)"));
  EXPECT_GE(shards, 1);
}

TEST_F(PipelineStateOfShards, ResumingAShuffleReadsAtMostFiveBuffersAgain) {
  write_shards(Compression::kNone, 4000);
  constexpr int64_t kBuffer = 2048;
  constexpr int64_t kBlock = 1024;
  Pipeline pipeline = records().shuffle(kBuffer, {.seed = 3}).repeat().batch(16).start({.threads = 2});
  int64_t most_buffered = 0;
  for (int batches = 0; batches < 4000; ++batches) {
    pipeline.next();
    const Cursor place = pipeline.save().place();
    const StageState* stage = place.state.get();
    while (stage->kind != "shuffle") stage = stage->inputs.at(0).state.get();
    const int64_t last_row_gone = stage->numbers[1] >> 24;
    const Cursor& input = stage->inputs.at(0);
    ASSERT_LE(last_row_gone - stage->numbers[0], 5 * kBuffer + kBlock) << batches;
    // What is read to come there at all: about a chunk of each open shard.
    ASSERT_LE(input.skip, 8 * kBlock);
    most_buffered = std::max(most_buffered, last_row_gone - stage->numbers[0]);
  }
  EXPECT_GE(most_buffered, 4 * kBuffer);
}

TEST_F(PipelineStateOfShards, DataMovedToAnotherFolderGoesOn) {
  write_shards(Compression::kNone);
  Pipeline pipeline = masked(parse(records())).start({.threads = 2});
  rest_of(pipeline, 20);
  const std::string bytes = pipeline.save().serialize();
  const std::vector<std::string> rest = rest_of(pipeline);
  TemporaryFolder other;
  for (int s = 0; s < kShards; ++s) {
    std::filesystem::rename(path(s), other.path(fmt::format("part-{}.tfrecord", s)));
  }
  const Dataset moved =
      masked(parse(Dataset::tfrecord(Shards::glob(other.path("*.tfrecord")),
                                     {.cycle_length = 3, .block_length = 2, .shuffle_shards = true, .seed = 5})));
  Pipeline resumed = moved.start({.threads = 2, .state = PipelineState::parse(bytes)});
  EXPECT_EQ(rest_of(resumed), rest);
}

TEST_F(PipelineStateOfShards, OtherDataAndOtherPlansAreRefusedWithTheDifference) {
  write_shards(Compression::kNone);
  const auto state = [&](const Dataset& dataset) {
    Pipeline pipeline = dataset.start({.threads = 1});
    rest_of(pipeline, 3);
    return PipelineState::parse(pipeline.save().serialize());
  };
  const auto refusal = [&](const Dataset& dataset, const PipelineState& saved) -> std::string {
    try {
      Pipeline pipeline = dataset.start({.threads = 1, .state = saved});
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kState);
      return error.what();
    }
    return "accepted";
  };
  const Dataset dataset = masked(parse(records()));
  const PipelineState saved = state(dataset);
  EXPECT_EQ(refusal(dataset, saved), "accepted");
  EXPECT_EQ(refusal(dataset.prefetch(7), saved), "accepted");
  EXPECT_THAT(refusal(parse(records()).shuffle(51, {.seed = 5}), saved),
              HasSubstr("operator 2 is shuffle(buffer_size=51, seed=5), in the state it is shuffle(buffer_size=50"));
  EXPECT_THAT(refusal(dataset.take(3), saved), HasSubstr("the state has no operator 6, take"));
  EXPECT_THAT(refusal(parse(records()).shuffle(50, {.seed = 5}), saved), HasSubstr("one more operator, repeat"));
  EXPECT_THAT(refusal(Dataset::rows({{"value", std::vector<int64_t>{1, 2}}}),
                      state(Dataset::rows({{"value", std::vector<int64_t>{1, 3}}}))),
              HasSubstr("other features or contents"));

  // What decides where records end, too.
  const Shards shards = Shards::glob(folder_.path("*.tfrecord"));
  EXPECT_THAT(refusal(Dataset::tfrecord(shards, {.max_record_bytes = 500}), state(Dataset::tfrecord(shards))),
              HasSubstr("max_record_bytes=500), in the state it is tfrecord("));

  std::string bytes = test::read_file(path(3));
  bytes.back() ^= 1;
  test::write_file(path(3), bytes);
  EXPECT_THAT(refusal(dataset, saved), HasSubstr("shard " + path(3) + " has another content"));
  test::write_file(path(3), bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(refusal(dataset, saved), HasSubstr("shard " + path(3) + " has another size"));
  bytes.back() ^= 1;
  test::write_file(path(3), bytes);
  EXPECT_EQ(refusal(dataset, saved), "accepted");
  std::filesystem::rename(path(6), folder_.path("other.tfrecord"));
  EXPECT_THAT(refusal(masked(parse(records())), saved), HasSubstr("another name or place in the list"));
  std::filesystem::remove(folder_.path("other.tfrecord"));
  EXPECT_THAT(refusal(masked(parse(records())), saved), HasSubstr("tfrecord(shards=6"));
}

TEST(PipelineState, WhatIsNoStateIsRefused) {
  Pipeline pipeline = numbers(10).shuffle(4).start({.threads = 1});
  pipeline.next();
  const std::string bytes = pipeline.save().serialize();
  const auto refused = [](const std::string& state) {
    try {
      (void)PipelineState::parse(state);
    } catch (const ErrorException& error) {
      return error.error().code == ErrorCode::kState;
    }
    return false;
  };
  EXPECT_FALSE(refused(bytes));
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("hello"));
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_TRUE(refused(bytes.substr(0, size))) << size;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(refused(flipped)) << "bit " << bit;
  }
}

TEST(PipelineState, ThatOfAnotherVersionIsRefusedWithBothVersions) {
  Pipeline pipeline = numbers(10).shuffle(4).start({.threads = 1});
  pipeline.next();
  state::Envelope envelope;
  ASSERT_TRUE(envelope.ParseFromString(pipeline.save().serialize()));
  const uint32_t version = envelope.version();
  for (const uint32_t other : {version - 1, version + 1}) {
    envelope.set_version(other);
    try {
      (void)PipelineState::parse(envelope.SerializeAsString());
      ADD_FAILURE() << "version " << other;
    } catch (const ErrorException& e) {
      EXPECT_EQ(e.error().code, ErrorCode::kState);
      EXPECT_THAT(e.what(), testing::HasSubstr(fmt::format("version {},", other)));
      EXPECT_THAT(e.what(), testing::HasSubstr(fmt::format("reads version {}", version)));
    }
  }
}

TEST(PipelineState, APipelineWithAGeneratorThatIsNotResumableCannotBeSaved) {
  const Dataset dataset = Dataset::from_generator(
      {.name = "clock",
       .gives = {{.name = "x", .dtype = DType::kInt64, .shape = {}}},
       .runs = GeneratorRuns::not_resumable([](const Iteration&) { return [](RowWriter&) { return false; }; })});
  Pipeline pipeline = dataset.batch(2).start({.threads = 1});
  try {
    (void)pipeline.save();
    FAIL() << "saved";
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("from_generator: generator 'clock' is declared not resumable"));
  }
  EXPECT_FALSE(pipeline.next());
}

TEST(PipelineState, APipelineWithoutAnOrderCannotBeSaved) {
  const auto refusal = [](const Dataset& dataset, const StartOptions& options) -> std::string {
    Pipeline pipeline = dataset.start(options);
    try {
      (void)pipeline.save();
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "saved";
  };
  EXPECT_THAT(refusal(numbers(5), {.threads = 1, .ordered = false}), HasSubstr("ordered = false"));
  EXPECT_THAT(refusal(Dataset::interleave({numbers(5), numbers(5)}, {.ordered = false}), {.threads = 1}),
              HasSubstr("interleave: its inputs are not ordered"));
}

}  // namespace
}  // namespace millrace::pipeline_state_test
