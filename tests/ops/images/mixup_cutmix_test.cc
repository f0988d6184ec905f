#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/cast.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/images/cutmix.h"
#include "millrace/ops/images/mixing_draws.h"
#include "millrace/ops/images/mixup.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::mixup_cutmix_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A right implementation fails a comparison with p = 7e-6; the seeds are fixed.
constexpr double kBound = 4.5;

double deviation(double count, double trials, double p) {
  return (count - trials * p) / std::sqrt(trials * p * (1 - p));
}

std::vector<double> betas(double alpha, size_t count) {
  const CounterRng rng(7, operator_id("mixup"));
  std::vector<double> numbers;
  for (uint64_t row = 0; row < count; ++row) numbers.push_back(MixingDraws(rng, 64 * row).symmetric_beta(alpha));
  return numbers;
}

TEST(MixingDrawsTest, BetaNumbersHaveTheMomentsOfTheirDistribution) {
  for (const double alpha : {0.01, 0.1, 0.2, 0.5, 0.51, 1.0, 2.0, 8.0, 1000.0}) {
    const std::vector<double> numbers = betas(alpha, 10000);
    const auto count = static_cast<double>(numbers.size());
    // Central moments of Beta(alpha, alpha).
    const double variance = 1 / (4 * (2 * alpha + 1));
    const double fourth = 3 * variance / (4 * (2 * alpha + 3));
    double sum = 0;
    double squares = 0;
    for (const double x : numbers) {
      ASSERT_TRUE(x >= 0 && x <= 1);
      ASSERT_EQ(std::ldexp(x, 24), std::floor(std::ldexp(x, 24)));
      sum += x - 0.5;
      squares += (x - 0.5) * (x - 0.5);
    }
    EXPECT_LT(std::abs(sum / count) / std::sqrt(variance / count), kBound) << alpha;
    EXPECT_LT(std::abs(squares / count - variance) / std::sqrt((fourth - variance * variance) / count), kBound)
        << alpha;
  }
}

// The largest distance of two distribution functions, times the root of the count: beyond 2.5 with p = 7e-6.
TEST(MixingDrawsTest, BetaNumbersHaveTheDistributionFunctionsThatAreKnown) {
  using Function = double (*)(double);
  const std::map<double, Function> functions{
      {0.5, [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }},
      {1.0, [](double x) { return x; }},
      {1.5,
       [](double x) {
         const double y = 2 * x - 1;
         return 0.5 + (y * std::sqrt(1 - y * y) + std::asin(y)) / std::numbers::pi;
       }},
      {2.0, [](double x) { return x * x * (3 - 2 * x); }}};
  for (const auto& [alpha, function] : functions) {
    std::vector<double> numbers = betas(alpha, 40000);
    std::sort(numbers.begin(), numbers.end());
    double distance = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double expected = function(numbers[i]) * static_cast<double>(numbers.size());
      distance = std::max(
          {distance, std::abs(expected - static_cast<double>(i)), std::abs(expected - static_cast<double>(i) - 1)});
    }
    EXPECT_LT(distance / std::sqrt(static_cast<double>(numbers.size())), 2.5) << alpha;
  }
}

TEST(MixingDrawsTest, EveryPermutationIsEquallyLikely) {
  const CounterRng rng(3, 4);
  std::map<std::vector<size_t>, double> counts;
  constexpr uint64_t kDraws = 24000;
  for (uint64_t row = 0; row < kDraws; ++row) ++counts[MixingDraws(rng, row).permutation(4)];
  EXPECT_THAT(counts, SizeIs(24));
  for (const auto& [order, count] : counts) EXPECT_LT(std::abs(deviation(count, kDraws, 1.0 / 24)), kBound);
  const std::vector<size_t> many = MixingDraws(rng, 0).permutation(100);
  EXPECT_EQ(std::set<size_t>(many.begin(), many.end()).size(), 100u);
  EXPECT_THAT(MixingDraws(rng, 0).permutation(0), IsEmpty());
}

