// What a failing graph prints is C++ that builds it.

#include <gtest/gtest.h>

#include "millrace/pipeline/worker_limit.h"
#include "tests/contract/functions.h"
#include "tests/contract/outcome.h"
#include "tests/contract/shard_files.h"

namespace millrace::test::printed_code_test {
namespace {

void expect_same(const TwinDataset& twin, const std::string& printed, const Dataset& compiled) {
  const WorkerLimit workers(2);
  EXPECT_EQ(twin.code(), printed);
  EXPECT_EQ(twin.dataset().explain({.threads = 2}), compiled.explain({.threads = 2}));
  EXPECT_EQ(difference(run(twin.dataset(), {}), run(compiled, {}), true), "");
}

TEST(PrintedCode, OfRecordsBuildsTheSameDataset) {
  expect_same(
      TwinDataset::tfrecord({"plain-0", "gzip-1"}, {.cycle_length = 2, .shuffle_shards = true, .seed = 3})
          .parse_example({"tokens32", "weight_or_half"})
          .mask_tokens(0.5, 7)
          .shuffle(9, {.seed = 1, .reshuffle_each_iteration = false})
          .repeat(2)
          .padded_batch(4, true, PadLength::multiple_of(4), 2),
      R"(Dataset::tfrecord(shards({"plain-0", "gzip-1"}), {.cycle_length = 2, .block_length = 1, .shuffle_shards = true, .seed = 3}))"
      R"(.parse_example({fixed_len("tokens", {kTokens}, DType::kInt64).as(DType::kInt32), fixed_len("weight", {}, DType::kFloat32).default_value(std::vector<float>{0.5F})}))"
      R"(.mask_tokens({.vocab_size = 50, .mask_token = 4, .special_tokens = {1}, .probability = 0.5, .seed = 7, .input_ids = "tokens", .attention_mask = ""}))"
      R"(.shuffle(9, {.seed = 1, .reshuffle_each_iteration = false}).repeat(2))"
      R"(.padded_batch(4, {.drop_remainder = true, .length = PadLength::multiple_of(4), .value = int64_t{2}}))",
      Dataset::tfrecord(shards({"plain-0", "gzip-1"}),
                        {.cycle_length = 2, .block_length = 1, .shuffle_shards = true, .seed = 3})
          .parse_example({fixed_len("tokens", {kTokens}, DType::kInt64).as(DType::kInt32),
                          fixed_len("weight", {}, DType::kFloat32).default_value(std::vector<float>{0.5F})})
          .mask_tokens({.vocab_size = 50,
                        .mask_token = 4,
                        .special_tokens = {1},
                        .probability = 0.5,
                        .seed = 7,
                        .input_ids = "tokens",
                        .attention_mask = ""})
          .shuffle(9, {.seed = 1, .reshuffle_each_iteration = false})
          .repeat(2)
          .padded_batch(4, {.drop_remainder = true, .length = PadLength::multiple_of(4), .value = int64_t{2}}));
}

TEST(PrintedCode, OfNumbersBuildsTheSameDataset) {
  expect_same(
      TwinDataset::interleave({TwinDataset::range(0, 9, 2), TwinDataset::range(5, 0, -1).map_negate_blocks("value")},
                              {.cycle_length = 2, .block_length = 3})
          .map_number_rows()
          .map_span_rows()
          .map_fail_rows(50, 1)
          .filter_rows(5, 0)
          .filter_blocks(7, 1)
          .add("value", 3)
          .cast("value", DType::kInt32)
          .skip(1)
          .take(-1)
          .shard(2, 0)
          .ignore_errors()
          .prefetch(2)
          .assert_cardinality(4),
      "Dataset::interleave({Dataset::range(0, 9, 2), negate_blocks(Dataset::range(5, 0, -1), \"value\")}, "
      "{.cycle_length = 2, .block_length = 3}).map(number_rows()).map(span_rows()).map(fail_rows(50, 1))"
      ".filter(drop_rows(5, 0)).filter(drop_in_blocks(7, 1)).add(\"value\", int64_t{3})"
      ".cast(\"value\", DType::kInt32).skip(1).take(-1).shard(2, 0).ignore_errors().prefetch(2)"
      ".assert_cardinality(4)",
      Dataset::interleave({Dataset::range(0, 9, 2), negate_blocks(Dataset::range(5, 0, -1), "value")},
                          {.cycle_length = 2, .block_length = 3})
          .map(number_rows())
          .map(span_rows())
          .map(fail_rows(50, 1))
          .filter(drop_rows(5, 0))
          .filter(drop_in_blocks(7, 1))
          .add("value", int64_t{3})
          .cast("value", DType::kInt32)
          .skip(1)
          .take(-1)
          .shard(2, 0)
          .ignore_errors()
          .prefetch(2)
          .assert_cardinality(4));
}

}  // namespace
}  // namespace millrace::test::printed_code_test
