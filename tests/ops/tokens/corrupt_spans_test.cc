#include "millrace/ops/tokens/corrupt_spans.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/operator_chain.h"

namespace millrace::corrupt_spans_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SpanNoise, LeavesOutAsManyTokensAndSpansAsT5) {
  size_t compared = 0;
  for (const nlohmann::json& one : test::operator_cases("span_noise.jsonl")) {
    const SpanNoise noise(one.at("density"), one.at("mean"));
    const auto tokens = one.at("tokens").get<std::vector<int64_t>>();
    const auto spans = one.at("spans").get<std::vector<int64_t>>();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto length = static_cast<int64_t>(i) + 2;
      EXPECT_EQ(noise.counts(length), (SpanNoise::Counts{tokens[i], spans[i]})) << one.at("density") << " " << length;
      ++compared;
    }
  }
  EXPECT_GT(compared, 4000u);
  // Where T5's code would have more spans than tokens between them.
  EXPECT_EQ(SpanNoise(0.9, 1).counts(10), (SpanNoise::Counts{9, 1}));
  EXPECT_EQ(SpanNoise(0.15, 3).counts(1), (SpanNoise::Counts{0, 0}));
  EXPECT_EQ(SpanNoise(0.15, 3).counts(0), (SpanNoise::Counts{0, 0}));
}

TEST(SpanNoise, CutsARowIntoSpansOfBothKindsInTurn) {
  const CounterRng rng(3, operator_id("corrupt_spans"));
  BufferPool pool;
  CountedVector<int64_t> lengths{CountedAllocator<int64_t>(pool)};
  for (const double density : {0.05, 0.15, 0.5, 0.85}) {
    const SpanNoise noise(density, 2);
    for (int64_t length = 0; length < 300; ++length) {
      noise.draw(rng, static_cast<uint64_t>(length), length, lengths);
      const SpanNoise::Counts counts = noise.counts(length);
      ASSERT_EQ(lengths.size(), 2 * static_cast<size_t>(counts.spans));
      int64_t left_out = 0;
      int64_t stay = 0;
      for (size_t i = 0; i < lengths.size(); ++i) {
        ASSERT_GE(lengths[i], 1);
        (i % 2 == 1 ? left_out : stay) += lengths[i];
      }
      EXPECT_EQ(left_out, counts.tokens);
      EXPECT_EQ(stay, length < 2 ? 0 : length - counts.tokens);
    }
  }
}

// All ways to cut 6 tokens that are left out into 3 spans and 6 that stay into 3 are alike: 10 times 10 of them.
TEST(SpanNoise, DrawsEveryCutAlike) {
  const SpanNoise noise(0.5, 2);
  const CounterRng rng(11, operator_id("corrupt_spans"));
  std::map<std::vector<int64_t>, int> seen;
  BufferPool pool;
  CountedVector<int64_t> lengths{CountedAllocator<int64_t>(pool)};
  constexpr int kRows = 40000;
  for (uint64_t row = 0; row < kRows; ++row) {
    noise.draw(rng, row, 12, lengths);
    ++seen[{lengths.begin(), lengths.end()}];
  }
  ASSERT_EQ(seen.size(), 100u);
  double chi_squared = 0;
  for (const auto& [cut, count] : seen) chi_squared += (count - kRows / 100.0) * (count - kRows / 100.0) * 100 / kRows;
  // 99 degrees of freedom: 148.2 is at p = 0.001. The seed is fixed.
  EXPECT_LT(chi_squared, 148.2);
}

// Checkpoints rely on it.
TEST(SpanNoise, IsPinned) {
  BufferPool pool;
  CountedVector<int64_t> lengths{CountedAllocator<int64_t>(pool)};
  SpanNoise(0.15, 3).draw(CounterRng(7, operator_id("corrupt_spans")), 5, 40, lengths);
  EXPECT_THAT(lengths, ElementsAre(27, 3, 7, 3));
}

struct Row {
  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;
  friend bool operator==(const Row&, const Row&) = default;
};

// Rows of tokens below 1000, of lengths 0, 1, 2, …
std::vector<std::vector<int64_t>> some_rows(size_t count) {
  std::vector<std::vector<int64_t>> rows(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t p = 0; p < i; ++p) rows[i].push_back(static_cast<int64_t>((i * 131 + p * 17) % 1000));
  }
  return rows;
}

CorruptSpansOptions of_1000() { return {.vocab_size = 1100, .noise_density = 0.3, .mean_span_length = 2, .seed = 4}; }

