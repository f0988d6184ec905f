// Every operator's backward pass against central differences in float64: one line of the table for each.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "millrace/trainer/tensor/absolute_error.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/attention.h"
#include "millrace/trainer/tensor/batch_norm.h"
#include "millrace/trainer/tensor/bce_with_logits.h"
#include "millrace/trainer/tensor/concat.h"
#include "millrace/trainer/tensor/conv2d.h"
#include "millrace/trainer/tensor/conv_transpose2d.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/depthwise_conv2d.h"
#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/feed_forward.h"
#include "millrace/trainer/tensor/gelu.h"
#include "millrace/trainer/tensor/layer_norm.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/matmul.h"
#include "millrace/trainer/tensor/max_pool2d.h"
#include "millrace/trainer/tensor/mean_pool.h"
#include "millrace/trainer/tensor/multiply.h"
#include "millrace/trainer/tensor/relative_position_bias.h"
#include "millrace/trainer/tensor/relu.h"
#include "millrace/trainer/tensor/resize_bicubic.h"
#include "millrace/trainer/tensor/rms_norm.h"
#include "millrace/trainer/tensor/scale.h"
#include "millrace/trainer/tensor/scatter_add.h"
#include "millrace/trainer/tensor/sigmoid.h"
#include "millrace/trainer/tensor/slice.h"
#include "millrace/trainer/tensor/softmax.h"
#include "millrace/trainer/tensor/squared_error.h"
#include "millrace/trainer/tensor/sum.h"
#include "millrace/trainer/tensor/tanh.h"
#include "millrace/trainer/tensor/tape.h"
#include "tests/support/places.h"

