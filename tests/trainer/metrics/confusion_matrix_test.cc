#include "millrace/trainer/metrics/confusion_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"

namespace millrace::confusion_matrix_test {
namespace {

ConfusionMatrix example() {
  ConfusionMatrix matrix({"spam", "other", "rare"});
  for (int i = 0; i < 3; ++i) matrix.add(0, 0);
  matrix.add(0, 1);
  matrix.add(1, 1);
  matrix.add(1, -1);
  matrix.add(-1, 2);
  matrix.add(-1, -1);
  return matrix;
}

TEST(ConfusionMatrix, CountsWhatWasPredictedForWhat) {
  const ConfusionMatrix matrix = example();
  EXPECT_EQ(matrix.count(0, 0), 3);
  EXPECT_EQ(matrix.count(0, 1), 1);
  EXPECT_EQ(matrix.count(1, -1), 1);
  EXPECT_EQ(matrix.rows(), 8);
  EXPECT_EQ(matrix.rows_with_class(), 6);
  EXPECT_EQ(matrix.rows_of(0), 4);
  EXPECT_EQ(matrix.rows_of(-1), 2);
  EXPECT_EQ(matrix.predicted_as(1), 2);
  EXPECT_EQ(matrix.predicted_as(-1), 2);
  EXPECT_DOUBLE_EQ(*matrix.accuracy(), 4.0 / 6);
}

TEST(ConfusionMatrix, PrintsATable) {
  EXPECT_EQ(example().to_text(),
            "            spam   other    rare  no class\n"
            "spam           3       1       0         0   75.0% right\n"
            "other          0       1       0         1   50.0% right\n"
            "rare           0       0       0         0\n"
            "all            3       2       1         2\n"
            "accuracy 0.6667 over 6 rows\n");
  const auto json = example().to_json();
  EXPECT_EQ(json["predicted"]["rare"], 1);
  EXPECT_EQ(json["no_class"], 2);
  EXPECT_EQ(json["confusion"]["other"]["no_class"], 1);
  EXPECT_DOUBLE_EQ(json["accuracy"].get<double>(), 4.0 / 6);
}

TEST(ConfusionMatrix, HasNoAccuracyWithoutClassesThatAreKnown) {
  ConfusionMatrix matrix({"spam", "other"});
  EXPECT_EQ(matrix.accuracy(), std::nullopt);
  matrix.add(-1, 1);
  EXPECT_EQ(matrix.accuracy(), std::nullopt);
  EXPECT_EQ(matrix.to_text(), "            spam   other  no class\nall            0       1         0\n");
  EXPECT_FALSE(matrix.to_json().contains("confusion"));
}

TEST(ConfusionMatrix, RefusesWhatIsNoClass) {
  ConfusionMatrix matrix({"spam", "other"});
  EXPECT_THAT([&] { matrix.add(2, 0); }, testing::ThrowsMessage<ErrorException>(testing::HasSubstr("class 2 of 2")));
  EXPECT_THAT([&] { matrix.add(0, -2); }, testing::ThrowsMessage<ErrorException>(testing::HasSubstr("class -2 of 2")));
}

}  // namespace
}  // namespace millrace::confusion_matrix_test