// `count` batches of `rows` images [height,width] of the row's number in its batch, and labels that are one-hot.
Block batches_of(BufferPool& pool, size_t count, int64_t rows, int64_t height, int64_t width) {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{
      {"image", DType::kFloat32, {rows, height, width}}, {"label", DType::kFloat32, {rows, rows}}});
  Block block(schema,
              {Column::fixed(pool, DType::kFloat32, {rows, height, width}, count),
               Column::fixed(pool, DType::kFloat32, {rows, rows}, count)},
              count);
  block.rows_per_element = rows;
  for (size_t b = 0; b < count; ++b) {
    const auto images = block.mutable_columns()[0].mutable_values<float>(b);
    const auto labels = block.mutable_columns()[1].mutable_values<float>(b);
    for (size_t i = 0; i < images.size(); ++i) {
      images[i] = static_cast<float>(static_cast<int64_t>(i) / (height * width));
    }
    for (size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<int64_t>(i) / rows == static_cast<int64_t>(i) % rows ? 1.0F : 0.0F;
    }
  }
  return block;
}

std::vector<float> all_values(const Block& block, std::string_view feature) {
  const auto values = block.column(feature).values<float>();
  return {values.begin(), values.end()};
}

TEST(MixupTest, RowsAreMixedWithThoseOfAPermutationByOneLambdaInAllFeatures) {
  BufferPool pool;
  constexpr int64_t kRows = 5;
  Block block = batches_of(pool, 8, kRows, 2, 3);
  block.first_row = 40;
  block.iteration = {.epoch = 2, .path = 5};
  const MixupOptions options{.features = {"image", "label"}, .alpha = 0.7, .seed = 9};
  const Block mixed = MixupOperator(block.schema(), options).apply(block, pool);
  const CounterRng rng(9, operator_id("mixup"), block.iteration);
  for (size_t b = 0; b < 8; ++b) {
    const MixingDraws draws(rng, 40 + 5 * b);
    const auto lambda = static_cast<float>(draws.symmetric_beta(0.7));
    const std::vector<size_t> partners = draws.permutation(kRows);
    const auto labels = mixed.column("label").values<float>(b);
    const auto images = mixed.column("image").values<float>(b);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t c = 0; c < kRows; ++c) {
        const float expected = (c == row ? lambda : 0) + (c == partners[row] ? 1 - lambda : 0);
        EXPECT_EQ(labels[row * kRows + c], expected);
      }
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(images[row * 6 + i],
                  lambda * static_cast<float>(row) + (1 - lambda) * static_cast<float>(partners[row]));
      }
    }
  }
  EXPECT_EQ(all_values(block, "label"), all_values(batches_of(pool, 8, kRows, 2, 3), "label")) << "the input is shared";
}

TEST(MixupTest, AnyCutIntoBlocksGivesTheSameAndSeedsEpochsAndOthersOfItsKindDoNot) {
  BufferPool pool;
  Block block = batches_of(pool, 6, 4, 1, 1);
  const MixupOptions options{.features = {"image"}, .seed = 1};
  const auto mixed = [&](const Block& some, const MixupOptions& with, uint64_t occurrence = 0) {
    return all_values(MixupOperator(block.schema(), with, occurrence).apply(some, pool), "image");
  };
  const std::vector<float> whole = mixed(block, options);
  std::vector<float> cut = mixed(block.slice(0, 4), options);
  const std::vector<float> rest = mixed(block.slice(4, 2), options);
  cut.insert(cut.end(), rest.begin(), rest.end());
  EXPECT_EQ(cut, whole);
  EXPECT_NE(mixed(block, {.features = {"image"}, .seed = 2}), whole);
  EXPECT_NE(mixed(block, options, 1), whole);
  Block later = block;
  later.iteration.epoch = 1;
  EXPECT_NE(mixed(later, options), whole);
}

TEST(MixupTest, ABatchIsMixedWithTheProbabilityAskedFor) {
  BufferPool pool;
  constexpr size_t kBatches = 4000;
  const Block block = batches_of(pool, kBatches, 3, 1, 1);
  for (const double probability : {0.0, 0.25, 1.0}) {
    const MixupOptions options{.features = {"label"}, .alpha = 1, .probability = probability};
    const Block mixed = MixupOperator(block.schema(), options).apply(block, pool);
    double changed = 0;
    for (size_t b = 0; b < kBatches; ++b) {
      const auto now = mixed.column("label").values<float>(b);
      const auto before = block.column("label").values<float>(b);
      changed += std::equal(now.begin(), now.end(), before.begin()) ? 0 : 1;
    }
    // One permutation of six leaves every row with itself.
    const double expected = probability * 5 / 6;
    if (probability == 0) {
      EXPECT_EQ(changed, 0);
    } else {
      EXPECT_LT(std::abs(deviation(changed, kBatches, expected)), kBound) << probability;
    }
  }
}

