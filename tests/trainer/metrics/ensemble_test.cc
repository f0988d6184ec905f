#include "millrace/trainer/metrics/ensemble.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"

namespace millrace::ensemble_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr size_t kRows = 17;
constexpr size_t kColumns = 4;

double slow_sigmoid(double x) { return std::exp(x) / (1 + std::exp(x)); }

// How many values of the column are lower, and half of those that are equal.
double slow_rank(const std::vector<float>& logits, size_t row, size_t column) {
  double rank = 0;
  for (size_t other = 0; other < kRows; ++other) {
    const float a = logits[other * kColumns + column];
    const float b = logits[row * kColumns + column];
    rank += a < b ? 1 : a == b ? 0.5 : 0;
  }
  return rank / kRows;
}

std::vector<std::vector<float>> drawn_models(size_t count) {
  std::vector<std::vector<float>> models;
  for (size_t model = 0; model < count; ++model) {
    std::vector<float>& logits = models.emplace_back();
    for (size_t i = 0; i < kRows * kColumns; ++i) {
      // Few values, so that some are equal.
      logits.push_back(static_cast<float>(uniform_below(CounterRng(model, 1).words(i)[0], 9U)) - 4);
    }
  }
  return models;
}

TEST(Ensemble, IsThatOfASlowReference) {
  for (const size_t count : {1, 2, 5}) {
    const std::vector<std::vector<float>> models = drawn_models(count);
    const std::vector<double> logits = ensemble(Ensemble::kLogits, models, kColumns);
    const std::vector<double> probabilities = ensemble(Ensemble::kProbabilities, models, kColumns);
    const std::vector<double> ranks = ensemble(Ensemble::kRanks, models, kColumns);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < kColumns; ++column) {
        const size_t i = row * kColumns + column;
        double mean_logit = 0;
        double mean_probability = 0;
        double mean_rank = 0;
        for (const std::vector<float>& model : models) {
          mean_logit += model[i] / static_cast<double>(count);
          mean_probability += slow_sigmoid(model[i]) / static_cast<double>(count);
          mean_rank += slow_rank(model, row, column) / static_cast<double>(count);
        }
        EXPECT_NEAR(logits[i], slow_sigmoid(mean_logit), 1e-12);
        EXPECT_NEAR(probabilities[i], mean_probability, 1e-12);
        EXPECT_NEAR(ranks[i], mean_rank, 1e-12);
      }
    }
  }
}

TEST(Ensemble, RefusesWhatDoesNotFit) {
  EXPECT_THAT([] { (void)ensemble(Ensemble::kLogits, {}, 1); }, ThrowsMessage<ErrorException>(HasSubstr("no model")));
  EXPECT_THAT(
      [] {
        (void)ensemble(Ensemble::kLogits, std::vector<std::vector<float>>{{1, 2}, {1}}, 1);
      },
      ThrowsMessage<ErrorException>(HasSubstr("unlike numbers of rows")));
  EXPECT_THAT(
      [] {
        (void)ensemble(Ensemble::kRanks, std::vector<std::vector<float>>{{1, 2, 3}}, 2);
      },
      ThrowsMessage<ErrorException>(HasSubstr("not whole")));
}

}  // namespace
}  // namespace millrace::ensemble_test
