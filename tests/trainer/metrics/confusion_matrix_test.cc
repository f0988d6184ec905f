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

TEST(ConfusionMatrix, HasPrecisionRecallAndF1OfEachClassAndTheMeanF1) {
  const ConfusionMatrix matrix = example();
  EXPECT_EQ(matrix.precision(0), 1);
  EXPECT_EQ(matrix.recall(0), 0.75);
  EXPECT_DOUBLE_EQ(*matrix.f1(0), 6.0 / 7);
  EXPECT_EQ(matrix.precision(1), 0.5);
  EXPECT_EQ(matrix.recall(1), 0.5);
  EXPECT_EQ(matrix.f1(1), 0.5);
  // It was said of a row only whose class nobody knows.
  EXPECT_EQ(matrix.precision(2), std::nullopt);
  EXPECT_EQ(matrix.recall(2), std::nullopt);
  EXPECT_EQ(matrix.f1(2), std::nullopt);
  EXPECT_DOUBLE_EQ(*matrix.macro_f1(), (6.0 / 7 + 0.5) / 2);
  const auto json = matrix.to_json();
  EXPECT_DOUBLE_EQ(json["macro_f1"].get<double>(), *matrix.macro_f1());
  EXPECT_EQ(json["by_class"]["spam"]["precision"], 1);
  EXPECT_EQ(json["by_class"]["spam"]["recall"], 0.75);
  EXPECT_EQ(json["by_class"]["other"]["f1"], 0.5);
  EXPECT_TRUE(json["by_class"]["rare"]["f1"].is_null());

  ConfusionMatrix wrong({"spam", "other"});
  wrong.add(0, 1);
  EXPECT_EQ(wrong.precision(1), 0);
  EXPECT_EQ(wrong.recall(1), std::nullopt);
  EXPECT_EQ(wrong.f1(1), 0) << "predicted, though no row is of it";
  EXPECT_EQ(wrong.macro_f1(), 0);
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
  EXPECT_EQ(matrix.macro_f1(), std::nullopt);
  EXPECT_FALSE(matrix.to_json().contains("macro_f1"));
}

TEST(ConfusionMatrix, RefusesWhatIsNoClass) {
  ConfusionMatrix matrix({"spam", "other"});
  EXPECT_THROW((void)matrix.precision(-1), ErrorException);
  EXPECT_THROW((void)matrix.recall(-1), ErrorException);
  EXPECT_THROW((void)matrix.f1(-1), ErrorException);
  EXPECT_THROW((void)matrix.f1(2), ErrorException);
  EXPECT_THAT([&] { matrix.add(2, 0); }, testing::ThrowsMessage<ErrorException>(testing::HasSubstr("class 2 of 2")));
  EXPECT_THAT([&] { matrix.add(0, -2); }, testing::ThrowsMessage<ErrorException>(testing::HasSubstr("class -2 of 2")));
}

}  // namespace
}  // namespace millrace::confusion_matrix_test