TEST(CutmixTest, OneBoxOfThePartnersImageIsPastedAndLabelsFollowTheArea) {
  BufferPool pool;
  constexpr int64_t kRows = 4;
  constexpr int64_t kHeight = 7;
  constexpr int64_t kWidth = 5;
  const Block block = batches_of(pool, 300, kRows, kHeight, kWidth);
  const Block mixed = CutmixOperator(block.schema(), {.labels = {"label"}, .seed = 3}).apply(block, pool);
  const CounterRng rng(3, operator_id("cutmix"));
  std::set<int64_t> areas;
  for (size_t b = 0; b < 300; ++b) {
    const MixingDraws draws(rng, 4 * b);
    const std::vector<size_t> partners = draws.permutation(kRows);
    const double side = std::sqrt(1 - draws.symmetric_beta(1));
    const auto half_height = static_cast<int64_t>(kHeight * side) / 2;
    const auto half_width = static_cast<int64_t>(kWidth * side) / 2;
    const int64_t middle_y = draws.below(kHeight, 0);
    const int64_t middle_x = draws.below(kWidth, 1);
    const auto images = mixed.column("image").values<float>(b);
    const auto labels = mixed.column("label").values<float>(b);
    int64_t area = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto partner = static_cast<int64_t>(partners[static_cast<size_t>(row)]);
      for (int64_t y = 0; y < kHeight; ++y) {
        for (int64_t x = 0; x < kWidth; ++x) {
          const bool inside = y >= middle_y - half_height && y < middle_y + half_height && x >= middle_x - half_width &&
                              x < middle_x + half_width;
          if (row == 0) area += inside ? 1 : 0;
          EXPECT_EQ(images[static_cast<size_t>((row * kHeight + y) * kWidth + x)],
                    static_cast<float>(inside ? partner : row));
        }
      }
      const float lambda = 1 - static_cast<float>(area) / static_cast<float>(kHeight * kWidth);
      for (int64_t c = 0; c < kRows; ++c) {
        EXPECT_EQ(labels[static_cast<size_t>(row * kRows + c)],
                  (c == row ? lambda : 0) + (c == partner ? 1 - lambda : 0));
      }
    }
    areas.insert(area);
  }
  EXPECT_GT(areas.size(), 8u);
}

// The area that theory gives for lambda uniform in [0, 1], with pixels as they are.
TEST(CutmixTest, TheAreaThatIsPastedHasTheExpectedMean) {
  BufferPool pool;
  constexpr int64_t kSide = 40;
  constexpr size_t kBatches = 5000;
  constexpr size_t kSteps = 20000;
  double expected = 0;
  for (size_t step = 0; step < kSteps; ++step) {
    const double side = std::sqrt((static_cast<double>(step) + 0.5) / kSteps);
    const auto half = static_cast<int64_t>(kSide * side) / 2;
    double covered = 0;
    for (int64_t middle = 0; middle < kSide; ++middle) {
      covered += static_cast<double>(std::min(kSide, middle + half) - std::max<int64_t>(0, middle - half));
    }
    expected += covered / kSide * covered / kSide / kSide / kSide / kSteps;
  }
  const Block block = batches_of(pool, kBatches, 2, kSide, kSide);
  const Block mixed = CutmixOperator(block.schema(), {.labels = {"label"}, .seed = 8}).apply(block, pool);
  double sum = 0;
  double squares = 0;
  double count = 0;
  for (size_t b = 0; b < kBatches; ++b) {
    const float own = mixed.column("label").values<float>(b)[0];
    if (own == 1) continue;  // its own partner, or no box at all
    sum += 1 - own;
    squares += (1 - own) * (1 - own);
    ++count;
  }
  // Half of the permutations of two rows leave them; boxes of no pixel (a side below 2 pixels) count as none.
  const double trials = kBatches / 2.0;
  const double mean = sum / trials;
  const double spread = std::sqrt(squares / trials / trials);  // how many are changed is random too
  EXPECT_LT(std::abs(mean - expected), kBound * spread) << mean << " " << expected;
  EXPECT_GT(count, 0.9 * trials);
}

