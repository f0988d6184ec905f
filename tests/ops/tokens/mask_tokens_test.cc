#include "millrace/ops/tokens/mask_tokens.h"

#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "tests/support/instruction_sets.h"

namespace millrace::mask_tokens_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 1000;
constexpr int64_t kMask = 4;

MaskTokensOptions options_with_seed(uint64_t seed) {
  return {.vocab_size = kVocabulary, .mask_token = kMask, .special_tokens = {0, 1}, .seed = seed};
}

SchemaPtr schema_of(DType dtype, const Shape& shape) {
  return std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "input_ids", .dtype = dtype, .shape = shape},
                               {.name = "attention_mask", .dtype = DType::kInt64, .shape = shape}});
}

// Rows of random ids, some of them special, with attention 0 over the end of some rows.
template <typename Id>
Block rows_of(BufferPool& pool, size_t num_rows, size_t length, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  const Shape shape{static_cast<int64_t>(length)};
  Column ids = Column::fixed(pool, DTypeOf<Id>::value, shape, num_rows);
  Column attention = Column::fixed(pool, DType::kInt64, shape, num_rows);
  for (size_t row = 0; row < num_rows; ++row) {
    const size_t used = random() % 3 == 0 ? random() % (length + 1) : length;
    for (size_t p = 0; p < length; ++p) {
      ids.mutable_values<Id>(row)[p] = static_cast<Id>(random() % 8 == 0 ? random() % 5 : random() % kVocabulary);
      // Any number but 0 says that there is a token.
      attention.mutable_values<int64_t>(row)[p] = p < used ? std::array<int64_t, 3>{1, -1, int64_t{1} << 32}[p % 3] : 0;
    }
  }
  return {schema_of(DTypeOf<Id>::value, shape), {ids, attention}, num_rows};
}

// Rows of varying length, ids 7, attention 1; their lengths differ only where a test wants them to.
Block varying_rows(BufferPool& pool, const std::vector<int64_t>& offsets, const std::vector<int64_t>& of_attention) {
  Column ids = Column::varying(pool, DType::kInt64, 1, offsets);
  Column attention = Column::varying(pool, DType::kInt64, 1, of_attention);
  for (int64_t& id : ids.mutable_values<int64_t>()) id = 7;
  for (int64_t& one : attention.mutable_values<int64_t>()) one = 1;
  return {schema_of(DType::kInt64, {kVaries}), {ids, attention}, offsets.size() - 1};
}

// All that is no special token becomes a random id.
MaskTokensOptions all_random() {
  MaskTokensOptions options = options_with_seed(3);
  options.probability = 1;
  options.mask_share = 0;
  options.random_share = 1;
  return options;
}

template <typename Id>
std::vector<Id> all_values(const Block& block, std::string_view feature) {
  const auto values = block.column(feature).values<Id>();
  return {values.begin(), values.end()};
}

// The operator as its definition says it, one position after the other.
template <typename Id>
void mask_plainly(const Block& block, const MaskTokensOptions& options, std::vector<Id>& ids, std::vector<Id>& labels) {
  const CounterRng rng(options.seed, operator_id("mask_tokens"), block.iteration);
  for (size_t row = 0; row < block.num_elements(); ++row) {
    const auto original = block.column("input_ids").values<Id>(row);
    const auto attention = block.column("attention_mask").values<int64_t>(row);
    const auto ordinal = static_cast<uint64_t>(block.first_row) + row;
    for (size_t p = 0; p < original.size(); ++p) {
      const uint64_t word = rng.words(ordinal, p / 4)[p % 4];
      bool special = attention[p] == 0;
      for (const int64_t token : options.special_tokens) special = special || original[p] == token;
      Id id = original[p];
      Id label = -100;
      if (!special && word < chance(options.probability)) {
        label = id;
        if (word < chance(options.probability * options.mask_share)) {
          id = static_cast<Id>(options.mask_token);
        } else if (word < chance(options.probability * (options.mask_share + options.random_share))) {
          const uint32_t random = rng.words(ordinal, (uint64_t{1} << 32) + p)[0];
          id = static_cast<Id>(uniform_below(random, static_cast<uint32_t>(options.vocab_size)));
        }
      }
      ids.push_back(id);
      labels.push_back(label);
    }
  }
}