namespace millrace::gradients_test {
namespace {

using Tensors = std::vector<Tensor<double>>;

/// An operator on inputs of these shapes. `file` is the pair of files that it lies in.
struct Case {
  std::string file;
  std::string what;
  std::vector<std::vector<int64_t>> inputs;
  std::function<Tensor<double>(Tape<double>&, const Tensors&)> apply;
};

using D = Tape<double>&;
using In = const Tensors&;

const std::vector<int32_t> kIds = {3, 0, 3, 1, 4};
const std::vector<int32_t> kTokens = {0, 2, 3, 7, 11};
const std::vector<int32_t> kLabels = {1, kNoLabel, 3, 0};
const std::vector<uint8_t> kMask = {1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1};  // [3, 4]
const std::vector<int64_t> kKeys = {1, 1, 0, 1, 1, 1, 0, 0};              // [2, 4]
// Of a place of its own each time in a pass: `next_place` is set where one begins.
uint64_t next_place = 0;
DropoutMask dropout_mask() { return {0.3, 1, 2, next_place++, 0}; }

std::vector<Case> cases() {
  return {
      {"matmul", "2d", {{3, 4}, {4, 5}}, [](D t, In x) { return matmul(t, x[0], x[1]); }},
      {"matmul", "batched", {{2, 3, 4}, {2, 4, 5}}, [](D t, In x) { return matmul(t, x[0], x[1]); }},
      {"matmul",
       "nt",
       {{2, 3, 4}, {2, 5, 4}},
       [](D t, In x) {
         return matmul(t, x[0], x[1], {false, true});
       }},
      {"matmul",
       "tn",
       {{2, 4, 3}, {2, 4, 5}},
       [](D t, In x) {
         return matmul(t, x[0], x[1], {true, false});
       }},
      {"matmul",
       "tt",
       {{2, 4, 3}, {2, 5, 4}},
       [](D t, In x) {
         return matmul(t, x[0], x[1], {true, true});
       }},
      {"matmul", "one b for all", {{2, 2, 3, 4}, {4, 5}}, [](D t, In x) { return matmul(t, x[0], x[1]); }},
      {"matmul",
       "one b, tn",
       {{2, 4, 3}, {4, 5}},
       [](D t, In x) {
         return matmul(t, x[0], x[1], {true, false});
       }},
      {"matmul",
       "one b, tt",
       {{2, 4, 3}, {5, 4}},
       [](D t, In x) {
         return matmul(t, x[0], x[1], {true, true});
       }},
      {"matmul",
       "with itself",
       {{3, 4}},
       [](D t, In x) {
         return matmul(t, x[0], x[0], {false, true});
       }},
      {"linear", "bias", {{6, 4}, {5, 4}, {5}}, [](D t, In x) { return linear(t, x[0], x[1], x[2]); }},
      {"linear", "no bias", {{6, 4}, {5, 4}}, [](D t, In x) { return linear(t, x[0], x[1]); }},
      {"add", "add", {{2, 3, 5}, {2, 3, 5}}, [](D t, In x) { return add(t, x[0], x[1]); }},
      {"add", "to itself", {{2, 5}}, [](D t, In x) { return add(t, x[0], x[0]); }},
      {"add", "add_bias", {{2, 3, 5}, {5}}, [](D t, In x) { return add_bias(t, x[0], x[1]); }},
      {"multiply", "multiply", {{2, 3, 5}, {2, 3, 5}}, [](D t, In x) { return multiply(t, x[0], x[1]); }},
      {"multiply", "by itself", {{9}}, [](D t, In x) { return multiply(t, x[0], x[0]); }},
      {"scale", "scale", {{3, 7}}, [](D t, In x) { return scale(t, x[0], -1.75); }},
      {"sum", "sum", {{3, 7}}, [](D t, In x) { return sum(t, x[0]); }},
      {"concat", "first axis", {{1, 3}, {2, 3}}, [](D t, In x) { return concat<double>(t, x, 0); }},
      {"concat", "inner axis", {{2, 1, 3}, {2, 4, 3}, {2, 2, 3}}, [](D t, In x) { return concat<double>(t, x, 1); }},
      {"slice", "first axis", {{4, 3}}, [](D t, In x) { return slice(t, x[0], 0, 1, 2); }},
      {"slice", "inner axis", {{2, 5, 3}}, [](D t, In x) { return slice(t, x[0], 1, 2, 3); }},
      {"embedding",
       "two tables",
       {{5, 3}, {6, 3}},
       [](D t, In x) {
         return embedding_sum<double>(t, {{.table = x[0], .ids = kIds}, {.table = x[1], .ids = kIds}});
       }},
      {"scatter_add", "scatter_add", {{5, 3}}, [](D t, In x) { return scatter_add(t, x[0], kIds, 6); }},
      {"dropout", "dropout", {{2, 30}}, [](D t, In x) { return dropout(t, x[0], 2, dropout_mask()); }},
      {"softmax", "plain", {{3, 5}}, [](D t, In x) { return softmax(t, x[0]); }},
      {"softmax", "masked", {{2, 3, 4}}, [](D t, In x) { return softmax(t, x[0], kMask); }},
      {"layer_norm", "plain", {{3, 8}, {8}, {8}}, [](D t, In x) { return layer_norm(t, x[0], x[1], x[2], 1e-5); }},
      {"layer_norm",
       "residual",
       {{6, 8}, {6, 8}, {8}, {8}},
       [](D t, In x) { return residual_layer_norm(t, x[0], x[1], 2, dropout_mask(), x[2], x[3], 1e-5); }},
      {"layer_norm",
       "residual of some tokens",
       {{5, 8}, {5, 8}, {8}, {8}},
       [](D t, In x) { return residual_layer_norm(t, x[0], x[1], 4, kTokens, dropout_mask(), x[2], x[3], 1e-5); }},
      {"rms_norm", "rms_norm", {{2, 3, 8}, {8}}, [](D t, In x) { return rms_norm(t, x[0], x[1], 1e-6); }},
      {"gelu", "erf", {{40}}, [](D t, In x) { return gelu(t, x[0]); }},
      {"gelu", "tanh", {{40}}, [](D t, In x) { return gelu_tanh(t, x[0]); }},
      {"relu", "relu", {{40}}, [](D t, In x) { return relu(t, x[0]); }},
      {"relu", "leaky", {{40}}, [](D t, In x) { return leaky_relu(t, x[0], 0.2); }},
      {"sigmoid", "sigmoid", {{40}}, [](D t, In x) { return sigmoid(t, x[0]); }},
      {"tanh", "tanh", {{40}}, [](D t, In x) { return tanh(t, x[0]); }},
      {"mean_pool", "masked", {{2, 4, 3}}, [](D t, In x) { return mean_pool(t, x[0], kKeys); }},
      {"cross_entropy", "sum", {{4, 6}}, [](D t, In x) { return cross_entropy(t, x[0], kLabels).tensor; }},
      {"cross_entropy", "rows", {{4, 6}}, [](D t, In x) { return cross_entropy_rows(t, x[0], kLabels); }},
      {"bce_with_logits", "bce", {{3, 4}, {3, 4}}, [](D t, In x) { return bce_with_logits(t, x[0], x[1]); }},
      {"absolute_error", "l1", {{3, 4}, {3, 4}}, [](D t, In x) { return absolute_error(t, x[0], x[1]); }},
      {"squared_error", "mse", {{3, 4}, {3, 4}}, [](D t, In x) { return squared_error(t, x[0], x[1]); }},
      {"conv2d", "3x3", {{2, 5, 6, 3}, {3, 3, 3, 4}}, [](D t, In x) { return conv2d(t, x[0], x[1]); }},
      {"conv2d", "3x3 stride 2", {{1, 5, 6, 2}, {3, 3, 2, 3}}, [](D t, In x) { return conv2d(t, x[0], x[1], 2); }},
      {"depthwise_conv2d", "3x3", {{2, 4, 5, 3}, {3, 3, 3}}, [](D t, In x) { return depthwise_conv2d(t, x[0], x[1]); }},
      {"depthwise_conv2d",
       "stride 2",
       {{1, 5, 4, 3}, {3, 3, 3}},
       [](D t, In x) { return depthwise_conv2d(t, x[0], x[1], 2); }},
      {"resize_bicubic", "by 3", {{2, 4, 5, 2}}, [](D t, In x) { return resize_bicubic(t, x[0], 3); }},
      {"resize_bicubic", "one pixel", {{1, 1, 2, 3}}, [](D t, In x) { return resize_bicubic(t, x[0], 4); }},
      {"conv_transpose2d",
       "3x3 stride 2",
       {{2, 3, 4, 3}, {3, 3, 2, 3}},
       [](D t, In x) { return conv_transpose2d(t, x[0], x[1], 2); }},
      {"conv_transpose2d",
       "4x4 stride 2",
       {{1, 3, 2, 3}, {4, 4, 2, 3}},
       [](D t, In x) { return conv_transpose2d(t, x[0], x[1], 2); }},
      {"max_pool2d", "2x2", {{2, 4, 6, 3}}, [](D t, In x) { return max_pool2d(t, x[0]); }},
      {"max_pool2d", "3x3 with a rest", {{1, 7, 5, 2}}, [](D t, In x) { return max_pool2d(t, x[0], 3); }},
      {"batch_norm",
       "inference",
       {{2, 3, 2, 4}, {4}, {4}},
       [](D t, In x) {
         static const std::vector<double> kMean = {0.5, -1, 2, 0};
         static const std::vector<double> kVariance = {1, 0.25, 3, 0.125};
         return inference_batch_norm(t, x[0], x[1], x[2], t.constant(kMean.data(), {4}),
                                     t.constant(kVariance.data(), {4}), 1e-3);
       }},
      {"attention",
       "masked, dropout",
       {{8, 6}, {8, 6}, {8, 6}},
       [](D t, In x) {
         return attention<double>(t, x[0], x[1], x[2],
                                  {.batch_rows = 2, .heads = 2, .dropout = dropout_mask(), .key_mask = kKeys});
       }},
      {"attention",
       "causal, with a bias",
       {{6, 6}, {6, 6}, {6, 6}, {3, 3, 3}},
       [](D t, In x) {
         return attention<double>(t, x[0], x[1], x[2],
                                  {.batch_rows = 2, .heads = 3, .causal = true, .scale = 1.25, .bias = x[3]});
       }},
      {"attention",
       "other keys",
       {{6, 4}, {8, 4}},
       [](D t, In x) {
         return attention<double>(t, x[0], x[1], x[1], {.batch_rows = 2, .heads = 2, .key_mask = kKeys});
       }},
      {"relative_position_bias",
       "both ways",
       {{8, 3}},
       [](D t, In x) { return relative_position_bias(t, x[0], {.queries = 4, .keys = 9, .max_distance = 8}); }},
      {"feed_forward",
       "gelu",
       {{6, 4}, {10, 4}, {10}, {4, 10}, {4}},
       [](D t, In x) {
         return feed_forward<double>(t, x[0], {.in = x[1], .in_bias = x[2], .out = x[3], .out_bias = x[4]},
                                     {.dropout = dropout_mask(), .batch_rows = 2});
       }},
      {"feed_forward",
       "relu",
       {{6, 4}, {10, 4}, {4, 10}},
       [](D t, In x) {
         return feed_forward<double>(t, x[0], {.in = x[1], .out = x[2]}, {.activation = Activation::kRelu});
       }},
      {"feed_forward",
       "gated silu",
       {{6, 4}, {10, 4}, {10, 4}, {4, 10}},
       [](D t, In x) {
         return feed_forward<double>(t, x[0], {.in = x[1], .gate = x[2], .out = x[3]},
                                     {.activation = Activation::kSilu});
       }},
      {"feed_forward",
       "gated",
       {{6, 4}, {10, 4}, {10, 4}, {4, 10}},
       [](D t, In x) {
         return feed_forward<double>(t, x[0], {.in = x[1], .gate = x[2], .out = x[3]},
                                     {.activation = Activation::kGeluTanh, .dropout = dropout_mask(), .batch_rows = 2});
       }},
  };
}

// A case's inputs as parameters. The loss is the sum of the output's values times fixed factors.
class Check {
 public:
  explicit Check(const Case& example) : case_(example) {
    for (size_t i = 0; i < example.inputs.size(); ++i) layout_.add("input " + std::to_string(i), example.inputs[i]);
    layout_.finish();
    weights_.resize(static_cast<size_t>(layout_.size()));
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = 1.5 * std::sin(1.0 + 1.7 * static_cast<double>(i));
  }

