// Whole words and spans of mask_tokens.
#include "millrace/ops/tokens/mask_choice.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/tokens/mask_tokens.h"

namespace millrace::mask_choice_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Span = MaskChoice::Span;

BufferPool scratch;

constexpr int32_t kMask = 4;
// A right implementation fails a comparison with p = 7e-6; the seeds are fixed.
constexpr double kBound = 4.5;

// The normal deviate of a binomial count.
double deviation(double count, double trials, double p) {
  return (count - trials * p) / std::sqrt(trials * p * (1 - p));
}

// How many spans of each length a row has on average whose spans are drawn until they hold `share` units: a span of
// the whole length begins wherever one may begin, and the last one has what is left.
std::vector<double> expected_spans(const MaskSpans& spans, size_t share) {
  const auto longest = static_cast<size_t>(spans.max_length);
  std::vector<double> length(longest + 1, 0);
  double sum = 0;
  for (size_t l = 1; l <= longest; ++l) sum += length[l] = spans.stop * std::pow(1 - spans.stop, l - 1);
  for (double& p : length) p /= sum;
  std::vector<double> begins(share + 1, 0);  // the chance that a span begins after so many units
  begins[0] = 1;
  std::vector<double> expected(longest + 1, 0);
  for (size_t at = 0; at < share; ++at) {
    for (size_t l = 1; l <= longest; ++l) {
      if (at + l <= share) begins[at + l] += begins[at] * length[l];
      expected[std::min(l, share - at)] += begins[at] * length[l];
    }
  }
  return expected;
}

TEST(MaskChoiceTest, SpansHaveTheLengthsAndTheShareThatTheoryGives) {
  constexpr size_t kRows = 4000;
  constexpr size_t kUnits = 400;
  constexpr size_t kShare = 60;  // 0.15 of 400, exactly
  for (const MaskSpans spans : {MaskSpans{}, MaskSpans{.stop = 0.5, .max_length = 3}}) {
    const MaskChoice choice(0.15, spans);
    const CounterRng rng(11, 12);
    const std::vector<double> expected = expected_spans(spans, kShare);
    std::vector<double> counts(expected.size());
    std::vector<double> squares(expected.size());
    double unit_sum = 0;
    CountedVector<Span> chosen{CountedAllocator<Span>(scratch)};
    for (uint64_t row = 0; row < kRows; ++row) {
      choice.choose(rng, row, kUnits, chosen);
      std::vector<double> of_row(expected.size());
      size_t units = 0;
      size_t end = 0;
      for (const Span& span : chosen) {
        ASSERT_TRUE(span.count >= 1 && span.count < of_row.size());
        // One unit at least lies between two spans.
        ASSERT_TRUE(&span == chosen.data() || span.first > end) << row;
        end = span.first + span.count;
        ++of_row[span.count];
        units += span.count;
      }
      ASSERT_LE(end, kUnits);
      unit_sum += static_cast<double>(units);
      for (size_t l = 0; l < of_row.size(); ++l) {
        counts[l] += of_row[l];
        squares[l] += of_row[l] * of_row[l];
      }
    }
    EXPECT_NEAR(unit_sum, kRows * kShare, 1e-3 * kRows) << "chance() rounds 0.15 * 400 by less than 1e-7";
    for (size_t l = 1; l < expected.size(); ++l) {
      const double mean = counts[l] / kRows;
      const double error = std::sqrt((squares[l] / kRows - mean * mean) / kRows);
      EXPECT_LT(std::abs(mean - expected[l]), kBound * error) << "spans of length " << l;
    }
  }
}