template <typename Id>
void expect_as_defined(Block block, const MaskTokensOptions& options) {
  BufferPool pool;
  block.first_row = (int64_t{1} << 33) + 5;
  block.iteration = {.epoch = 3, .path = 77};
  const MaskTokensOperator mask(block.schema(), options);
  const std::vector<Id> before = all_values<Id>(block, "input_ids");
  const Block masked = mask.apply(block, pool);
  std::vector<Id> ids;
  std::vector<Id> labels;
  mask_plainly(block, options, ids, labels);
  const std::string where =
      fmt::format("{} positions, {} special tokens", block.column(0).num_values(0), options.special_tokens.size());
  EXPECT_EQ(all_values<Id>(masked, "input_ids"), ids) << where;
  EXPECT_EQ(all_values<Id>(masked, "labels"), labels) << where;
  EXPECT_EQ(all_values<Id>(block, "input_ids"), before) << "the input is shared and must stay";
  EXPECT_EQ(all_values<int64_t>(masked, "attention_mask"), all_values<int64_t>(block, "attention_mask"));
}

template <typename Id>
void expect_as_defined(size_t length, const MaskTokensOptions& options) {
  BufferPool pool;
  expect_as_defined<Id>(rows_of<Id>(pool, 9, length, length), options);
}

// Full rows, but for one position that has no token: another one in each row, and none in the last.
template <typename Id>
Block rows_that_lack_one(BufferPool& pool, size_t length) {
  Block rows = rows_of<Id>(pool, length + 1, length);
  for (size_t row = 0; row < rows.num_elements(); ++row) {
    const auto attention = rows.mutable_columns()[1].mutable_values<int64_t>(row);
    for (size_t p = 0; p < length; ++p) attention[p] = p == row ? 0 : 1;
  }
  return rows;
}

TEST(MaskTokens, APositionWithoutATokenIsSeenWhereverItIsAndSoIsEverySpecialToken) {
  test::for_each_instruction_set([] {
    BufferPool pool;
    for (size_t count = 0; count <= 9; ++count) {
      MaskTokensOptions options = options_with_seed(count);
      options.probability = 0.7;
      options.special_tokens.clear();
      for (size_t token = 0; token < count; ++token) {
        options.special_tokens.push_back(static_cast<int64_t>(token < 5 ? token : 100 * token));
      }
      expect_as_defined<int32_t>(rows_that_lack_one<int32_t>(pool, 75), options);
      expect_as_defined<int64_t>(rows_that_lack_one<int64_t>(pool, 20), options);
    }
  });
}

TEST(MaskTokens, VectorsDoWhatTheDefinitionSaysAtEveryLength) {
  test::for_each_instruction_set([] {
    for (const size_t length : {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 127, 129, 512}) {
      expect_as_defined<int32_t>(length, options_with_seed(length));
      expect_as_defined<int64_t>(length, options_with_seed(length));
    }
  });
}

TEST(MaskTokens, ExtremeProbabilitiesAndSharesAreExact) {
  test::for_each_instruction_set([] {
    for (const double probability : {0.0, 0.5, 1.0}) {
      for (const auto& [mask_share, random_share] : {std::pair{1.0, 0.0}, {0.0, 1.0}, {0.0, 0.0}, {0.3, 0.7}}) {
        MaskTokensOptions options = options_with_seed(9);
        options.probability = probability;
        options.mask_share = mask_share;
        options.random_share = random_share;
        expect_as_defined<int32_t>(50, options);
        expect_as_defined<int64_t>(50, options);
      }
    }
  });
}

void expect_the_same_however_cut(size_t length) {
  constexpr size_t kRows = 40;  // more than are masked at once
  BufferPool pool;
  Block rows = rows_of<int32_t>(pool, kRows, length);
  rows.first_row = 1000;
  rows.iteration = {.epoch = 2, .path = 0};
  const MaskTokensOperator mask_row(rows.schema(), options_with_seed(5));
  const Block whole = mask_row.apply(rows, pool);

  for (const size_t cut : {1, 5, 7}) {
    std::vector<int32_t> ids;
    std::vector<int32_t> labels;
    for (size_t first = 0; first < kRows; first += cut) {
      const Block part = mask_row.apply(rows.slice(first, std::min(cut, kRows - first)), pool);
      const auto part_ids = all_values<int32_t>(part, "input_ids");
      const auto part_labels = all_values<int32_t>(part, "labels");
      ids.insert(ids.end(), part_ids.begin(), part_ids.end());
      labels.insert(labels.end(), part_labels.begin(), part_labels.end());
    }
    EXPECT_EQ(ids, all_values<int32_t>(whole, "input_ids"));
    EXPECT_EQ(labels, all_values<int32_t>(whole, "labels"));
  }

  for (const size_t batch : {2, 4, 20, 40}) {
    const SchemaPtr schema = schema_of(DType::kInt32, {static_cast<int64_t>(batch), static_cast<int64_t>(length)});
    Block batches(schema, {rows.column(0).grouped(batch), rows.column(1).grouped(batch)}, kRows / batch);
    batches.rows_per_element = static_cast<int64_t>(batch);
    batches.first_row = rows.first_row;
    batches.iteration = rows.iteration;
    const Block masked = MaskTokensOperator(schema, options_with_seed(5)).apply(batches, pool);
    EXPECT_EQ(all_values<int32_t>(masked, "input_ids"), all_values<int32_t>(whole, "input_ids"));
    EXPECT_EQ(all_values<int32_t>(masked, "labels"), all_values<int32_t>(whole, "labels"));
  }
}

