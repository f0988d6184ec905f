// Records, shapes and counts that ask for more memory than there is: dataset_bench as a process stays within its
// budget, or says that it cannot.
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/example/feature_description.h"
#include "millrace/formats/example/writer.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/definition/pipeline_def.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::attacked_memory_test {
namespace {

using test::ChildResult;
using testing::AnyOf;
using testing::HasSubstr;

constexpr int64_t kMebibyte = 1 << 20;
// Code, libraries and stacks of the program, which are there before it starts a pipeline.
constexpr int64_t kProgram = 28 * kMebibyte;

// The wire format by hand: what no writer would write.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string field(int number, const std::string& bytes) {
  return static_cast<char>(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string times(size_t count, const std::string& bytes) {
  std::string all;
  all.reserve(count * bytes.size());
  for (size_t i = 0; i < count; ++i) all += bytes;
  return all;
}
std::string entry(const std::string& key, const std::string& value) {
  return field(1, field(1, key) + field(2, value));
}
std::string example(const std::string& entries) { return field(1, entries); }
std::string numbers(size_t count) { return field(3, field(1, std::string(count, '\1'))); }
std::string empty_strings(size_t count) { return field(1, times(count, std::string("\x0a\0", 2))); }

class AttackedMemory : public testing::Test {
 protected:
  Shards write(int copies, const std::string& record) {
    RecordWriter writer(folder_.path("x.tfrecord"));
    for (int i = 0; i < copies; ++i) writer.write(record);
    writer.close();
    return Shards::files({folder_.path("x.tfrecord")});
  }

  // How it ends, the same for every number of threads and every rewrite: "" or the message.
  std::string expect_bounded(const Dataset& dataset, int64_t budget_mb) {
    const std::string definition = folder_.path("pipeline.txtpb");
    PipelineDef::of(dataset).save(definition);
    std::string first;
    for (const char* threads : {"1", "4"}) {
      for (const bool rewrites : {true, false}) {
        std::vector<std::string> command = {
            test::kDatasetBench,       "--pipeline", definition, "--batches", "100", "--memory-mb",
            std::to_string(budget_mb), "--threads",  threads};
        if (!rewrites) command.insert(command.end(), {"--no-rewrite", "defer_parse", "--no-rewrite", "defer_copy"});
        const ChildResult result = test::run_child(command);
        const std::string how = fmt::format("{} threads, rewrites {}: exit {}, peak {} MiB: {}", threads, rewrites,
                                            result.exit_code, result.peak_resident_bytes / kMebibyte, result.err);
        EXPECT_LE(result.peak_resident_bytes, budget_mb * kMebibyte / 10 * 11 + 64 * kMebibyte + kProgram) << how;
        EXPECT_EQ(result.signal, 0) << how;
        // It complains where the data ends before it has measured what it was asked for.
        const bool ended = result.exit_code == 0 || result.err.find("cardinality: the data ends") != std::string::npos;
        if (!ended) {
          EXPECT_THAT(result.err, HasSubstr("memory_budget: "));
          const int64_t budget = budget_mb * kMebibyte;
          EXPECT_THAT(result.err, AnyOf(HasSubstr(std::to_string(budget)), HasSubstr(std::to_string(budget / 4 * 3))));
        }
        const std::string end = ended ? "" : result.err;
        if (threads == std::string("1") && rewrites) first = end;
        EXPECT_EQ(end.empty(), first.empty()) << how;
      }
    }
    return first;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(AttackedMemory, ABatchThatShapesSayIsTooLargeIsRefusedAtTheStart) {
  const Shards shards = write(128, example(entry("x", numbers(1'000'000))));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({fixed_len("x", {1'000'000}, DType::kInt64)});
  EXPECT_THAT(expect_bounded(rows.batch(64), 100), HasSubstr("batch 512000000"));
  EXPECT_THAT(expect_bounded(rows.padded_batch(64), 100), HasSubstr("padded_batch 512000000"));
  EXPECT_THAT(expect_bounded(rows.ragged_batch(64), 100), HasSubstr("ragged_batch 512000000"));
  EXPECT_THAT(expect_bounded(rows.batch(5).rebatch(64), 100), HasSubstr("rebatch"));
  EXPECT_EQ(expect_bounded(rows.batch(4), 100), "");
}

TEST_F(AttackedMemory, ABatchOfRecordsThatIsParsedAfterIt) {
  const Shards shards = write(128, example(entry("x", numbers(1'000'000))));
  const Dataset batches = Dataset::tfrecord(shards).batch(64);
  EXPECT_THAT(expect_bounded(batches.parse_example({fixed_len("x", {1'000'000}, DType::kInt64)}), 100),
              HasSubstr("parse_example"));
  EXPECT_THAT(expect_bounded(batches.parse_example({var_len("x", DType::kInt64)}), 100), HasSubstr("parse_example"));
}

TEST_F(AttackedMemory, RowsWhoseLengthNobodySays) {
  const Shards shards = write(128, example(entry("x", numbers(1'000'000))));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({var_len("x", DType::kInt64)});
  EXPECT_NE(expect_bounded(rows.padded_batch(64), 100), "");
  EXPECT_NE(expect_bounded(rows.ragged_batch(64), 100), "");
  EXPECT_NE(expect_bounded(rows.bucket_by_sequence_length({"x"}, {2'000'000}, {64, 1}), 100), "");
  EXPECT_NE(expect_bounded(rows.shuffle(64, {.seed = 1}), 100), "");
  EXPECT_EQ(expect_bounded(rows.padded_batch(2), 100), "");
}

TEST_F(AttackedMemory, SmallRecordsThatAreDeclaredLarge) {
  const Shards shards = write(4000, std::string(128, 'x'));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({fixed_len("x", {1'000'000}, DType::kInt64)});
  EXPECT_EQ(expect_bounded(rows.ignore_errors(), 200), "");
  const Shards empty = write(4000, "");
  const Dataset filled = Dataset::tfrecord(empty).parse_example(
      {fixed_len("x", {100'000}, DType::kInt64).default_value(std::vector<int64_t>(100'000, 7))});
  EXPECT_EQ(expect_bounded(filled, 200), "");
  EXPECT_EQ(expect_bounded(filled.batch(2).unbatch(), 200), "");
}

TEST_F(AttackedMemory, OneElementLargerThanTheBudget) {
  const Shards shards = write(4, "");
  const Dataset rows = Dataset::tfrecord(shards).parse_example({fixed_len("x", {100'000'000}, DType::kInt64)});
  EXPECT_THAT(expect_bounded(rows, 200), HasSubstr("parse_example 800000000"));
  EXPECT_THAT(expect_bounded(Dataset::range(0, 10).one_hot("value", 1'000'000'000), 200), HasSubstr("one_hot"));
  EXPECT_EQ(expect_bounded(Dataset::range(0, 4000).one_hot("value", 1'000'000), 200), "");
}

TEST_F(AttackedMemory, MillionsOfEmptyStrings) {
  const Shards shards = write(8, example(entry("x", empty_strings(20'000'000))));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({var_len("x", DType::kBytes)});
  EXPECT_THAT(expect_bounded(rows.ragged_batch(4), 200), HasSubstr("parse_example"));
  EXPECT_THAT(expect_bounded(rows.padded_batch(4), 200), HasSubstr("memory_budget"));
}

TEST_F(AttackedMemory, MillionsOfEmptySteps) {
  const std::string steps = times(10'000'000, std::string("\x0a\0", 2));
  const Shards shards = write(8, field(2, entry("x", steps) + entry("not_wanted", steps)));
  const Dataset rows = Dataset::tfrecord(shards).parse_sequence_example({}, {var_len("x", DType::kInt64)});
  EXPECT_THAT(expect_bounded(rows, 200), HasSubstr("parse_sequence_example"));
}

TEST_F(AttackedMemory, MillionsOfIndicesAndPartitions) {
  const Shards shards = write(
      8, example(entry("x", numbers(10'000'000)) + entry("i", numbers(10'000'000)) + entry("j", numbers(10'000'000))));
  const Dataset records = Dataset::tfrecord(shards);
  EXPECT_THAT(expect_bounded(records.parse_example({sparse("s", {"i", "j"}, "x", DType::kInt64, {100, 100})}), 200),
              HasSubstr("parse_example"));
  EXPECT_THAT(
      expect_bounded(records.parse_example({ragged("x", DType::kInt64, {row_lengths("i"), row_lengths("j")})}), 200),
      HasSubstr("parse_example"));
}

TEST_F(AttackedMemory, AFeatureInMillionsOfParts) {
  const std::string value = times(10'000'000, field(2, ""));
  const Shards shards = write(8, example(field(1, field(1, "x") + value)));
  EXPECT_EQ(expect_bounded(Dataset::tfrecord(shards).parse_example({var_len("x", DType::kInt64)}).ignore_errors(), 200),
            "");
  const std::string list = times(10'000'000, field(3, ""));
  const Shards lists = write(8, example(entry("x", list)));
  EXPECT_EQ(expect_bounded(Dataset::tfrecord(lists).parse_example({var_len("x", DType::kInt64)}).ignore_errors(), 200),
            "");
}

TEST_F(AttackedMemory, ALineOfMillionsOfFields) {
  const std::string commas(40'000'000, ',');
  std::ofstream(folder_.path("x.csv")) << "a,b\n1,2\n" << commas << "\n" << commas << "\n";
  const Dataset rows = Dataset::csv(Shards::files({folder_.path("x.csv")}),
                                    {{.name = "a", .dtype = DType::kInt64}, {.name = "b", .dtype = DType::kInt64}});
  EXPECT_EQ(expect_bounded(rows.ignore_errors(), 200), "");
}

// Where TensorFlow's reader may find something else, the record is read as it does, too.
TEST_F(AttackedMemory, ARecordThatIsReadTwice) {
  const Shards shards = write(8, example(entry("x", numbers(7'000'000) + numbers(7'000'000))));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({var_len("x", DType::kInt64)});
  EXPECT_THAT(expect_bounded(rows, 200), HasSubstr("parse_example"));
}

TEST_F(AttackedMemory, RowsOfMillionsOfTokens) {
  const Shards shards = write(8, example(entry("input_ids", numbers(8'000'000))));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({var_len("input_ids", DType::kInt64)});
  EXPECT_THAT(expect_bounded(rows.mask_tokens({.vocab_size = 100,
                                               .mask_token = 4,
                                               .probability = 0.5,
                                               .attention_mask = "",
                                               .spans = MaskSpans{.stop = 1}}),
                             200),
              HasSubstr("mask_tokens"));
  EXPECT_THAT(
      expect_bounded(
          rows.corrupt_spans(
              {.vocab_size = 5'000'000, .noise_density = 0.5, .mean_span_length = 1, .num_sentinels = 4'500'000}),
          200),
      HasSubstr("corrupt_spans"));
}

TEST_F(AttackedMemory, RowsOfMillionsOfStringsOnTheirWayOutOfAShuffle) {
  const Shards shards = write(8, example(entry("x", empty_strings(2'000'000))));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({var_len("x", DType::kBytes)});
  EXPECT_EQ(expect_bounded(rows.shuffle(2, {.seed = 1}), 200), "");
}

TEST_F(AttackedMemory, ElementsThatAreCutIntoMillionsOfRows) {
  const Shards shards = write(8, example(entry("x", numbers(5'000'000)) + entry("i", numbers(5'000'000))));
  const Dataset rows =
      Dataset::tfrecord(shards).parse_example({ragged("x", DType::kInt64, {row_lengths("i")})}).unbatch();
  EXPECT_THAT(expect_bounded(rows, 200), HasSubstr("unbatch"));
}

TEST_F(AttackedMemory, ATensorWhoseValuesAreListedOneByOne) {
  const std::string values = times(20'000'000, std::string("\x50\1", 2));
  const std::string shape = field(2, field(2, std::string("\x08") + varint(20'000'000)));
  const std::string tensor = std::string("\x08\x09") + shape + values;
  const Shards shards = write(8, example(entry("x", field(1, field(1, tensor)))));
  const Dataset rows = Dataset::tfrecord(shards)
                           .parse_example({fixed_len("x", {}, DType::kBytes)})
                           .parse_tensor("x", DType::kInt64, {kVaries});
  EXPECT_THAT(expect_bounded(rows, 200), HasSubstr("parse_tensor"));
}

TEST_F(AttackedMemory, MillionsOfErrorsInACache) {
  const Shards shards = write(2'000'000, std::string(16, 'x'));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({fixed_len("x", {}, DType::kInt64)});
  EXPECT_THAT(expect_bounded(rows.cache().ignore_errors(), 100), HasSubstr("cache"));
}

TEST_F(AttackedMemory, MillionsOfErrorsInAShuffle) {
  const Shards shards = write(2'000'000, std::string(16, 'x'));
  const Dataset rows = Dataset::tfrecord(shards).parse_example({fixed_len("x", {}, DType::kInt64)});
  (void)expect_bounded(rows.shuffle(2'000'000, {.seed = 1}).ignore_errors(), 100);
}

}  // namespace
}  // namespace millrace::attacked_memory_test