TEST(CutmixTest, IntegersAndChannelsArePastedWhole) {
  BufferPool pool;
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"pixels", DType::kInt32, {2, 6, 6, 3}}});
  Block block(schema, {Column::fixed(pool, DType::kInt32, {2, 6, 6, 3}, 20)}, 20);
  block.rows_per_element = 2;
  const auto values = block.mutable_columns()[0].mutable_values<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i % 216);
  const Block mixed = CutmixOperator(schema, {.image = "pixels"}).apply(block, pool);
  size_t pasted = 0;
  for (size_t b = 0; b < 20; ++b) {
    const auto pixels = mixed.column("pixels").values<int32_t>(b);
    for (size_t i = 0; i < pixels.size(); ++i) {
      // Its own value, or that of the other image at the same place.
      ASSERT_TRUE(pixels[i] == static_cast<int32_t>(i) || pixels[i] == static_cast<int32_t>((i + 108) % 216));
      ASSERT_EQ(pixels[i] == static_cast<int32_t>(i), pixels[i / 3 * 3] == static_cast<int32_t>(i / 3 * 3));
      pasted += pixels[i] == static_cast<int32_t>(i) ? 0 : 1;
    }
  }
  EXPECT_GT(pasted, 0u);
}

TEST(MixupTest, WhatIsNoBatchIsAnErrorAndErrorsPass) {
  const auto floats = [](const Chain& input) { return input.then<CastOperator>("x", DType::kFloat32); };
  const MixupOptions options{.features = {"x"}, .probability = 0};
  const Chain batches =
      floats(Chain::source<FaultyRange>(5, std::vector<int64_t>{2}).then<BatchOperator>(2, BatchOptions{}));
  EXPECT_THAT(batches.then<MixupOperator>(options).elements(), ElementsAre("x=[0,1]", "error: parse: at 2", "x=[3,4]"));
  const Chain twice = batches.then<BatchOperator>(1, BatchOptions{}).then<MixupOperator>(options);
  EXPECT_EQ(twice.elements()[0],
            "error: wrong_shape: mixup: 'x' has shape [1,2], and the element 2 rows; it stands after batch");
  EXPECT_THAT(floats(Chain::source<RangeOperator>(0, 0, 1, "x").then<BatchOperator>(2, BatchOptions{}))
                  .then<MixupOperator>(options)
                  .elements(),
              IsEmpty());
}

TEST(MixupTest, BadOptionsAreRefused) {
  BufferPool pool;
  const SchemaPtr schema = batches_of(pool, 1, 2, 2, 2).schema();
  const auto why = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  const auto mixup = [&](const MixupOptions& options) {
    return why([&] { const MixupOperator made(schema, options); });
  };
  EXPECT_THAT(mixup({}), HasSubstr("mixup: name the features"));
  EXPECT_THAT(mixup({.features = {"image", "image"}}), HasSubstr("'image' is named twice"));
  EXPECT_THAT(mixup({.features = {"x"}}), HasSubstr("'x'"));
  EXPECT_THAT(mixup({.features = {"image"}, .alpha = 0}), HasSubstr("alpha is 0"));
  EXPECT_THAT(mixup({.features = {"image"}, .alpha = INFINITY}), HasSubstr("alpha is inf"));
  EXPECT_THAT(mixup({.features = {"image"}, .probability = 1.5}), HasSubstr("probability is 1.5"));
  const auto classes = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"class", DType::kInt64, {4}}});
  EXPECT_THAT(why([&] { const MixupOperator made(classes, {.features = {"class"}}); }),
              HasSubstr("'class' is int64 [4]; what is mixed is float32"));
  const auto cutmix = [&](const CutmixOptions& options) {
    return why([&] { const CutmixOperator made(schema, options); });
  };
  EXPECT_EQ(cutmix({}), "accepted");
  EXPECT_THAT(cutmix({.image = "label"}), HasSubstr("needs numbers [rows, height, width, ...]"));
  EXPECT_THAT(cutmix({.labels = {"image"}}), HasSubstr("is image and label"));
  EXPECT_THAT(cutmix({.alpha = -1}), HasSubstr("alpha is -1"));
}

}  // namespace
}  // namespace millrace::mixup_cutmix_test