TEST(MaskTokens, RowsBatchesAndAnyCutIntoBlocksGiveTheSame) {
  test::for_each_instruction_set([] {
    for (const size_t length : {40, 131}) expect_the_same_however_cut(length);
  });
}

TEST(MaskTokens, SeedEpochAndRowDecideTheLabels) {
  BufferPool pool;
  const Block rows = rows_of<int32_t>(pool, 40, 40);
  const auto labels_with = [&](uint64_t seed, Iteration iteration, int64_t first_row) {
    Block other = rows;
    other.iteration = iteration;
    other.first_row = first_row;
    return all_values<int32_t>(MaskTokensOperator(rows.schema(), options_with_seed(seed)).apply(other, pool), "labels");
  };
  const auto labels = labels_with(5, {2, 0}, 1000);
  EXPECT_EQ(labels_with(5, {2, 0}, 1000), labels);
  EXPECT_NE(labels_with(6, {2, 0}, 1000), labels);
  EXPECT_NE(labels_with(5, {3, 0}, 1000), labels);
  EXPECT_NE(labels_with(5, {2, 1}, 1000), labels);
  EXPECT_NE(labels_with(5, {2, 0}, 1001), labels);
}

TEST(MaskTokens, ErrorsPassOnAndRowsOfVaryingLengthWork) {
  BufferPool pool;
  Block rows = rows_of<int64_t>(pool, 3, 16);
  rows.add_error(1, std::make_shared<const Error>(Error{.code = ErrorCode::kParse, .message = "bad"}));
  const Block masked = MaskTokensOperator(rows.schema(), options_with_seed(1)).apply(rows, pool);
  ASSERT_EQ(masked.errors().size(), 1u);
  EXPECT_EQ(masked.error_at(1), rows.error_at(1));

  const Block unmasked = varying_rows(pool, {0, 5, 5, 30}, {0, 5, 5, 30});
  MaskTokensOptions all = options_with_seed(1);
  all.probability = 1;
  all.mask_share = 1;
  all.random_share = 0;
  const Block varying = MaskTokensOperator(unmasked.schema(), all).apply(unmasked, pool);
  EXPECT_EQ(all_values<int64_t>(varying, "input_ids"), std::vector<int64_t>(30, kMask));
  EXPECT_EQ(all_values<int64_t>(varying, "labels"), std::vector<int64_t>(30, 7));
  EXPECT_EQ(varying.column("labels").num_values(2), 25);
}

TEST(MaskTokens, AnElementThatIsRefusedLeavesThoseBesideItAlone) {
  BufferPool pool;
  const Block rows = varying_rows(pool, {0, 20, 40, 60}, {0, 20, 39, 59});
  const Block masked = MaskTokensOperator(rows.schema(), all_random()).apply(rows, pool);
  ASSERT_EQ(masked.errors().size(), 1u);
  ASSERT_NE(masked.error_at(1), nullptr);
  EXPECT_EQ(masked.error_at(1)->code, ErrorCode::kWrongShape);
  const CounterRng rng(3, operator_id("mask_tokens"));
  for (const size_t row : {0, 2}) {
    for (size_t p = 0; p < 20; ++p) {
      const uint32_t random = rng.words(row, (uint64_t{1} << 32) + p)[0];
      EXPECT_EQ(masked.column("input_ids").values<int64_t>(row)[p], uniform_below(random, uint32_t{kVocabulary}));
    }
  }
}

