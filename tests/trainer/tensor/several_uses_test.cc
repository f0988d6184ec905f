// A tensor that several operators use gets the sum of their gradients, whichever operator writes first.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/trainer/tensor/attention.h"
#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/gelu.h"
#include "millrace/trainer/tensor/layer_norm.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace::several_uses_test {
namespace {

constexpr int64_t kWidth = 4;
constexpr int64_t kRows = 6;  // two rows of a batch, three positions each

// Each operator twice on the same parameters, and on activations that others use as well.
class Mesh {
 public:
  Mesh() {
    weight_ = layout_.add("weight", {kWidth, kWidth});
    bias_ = layout_.add("bias", {kWidth});
    gamma_ = layout_.add("gamma", {kWidth});
    beta_ = layout_.add("beta", {kWidth});
    table_ = layout_.add("table", {5, kWidth});
    layout_.finish();
    weights_.resize(static_cast<size_t>(layout_.size()));
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = std::sin(1.0 + 1.7 * static_cast<double>(i));
  }

  Tensor<double> output(Tape<double>::Gradients gradients) {
    tape_.begin(layout_, weights_.data(), gradients);
    const Tensor<double> weight = tape_.parameter(weight_);
    const Tensor<double> bias = tape_.parameter(bias_);
    const Tensor<double> gamma = tape_.parameter(gamma_);
    const Tensor<double> beta = tape_.parameter(beta_);
    uint64_t place = 0;
    const auto mask = [&place] { return DropoutMask(0.3, 1, 2, place++, 0); };
    const Tensor<double> x = embedding_sum<double>(tape_, {{.table = tape_.parameter(table_), .ids = ids_}});
    const Tensor<double> a = linear(tape_, x, weight, bias);
    const Tensor<double> b = linear(tape_, gelu(tape_, a), weight, bias);
    const Tensor<double> c = layer_norm(tape_, a, gamma, beta, 1e-5);
    const Tensor<double> d = residual_layer_norm(tape_, a, b, 2, mask(), gamma, beta, 1e-5);
    const Tensor<double> e = residual_layer_norm(tape_, b, a, 2, mask(), gamma, beta, 1e-5);
    const Tensor<double> f = residual_layer_norm(tape_, a, a, 2, mask(), gamma, beta, 1e-5);
    const Tensor<double> g = attention(tape_, c, d, e, {.batch_rows = 2, .heads = 2, .dropout = mask()});
    const Tensor<double> h = attention(tape_, d, f, f, {.batch_rows = 2, .heads = 1, .dropout = mask()});
    const Tensor<double> k = attention(tape_, g, g, g, {.batch_rows = 2, .heads = 2});
    const Tensor<double> i = residual_layer_norm(tape_, dropout(tape_, k, 2, mask()), h, 2, mask(), gamma, beta, 1e-5);
    const Tensor<double> j =
        residual_layer_norm(tape_, gelu(tape_, a), dropout(tape_, a, 2, mask()), 2, mask(), gamma, beta, 1e-5);
    return embedding_sum<double>(tape_, {{.table = i, .ids = rows_},
                                         {.table = j, .ids = rows_},
                                         {.table = c, .ids = others_},
                                         {.table = c, .ids = rows_}});
  }

  // A weighted sum of the outputs, and how it depends on them.
  double loss() {
    const Tensor<double> y = output({});
    double sum = 0;
    for (int64_t i = 0; i < y.count(); ++i) sum += upstream_[static_cast<size_t>(i)] * y.values[i];
    return sum;
  }

  std::vector<double> gradients() {
    std::vector<double> gradients(weights_.size(), NAN);
    const Tensor<double> y = output({.values = gradients.data()});
    tape_.backward(y, upstream_);
    return gradients;
  }

  const ParameterLayout& layout() const { return layout_; }
  std::vector<double>& weights() { return weights_; }

 private:
  ParameterLayout layout_;
  int weight_ = 0;
  int bias_ = 0;
  int gamma_ = 0;
  int beta_ = 0;
  int table_ = 0;
  std::vector<double> weights_;
  std::vector<int32_t> ids_ = {0, 4, 2, 2, 1, 3};
  std::vector<int32_t> rows_ = {0, 1, 2, 3, 4, 5};
  std::vector<int32_t> others_ = {5, 0, 0, 1, 2, 2};
  std::vector<double> upstream_ = [] {
    std::vector<double> values(kRows * kWidth);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::cos(0.4 + 2.3 * static_cast<double>(i));
    return values;
  }();
  Arena arena_;
  Tape<double> tape_{arena_};
};

TEST(SeveralUses, GradientsAreThoseOfCentralDifferences) {
  Mesh mesh;
  const std::vector<double> gradients = mesh.gradients();
  for (const Parameter& parameter : mesh.layout().parameters()) {
    for (int64_t i = 0; i < parameter.size; ++i) {
      double& weight = mesh.weights()[static_cast<size_t>(parameter.offset + i)];
      const double before = weight;
      weight = before + 1e-5;
      const double above = mesh.loss();
      weight = before - 1e-5;
      const double below = mesh.loss();
      weight = before;
      EXPECT_NEAR(gradients[static_cast<size_t>(parameter.offset + i)], (above - below) / 2e-5, 1e-6)
          << parameter.name << " [" << i << "]";
    }
  }
}

}  // namespace
}  // namespace millrace::several_uses_test
