#include "trainer/step_graph.h"

#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "pipeline/worker_limit.h"
#include "trainer/optimizers/sgd.h"

namespace millrace {
namespace {

constexpr int64_t kFeatures = 37;
constexpr int kLayers = 5;

/// A sum of linear regressions, one for each layer: enough parameters for several buckets. Loss: squared error, weight:
/// rows.
class Regressions final : public Model {
 public:
  Regressions() {
    for (int layer = 0; layer < kLayers; ++layer) layout_.add("layer." + std::to_string(layer), {kFeatures});
    layout_.finish(256);
  }
  const ParameterLayout& layout() const override { return layout_; }
  void initialize(std::span<float> weights, uint64_t) const override {
    for (const Parameter& parameter : layout_.parameters()) {
      for (int64_t i = 0; i < parameter.size; ++i) {
        weights[static_cast<size_t>(parameter.offset + i)] = 0.01F * static_cast<float>(i % 7);
      }
    }
  }
  std::unique_ptr<Workspace> make_workspace() const override { return std::make_unique<Workspace>(); }
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override {
    if (context.replica == failing_replica) throw std::runtime_error("planted failure");
    for (const Parameter& parameter : layout_.parameters()) {
      std::fill_n(context.gradients.data() + parameter.offset, parameter.size, 0.0F);
    }
    const StepResult result = walk(rows, weights, context.gradients.data());
    if (context.step == step_with_nan) context.gradients[3] = std::numeric_limits<float>::quiet_NaN();
    // Backward walks the layers from the last to the first.
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      context.listener->gradient_final(layer);
      if (layer == kLayers - 1 && context.replica == 7) std::this_thread::sleep_for(pause_of_last_replica);
    }
    return result;
  }
  StepResult evaluate(const BatchView& rows, const float* weights, Workspace&) const override {
    return walk(rows, weights, nullptr);
  }

  int failing_replica = -1;
  int64_t step_with_nan = -1;
  std::chrono::milliseconds pause_of_last_replica{0};

 private:
  StepResult walk(const BatchView& rows, const float* weights, float* gradients) const {
    StepResult result;
    const auto x = rows.feature("x").values<float>();
    const auto y = rows.feature("y").values<float>();
    for (int64_t row = 0; row < rows.rows(); ++row) {
      float prediction = 0;
      for (const Parameter& parameter : layout_.parameters()) {
        for (int64_t i = 0; i < kFeatures; ++i) {
          prediction += weights[parameter.offset + i] * x[static_cast<size_t>(row * kFeatures + i)];
        }
      }
      const float difference = prediction - y[static_cast<size_t>(row)];
      result.sum_loss += static_cast<double>(difference) * difference;
      result.weight += 1;
      for (const Parameter& parameter : layout_.parameters()) {
        for (int64_t i = 0; gradients != nullptr && i < kFeatures; ++i) {
          gradients[parameter.offset + i] += 2 * difference * x[static_cast<size_t>(row * kFeatures + i)];
        }
      }
    }
    return result;
  }

