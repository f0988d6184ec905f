#include "millrace/trainer/tensor/max_pool2d.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include "millrace/trainer/tensor/sum.h"
#include "tests/trainer/toy_models.h"

namespace millrace::max_pool2d_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_models::thrown_by;

// What max_pool2d gives of images that are parameters, and the gradient of the sum of it.
struct Pooled {
  Pooled(std::vector<int64_t> shape, const std::vector<float>& values, int64_t size = 2) {
    ParameterLayout layout;
    layout.add("x", std::move(shape));
    layout.finish();
    FlatBuffer weights(layout.size());
    std::copy(values.begin(), values.end(), weights.data());
    std::vector<float> gradients(static_cast<size_t>(layout.size()), NAN);
    Arena arena;
    Tape<float> tape(arena);
    tape.begin(layout, weights.data(), {.values = gradients.data()});
    const Tensor<float> y = max_pool2d(tape, tape.parameter(0), size);
    tape.backward(sum(tape, y));
    sizes.assign(y.shape.sizes().begin(), y.shape.sizes().end());
    output.assign(y.values, y.values + y.count());
    gradient.assign(gradients.begin(), gradients.begin() + std::ssize(values));
  }
  std::vector<int64_t> sizes;
  std::vector<float> output;
  std::vector<float> gradient;
};

TEST(MaxPool2d, TakesTheLargestOfEachWindowByChannel) {
  // Two channels: the second is the first one turned around.
  const Pooled pooled({1, 2, 4, 2}, {1, 8, 2, 7, 3, 6, 4, 5, 5, 4, 6, 3, 7, 2, 8, 1});
  EXPECT_THAT(pooled.sizes, ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(pooled.output, ElementsAre(6, 8, 8, 6));
  EXPECT_THAT(pooled.gradient, ElementsAre(0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0));
}

TEST(MaxPool2d, LeavesOutTheRowsAndColumnsThatAreLeftOver) {
  const Pooled pooled({2, 3, 3, 1}, {1, 2, 9, 3, 4, 9, 9, 9, 9, -1, -2, 9, -3, -4, 9, 9, 9, 9});
  EXPECT_THAT(pooled.sizes, ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(pooled.output, ElementsAre(4, -1));
  EXPECT_THAT(pooled.gradient, ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(MaxPool2d, GivesTheGradientToTheFirstOfEqualValues) {
  EXPECT_THAT(Pooled({1, 2, 2, 1}, {3, 5, 5, 5}).gradient, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(Pooled({1, 3, 3, 1}, std::vector<float>(9, 0), 3).gradient, ElementsAre(1, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(MaxPool2d, MakesNoNumberOfWhatIsNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t place = 0; place < 4; ++place) {
    std::vector<float> values = {1, 2, 3, 4};
    values[place] = nan;
    EXPECT_TRUE(std::isnan(Pooled({1, 2, 2, 1}, values).output[0])) << place;
  }
}

TEST(MaxPool2d, RefusesWhatHasNoWindow) {
  EXPECT_THAT(thrown_by([] {
                Pooled({1, 2, 1, 3}, std::vector<float>(6));
              }),
              HasSubstr("max_pool2d of [1, 2, 1, 3] with windows of 2 x 2 pixels"));
  EXPECT_THAT(thrown_by([] { Pooled({4, 4}, std::vector<float>(16)); }), HasSubstr("max_pool2d of [4, 4]"));
  EXPECT_THAT(thrown_by([] {
                Pooled({1, 2, 2, 1}, std::vector<float>(4), 0);
              }),
              HasSubstr("max_pool2d with a size of 0; at least 1"));
}

}  // namespace
}  // namespace millrace::max_pool2d_test
