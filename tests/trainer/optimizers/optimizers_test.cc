// What optimizers refuse. Their updates are compared with those of the originals in tests/trainer/golden.
#include <cmath>

#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/optimizers/lamb.h"
#include "millrace/trainer/optimizers/radam.h"
#include "millrace/trainer/optimizers/sgd.h"

namespace millrace::optimizers_test {
namespace {

TEST(Optimizers, RefuseOptionsOutOfRangeAndBadPatterns) {
  ParameterLayout layout;
  layout.add("w", {1});
  layout.finish();
  EXPECT_THROW(Sgd({.momentum = 1}), ErrorException);
  EXPECT_THROW(Adam(layout, {.beta1 = 1}), ErrorException);
  EXPECT_THROW(Adam(layout, {.epsilon = 0}), ErrorException);
  EXPECT_THROW(Adam(layout, adamw(-0.1)), ErrorException);
  EXPECT_THROW(Adam(layout, adamw(0.1, "(")), ErrorException);
  EXPECT_THROW(Adam(layout, adamw(0.1, "bias")), ErrorException) << "matches nothing";
  EXPECT_THROW(Radam(layout, {.exclude_from_decay = "bias"}), ErrorException);
  EXPECT_THROW(Lamb(layout, {.exclude_from_decay = "bias"}), ErrorException);
  EXPECT_NO_THROW(Adam(layout, adam_weight_decay(0.1))) << "the usual one, in a model without biases and norms";
  EXPECT_THROW(Radam(layout, {.beta2 = 2}), ErrorException);
  EXPECT_THROW(Lamb(layout, {.weight_decay = std::nan("")}), ErrorException);
}

}  // namespace
}  // namespace millrace::optimizers_test