std::vector<Row> run(const Dataset& dataset, int threads) {
  const WorkerLimit workers(threads);
  Pipeline pipeline = dataset.start({.threads = threads});
  std::vector<Row> rows;
  while (const std::optional<Batch> batch = pipeline.next()) {
    const std::span<const int64_t> inputs = batch->values<int64_t>("input_ids");
    const std::span<const int64_t> labels = batch->values<int64_t>("labels");
    const auto num_rows = static_cast<size_t>(batch->num_rows());
    for (size_t row = 0; row < num_rows; ++row) {
      const auto part = [&](std::span<const int64_t> all) {
        const std::span<const int64_t> of_row = all.subspan(row * (all.size() / num_rows), all.size() / num_rows);
        return std::vector<int64_t>(of_row.begin(), of_row.end());
      };
      rows.push_back({part(inputs), part(labels)});
    }
  }
  return rows;
}

// The row again, out of inputs and targets. Sentinels count down from 1099.
std::vector<int64_t> restored(const Row& row) {
  std::map<int64_t, std::vector<int64_t>> spans;
  int64_t sentinel = 1100;
  for (const int64_t id : row.labels) {
    if (id < 1000) {
      spans.at(sentinel).push_back(id);
    } else {
      EXPECT_EQ(id, sentinel - 1);
      spans[sentinel = id];
    }
  }
  std::vector<int64_t> tokens;
  for (const int64_t id : row.inputs) {
    if (id < 1000) {
      tokens.push_back(id);
    } else {
      tokens.insert(tokens.end(), spans.at(id).begin(), spans.at(id).end());
    }
  }
  return tokens;
}

TEST(CorruptSpans, InputsAndTargetsGiveBackTheRow) {
  const auto tokens = some_rows(300);
  const std::vector<Row> rows = run(Dataset::rows({{"input_ids", tokens}}).corrupt_spans(of_1000()), 2);
  ASSERT_EQ(rows.size(), tokens.size());
  const SpanNoise noise(0.3, 2);
  for (size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(restored(rows[i]), tokens[i]);
    const SpanNoise::Counts counts = noise.counts(static_cast<int64_t>(i));
    EXPECT_EQ(rows[i].inputs.size(), i - static_cast<size_t>(counts.tokens) + static_cast<size_t>(counts.spans));
    if (i == 1) continue;
    EXPECT_EQ(rows[i].labels.size(), static_cast<size_t>(counts.tokens + counts.spans));
  }
  // T5's mask of one token leaves nothing out; the targets have the sentinel of what stays.
  EXPECT_EQ(rows[1], (Row{tokens[1], {1099}}));
  EXPECT_EQ(rows[0], (Row{{}, {}}));
}

TEST(CorruptSpans, AnEndTokenStandsBehindBoth) {
  const auto tokens = some_rows(60);
  CorruptSpansOptions options = of_1000();
  const std::vector<Row> without = run(Dataset::rows({{"input_ids", tokens}}).corrupt_spans(options), 1);
  options.end_token = 1;
  const std::vector<Row> with = run(Dataset::rows({{"input_ids", tokens}}).corrupt_spans(options), 1);
  ASSERT_EQ(with.size(), without.size());
  for (size_t i = 0; i < with.size(); ++i) {
    Row expected = without[i];
    expected.inputs.push_back(1);
    expected.labels.push_back(1);
    EXPECT_EQ(with[i], expected) << i;
  }
}

TEST(CorruptSpans, IsTheSameForAnyThreadsBlocksAndBatches) {
  std::vector<std::vector<int64_t>> tokens(3000, std::vector<int64_t>(64));
  for (size_t i = 0; i < tokens.size(); ++i)
    std::iota(tokens[i].begin(), tokens[i].end(), static_cast<int64_t>(i % 500));
  const Dataset rows = Dataset::rows({{"input_ids", tokens}});
  const std::vector<Row> expected = run(rows.corrupt_spans(of_1000()), 1);
  ASSERT_EQ(expected.size(), tokens.size());
  for (const int threads : {2, 8}) EXPECT_EQ(run(rows.corrupt_spans(of_1000()), threads), expected);
  EXPECT_EQ(run(rows.batch(7).corrupt_spans(of_1000()), 2), expected);
  EXPECT_EQ(run(rows.prefetch(1).corrupt_spans(of_1000()).batch(16), 2), expected);
  // Lengths that are known beforehand.
  const SpanNoise::Counts counts = SpanNoise(0.3, 2).counts(64);
  const Dataset corrupted = rows.corrupt_spans(of_1000());
  EXPECT_EQ(corrupted.schema()[0].shape, (Shape{64 - counts.tokens + counts.spans}));
  EXPECT_EQ(corrupted.schema()[1].shape, (Shape{counts.tokens + counts.spans}));
}

TEST(CorruptSpans, EpochsSeedsAndPlacesInThePipelineDrawTheirOwn) {
  const std::vector<std::vector<int64_t>> tokens(1, some_rows(200).back());
  const Dataset row = Dataset::rows({{"input_ids", tokens}});
  const std::vector<Row> epochs = run(row.repeat(2).corrupt_spans(of_1000()), 1);
  EXPECT_NE(epochs[0], epochs[1]);
  const std::vector<Row> after = run(row.corrupt_spans(of_1000()).repeat(2), 1);
  EXPECT_EQ(after[0], epochs[0]);
  EXPECT_NE(after[1], after[0]);
  CorruptSpansOptions other = of_1000();
  other.seed = 5;
  EXPECT_NE(run(row.corrupt_spans(other), 1)[0], epochs[0]);
}