TEST(MaskChoiceTest, AShareThatIsNoWholeNumberIsRightOnAverage) {
  constexpr size_t kRows = 40000;
  const MaskChoice choice(0.15, MaskSpans{});
  const CounterRng rng(1, 2);
  CountedVector<Span> chosen{CountedAllocator<Span>(scratch)};
  for (const size_t units : {1, 3, 7, 10}) {
    const double share = 0.15 * static_cast<double>(units);
    double more = 0;  // rows with one unit more than the whole part
    for (uint64_t row = 0; row < kRows; ++row) {
      choice.choose(rng, row, units, chosen);
      size_t sum = 0;
      for (const Span& span : chosen) sum += span.count;
      ASSERT_TRUE(static_cast<double>(sum) == std::floor(share) || static_cast<double>(sum) == std::floor(share) + 1);
      more += static_cast<double>(sum) - std::floor(share);
    }
    EXPECT_LT(std::abs(deviation(more, kRows, share - std::floor(share))), kBound) << units;
  }
}

// Where spans stand: every choice of places is equally likely.
TEST(MaskChoiceTest, AllPlacesOfSpansAreEquallyLikely) {
  constexpr size_t kRows = 60000;
  // Two spans of one unit among eight: 7 places, 21 pairs that do not touch.
  const MaskChoice choice(0.25, MaskSpans{.stop = 1, .max_length = 1});
  const CounterRng rng(5, 6);
  std::map<std::pair<size_t, size_t>, double> pairs;
  CountedVector<Span> chosen{CountedAllocator<Span>(scratch)};
  for (uint64_t row = 0; row < kRows; ++row) {
    choice.choose(rng, row, 8, chosen);
    ASSERT_EQ(chosen.size(), 2u);
    ++pairs[{chosen[0].first, chosen[1].first}];
  }
  EXPECT_EQ(pairs.size(), 21u);
  for (const auto& [pair, count] : pairs) {
    EXPECT_LT(std::abs(deviation(count, kRows, 1.0 / 21)), kBound) << pair.first << " " << pair.second;
  }
}

// The last span that is drawn is the one that is cut, and must not always stand at the end.
TEST(MaskChoiceTest, TheSpanThatIsCutStandsAnywhere) {
  constexpr size_t kRows = 20000;
  // Spans of 2 and a share of 5: always two of 2 and one of 1.
  const MaskChoice choice(0.25, MaskSpans{.stop = 1e-12, .max_length = 2});
  const CounterRng rng(8, 6);
  std::array<double, 3> cut{};
  double rows = 0;
  CountedVector<Span> chosen{CountedAllocator<Span>(scratch)};
  for (uint64_t row = 0; row < kRows; ++row) {
    choice.choose(rng, row, 20, chosen);
    if (chosen.size() != 3) continue;  // spans of 1 were drawn
    if (chosen[0].count + chosen[1].count + chosen[2].count != 5) continue;
    ++rows;
    for (size_t i = 0; i < 3; ++i) cut[i] += chosen[i].count == 1 ? 1 : 0;
  }
  ASSERT_GT(rows, kRows / 10);
  for (const double count : cut) EXPECT_LT(std::abs(deviation(count, rows, 1.0 / 3)), kBound);
}

TEST(MaskChoiceTest, AtHalfOfARowThereIsJustRoomEnough) {
  const MaskChoice choice(0.5, MaskSpans{.stop = 1, .max_length = 1});
  const CounterRng rng(3, 4);
  CountedVector<Span> chosen{CountedAllocator<Span>(scratch)};
  for (size_t units = 0; units < 20; ++units) {
    for (uint64_t row = 0; row < 50; ++row) {
      choice.choose(rng, row, units, chosen);
      EXPECT_TRUE(chosen.size() == units / 2 || chosen.size() == (units + 1) / 2);
      for (size_t i = 1; i < chosen.size(); ++i) EXPECT_GT(chosen[i].first, chosen[i - 1].first + 1);
      EXPECT_TRUE(chosen.empty() || chosen.back().first < units);
    }
  }
}

