// Each metric against a slow reference that follows its definition, on drawn rows with many ties.
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/metrics/accuracy.h"
#include "millrace/trainer/metrics/auc.h"
#include "millrace/trainer/metrics/f_beta.h"
#include "millrace/trainer/metrics/macro_f1.h"
#include "millrace/trainer/metrics/psnr.h"
#include "millrace/trainer/metrics/ranks.h"
#include "millrace/trainer/metrics/spearman.h"
#include "tests/trainer/toy_models.h"

namespace millrace::metrics_test {
namespace {

using testing::HasSubstr;
using testing_models::thrown_by;

// Scores and labels of rows, cut into batches of unlike sizes.
struct Rows {
  Rows(int64_t num_rows, int64_t num_columns, int levels, int label_levels, uint64_t seed)
      : rows(num_rows), columns(num_columns) {
    const CounterRng rng(seed, operator_id("metrics_test"));
    for (int64_t i = 0; i < num_rows * num_columns; ++i) {
      const auto words = rng.words(static_cast<uint64_t>(i));
      scores.push_back(static_cast<float>(uniform_below(words[0], static_cast<uint32_t>(levels))) /
                       static_cast<float>(levels - 1));
      labels.push_back(static_cast<float>(uniform_below(words[1], static_cast<uint32_t>(label_levels))) /
                       static_cast<float>(label_levels - 1));
    }
  }
  void give(Metric& metric) const {
    for (int64_t begin = 0, size = 1; begin < rows; begin += size, size = size % 7 + 2) {
      const int64_t count = std::min(size, rows - begin);
      const auto part = [&](const std::vector<float>& values) {
        return std::span(values).subspan(static_cast<size_t>(begin * columns), static_cast<size_t>(count * columns));
      };
      const BatchView batch({{"labels", part(labels), {count, columns}}});
      const auto said = part(scores);
      metric.add(batch, {.rows = count,
                         .columns = {{.name = "scores",
                                      .row_shape = {columns},
                                      .values = std::vector<float>(said.begin(), said.end())}}});
    }
  }
  double score(int64_t row, int64_t column) const { return scores[static_cast<size_t>(row * columns + column)]; }
  double label(int64_t row, int64_t column) const { return labels[static_cast<size_t>(row * columns + column)]; }

  int64_t rows;
  int64_t columns;
  std::vector<float> scores;
  std::vector<float> labels;
};

std::vector<Rows> many_rows(int levels, int label_levels) {
  std::vector<Rows> all;
  for (const int64_t rows : {2, 3, 17, 200}) {
    for (const int64_t columns : {1, 3}) {
      for (uint64_t seed = 0; seed < 3; ++seed) all.emplace_back(rows, columns, levels, label_levels, seed);
    }
  }
  return all;
}

void expect_equal(double found, double expected) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << found;
  } else {
    EXPECT_NEAR(found, expected, 1e-12);
  }
}

