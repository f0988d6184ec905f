#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::randomness_test {
namespace {

constexpr int64_t kRows = 1000;

std::vector<int64_t> order_of(const Dataset& dataset) {
  Pipeline pipeline = dataset.start({.threads = 2});
  std::vector<int64_t> values;
  while (const std::optional<Batch> batch = pipeline.next()) {
    const auto found = batch->values<int64_t>("value");
    values.insert(values.end(), found.begin(), found.end());
  }
  return values;
}

// Where each element of `before` is in `after`: what the stages between them did to the order.
std::vector<int64_t> moves(const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  std::vector<int64_t> place_of(before.size());
  for (size_t place = 0; place < before.size(); ++place)
    place_of[static_cast<size_t>(before[place])] = static_cast<int64_t>(place);
  std::vector<int64_t> moved;
  for (const int64_t value : after) moved.push_back(place_of[static_cast<size_t>(value)]);
  return moved;
}

int64_t num_equal(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0}, std::plus<>(), std::equal_to<>());
}

// Independent permutations of n have one place in common on average; 12 and more have a chance below 1e-9.
constexpr int64_t kMostEqualByChance = 12;

TEST(Randomness, ShufflesOneBehindTheOtherWithOneSeedMoveRowsInTheirOwnWays) {
  const ShuffleOptions seed{.seed = 42};
  const Dataset numbers = Dataset::range(0, kRows);
  std::vector<int64_t> identity(kRows);
  std::iota(identity.begin(), identity.end(), 0);

  std::vector<std::vector<int64_t>> moved;
  Dataset shuffled = numbers;
  std::vector<int64_t> before = identity;
  for (int i = 0; i < 3; ++i) {
    // What stands between two shuffles makes no difference.
    shuffled = i == 1 ? shuffled.add("value", int64_t{0}).shuffle(kRows, seed) : shuffled.shuffle(kRows, seed);
    const std::vector<int64_t> after = order_of(shuffled);
    ASSERT_EQ(after.size(), static_cast<size_t>(kRows));
    moved.push_back(moves(before, after));
    EXPECT_LT(num_equal(moved.back(), identity), kMostEqualByChance);
    before = after;
  }
  EXPECT_LT(num_equal(moved[0], moved[1]), kMostEqualByChance);
  EXPECT_LT(num_equal(moved[0], moved[2]), kMostEqualByChance);
  EXPECT_LT(num_equal(moved[1], moved[2]), kMostEqualByChance);
}

TEST(Randomness, AnOperatorOfAnotherKindBeforeAShuffleKeepsItsOrder) {
  const Dataset numbers = Dataset::range(0, kRows);
  EXPECT_EQ(order_of(numbers.add("value", int64_t{0}).take(kRows).shuffle(100, {.seed = 1})),
            order_of(numbers.shuffle(100, {.seed = 1})));
}

TEST(Randomness, ShufflesInNestedInputsWithOneSeedMoveRowsInTheirOwnWays) {
  const Dataset shuffled = Dataset::range(0, kRows).shuffle(kRows, {.seed = 42});
  const std::vector<int64_t> both = order_of(Dataset::interleave({shuffled, shuffled}, {.cycle_length = 2}));
  std::vector<int64_t> first;
  std::vector<int64_t> second;
  for (size_t i = 0; i < both.size(); ++i) (i % 2 == 0 ? first : second).push_back(both[i]);
  EXPECT_LT(num_equal(first, second), kMostEqualByChance);
}

TEST(Randomness, TwoMasksWithOneSeedChooseTheirOwnPositions) {
  constexpr int64_t kLength = 64;
  const Dataset rows = Dataset::range(0, 100).map(RowFunction{
      .name = "two texts",
      .writes = {{.name = "question", .dtype = DType::kInt64, .shape = {kLength}},
                 {.name = "answer", .dtype = DType::kInt64, .shape = {kLength}}},
      .function =
          [](const RowView&, RowWriter& out) {
            const std::vector<int64_t> ids(kLength, 7);
            out.set_values("question", std::span<const int64_t>(ids));
            out.set_values("answer", std::span<const int64_t>(ids));
          },
  });
  MaskTokensOptions options{.vocab_size = 1000, .mask_token = 4, .probability = 0.5, .seed = 9};
  options.attention_mask = "";
  options.input_ids = "question";
  options.labels = "question_labels";
  const Dataset once = rows.mask_tokens(options);
  options.input_ids = "answer";
  options.labels = "answer_labels";
  Pipeline pipeline = once.batch(100).mask_tokens(options).start({.threads = 2});
  const std::optional<Batch> batch = pipeline.next();
  ASSERT_TRUE(batch);
  const auto question = batch->values<int64_t>("question_labels");
  const auto answer = batch->values<int64_t>("answer_labels");
  ASSERT_EQ(question.size(), size_t{100 * kLength});
  int64_t equal = 0;
  for (size_t i = 0; i < question.size(); ++i) equal += (question[i] == answer[i]) ? 1 : 0;
  // 3200 with a spread of 40.
  EXPECT_GT(equal, 2900);
  EXPECT_LT(equal, 3500);
}

TEST(Randomness, RewritesDoNotChangeWhichShuffleIsWhich) {
  ExampleWriter example;
  std::vector<std::string> records;
  for (int64_t i = 0; i < 500; ++i) {
    example.add("id", std::span<const int64_t>(&i, 1));
    records.emplace_back(example.finish());
  }
  const auto dataset = [&](int64_t second_buffer) {
    return Dataset::range(0, 500)
        .map(RowFunction{
            .name = "record",
            .writes = {{.name = "record", .dtype = DType::kBytes, .shape = {}}},
            .function =
                [&records](const RowView& row, RowWriter& out) {
                  out.set("record", std::string_view(records[static_cast<size_t>(row.value<int64_t>("value"))]));
                },
            .keep_others = false,
        })
        .shuffle(200, {.seed = 3})
        .parse_example({fixed_len("id", {}, DType::kInt64)})
        .shuffle(second_buffer, {.seed = 3})
        .batch(10);
  };
  const auto hash = [](const Dataset& of, std::vector<std::string> disabled) {
    Pipeline pipeline = of.start({.threads = 2, .disabled_rewrites = std::move(disabled)});
    StreamHash stream;
    while (const std::optional<Batch> batch = pipeline.next()) stream.add(*batch);
    return stream.hex();
  };
  ASSERT_NE(dataset(100).explain().find("defer_parse: parse_example after shuffle"), std::string::npos);
  EXPECT_EQ(hash(dataset(100), {}), hash(dataset(100), {"defer_parse"}));
  EXPECT_NE(hash(dataset(100), {}), hash(dataset(1), {}));
}

}  // namespace
}  // namespace millrace::randomness_test