TEST(MaskTokens, RandomIdsOfRowsOfVaryingLengthAreAsDefined) {
  constexpr size_t kRows = 40;  // more than are masked at once
  std::vector<int64_t> offsets{0};
  for (size_t row = 0; row < kRows; ++row) offsets.push_back(offsets.back() + std::array{130, 0, 5, 64, 25}[row % 5]);
  test::for_each_instruction_set([&] {
    BufferPool pool;
    Block rows = varying_rows(pool, offsets, offsets);
    std::mt19937_64 random(5);
    Block::Columns& columns = rows.mutable_columns();
    for (int64_t& id : columns[0].mutable_values<int64_t>()) id = static_cast<int64_t>(random() % kVocabulary);
    for (int64_t& one : columns[1].mutable_values<int64_t>()) one = random() % 8 != 0 ? 1 : 0;
    const Block masked = MaskTokensOperator(rows.schema(), all_random()).apply(rows, pool);
    std::vector<int64_t> expected_ids;
    std::vector<int64_t> expected_labels;
    mask_plainly(rows, all_random(), expected_ids, expected_labels);
    EXPECT_EQ(all_values<int64_t>(masked, "input_ids"), expected_ids);
    EXPECT_EQ(all_values<int64_t>(masked, "labels"), expected_labels);
  });
}