  std::span<const Parameter> parameters() const { return layout_.parameters(); }
  double& weight(int64_t at) { return weights_[static_cast<size_t>(at)]; }

  // `uses`: how often the operator is applied to the same inputs, so that gradients are added to others.
  double loss(int uses) { return *total(uses, {}).values; }
  std::vector<double> gradients(int uses, std::optional<std::span<const int>> wanted = std::nullopt) {
    std::vector<double> result(weights_.size(), NAN);
    tape_.backward(total(uses, {.values = result.data()}), {}, wanted);
    return result;
  }

 private:
  Tensor<double> total(int uses, Tape<double>::Gradients gradients) {
    tape_.begin(layout_, weights_.data(), gradients);
    next_place = 0;
    Tensors inputs;
    for (size_t i = 0; i < layout_.parameters().size(); ++i) inputs.push_back(tape_.parameter(static_cast<int>(i)));
    Tensor<double> result;
    for (int use = 0; use < uses; ++use) {
      const Tensor<double> output = case_.apply(tape_, inputs);
      auto* factors = tape_.keep<double>(output.count());
      for (int64_t i = 0; i < output.count(); ++i) factors[i] = std::cos(2.0 + use + 0.9 * static_cast<double>(i));
      const Tensor<double> part = sum(tape_, multiply(tape_, output, tape_.constant(factors, output.shape)));
      result = use == 0 ? part : add(tape_, result, part);
    }
    return result;
  }