Block rows_of(BufferPool& pool, const std::vector<std::vector<int32_t>>& features, size_t length) {
  std::vector<FeatureSpec> specs;
  Block::Columns columns;
  const std::array<const char*, 3> names{"input_ids", "attention_mask", "starts"};
  const size_t num_rows = features[0].size() / length;
  for (size_t f = 0; f < features.size(); ++f) {
    const DType dtype = f == 1 ? DType::kInt64 : DType::kInt32;
    specs.push_back({names[f], dtype, {static_cast<int64_t>(length)}});
    columns.push_back(Column::fixed(pool, dtype, {static_cast<int64_t>(length)}, num_rows));
    for (size_t i = 0; i < features[f].size(); ++i) {
      if (f == 1) {
        columns[f].mutable_values<int64_t>()[i] = features[f][i];
      } else {
        columns[f].mutable_values<int32_t>()[i] = features[f][i];
      }
    }
  }
  return {std::make_shared<const Schema>(std::move(specs)), std::move(columns), num_rows};
}

MaskTokensOptions all_masked() {
  return {.vocab_size = 100,
          .mask_token = kMask,
          .special_tokens = {0, 1},
          .probability = 0.5,
          .mask_share = 1,
          .random_share = 0,
          .seed = 3};
}

struct Masked {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
};

Masked mask(const Block& block, const MaskTokensOptions& options, BufferPool& pool) {
  const Block masked = MaskTokensOperator(block.schema(), options).apply(block, pool);
  const auto ids = masked.column("input_ids").values<int32_t>();
  const auto labels = masked.column("labels").values<int32_t>();
  return {{ids.begin(), ids.end()}, {labels.begin(), labels.end()}};
}

// Two rows of seven: [0] 7 8 | 9 | [1] 8 8 with words by a feature; padding at the end of the second.
TEST(MaskWordsTest, AWordIsMaskedWholeAndEndsAtASpecialTokenAndAtPadding) {
  BufferPool pool;
  std::vector<int32_t> ids;
  std::vector<int32_t> attention;
  std::vector<int32_t> starts;
  constexpr size_t kRows = 400;
  for (size_t row = 0; row < kRows; ++row) {
    for (const int32_t id : {0, 7, 8, 9, 1, 8, 8, 8}) ids.push_back(id);
    for (const int32_t one : {1, 1, 1, 1, 1, 1, 1, 0}) attention.push_back(one);
    for (const int32_t start : {0, 0, 0, 1, 0, 0, 0, 0}) starts.push_back(start);
  }
  const Block block = rows_of(pool, {ids, attention, starts}, 8);
  MaskTokensOptions options = all_masked();
  options.word_starts = "starts";
  const Masked masked = mask(block, options, pool);
  std::array<double, 3> chosen{};  // of the words [7,8], [9], [8,8]
  double both = 0;
  for (size_t row = 0; row < kRows; ++row) {
    const int32_t* labels = masked.labels.data() + 8 * row;
    const int32_t* now = masked.ids.data() + 8 * row;
    const std::array<bool, 3> is{labels[1] != -100, labels[3] != -100, labels[5] != -100};
    const auto m = [](bool masks, int32_t id) { return masks ? kMask : id; };
    const auto l = [](bool masks, int32_t id) { return masks ? id : -100; };
    EXPECT_THAT(std::vector<int32_t>(now, now + 8),
                ElementsAre(0, m(is[0], 7), m(is[0], 8), m(is[1], 9), 1, m(is[2], 8), m(is[2], 8), 8));
    EXPECT_THAT(std::vector<int32_t>(labels, labels + 8),
                ElementsAre(-100, l(is[0], 7), l(is[0], 8), l(is[1], 9), -100, l(is[2], 8), l(is[2], 8), -100));
    for (size_t w = 0; w < 3; ++w) chosen[w] += is[w] ? 1 : 0;
    both += is[0] && is[1] ? 1 : 0;
  }
  for (const double count : chosen) EXPECT_LT(std::abs(deviation(count, kRows, 0.5)), kBound);
  EXPECT_LT(std::abs(deviation(both, kRows, 0.25)), kBound) << "words are chosen each by itself";
}