TEST(MaskTokens, BadOptionsAreRefusedInTheConstructor) {
  const SchemaPtr schema = schema_of(DType::kInt32, {8});
  const auto refused = [&schema](const auto& change, SchemaPtr input = nullptr) {
    MaskTokensOptions options = options_with_seed(0);
    change(options);
    try {
      const MaskTokensOperator mask(input ? input : schema, options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([](auto&) {}), "accepted");
  EXPECT_THAT(refused([](auto& o) { o.vocab_size = 0; }), HasSubstr("vocab_size is 0"));
  EXPECT_THAT(refused([](auto& o) { o.mask_token = kVocabulary; }), HasSubstr("mask_token is 1000"));
  EXPECT_THAT(refused([](auto& o) { o.special_tokens = {-1}; }), HasSubstr("special token -1"));
  EXPECT_THAT(refused([](auto& o) { o.probability = 1.5; }), HasSubstr("probability is 1.5"));
  EXPECT_THAT(refused([](auto& o) { o.probability = std::nan(""); }), HasSubstr("probability is nan"));
  EXPECT_THAT(refused([](auto& o) { o.random_share = 0.3; }), HasSubstr("at most 1"));
  EXPECT_THAT(refused([](auto& o) { o.input_ids = "ids"; }), HasSubstr("ids"));
  EXPECT_THAT(refused([](auto& o) { o.labels = "input_ids"; }), HasSubstr("'input_ids' already"));
  EXPECT_THAT(refused([](auto&) {}, schema_of(DType::kFloat32, {8})), HasSubstr("float32"));
  EXPECT_THAT(refused([](auto&) {}, schema_of(DType::kInt32, {})), HasSubstr("shape []"));
}

// Statistics over 2,000 rows of 500 positions, none of them special: 10^6 positions. Every bound is 4.5 standard
// deviations of what is expected: a right implementation fails one with p = 7e-6. The seed is fixed, so it does not
// flicker.
class MaskStatistics : public ::testing::Test {
 protected:
  static constexpr size_t kRows = 2000;
  static constexpr size_t kLength = 500;
  static constexpr double kPositions = kRows * kLength;
  static constexpr double kBound = 4.5;
  static constexpr int32_t kId = 7;

  struct Masks {
    std::vector<int32_t> ids;
    std::vector<int32_t> labels;
  };

  Masks mask(Iteration iteration) {
    Column ids = Column::fixed(pool_, DType::kInt32, {kLength}, kRows);
    Column attention = Column::fixed(pool_, DType::kInt64, {kLength}, kRows);
    for (int32_t& id : ids.mutable_values<int32_t>()) id = kId;
    for (int64_t& one : attention.mutable_values<int64_t>()) one = 1;
    Block block(schema_of(DType::kInt32, {kLength}), {ids, attention}, kRows);
    block.iteration = iteration;
    const Block masked = MaskTokensOperator(block.schema(), options_with_seed(2024)).apply(block, pool_);
    return {all_values<int32_t>(masked, "input_ids"), all_values<int32_t>(masked, "labels")};
  }

  // The normal deviate of a binomial count.
  static double deviation(double count, double trials, double p) {
    return (count - trials * p) / std::sqrt(trials * p * (1 - p));
  }
  // The normal deviate of a chi-square sum.
  static double chi_square_deviation(const std::vector<double>& counts) {
    const double expected = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
    double sum = 0;
    for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
    const auto degrees = static_cast<double>(counts.size() - 1);
    return (sum - degrees) / std::sqrt(2 * degrees);
  }

  BufferPool pool_;
};

TEST_F(MaskStatistics, ChoiceSplitAndRandomIdsHaveTheirProbabilities) {
  const Masks masks = mask({});
  double chosen = 0;
  double masked = 0;
  double changed = 0;
  std::vector<double> by_position(kLength);
  std::vector<double> by_id(kVocabulary);
  for (size_t i = 0; i < masks.ids.size(); ++i) {
    if (masks.labels[i] == -100) {
      ASSERT_EQ(masks.ids[i], kId);
      continue;
    }
    ASSERT_EQ(masks.labels[i], kId);
    ++chosen;
    ++by_position[i % kLength];
    if (masks.ids[i] == kMask) {
      ++masked;
    } else if (masks.ids[i] != kId) {
      ASSERT_TRUE(masks.ids[i] >= 0 && masks.ids[i] < kVocabulary);
      ++changed;
      ++by_id[static_cast<size_t>(masks.ids[i])];
    }
  }
  EXPECT_LT(std::abs(deviation(chosen, kPositions, 0.15)), kBound);
  // A random id is the mask token or the id itself once in kVocabulary each.
  EXPECT_LT(std::abs(deviation(masked, chosen, 0.8 + 0.1 / kVocabulary)), kBound);
  EXPECT_LT(std::abs(deviation(changed, chosen, 0.1 * (1 - 2.0 / kVocabulary))), kBound);
  EXPECT_LT(std::abs(chi_square_deviation(by_position)), kBound);
  by_id.erase(by_id.begin() + kId);
  by_id.erase(by_id.begin() + kMask);
  EXPECT_LT(std::abs(chi_square_deviation(by_id)), kBound);
}

TEST_F(MaskStatistics, EpochsRowsAndNeighboursAreIndependent) {
  const Masks first = mask({.epoch = 0, .path = 0});
  const Masks second = mask({.epoch = 1, .path = 0});
  const Masks nested = mask({.epoch = 0, .path = 1});
  const auto both = [&](const std::vector<int32_t>& a, const std::vector<int32_t>& b, size_t shift) {
    double count = 0;
    for (size_t i = 0; i + shift < a.size(); ++i) count += a[i] != -100 && b[i + shift] != -100 ? 1 : 0;
    return deviation(count, static_cast<double>(a.size() - shift), 0.15 * 0.15);
  };
  EXPECT_LT(std::abs(both(first.labels, second.labels, 0)), kBound);
  EXPECT_LT(std::abs(both(first.labels, nested.labels, 0)), kBound);
  for (const size_t shift : {size_t{1}, size_t{2}, size_t{4}, size_t{8}, kLength}) {
    EXPECT_LT(std::abs(both(first.labels, first.labels, shift)), kBound) << shift;
  }
}

TEST(MaskTokens, WritesIdsAgainWhereNobodyElseSeesThem) {
  BufferPool pool;
  const Block kept = rows_of<int32_t>(pool, 20, 100);
  const MaskTokensOperator mask(kept.schema(), options_with_seed(3));
  const std::vector<int32_t> before = all_values<int32_t>(kept, "input_ids");
  const Block expected = mask.apply(kept, pool);
  EXPECT_EQ(all_values<int32_t>(kept, "input_ids"), before);

  Block shared = rows_of<int32_t>(pool, 20, 100);
  const Block slice = shared.slice(5, 10);
  (void)mask.apply(std::move(shared), pool);
  EXPECT_EQ(all_values<int32_t>(slice, "input_ids"), all_values<int32_t>(kept.slice(5, 10), "input_ids"));

  Block given = rows_of<int32_t>(pool, 20, 100);
  const std::byte* memory = given.column("input_ids").data(0);
  const Block masked = mask.apply(std::move(given), pool);
  EXPECT_EQ(masked.column("input_ids").data(0), memory);
  for (const char* feature : {"input_ids", "labels"}) {
    EXPECT_EQ(all_values<int32_t>(masked, feature), all_values<int32_t>(expected, feature)) << feature;
  }
}

}  // namespace
}  // namespace millrace::mask_tokens_test