  const Case& case_;
  ParameterLayout layout_;
  std::vector<double> weights_;
  Arena arena_;
  Tape<double> tape_{arena_};
};

class Gradients : public testing::TestWithParam<Case> {};

TEST_P(Gradients, AreThoseOfCentralDifferences) {
  constexpr double kStep = 1e-5;
  Check check(GetParam());
  for (const int uses : {1, 2}) {
    const std::vector<double> gradients = check.gradients(uses);
    for (const Parameter& parameter : check.parameters()) {
      double largest = 0;
      for (int64_t i = 0; i < parameter.size; ++i) {
        largest = std::max(largest, std::abs(gradients[static_cast<size_t>(parameter.offset + i)]));
      }
      ASSERT_GT(largest, 1e-3) << parameter.name;  // so that the comparison can fail
      for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        const double before = check.weight(i);
        check.weight(i) = before + kStep;
        const double above = check.loss(uses);
        check.weight(i) = before - kStep;
        const double below = check.loss(uses);
        check.weight(i) = before;
        ASSERT_NEAR(gradients[static_cast<size_t>(i)], (above - below) / (2 * kStep), 1e-6 * largest)
            << parameter.name << " [" << i - parameter.offset << "], uses: " << uses;
      }
    }
  }
}

TEST_P(Gradients, OfOneInputAloneAreTheSame) {
  Check check(GetParam());
  const std::vector<double> all = check.gradients(2);
  for (int id = 0; id < static_cast<int>(check.parameters().size()); ++id) {
    const std::vector<double> alone = check.gradients(2, std::vector<int>{id});
    for (const Parameter& parameter : check.parameters()) {
      const bool wanted = &parameter == &check.parameters()[static_cast<size_t>(id)];
      for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        const double value = alone[static_cast<size_t>(i)];
        if (wanted) {
          ASSERT_EQ(value, all[static_cast<size_t>(i)]) << parameter.name;
        } else {
          ASSERT_TRUE(std::isnan(value)) << parameter.name << " was written";
        }
      }
    }
  }
}