// The mean over columns of `value_of_column`, NaNs left out.
template <typename ValueOfColumn>
double mean_over_columns(const Rows& rows, const ValueOfColumn& value_of_column) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t column = 0; column < rows.columns; ++column) {
    const double value = value_of_column(column);
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

TEST(Metrics, AucIsTheShareOfPairsInTheRightOrder) {
  for (const Rows& rows : many_rows(5, 2)) {
    Auc auc;
    rows.give(auc);
    expect_equal(auc.value(), mean_over_columns(rows, [&](int64_t column) {
                   double right = 0;
                   double pairs = 0;
                   for (int64_t i = 0; i < rows.rows; ++i) {
                     for (int64_t j = 0; j < rows.rows; ++j) {
                       if (rows.label(i, column) < 0.5 || rows.label(j, column) > 0.5) continue;
                       pairs += 1;
                       if (rows.score(i, column) > rows.score(j, column)) right += 1;
                       if (rows.score(i, column) == rows.score(j, column)) right += 0.5;
                     }
                   }
                   return right / pairs;
                 }));
  }
}

TEST(Metrics, SpearmanIsPearsonsCorrelationOfAverageRanks) {
  for (const Rows& rows : many_rows(4, 5)) {
    Spearman spearman;
    rows.give(spearman);
    expect_equal(spearman.value(), mean_over_columns(rows, [&](int64_t column) {
                   // A rank by counting: 1 + lower ones + half of the other equal ones.
                   const auto rank = [&](int64_t row, const auto& value) {
                     double below = 0;
                     double equal = 0;
                     for (int64_t i = 0; i < rows.rows; ++i) {
                       if (value(i) < value(row)) below += 1;
                       if (value(i) == value(row)) equal += 1;
                     }
                     return below + (equal + 1) / 2;
                   };
                   double sum_a = 0;
                   double sum_b = 0;
                   double sum_aa = 0;
                   double sum_bb = 0;
                   double sum_ab = 0;
                   const auto n = static_cast<double>(rows.rows);
                   for (int64_t i = 0; i < rows.rows; ++i) {
                     const double a = rank(i, [&](int64_t row) { return rows.score(row, column); });
                     const double b = rank(i, [&](int64_t row) { return rows.label(row, column); });
                     sum_a += a;
                     sum_b += b;
                     sum_aa += a * a;
                     sum_bb += b * b;
                     sum_ab += a * b;
                   }
                   const double covariance = sum_ab / n - sum_a / n * sum_b / n;
                   const double variance_a = sum_aa / n - sum_a / n * sum_a / n;
                   const double variance_b = sum_bb / n - sum_b / n * sum_b / n;
                   if (variance_a < 1e-12 || variance_b < 1e-12) return std::numeric_limits<double>::quiet_NaN();
                   return covariance / std::sqrt(variance_a * variance_b);
                 }));
  }
}

TEST(Metrics, AreNanWhenAScoreOrALabelIs) {
  std::vector<std::unique_ptr<Metric>> (*make)() = [] {
    std::vector<std::unique_ptr<Metric>> metrics;
    metrics.push_back(std::make_unique<Auc>());
    metrics.push_back(std::make_unique<Spearman>());
    metrics.push_back(std::make_unique<FBeta>());
    metrics.push_back(std::make_unique<FBeta>(FBetaOptions{.average = FBetaAverage::kMacro}));
    return metrics;
  };
  const Rows rows(200, 3, 50, 2, 1);
  for (const auto& metric : make()) {
    rows.give(*metric);
    EXPECT_TRUE(std::isfinite(metric->value())) << metric->name();
  }
  for (const size_t place : {0, 1, 299, 599}) {
    for (const bool label : {false, true}) {
      Rows spoilt = rows;
      // The other columns' labels are all equal: a column without a value of its own hides no NaN of another.
      for (size_t i = 0; i < 600; ++i) {
        if (place == 599 && i % 3 != 2) spoilt.labels[i] = 1;
      }
      (label ? spoilt.labels : spoilt.scores)[place] = std::nanf("");
      for (const auto& metric : make()) {
        spoilt.give(*metric);
        EXPECT_TRUE(std::isnan(metric->value())) << metric->name() << ", " << (label ? "label " : "score ") << place;
      }
    }
  }
}

TEST(Metrics, EqualValuesShareTheMeanOfTheirRanks) {
  EXPECT_THAT(average_ranks(std::vector<double>{3, 1, 3, 2, 3}), testing::ElementsAre(4, 1, 4, 2, 4));
  EXPECT_THAT(average_ranks(std::vector<double>{}), testing::IsEmpty());
}

TEST(Metrics, FBetaWeighsPrecisionAndRecallOverAllColumnsOrOnAverage) {
  for (const Rows& rows : many_rows(5, 2)) {
    for (const double beta : {0.5, 1.0, 2.0}) {
      for (const FBetaAverage average : {FBetaAverage::kMicro, FBetaAverage::kMacro}) {
        const auto slow = [&](int64_t first, int64_t last) {
          double hits = 0;
          double said = 0;
          double are = 0;
          for (int64_t column = first; column < last; ++column) {
            for (int64_t row = 0; row < rows.rows; ++row) {
              const bool yes = rows.score(row, column) > 0.3;
              const bool is = rows.label(row, column) > 0.5;
              said += yes ? 1 : 0;
              are += is ? 1 : 0;
              hits += yes && is ? 1 : 0;
            }
          }
          if (hits == 0) return 0.0;
          const double precision = hits / said;
          const double recall = hits / are;
          return (1 + beta * beta) * precision * recall / (beta * beta * precision + recall);
        };
        FBeta metric({.beta = beta, .threshold = 0.3, .average = average});
        rows.give(metric);
        EXPECT_THAT(FBeta().by_column(), testing::IsEmpty());
        ASSERT_EQ(metric.by_column().size(), static_cast<size_t>(rows.columns));
        for (int64_t c = 0; c < rows.columns; ++c) {
          expect_equal(metric.by_column()[static_cast<size_t>(c)], slow(c, c + 1));
        }
        if (average == FBetaAverage::kMicro) {
          expect_equal(metric.value(), slow(0, rows.columns));
        } else {
          expect_equal(metric.value(), mean_over_columns(rows, [&](int64_t c) { return slow(c, c + 1); }));
        }
      }
    }
  }
  Rows spoilt(20, 3, 5, 2, 1);
  spoilt.scores[1] = std::nanf("");
  FBeta metric;
  spoilt.give(metric);
  EXPECT_FALSE(std::isnan(metric.by_column()[0]));
  EXPECT_TRUE(std::isnan(metric.by_column()[1]));
  EXPECT_EQ(FBeta({.beta = 2}).name(), "f2");
  EXPECT_THAT(thrown_by([] { FBeta({.beta = 0}); }), HasSubstr("beta is 0"));
}

TEST(Metrics, PsnrIsTheMeanOverImages) {
  for (const Rows& rows : many_rows(50, 60)) {
    Psnr psnr(2, {});
    rows.give(psnr);
    double sum = 0;
    for (int64_t row = 0; row < rows.rows; ++row) {
      double squares = 0;
      for (int64_t c = 0; c < rows.columns; ++c) squares += std::pow(rows.score(row, c) - rows.label(row, c), 2);
      sum += 20 * std::log10(2.0) - 10 * std::log10(squares / static_cast<double>(rows.columns));
    }
    const double expected = sum / static_cast<double>(rows.rows);
    if (std::isinf(expected)) {
      EXPECT_EQ(psnr.value(), expected);
    } else {
      EXPECT_NEAR(psnr.value(), expected, 1e-9);
    }
  }
  EXPECT_TRUE(std::isnan(Psnr(1, {}).value()));
  EXPECT_THAT(thrown_by([] { Psnr(0, {}); }), HasSubstr("peak is 0"));
}

TEST(Metrics, AccuracyCountsLabelsOrWholeRows) {
  const std::vector<int32_t> labels = {1, 2, -100, 3, 4, 5, -100, -100, -100, 7, 8, -100};
  const std::vector<int32_t> ids = {1, 2, 9, 3, 0, 5, 1, 2, 3, 7, 8, 6};
  const BatchView batch({{"labels", std::span<const int32_t>(labels), {4, 3}}});
  const Predictions said{.rows = 4, .columns = {{.name = "ids", .row_shape = {3}, .values = ids}}};
  Accuracy values;
  Accuracy rows({.answer = AnswerIs::kRow});
  for (Metric* metric : {static_cast<Metric*>(&values), static_cast<Metric*>(&rows)}) {
    EXPECT_TRUE(std::isnan(metric->value()));
    metric->add(batch, said);
    metric->add(batch.slice(0, 1), {.rows = 1, .columns = {{"ids", {3}, std::vector<int32_t>{1, 1, 1}}}});
  }
  EXPECT_DOUBLE_EQ(values.value(), 7.0 / 9);
  EXPECT_DOUBLE_EQ(rows.value(), 2.0 / 4);
}

// What sklearn.metrics.f1_score(average="macro", labels=[0, 5, 9]) says of the six rows with a label.
TEST(Metrics, MacroF1IsTheMeanOverTheClassesThatAreThereOrPredicted) {
  const std::vector<int32_t> labels = {0, 0, 0, 5, 5, -100, 0};
  const std::vector<int32_t> said = {0, 0, 9, 5, -1, 4, 0};
  MacroF1 metric({.predictions = "class"});
  EXPECT_TRUE(std::isnan(metric.value()));
  for (size_t begin = 0, size = 2; begin < labels.size(); begin += size, size = 5) {
    const auto rows = static_cast<int64_t>(size);
    const BatchView batch({{"labels", std::span(labels).subspan(begin, size), {rows}}});
    const auto of_rows = std::span(said).subspan(begin, size);
    metric.add(batch, {.rows = rows,
                       .columns = {{.name = "class", .values = std::vector<int32_t>(of_rows.begin(), of_rows.end())}}});
  }
  // Class 0: 3 right, 4 labels, 3 predictions. Class 5: 1 right, 2 labels, 1 prediction. Class 9: predicted once.
  EXPECT_DOUBLE_EQ(metric.value(), (6.0 / 7 + 2.0 / 3 + 0) / 3);
  EXPECT_EQ(metric.name(), "macro_f1");
  const std::vector<int32_t> no_class = {-1};
  const BatchView batch({{"labels", std::span(no_class), {1}}});
  EXPECT_EQ(thrown_by([&] {
              metric.add(batch, {.rows = 1, .columns = {{.name = "class", .values = std::vector<int32_t>{0}}}});
            }),
            "invalid_argument: the label -1 is of no class");
}

TEST(Metrics, ClassesAreNoFloats) {
  const std::vector<int32_t> labels = {0, 1};
  const std::vector<float> as_floats = {0, 1};
  const BatchView ids({{"labels", std::span(labels), {2}}});
  const BatchView floats({{"labels", std::span(as_floats), {2}}});
  const Predictions scores{.rows = 2, .columns = {{.name = "ids", .values = as_floats}}};
  const Predictions classes{.rows = 2, .columns = {{.name = "ids", .values = labels}}};
  Accuracy accuracy;
  MacroF1 macro_f1({.predictions = "ids"});
  for (Metric* metric : {static_cast<Metric*>(&accuracy), static_cast<Metric*>(&macro_f1)}) {
    EXPECT_THAT(thrown_by([&] { metric->add(ids, scores); }), testing::StartsWith("wrong_shape: "));
    EXPECT_THAT(thrown_by([&] { metric->add(floats, classes); }), testing::StartsWith("wrong_shape: "));
  }
}

TEST(Metrics, SayWhichNumbersDoNotFit) {
  const std::vector<float> labels(6, 0);
  const BatchView batch({{"labels", std::span<const float>(labels), {3, 2}}});
  const auto with = [&](std::vector<float> scores) {
    return thrown_by([&] {
      Auc auc;
      auc.add(batch, {.rows = 3, .columns = {{"scores", {1}, std::move(scores)}}});
    });
  };
  EXPECT_THAT(with({1, 2, 3}), HasSubstr("3 rows have 3 values of 'scores' and 6 of 'labels'"));
  EXPECT_EQ(with({1, 2, 3, 4, 5, 6}), "nothing thrown");
  EXPECT_THAT(thrown_by([&] { Auc({.predictions = "other"}).add(batch, {.rows = 3}); }), HasSubstr("'other'"));
  EXPECT_THAT(thrown_by([&] {
                Auc({.labels = "target"}).add(batch, {.rows = 3, .columns = {{"scores", {}, std::vector<float>(3)}}});
              }),
              HasSubstr("target"));
}

TEST(Spearman, IsAFunctionOfTwoListsAndSaysEachColumn) {
  const std::vector<double> a = {1, 2, 3, 4, 5};
  EXPECT_EQ(spearman(a, std::vector<double>{2, 3, 5, 7, 11}), 1);
  EXPECT_EQ(spearman(a, std::vector<double>{9, 8, 7, 6, 5}), -1);
  EXPECT_NEAR(spearman(a, std::vector<double>{5, 6, 7, 8, 7}), 0.8207826816681233, 1e-15);  // scipy.stats.spearmanr
  EXPECT_TRUE(std::isnan(spearman(a, std::vector<double>{1, 1, 1, 1, 1})));
  EXPECT_TRUE(std::isnan(spearman(a, std::vector<double>{1, 1, NAN, 1, 2})));
  EXPECT_TRUE(std::isnan(spearman({}, {})));
  EXPECT_EQ(thrown_by([&] { (void)spearman(a, {}); }), "wrong_shape: a rank correlation of 5 values with 0");
  EXPECT_EQ(thrown_by([&] { (void)auc(a, {}); }), "wrong_shape: an area under the curve of 5 scores with 0 labels");
  EXPECT_EQ(auc(a, std::vector<double>{0, 0, 1, 0, 1}), 5.0 / 6);

  const Rows rows(20, 3, 5, 4, 1);
  Spearman metric;
  Auc area;
  EXPECT_THAT(metric.by_column(), testing::IsEmpty());
  rows.give(metric);
  rows.give(area);
  ASSERT_EQ(metric.by_column().size(), 3U);
  ASSERT_EQ(area.by_column().size(), 3U);
  double correlations = 0;
  double areas = 0;
  for (int64_t column = 0; column < 3; ++column) {
    std::vector<double> scores;
    std::vector<double> labels;
    for (int64_t row = 0; row < 20; ++row) {
      scores.push_back(rows.score(row, column));
      labels.push_back(rows.label(row, column));
    }
    EXPECT_EQ(metric.by_column()[static_cast<size_t>(column)], spearman(scores, labels));
    EXPECT_EQ(area.by_column()[static_cast<size_t>(column)], auc(scores, labels));
    correlations += spearman(scores, labels);
    areas += auc(scores, labels);
  }
  EXPECT_EQ(metric.value(), correlations / 3);
  EXPECT_EQ(area.value(), areas / 3);
}

}  // namespace
}  // namespace millrace::metrics_test