// A table by id says the same as a feature with the table's entries.
TEST(MaskWordsTest, ATableByIdAndAFeatureAreTheSame) {
  BufferPool pool;
  std::vector<int32_t> ids;
  std::vector<int32_t> starts;
  for (int32_t i = 0; i < 2000; ++i) ids.push_back(i * 37 % 100);
  for (const int32_t id : ids) starts.push_back(id % 3 == 0 ? 1 : 0);
  const Block block = rows_of(pool, {ids, std::vector<int32_t>(2000, 1), starts}, 100);
  MaskTokensOptions by_feature = all_masked();
  by_feature.word_starts = "starts";
  MaskTokensOptions by_id = all_masked();
  for (size_t id = 0; id < 100; ++id) by_id.starts_word.push_back(id % 3 == 0);
  const Masked first = mask(block, by_feature, pool);
  const Masked second = mask(block, by_id, pool);
  EXPECT_EQ(first.ids, second.ids);
  EXPECT_EQ(first.labels, second.labels);
  EXPECT_NE(first.labels, mask(block, all_masked(), pool).labels);
}

// 600,000 tokens, words of 1 to 3 tokens: 15% of the tokens, and of them 80%, 10% and 10%, each by itself.
TEST(MaskWordsTest, SharesOfChosenMaskedAndRandomTokensAreAsAskedFor) {
  BufferPool pool;
  constexpr size_t kTokens = 600000;
  std::vector<int32_t> ids(kTokens, 7);
  std::vector<int32_t> starts(kTokens);
  for (size_t i = 0; i < kTokens; ++i) starts[i] = i % 6 == 0 || i % 6 == 1 || i % 6 == 3 ? 1 : 0;
  const Block block = rows_of(pool, {ids, std::vector<int32_t>(kTokens, 1), starts}, 600);
  MaskTokensOptions options{.vocab_size = 100, .mask_token = kMask, .seed = 5, .word_starts = "starts"};
  const Masked masked = mask(block, options, pool);
  double words = 0;
  double chosen = 0;
  double is_mask = 0;
  double is_other = 0;
  double unlike = 0;  // words of three of whose tokens the first is masked and the second not
  double threes = 0;
  for (size_t i = 0; i < kTokens; ++i) {
    const bool is = masked.labels[i] != -100;
    if (starts[i] != 0) words += is ? 1 : 0;
    chosen += is ? 1 : 0;
    is_mask += masked.ids[i] == kMask ? 1 : 0;
    is_other += masked.ids[i] != kMask && masked.ids[i] != 7 ? 1 : 0;
    if (is && i % 6 == 3) {
      ++threes;
      unlike += masked.ids[i] == kMask && masked.ids[i + 1] != kMask ? 1 : 0;
    }
  }
  EXPECT_LT(std::abs(deviation(words, kTokens / 2.0, 0.15)), kBound);
  // The number of tokens varies more than by binomial chance: words of 1, 2 and 3.
  const double per_word = kTokens / 6.0;
  EXPECT_LT(std::abs(chosen - 0.15 * kTokens) / std::sqrt(per_word * 14 * 0.15 * 0.85), kBound);
  EXPECT_LT(std::abs(deviation(is_mask, chosen, 0.8 + 0.1 / 100)), kBound);
  EXPECT_LT(std::abs(deviation(is_other, chosen, 0.1 * 0.98)), kBound);
  const double masks = 0.8 + 0.1 / 100;
  EXPECT_LT(std::abs(deviation(unlike, threes, masks * (1 - masks))), kBound) << "each token by itself";
}