// A step whose numbers are not finite is skipped: an operator must not turn one into a number.
TEST_P(Gradients, AnInputThatIsNoNumberMakesTheLossNone) {
  Check check(GetParam());
  const double loss = check.loss(1);
  int64_t used = 0;
  for (const Parameter& parameter : check.parameters()) {
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      const double before = check.weight(i);
      // Masked, dropped and ignored values may be anything.
      bool matters = false;
      for (const double other : {-3.0, 3.0}) {
        check.weight(i) = other;
        matters = matters || check.loss(1) != loss;
      }
      check.weight(i) = NAN;
      if (matters) {
        EXPECT_TRUE(std::isnan(check.loss(1))) << parameter.name << " [" << i - parameter.offset << "]";
        ++used;
      }
      check.weight(i) = before;
    }
  }
  EXPECT_GT(used, 0);
}

// A replica may have nothing for an operator: no images, no selected rows. Parameters then have zeros, not what was in
// the buffer.
const std::vector<Case> kEmptyCases = {
    {"matmul",
     "2d",
     {{4, 5}},
     [](D t, In x) {
       return matmul(t, t.constant(nullptr, {0, 4}), x[0]);
     }},
    {"matmul",
     "one b",
     {{4, 5}},
     [](D t, In x) {
       return matmul(t, t.constant(nullptr, {0, 3, 4}), x[0]);
     }},
    {"matmul",
     "one b, tn",
     {{4, 5}},
     [](D t, In x) {
       return matmul(t, t.constant(nullptr, {0, 4, 3}), x[0], {true, false});
     }},
    {"matmul",
     "one b, tt",
     {{5, 4}},
     [](D t, In x) {
       return matmul(t, t.constant(nullptr, {0, 4, 3}), x[0], {true, true});
     }},
    {"linear",
     "bias",
     {{5, 4}, {5}},
     [](D t, In x) {
       return linear(t, t.constant(nullptr, {0, 4}), x[0], x[1]);
     }},
    {"add",
     "add_bias",
     {{5}},
     [](D t, In x) {
       return add_bias(t, t.constant(nullptr, {0, 5}), x[0]);
     }},
    {"concat",
     "concat",
     {{2, 3}},
     [](D t, In x) {
       const Tensor<double> none = slice(t, x[0], 0, 1, 0);
       return concat<double>(t, std::vector{none, none}, 0);
     }},
    {"slice", "nothing", {{4, 3}}, [](D t, In x) { return slice(t, x[0], 0, 1, 0); }},
    {"embedding", "no ids", {{5, 3}}, [](D t, In x) { return embedding_sum<double>(t, {{.table = x[0], .ids = {}}}); }},
    {"scatter_add",
     "no rows",
     {{4, 3}},
     [](D t, In x) { return slice(t, scatter_add(t, slice(t, x[0], 0, 0, 0), {}, 6), 0, 0, 0); }},
    {"layer_norm",
     "plain",
     {{8}, {8}},
     [](D t, In x) {
       return layer_norm(t, t.constant(nullptr, {0, 8}), x[0], x[1], 1e-5);
     }},
    {"layer_norm",
     "residual",
     {{8}, {8}},
     [](D t, In x) {
       const Tensor<double> none = t.constant(nullptr, {0, 8});
       return residual_layer_norm(t, none, none, 0, dropout_mask(), x[0], x[1], 1e-5);
     }},
    {"layer_norm",
     "residual of some tokens",
     {{8}, {8}},
     [](D t, In x) {
       const Tensor<double> none = t.constant(nullptr, {0, 8});
       return residual_layer_norm(t, none, none, 4, {}, dropout_mask(), x[0], x[1], 1e-5);
     }},
    {"rms_norm",
     "rms_norm",
     {{8}},
     [](D t, In x) {
       return rms_norm(t, t.constant(nullptr, {0, 8}), x[0], 1e-6);
     }},
    {"conv2d",
     "3x3",
     {{3, 3, 3, 4}},
     [](D t, In x) {
       return conv2d(t, t.constant(nullptr, {0, 5, 5, 3}), x[0]);
     }},
    {"depthwise_conv2d",
     "3x3",
     {{3, 3, 3}},
     [](D t, In x) {
       return depthwise_conv2d(t, t.constant(nullptr, {0, 5, 5, 3}), x[0]);
     }},
    {"conv_transpose2d",
     "3x3",
     {{3, 3, 2, 3}},
     [](D t, In x) {
       return conv_transpose2d(t, t.constant(nullptr, {0, 5, 5, 3}), x[0], 2);
     }},
    {"batch_norm",
     "inference",
     {{4}, {4}},
     [](D t, In x) {
       static const std::vector<double> kOnes(4, 1.0);
       const Tensor<double> ones = t.constant(kOnes.data(), {4});
       return inference_batch_norm(t, t.constant(nullptr, {0, 2, 2, 4}), x[0], x[1], ones, ones, 1e-3);
     }},
    {"feed_forward",
     "gated",
     {{10, 4}, {10}, {10, 4}, {4, 10}, {4}},
     [](D t, In x) {
       return feed_forward<double>(t, t.constant(nullptr, {0, 4}),
                                   {.in = x[0], .in_bias = x[1], .gate = x[2], .out = x[3], .out_bias = x[4]},
                                   {.dropout = dropout_mask()});
     }},
};

