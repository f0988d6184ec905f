#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "millrace/formats/error.h"
#include "millrace/trainer/model.h"

namespace millrace::testing_models {

/// A two-layer linear regression, `y = b2 . (W1 x + b1) + b2_0`, on features `x` float [rows, inputs] and `y` float
/// [rows]: enough parameters for several buckets, and a backward pass that finishes them one after the other.
class Regression final : public Model {
 public:
  explicit Regression(int inputs = 5, int hidden = 7, int64_t bucket_bytes = 64) : inputs_(inputs), hidden_(hidden) {
    layout_.add("first.weight", {hidden, inputs});
    layout_.add("first.bias", {hidden});
    layout_.add("second.weight", {hidden});
    layout_.add("second.bias", {});
    layout_.finish(bucket_bytes);
  }

  const ParameterLayout& layout() const override { return layout_; }
  std::string describe() const override { return description; }

  void initialize(std::span<float> weights, uint64_t seed) const override {
    for (const Parameter& parameter : layout_.parameters()) {
      for (int64_t i = 0; i < parameter.size; ++i) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        weights[static_cast<size_t>(parameter.offset + i)] = static_cast<float>(seed >> 40) / (1 << 24) - 0.5F;
      }
    }
  }

  std::unique_ptr<Workspace> make_workspace() const override { return std::make_unique<Hidden>(); }

  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override {
    if (before_step) before_step(context);
    auto& hidden = static_cast<Hidden&>(*context.workspace);
    StepResult result = forward(rows, weights, hidden);
    for (float& error : hidden.errors) error *= static_cast<float>(context.loss_scale);
    const auto x = rows.feature("x").values<float>();
    float* w1 = at(context.gradients.data(), 0);
    float* b1 = at(context.gradients.data(), 1);
    float* w2 = at(context.gradients.data(), 2);
    float* b2 = at(context.gradients.data(), 3);
    const auto n = static_cast<size_t>(rows.rows());
    *b2 = 0;
    for (size_t row = 0; row < n; ++row) *b2 += 2 * hidden.errors[row];
    context.listener->gradient_final(3);
    for (int h = 0; h < hidden_; ++h) {
      w2[h] = 0;
      for (size_t row = 0; row < n; ++row)
        w2[h] += 2 * hidden.errors[row] * hidden.values[row * size(hidden_) + size(h)];
    }
    context.listener->gradient_final(2);
    if (before_last_gradients) before_last_gradients(context);
    for (int h = 0; h < hidden_; ++h) {
      b1[h] = 0;
      for (size_t row = 0; row < n; ++row) b1[h] += 2 * hidden.errors[row] * at(weights, 2)[h];
      for (int i = 0; i < inputs_; ++i) {
        float& g = w1[h * inputs_ + i];
        g = 0;
        for (size_t row = 0; row < n; ++row) {
          g += 2 * hidden.errors[row] * at(weights, 2)[h] * x[row * size(inputs_) + size(i)];
        }
      }
    }
    if (forgotten_gradient != 1) context.listener->gradient_final(1);
    context.listener->gradient_final(0);
    if (add_metrics) add_metrics(context, result);
    return result;
  }

  StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const override {
    return forward(rows, weights, static_cast<Hidden&>(workspace));
  }

  /// Column `prediction`, float [rows].
  Predictions predict(const BatchView& rows, const float* weights, Workspace& workspace) const override {
    auto& hidden = static_cast<Hidden&>(workspace);
    Predictions predictions{.rows = rows.rows(), .result = forward(rows, weights, hidden)};
    const auto y = rows.feature("y").values<float>();
    std::vector<float> values = hidden.errors;
    for (size_t row = 0; row < values.size(); ++row) values[row] += y[row];
    predictions.columns = {{.name = "prediction", .values = std::move(values)}};
    return predictions;
  }

  std::function<void(const ReplicaContext&)> before_step;
  std::function<void(const ReplicaContext&)> before_last_gradients;
  std::function<void(const ReplicaContext&, StepResult&)> add_metrics;
  int forgotten_gradient = -1;
  std::string description;

 private:
  struct Hidden final : Workspace {
    std::vector<float> values;
    std::vector<float> errors;
  };

  static size_t size(int n) { return static_cast<size_t>(n); }
  template <typename T>
  T* at(T* flat, int parameter) const {
    return flat + layout_.parameters()[size(parameter)].offset;
  }

  StepResult forward(const BatchView& rows, const float* weights, Hidden& hidden) const {
    const auto x = rows.feature("x").values<float>();
    const auto y = rows.feature("y").values<float>();
    hidden.values.assign(y.size() * size(hidden_), 0);
    hidden.errors.assign(y.size(), 0);
    StepResult result;
    for (size_t row = 0; row < y.size(); ++row) {
      float predicted = *at(weights, 3);
      for (int h = 0; h < hidden_; ++h) {
        float value = at(weights, 1)[h];
        for (int i = 0; i < inputs_; ++i) value += at(weights, 0)[h * inputs_ + i] * x[row * size(inputs_) + size(i)];
        hidden.values[row * size(hidden_) + size(h)] = value;
        predicted += at(weights, 2)[h] * value;
      }
      hidden.errors[row] = predicted - y[row];
      result.sum_loss += static_cast<double>(hidden.errors[row]) * hidden.errors[row];
      result.weight += 1;
    }
    return result;
  }

  int inputs_;
  int hidden_;
  ParameterLayout layout_;
};

/// Rows of a fixed linear relation; a pure function of the batch's number.
struct RegressionBatch {
  explicit RegressionBatch(int64_t rows, uint64_t number = 0, int inputs = 5) : num_rows(rows), num_inputs(inputs) {
    uint64_t state = number * 7919 + 17;
    for (int64_t row = 0; row < rows; ++row) {
      float target = 0.25F;
      for (int i = 0; i < inputs; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        x.push_back(static_cast<float>(state >> 40) / (1 << 23) - 1);
        target += x.back() * static_cast<float>(i - 2);
      }
      y.push_back(target);
    }
  }
  BatchView view() const {
    return BatchView(
        {{"x", std::span<const float>(x), {num_rows, num_inputs}}, {"y", std::span<const float>(y), {num_rows}}});
  }

  int64_t num_rows;
  int64_t num_inputs;
  std::vector<float> x;
  std::vector<float> y;
};

/// The message of the ErrorException that a call throws.
inline std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const ErrorException& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace millrace::testing_models
