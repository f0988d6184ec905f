#include "millrace/trainer/batch_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::batch_view_test {
namespace {

TEST(BatchView, SlicesRowsWithoutCopying) {
  const std::vector<int32_t> ids = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<float> labels = {0, 1, 2, 3, 4};
  const BatchView batch({{"ids", std::span(ids), {5, 2}}, {"labels", std::span(labels), {5}}});
  const BatchView middle = batch.slice(1, 3).slice(1, 2);
  EXPECT_EQ(middle.rows(), 2);
  EXPECT_EQ(middle.first_row(), 2);
  EXPECT_EQ(middle.feature("ids").values<int32_t>().data(), ids.data() + 4);
  EXPECT_THAT(middle.feature("ids").values<int32_t>(), testing::ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(middle.feature("ids").shape(), testing::ElementsAre(2, 2));
  EXPECT_THAT(middle.feature("labels").values<float>(), testing::ElementsAre(2, 3));
  EXPECT_EQ(batch.slice(5, 0).rows(), 0);
}

TEST(BatchView, SaysWhichFeatureIsMissingOrOfAnotherTypeOrLength) {
  const std::vector<int32_t> ids = {0, 1, 2, 3};
  const BatchView batch({{"ids", std::span(ids), {2, 2}}});
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(message([&] { batch.feature("labels"); }),
            "missing_feature: the batch has no feature 'labels'; it has: ids");
  EXPECT_EQ(message([&] { batch.feature("ids").values<int64_t>(); }),
            "wrong_shape: feature 'ids' is int32; the model reads it as int64");
  EXPECT_EQ(message([&] {
              FeatureView("ids", std::span(ids), {3, 2});
            }),
            "wrong_shape: feature 'ids' of shape [3, 2] was given 4 values");
  EXPECT_EQ(message([&] {
              BatchView({{"a", std::span(ids), {2, 2}}, {"b", std::span(ids), {4}}});
            }),
            "wrong_shape: feature 'a' has 2 rows, feature 'b' has 4");
  EXPECT_EQ(message([&] { batch.slice(1, 2); }), "invalid_argument: 2 rows from row 1 on of a batch of 2");
  EXPECT_EQ(message([&] { batch.slice(INT64_MAX, 1); }),
            "invalid_argument: 1 rows from row 9223372036854775807 on of a batch of 2");
  EXPECT_EQ(message([&] { (void)batch.feature("ids").rows(1, 2); }),
            "invalid_argument: 2 rows from row 1 on of feature 'ids', which has 2");
}

}  // namespace
}  // namespace millrace::batch_view_test