TEST(CorruptSpans, RowsThatCannotBeReadBackAreErrors) {
  CorruptSpansOptions options = of_1000();
  options.num_sentinels = 3;
  const auto elements = [&](const std::vector<std::vector<int32_t>>& rows) {
    return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"input_ids", rows}})
        .then<CorruptSpansOperator>(options)
        .elements();
  };
  // 20 tokens: 6 left out, in 3 spans. 30: 9, in 4.
  const std::vector<std::string> found =
      elements({std::vector<int32_t>(20, 5), std::vector<int32_t>(30, 5), {1, 2, 1097, 4}, {1, 2, 1096, 4}, {}});
  EXPECT_THAT(found[0], HasSubstr("input_ids=["));
  EXPECT_THAT(
      found[1],
      HasSubstr(
          "error: out_of_range: corrupt_spans: rows of 30 tokens in 'input_ids' have 4 spans, there are 3 sentinels"));
  EXPECT_THAT(found[2],
              HasSubstr("error: out_of_range: corrupt_spans: 'input_ids' has the sentinel 1097 among its ids"));
  EXPECT_THAT(found[3], HasSubstr("1096"));
  EXPECT_THAT(found[3], testing::Not(HasSubstr("error")));
  EXPECT_EQ(found[4], "input_ids=[] labels=[]");
}

TEST(CorruptSpans, ErrorsPass) {
  const Chain input = Chain::source<FaultyRange>(3, std::vector<int64_t>{1}, std::vector<int64_t>{}, "x");
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "input_ids", .shape = {1}}});
  const BlockFunction as_vectors{
      .name = "as_vectors", .schema = schema, .function = [schema](Block block, BufferPool& pool) {
        Column column = Column::fixed(pool, DType::kInt64, {1}, block.num_elements());
        std::ranges::fill(column.mutable_values<int64_t>(), 0);
        return block.with_columns(schema, {std::move(column)});
      }};
  const Chain vectors = Chain::of(std::make_shared<MapBlocksOperator>(as_vectors), {input});
  EXPECT_THAT(vectors.then<CorruptSpansOperator>(of_1000()).elements(),
              ElementsAre("input_ids=[0] labels=[1099]", HasSubstr("at 1"), "input_ids=[0] labels=[1099]"));
}

TEST(CorruptSpans, RefusesWhatCannotWork) {
  const auto refusal = [](const CorruptSpansOptions& options) {
    try {
      (void)Chain::source<RowsOperator>(
          std::vector<MemoryFeature>{{"input_ids", std::vector<std::vector<int64_t>>(1, std::vector<int64_t>(99))},
                                     {"text", std::vector<std::string>{"a"}}})
          .then<CorruptSpansOperator>(options);
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refusal({}), HasSubstr("vocab_size is 0"));
  EXPECT_THAT(refusal({.vocab_size = 200, .noise_density = 0}), HasSubstr("noise_density is 0"));
  EXPECT_THAT(refusal({.vocab_size = 200, .noise_density = 1}), HasSubstr("noise_density is 1"));
  EXPECT_THAT(refusal({.vocab_size = 200, .mean_span_length = 0.5}), HasSubstr("mean_span_length is 0.5"));
  EXPECT_THAT(refusal({.vocab_size = 200, .first_sentinel = 200}), HasSubstr("first_sentinel is 200"));
  EXPECT_THAT(refusal({.vocab_size = 99}), HasSubstr("num_sentinels is 100, must be from 1 to 99"));
  EXPECT_THAT(refusal({.vocab_size = 200, .num_sentinels = 0}), HasSubstr("num_sentinels is 0"));
  EXPECT_THAT(refusal({.vocab_size = 200, .end_token = 200}), HasSubstr("end_token is 200"));
  EXPECT_THAT(refusal({.vocab_size = 200, .end_token = 100}), HasSubstr("end_token 100 is a sentinel"));
  EXPECT_EQ(refusal({.vocab_size = 200, .end_token = 99}), "no error");
  EXPECT_THAT(refusal({.vocab_size = 200, .num_sentinels = 4}), HasSubstr("rows of 99 tokens in 'input_ids' have 5"));
  EXPECT_THAT(refusal({.vocab_size = 200, .input_ids = "text"}), HasSubstr("'text' is bytes"));
  EXPECT_THAT(refusal({.vocab_size = 200, .labels = "text"}), HasSubstr("there is a feature 'text' already"));
}

}  // namespace
}  // namespace millrace::corrupt_spans_test