  ParameterLayout layout_;
};

/// `rows` rows of made-up numbers.
struct Data {
  explicit Data(int64_t num_rows) : rows(num_rows) {
    for (int64_t i = 0; i < rows * kFeatures; ++i) x.push_back(std::sin(static_cast<float>(i)) * 0.1F);
    for (int64_t i = 0; i < rows; ++i) y.push_back(std::cos(static_cast<float>(i)));
  }
  BatchView view() const {
    return BatchView({{"x", std::span<const float>(x), {rows, kFeatures}}, {"y", std::span<const float>(y), {rows}}});
  }
  int64_t rows;
  std::vector<float> x;
  std::vector<float> y;
};

std::vector<float> train(const Regressions& model, int64_t rows, int steps, StepGraphOptions options) {
  const WorkerLimit limit(options.threads);
  const Sgd optimizer({.momentum = 0.9});
  TrainedState state(model.layout(), optimizer);
  model.initialize(state.weights.span(), 0);
  StepGraph graph(model, optimizer, state, options);
  const Data data(rows);
  for (int step = 0; step < steps; ++step) {
    const StepReport report = graph.train(data.view(), step, step + 1, 0.05);
    EXPECT_TRUE(report.updated) << report.skip_reason;
    EXPECT_EQ(report.result.weight, static_cast<double>(rows));
  }
  return {state.weights.data(), state.weights.data() + state.weights.size()};
}

TEST(StepGraph, GivesTheSameBitsForAnyNumberOfThreads) {
  const Regressions model;
  for (const int64_t rows : {64, 63, 9, 8, 7, 1}) {
    const std::vector<float> expected = train(model, rows, 10, {.threads = 1});
    for (const int threads : {2, 4, 8}) EXPECT_EQ(train(model, rows, 10, {.threads = threads}), expected) << rows;
  }
}

TEST(StepGraph, GivesTheGradientOfTheWholeBatchForAnyNumberOfReplicas) {
  const Regressions model;
  const std::vector<float> whole = train(model, 64, 5, {.replicas = 1, .threads = 2});
  for (const int replicas : {2, 3, 8}) {
    const std::vector<float> split = train(model, 64, 5, {.replicas = replicas, .threads = 2});
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(split[i], whole[i], 1e-5 * (std::abs(whole[i]) + 1e-2)) << i;
  }
}

TEST(StepGraph, NamesTheReplicaThatFailsAndLeavesTheWeights) {
  Regressions model;
  model.failing_replica = 5;
  const Sgd optimizer;
  TrainedState state(model.layout(), optimizer);
  StepGraph graph(model, optimizer, state, {.threads = 4});
  const Data data(64);
  try {
    graph.train(data.view(), 17, 1, 0.1);
    FAIL() << "no error";
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().message, "replica 5, step 17: planted failure");
  }
  for (const float weight : state.weights.span()) EXPECT_EQ(weight, 0.0F);
  model.failing_replica = -1;
  EXPECT_TRUE(graph.train(data.view(), 18, 1, 0.1).updated) << "the graph goes on after an error";
}

TEST(StepGraph, SkipsAnUpdateThatIsNotFiniteAndNamesTheStep) {
  Regressions model;
  model.step_with_nan = 3;
  const Sgd optimizer;
  TrainedState state(model.layout(), optimizer);
  StepGraph graph(model, optimizer, state, {.threads = 2});
  const Data data(16);
  const StepReport report = graph.train(data.view(), 3, 1, 0.1);
  EXPECT_FALSE(report.updated);
  EXPECT_NE(report.skip_reason.find("step 3"), std::string::npos) << report.skip_reason;
  for (const float weight : state.weights.span()) EXPECT_EQ(weight, 0.0F);
}

TEST(StepGraph, ReducesABucketWhileBackwardGoesOn) {
  const WorkerLimit limit(4);
  Regressions model;
  model.pause_of_last_replica = std::chrono::milliseconds(50);
  const Sgd optimizer;
  TrainedState state(model.layout(), optimizer);
  StepGraph graph(model, optimizer, state, {.threads = 4});
  const Data data(64);
  EXPECT_GT(graph.train(data.view(), 0, 1, 0.1).timeline.reduced_during_backward(), 0);
}

TEST(StepGraph, KeepsFewGradientBuffers) {
  const Regressions model;
  const Sgd optimizer;
  TrainedState state(model.layout(), optimizer);
  StepGraph graph(model, optimizer, state, {.threads = 1});
  const Data data(64);
  graph.train(data.view(), 0, 1, 0.1);
  EXPECT_LE(graph.peak_gradient_buffers(), 4)
      << "one thread: a buffer for each level of the tree, and the one being filled";
}

}  // namespace
}  // namespace millrace