TEST(MaskSpansTest, ASpanHasOneFateAndHoldsWholeWords) {
  BufferPool pool;
  constexpr size_t kTokens = 400000;
  std::vector<int32_t> ids(kTokens);
  for (size_t i = 0; i < kTokens; ++i) ids[i] = i % 2 == 0 ? 8 : 9;
  const Block block = rows_of(pool, {ids, std::vector<int32_t>(kTokens, 1)}, 500);
  MaskTokensOptions options{.vocab_size = 100, .mask_token = kMask, .seed = 6};
  options.starts_word.resize(100);
  options.starts_word[8] = true;  // words of two
  options.spans = MaskSpans{};
  const Masked masked = mask(block, options, pool);
  double chosen = 0;
  double spans = 0;
  double masked_spans = 0;
  double kept_spans = 0;
  for (size_t i = 0; i < kTokens; i += 2) {
    ASSERT_EQ(masked.labels[i] == -100, masked.labels[i + 1] == -100) << "half of a word";
    if (masked.labels[i] == -100) continue;
    chosen += 2;
    const bool goes_on = i % 500 != 0 && masked.labels[i - 1] != -100;
    if (!goes_on) {
      ++spans;
      masked_spans += masked.ids[i] == kMask && masked.ids[i + 1] == kMask ? 1 : 0;
      kept_spans += masked.ids[i] == 8 && masked.ids[i + 1] == 9 ? 1 : 0;
    } else if (masked.ids[i - 1] == kMask && masked.ids[i - 2] == kMask) {
      EXPECT_FALSE(masked.ids[i] == 8 && masked.ids[i + 1] == 9) << "a fate of its own at " << i;
    }
  }
  EXPECT_NEAR(chosen / kTokens, 0.15, 0.15 * 1e-2);
  EXPECT_LT(std::abs(deviation(masked_spans, spans, 0.8)), kBound + 0.1);
  EXPECT_LT(std::abs(deviation(kept_spans, spans, 0.1)), kBound + 0.1);
}

TEST(MaskSpansTest, RowsBatchesAndCutsGiveTheSame) {
  BufferPool pool;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 480; ++i) ids.push_back(i * 7 % 100);
  Block rows = rows_of(pool, {ids, std::vector<int32_t>(480, 1)}, 40);
  rows.first_row = 100;
  MaskTokensOptions options = all_masked();
  options.spans = MaskSpans{};
  const Masked whole = mask(rows, options, pool);
  Masked cut;
  for (size_t first = 0; first < 12; first += 5) {
    const Masked part = mask(rows.slice(first, std::min<size_t>(5, 12 - first)), options, pool);
    cut.ids.insert(cut.ids.end(), part.ids.begin(), part.ids.end());
  }
  EXPECT_EQ(cut.ids, whole.ids);
  const Shape shape{4, 40};
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{"input_ids", DType::kInt32, shape}, {"attention_mask", DType::kInt64, shape}});
  Block batches(schema, {rows.column(0).grouped(4), rows.column(1).grouped(4)}, 3);
  batches.rows_per_element = 4;
  batches.first_row = 100;
  const Masked batched = mask(batches, options, pool);
  EXPECT_EQ(batched.ids, whole.ids);
  EXPECT_EQ(batched.labels, whole.labels);
}

TEST(MaskSpansTest, BadOptionsAreRefused) {
  BufferPool pool;
  const Block block = rows_of(pool, {{1, 2}, {1, 1}, {1, 1}}, 2);
  const auto why = [&](const auto& change) -> std::string {
    MaskTokensOptions options = all_masked();
    change(options);
    try {
      const MaskTokensOperator made(block.schema(), options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why([](auto& o) { o.spans = MaskSpans{}; }), "accepted");
  EXPECT_THAT(why([](auto& o) { o.spans = MaskSpans{.stop = 0}; }), HasSubstr("spans.stop is 0"));
  EXPECT_THAT(why([](auto& o) { o.spans = MaskSpans{.max_length = 0}; }), HasSubstr("spans.max_length is 0"));
  EXPECT_THAT(why([](auto& o) {
                o.spans = MaskSpans{};
                o.probability = 0.6;
              }),
              HasSubstr("at most 0.5 with spans"));
  EXPECT_THAT(why([](auto& o) { o.starts_word.resize(99); }), HasSubstr("starts_word has 99 entries"));
  EXPECT_THAT(why([](auto& o) {
                o.starts_word.resize(100);
                o.word_starts = "starts";
              }),
              HasSubstr("not both"));
  EXPECT_THAT(why([](auto& o) { o.word_starts = "words"; }), HasSubstr("'words'"));
}

}  // namespace
}  // namespace millrace::mask_choice_test