class EmptyGradients : public testing::TestWithParam<Case> {};

TEST_P(EmptyGradients, AreZeros) {
  Check check(GetParam());
  EXPECT_EQ(check.loss(1), 0);
  for (const int uses : {1, 2}) {
    const std::vector<double> gradients = check.gradients(uses);  // NaN at first
    for (const Parameter& parameter : check.parameters()) {
      for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        ASSERT_EQ(gradients[static_cast<size_t>(i)], 0) << parameter.name << " [" << i - parameter.offset << "]";
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file + "_" + info.param.what;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Operators, Gradients, testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Operators, EmptyGradients, testing::ValuesIn(kEmptyCases), name_of);

TEST(GradientTable, HasALineForEachPairOfFilesThatIsAnOperator) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("trainer/tensor"))) {
    if (entry.path().extension() == ".h") files.insert(entry.path().stem().string());
  }
  for (const char* other : {"arena", "convolution", "convolution_onednn", "convolution_patches", "difference_loss",
                            "gemm", "gemm_eigen", "gemm_eigen-inl", "gemm_onednn", "in_place_of", "kept_values",
                            "kernels", "onednn_call", "pointwise", "same_padding", "shape_check", "tape"}) {
    EXPECT_EQ(files.erase(other), 1U) << other;
  }
  std::set<std::string> checked;
  for (const Case& example : cases()) checked.insert(example.file);
  EXPECT_EQ(checked, files);
}

}  // namespace
}  // namespace millrace::gradients_test
