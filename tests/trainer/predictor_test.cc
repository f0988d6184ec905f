#include "millrace/trainer/predictor.h"

#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/toy_training.h"

namespace millrace::predictor_test {
namespace {

using testing_models::Regression;
using testing_models::RegressionSource;
using testing_models::thrown_by;

TEST(Predictor, GivesTheRowsOfASourceInOrderForAnyNumberOfReplicasAndThreads) {
  const Regression model;
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 3);
  std::vector<float> expected;
  const auto workspace = model.make_workspace();
  RegressionSource rows(5);
  while (const auto batch = rows.next()) {
    const Predictions predictions = model.predict(batch->view, weights.data(), *workspace);
    const auto values = predictions.values<float>("prediction");
    expected.insert(expected.end(), values.begin(), values.end());
  }
  for (const int replicas : {1, 3, 8, 20}) {
    for (const int threads : {1, 4}) {
      Predictor predictor(model, weights.span(), {.replicas = replicas, .threads = threads});
      std::vector<float> found;
      RegressionSource source(5);
      predictor.predict(source, [&](const GlobalBatch& batch, const Predictions& predictions) {
        EXPECT_EQ(predictions.rows, batch.view.rows());
        const auto values = predictions.values<float>("prediction");
        found.insert(found.end(), values.begin(), values.end());
      });
      EXPECT_EQ(found, expected) << replicas << " replicas, " << threads << " threads";
    }
  }
  EXPECT_THAT(thrown_by([&] { Predictor(model, weights.span().subspan(1)); }),
              testing::HasSubstr("weights; the model"));
  EXPECT_THAT(thrown_by([&] { Predictor(model, FlatBuffer(1)); }), testing::HasSubstr("1 weights; the model"));
  // Weights that it takes over.
  Predictor owner(model, std::move(weights), {.replicas = 3, .threads = 1});
  std::vector<float> found;
  RegressionSource source(5);
  owner.predict(source, [&](const GlobalBatch&, const Predictions& predictions) {
    std::ranges::copy(predictions.values<float>("prediction"), std::back_inserter(found));
  });
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace millrace::predictor_test
