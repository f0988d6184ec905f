#include "millrace/trainer/step/step_graph.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/optimizers/lamb.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/step/distributor.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/sum.h"
#include "tests/support/gathering.h"
#include "tests/trainer/toy_models.h"

namespace millrace::step_graph_test {
namespace {

using oneapi::tbb::global_control;
using test::Gathering;
using testing_models::Regression;
using testing_models::RegressionBatch;
using testing_models::thrown_by;

// A training of some steps; returns all weights and slots.
struct Training {
  Training(const Model& model, const Optimizer& optimizer, StepGraphOptions options)
      : state(model.layout(), optimizer), graph(model, optimizer, state, options) {
    model.initialize(state.weights.span(), 3);
  }
  std::vector<float> everything() const {
    std::vector<float> all(state.weights.span().begin(), state.weights.span().end());
    for (const FlatBuffer& slot : state.slots) all.insert(all.end(), slot.span().begin(), slot.span().end());
    return all;
  }
  TrainedState state;
  StepGraph graph;
};

template <typename MakeOptimizer>
void expect_the_same_for_all_thread_counts(const MakeOptimizer& make_optimizer) {
  constexpr int64_t kRows[] = {64, 63, 9, 8, 7, 1};
  std::vector<float> expected;
  for (const int threads : {1, 2, 4, 8}) {
    const global_control limit(global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    Regression model;
    Gathering gathering(threads);
    model.before_step = [&](const ReplicaContext&) { gathering.pass(); };
    const auto optimizer = make_optimizer(model.layout());
    Training training(model, optimizer, {.threads = threads, .clipping = Clipping{.norm = 2}});
    for (int64_t step = 0; step < 50; ++step) {
      const RegressionBatch batch(kRows[step % 6], static_cast<uint64_t>(step));
      EXPECT_TRUE(training.graph.train(batch.view(), {step, step, step + 1}, 0.01).updated);
    }
    EXPECT_EQ(gathering.most(), threads) << "at once";
    EXPECT_GE(training.graph.threads_seen(), threads);  // a thread may go and another come in its place
    if (threads == 1) {
      expected = training.everything();
      EXPECT_EQ(training.graph.peak_gradient_buffers(), 5);
    }
    const std::vector<float> found = training.everything();
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << threads << " threads";
  }
}

TEST(StepGraph, GivesTheSameWeightsBitForBitForAnyNumberOfThreads) {
  expect_the_same_for_all_thread_counts([](const ParameterLayout& layout) { return Adam(layout, adamw(0.1, "bias")); });
}

TEST(StepGraph, GivesTheSameWeightsForAnyNumberOfThreadsWithALayerwiseRule) {
  expect_the_same_for_all_thread_counts(
      [](const ParameterLayout& layout) { return Lamb(layout, {.weight_decay = 0.1}); });
}

TEST(StepGraph, EightReplicasTrainLikeOneForEveryNumberOfRows) {
  for (const int64_t rows : {64, 63, 9, 8, 7, 1}) {
    const Regression model;
    const Adam optimizer(model.layout(), adamw());
    Training one(model, optimizer, {.replicas = 1, .threads = 1});
    Training eight(model, optimizer, {.replicas = 8, .threads = 2});
    const RegressionBatch batch(rows, static_cast<uint64_t>(rows));
    const StepReport a = one.graph.train(batch.view(), {0, 0, 1}, 0.01);
    const StepReport b = eight.graph.train(batch.view(), {0, 0, 1}, 0.01);
    EXPECT_EQ(a.result.weight, static_cast<double>(rows));
    EXPECT_EQ(b.result.weight, static_cast<double>(rows));
    EXPECT_NEAR(a.loss, b.loss, 1e-6 * a.loss);
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-5 * a.gradient_norm);
    // The first moment is a tenth of the mean gradient.
    const auto single = one.state.slots[0].span();
    const auto split = eight.state.slots[0].span();
    float largest = 0;
    for (float m : single) largest = std::max(largest, std::abs(m));
    for (size_t i = 0; i < single.size(); ++i) EXPECT_NEAR(single[i], split[i], 1e-5 * largest) << rows << " rows";
    const StepResult evaluated = eight.graph.evaluate(batch.view());
    const StepResult expected = one.graph.evaluate(batch.view());
    EXPECT_EQ(evaluated.weight, static_cast<double>(rows));
    EXPECT_NEAR(evaluated.sum_loss, expected.sum_loss, 1e-3 * expected.sum_loss);
  }
}

TEST(StepGraph, TakesTheGradientOfTheMeanLoss) {
  const Regression model(1, 1, 1 << 20);
  const Sgd optimizer;
  Training training(model, optimizer, {});
  const RegressionBatch batch(10, 5, 1);
  const auto loss = [&] {
    const StepResult result = training.graph.evaluate(batch.view());
    return result.sum_loss / result.weight;
  };
  // Central difference by the first weight.
  const int64_t place = model.layout().parameters()[0].offset;
  const float start = training.state.weights.data()[place];
  training.state.weights.data()[place] = start + 1e-3F;
  const double above = loss();
  training.state.weights.data()[place] = start - 1e-3F;
  const double below = loss();
  training.state.weights.data()[place] = start;
  const double before = loss();
  const StepReport report = training.graph.train(batch.view(), {0, 0, 1}, 1e-2);
  EXPECT_NEAR(report.loss, before, 1e-12);
  EXPECT_NEAR((start - training.state.weights.data()[place]) / 1e-2, (above - below) / 2e-3, 1e-3);
}

TEST(StepGraph, ClipsByTheNormOfTheMeanGradientAfterTheReduction) {
  const Regression model;
  const Sgd optimizer;
  Training training(model, optimizer, {.clipping = Clipping{.norm = 0.125}});
  const RegressionBatch batch(40, 1);
  const std::vector<float> before = training.everything();
  const StepReport report = training.graph.train(batch.view(), {0, 0, 1}, 1.0);
  ASSERT_GT(report.gradient_norm, 0.125);
  EXPECT_NEAR(report.clip_scale, 0.125 / report.gradient_norm, 1e-12);
  const std::vector<float> after = training.everything();
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += std::pow(after[i] - before[i], 2);
  EXPECT_NEAR(std::sqrt(moved), 0.125, 1e-5);
}

TEST(StepGraph, AThrowingReplicaIsNamedAndTheNextStepWorks) {
  for (const int threads : {1, 4}) {
    Regression model;
    const Adam optimizer(model.layout(), adamw());
    Training training(model, optimizer, {.threads = threads});
    const RegressionBatch batch(16);
    const std::vector<float> before = training.everything();
    // Half way through backward, when some of its buckets have been summed up already.
    model.before_last_gradients = [](const ReplicaContext& context) {
      if (context.replica == 3 || context.replica == 6) throw std::runtime_error("out of luck");
    };
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(thrown_by([&] {
                  training.graph.train(batch.view(), {17, 17, 1}, 0.1);
                }),
                "user_function: replica 3, step 18 (batch 17): out of luck");
    }
    EXPECT_EQ(training.everything(), before);
    model.before_last_gradients = nullptr;
    EXPECT_TRUE(training.graph.train(batch.view(), {18, 18, 1}, 0.1).updated);
    const Regression fresh_model;
    Training fresh(fresh_model, optimizer, {.threads = threads});
    fresh.graph.train(batch.view(), {18, 18, 1}, 0.1);
    EXPECT_EQ(training.everything(), fresh.everything());
  }
}

TEST(StepGraph, AReplicaWithoutMemoryIsToldAsThat) {
  Regression model;
  const Adam optimizer(model.layout(), adamw());
  Training training(model, optimizer, {.threads = 2});
  const RegressionBatch batch(16);
  model.before_step = [](const ReplicaContext& context) {
    if (context.replica == 3) throw std::bad_alloc();
  };
  EXPECT_EQ(thrown_by([&] {
              training.graph.train(batch.view(), {17, 17, 1}, 0.1);
            }),
            "out_of_memory: replica 3, step 18 (batch 17): the system has no more memory");
}

TEST(StepGraph, AParameterWithoutAGradientIsAnErrorThatNamesIt) {
  Regression model;
  const Sgd optimizer;
  Training training(model, optimizer, {.threads = 1});
  model.forgotten_gradient = 1;
  const RegressionBatch batch(16);
  EXPECT_EQ(thrown_by([&] {
              training.graph.train(batch.view(), {5, 5, 1}, 0.1);
            }),
            "invalid_argument: replica 0, step 6 (batch 5): no gradient for parameter 'first.bias'; "
            "what no step uses must be frozen");
}

// `y = weight . x` on a tape; a second head is registered and forgotten.
class Forgetful final : public Model {
 public:
  Forgetful() {
    weight_ = layout_.add("head.weight", {1, 5});
    layout_.add("head2.weight", {1, 5});
    layout_.finish();
  }
  const ParameterLayout& layout() const override { return layout_; }
  void initialize(std::span<float> weights, uint64_t) const override { std::ranges::fill(weights, 1.0F); }
  std::unique_ptr<Workspace> make_workspace() const override { return std::make_unique<OnTape>(); }
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override {
    Tape<float>& tape = static_cast<OnTape&>(*context.workspace).tape;
    tape.begin(layout_, weights, {.values = context.gradients.data(), .listener = context.listener});
    const auto x = rows.feature("x").values<float>();
    const Tensor<float> loss =
        sum(tape, linear(tape, tape.constant(x.data(), {rows.rows(), 5}), tape.parameter(weight_)));
    tape.backward(loss, {}, context.trainable);
    return {.sum_loss = *loss.values, .weight = static_cast<double>(rows.rows())};
  }
  StepResult evaluate(const BatchView&, const float*, Workspace&) const override { return {}; }

 private:
  struct OnTape final : Workspace {
    Arena arena;
    Tape<float> tape{arena};
  };
  ParameterLayout layout_;
  int weight_ = 0;
};

TEST(StepGraph, AParameterThatNoOperatorUsesIsAnErrorUnlessItIsFrozen) {
  const Forgetful model;
  const Adam optimizer(model.layout(), adamw(0.1));
  Training training(model, optimizer, {.threads = 2});
  const std::vector<float> before = training.everything();
  const RegressionBatch batch(16);
  EXPECT_EQ(thrown_by([&] {
              training.graph.train(batch.view(), {5, 5, 1}, 0.1);
            }),
            "invalid_argument: replica 0, step 6 (batch 5): no gradient for parameter 'head2.weight'; "
            "what no step uses must be frozen");
  EXPECT_EQ(training.everything(), before);
  TrainedState state(model.layout(), optimizer, "^head2");
  StepGraph graph(model, optimizer, state, {.threads = 2});
  EXPECT_TRUE(graph.train(batch.view(), {5, 5, 1}, 0.1).updated);
}

TEST(StepGraph, SkipsAnUpdateThatIsNotFiniteAndSaysWhy) {
  const Regression model;
  const Adam optimizer(model.layout(), adamw());
  Training training(model, optimizer, {.threads = 2});
  const std::vector<float> before = training.everything();
  RegressionBatch batch(16);
  batch.y[6] = std::nanf("");
  const StepReport report = training.graph.train(batch.view(), {9, 9, 1}, 0.1);
  EXPECT_FALSE(report.updated);
  EXPECT_EQ(report.skip_reason, "step 10 (batch 9): the loss of replica 3 is nan (weight 2); the update was skipped");
  EXPECT_EQ(training.everything(), before);
  EXPECT_TRUE(report.timeline.updates.empty());
  EXPECT_TRUE(training.graph.train(RegressionBatch(16).view(), {10, 10, 1}, 0.1).updated);
}

TEST(StepGraph, SkipsAnUpdateWhoseGradientIsNotFiniteThoughTheLossIs) {
  const Regression model;
  const Sgd optimizer;
  Training training(model, optimizer, {.threads = 2});
  RegressionBatch batch(16);
  batch.x[0] = std::numeric_limits<float>::max();  // the loss is taken in float64, the gradient is not
  const StepReport report = training.graph.train(batch.view(), {2, 2, 1}, 0.1);
  EXPECT_FALSE(report.updated);
  EXPECT_THAT(report.skip_reason, testing::StartsWith("step 3 (batch 2): "));
}

// A model whose rows have no weight: nothing is labelled.
class Unlabelled final : public Model {
 public:
  Unlabelled() {
    layout_.add("w", {3});
    layout_.finish();
  }
  const ParameterLayout& layout() const override { return layout_; }
  void initialize(std::span<float>, uint64_t) const override {}
  std::unique_ptr<Workspace> make_workspace() const override { return std::make_unique<Workspace>(); }
  StepResult train_step(const BatchView&, const float*, ReplicaContext& context) const override {
    std::fill(context.gradients.begin(), context.gradients.begin() + 3, 0.0F);
    context.listener->gradient_final(0);
    return {};
  }
  StepResult evaluate(const BatchView&, const float*, Workspace&) const override { return {}; }

 private:
  ParameterLayout layout_;
};

TEST(StepGraph, AWeightOfZeroGivesALossOfZeroAndFiniteWeights) {
  const Unlabelled model;
  const Adam optimizer(model.layout(), {});
  Training training(model, optimizer, {});
  const StepReport report = training.graph.train(RegressionBatch(3).view(), {0, 0, 1}, 0.1);
  EXPECT_EQ(report.loss, 0);
  EXPECT_EQ(report.gradient_norm, 0);
  EXPECT_TRUE(report.updated);
  for (float value : training.everything()) EXPECT_EQ(value, 0);
}

TEST(StepGraph, ReducesBucketsBeforeBackwardEnds) {
  for (const int threads : {1, 2}) {
    Regression model;
    // Between its first buckets and its last ones each replica takes its time.
    model.before_last_gradients = [](const ReplicaContext&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    const Sgd optimizer;
    Training training(model, optimizer, {.threads = threads});
    const StepReport report = training.graph.train(RegressionBatch(16).view(), {0, 0, 1}, 0.01);
    const auto num_buckets = static_cast<int>(model.layout().buckets().size());
    // At least `second.bias`' and `second.weight`'s.
    ASSERT_EQ(report.timeline.batches.size(), 1U);
    const BatchTimeline& batch = report.timeline.batches[0];
    EXPECT_GE(batch.reduced_during_backward(), 2);
    EXPECT_EQ(batch.reductions.size(), static_cast<size_t>(num_buckets));
    EXPECT_GE(report.timeline.decision.begin, batch.replicas[7].end);
    ASSERT_EQ(report.timeline.updates.size(), static_cast<size_t>(num_buckets));
    for (const TimeSpan& update : report.timeline.updates) EXPECT_GE(update.begin, report.timeline.decision.end);
  }
}

TEST(StepGraph, TellsWhenEachBatchOfAStepRan) {
  for (const bool update : {false, true}) {
    Regression model;
    model.before_last_gradients = [](const ReplicaContext&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    const Sgd optimizer;
    Training training(model, optimizer, {.threads = 2});
    const RegressionBatch rows(8);
    for (int64_t i = 0; i < 2; ++i) training.graph.accumulate(rows.view(), {.batch = i});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a wait for input
    if (update) training.graph.accumulate(rows.view(), {.batch = 2});
    const StepReport report =
        update ? training.graph.update({.batch = 2}, 0.01) : training.graph.train(rows.view(), {.batch = 2}, 0.01);
    const StepTimeline& timeline = report.timeline;
    ASSERT_EQ(timeline.batches.size(), 3U);
    auto before = timeline.batches[0].began;
    std::chrono::nanoseconds working{0};
    for (const BatchTimeline& batch : timeline.batches) {
      EXPECT_GE(batch.began, before);
      before = batch.ended;
      working += batch.ended - batch.began;
      ASSERT_EQ(batch.replicas.size(), 8U);
      EXPECT_GT(batch.replicas[7].end, batch.replicas[7].backward);
      ASSERT_EQ(batch.reductions.size(), model.layout().buckets().size());
      for (const TimeSpan& reduction : batch.reductions) EXPECT_GT(reduction.end, reduction.begin);
      EXPECT_GE(batch.reduced_during_backward(), 2);
    }
    EXPECT_EQ(timeline.began == timeline.batches[2].began, !update);
    EXPECT_GE(timeline.ended, timeline.batches[2].ended);
    if (update) {
      EXPECT_GE(timeline.began, timeline.batches[2].ended);
      working += timeline.ended - timeline.began;
    }
    EXPECT_EQ(timeline.total, working);
    EXPECT_GT(timeline.after_backward.count(), 0);
    EXPECT_LE(timeline.after_backward, timeline.ended - timeline.began);
    const StepPhases& phases = report.phases;
    EXPECT_NEAR(phases.forward + phases.backward + phases.reduce + phases.optimizer,
                std::chrono::duration<double>(working).count(), 1e-9);
    // The next step begins with none of them.
    EXPECT_EQ(training.graph.train(rows.view(), {.step = 1, .batch = 3}, 0.01).timeline.batches.size(), 1U);
  }
}

TEST(StepGraph, AReplicaThatWaitsForItsOwnWorkDoesNotEnterAnother) {
  const global_control limit(global_control::max_allowed_parallelism, 4);
  Regression model;
  static thread_local int depth = 0;
  std::atomic<int> entered_twice{0};
  std::atomic<int> nested{0};
  model.before_step = [&](const ReplicaContext&) {
    if (++depth > 1) ++entered_twice;
    // Nested parallel work whose parts take long elsewhere, so that this thread has to wait while replicas are queued.
    oneapi::tbb::parallel_for(
        0, 4, [&](int) { ++nested, std::this_thread::sleep_for(std::chrono::microseconds(300)); },
        oneapi::tbb::simple_partitioner());
    --depth;
  };
  const Sgd optimizer;
  Training training(model, optimizer, {.replicas = 32, .threads = 4});
  const RegressionBatch batch(32);
  for (int64_t step = 0; step < 10; ++step) training.graph.train(batch.view(), {step, step, step + 1}, 0.01);
  EXPECT_EQ(entered_twice, 0);
  EXPECT_EQ(nested, 10 * 32 * 4);
}

TEST(StepGraph, AsksOneTbbForNoMoreWorkersThanItHas) {
  const int threads = oneapi::tbb::info::default_concurrency() + 6;
  Regression model;
  const Sgd optimizer;
  testing::internal::CaptureStderr();
  {
    Training training(model, optimizer, {.replicas = threads, .threads = threads});
    training.graph.train(RegressionBatch(threads).view(), {0, 0, 1}, 0.01);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Rows [begin, end) of a batch as a global batch of their own.
BatchView rows_of(const RegressionBatch& batch, int64_t begin, int64_t end) {
  const auto inputs = static_cast<size_t>(batch.num_inputs);
  const std::span<const float> x(batch.x);
  const std::span<const float> y(batch.y);
  const auto first = static_cast<size_t>(begin);
  const auto rows = static_cast<size_t>(end - begin);
  return BatchView({{"x", x.subspan(first * inputs, rows * inputs), {end - begin, batch.num_inputs}},
                    {"y", y.subspan(first, rows), {end - begin}}});
}

// A step on consecutive micro-batches of so many rows each; with `update` the last one is accumulated as well.
StepReport accumulated_step(StepGraph& graph, const RegressionBatch& batch, const std::vector<int64_t>& sizes,
                            int64_t step, int64_t first_batch, bool update = false) {
  int64_t row = 0;
  StepNumbers numbers{step, first_batch, step + 1};
  for (size_t i = 0; i + 1 < sizes.size() + (update ? 1 : 0); ++i, ++numbers.batch) {
    graph.accumulate(rows_of(batch, row, row + sizes[i]), numbers);
    row += sizes[i];
  }
  if (!update) return graph.train(rows_of(batch, row, row + sizes.back()), numbers, 0.01);
  --numbers.batch;
  return graph.update(numbers, 0.01);
}

template <typename MakeOptimizer>
void expect_micro_batches_to_train_like_one_batch(const MakeOptimizer& make_optimizer) {
  const std::vector<std::vector<int64_t>> table = {{64},    {32, 32},  {16, 16, 16, 16},        {63, 1},
                                                   {1, 63}, {9, 8, 7}, {1, 1, 1, 1, 1, 1, 1, 1}};
  for (const std::vector<int64_t>& sizes : table) {
    for (const int replicas : {1, 8}) {
      for (const bool update : {false, true}) {
        const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
        const Regression model;
        const auto optimizer = make_optimizer(model.layout());
        Training big(model, *optimizer, {.replicas = 1, .threads = 1, .clipping = Clipping{.norm = 2}});
        Training small(model, *optimizer, {.replicas = replicas, .threads = 2, .clipping = Clipping{.norm = 2}});
        for (int64_t step = 0; step < 3; ++step) {
          SCOPED_TRACE(fmt::format("{} micro-batches of {} rows, {} replicas, update {}, step {}", sizes.size(), rows,
                                   replicas, update, step));
          const RegressionBatch batch(rows, static_cast<uint64_t>(step));
          const StepReport a = big.graph.train(batch.view(), {step, step, step + 1}, 0.01);
          const StepReport b = accumulated_step(small.graph, batch, sizes, step, 10 * step, update);
          EXPECT_TRUE(b.updated);
          EXPECT_EQ(b.result.weight, static_cast<double>(rows));
          EXPECT_NEAR(a.loss, b.loss, 1e-5 * a.loss);
          EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-5 * a.gradient_norm);
          EXPECT_NEAR(a.clip_scale, b.clip_scale, 1e-5);
        }
        const std::vector<float> expected = big.everything();
        const std::vector<float> found = small.everything();
        float largest = 0;
        for (const float value : expected) largest = std::max(largest, std::abs(value));
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * largest) << i;
      }
    }
  }
}

TEST(StepGraph, MicroBatchesTrainLikeTheOneBatchOfAllTheirRowsBySgd) {
  expect_micro_batches_to_train_like_one_batch(
      [](const ParameterLayout&) { return std::make_unique<Sgd>(SgdOptions{.momentum = 0.9}); });
}

TEST(StepGraph, MicroBatchesTrainLikeTheOneBatchOfAllTheirRowsByAdam) {
  // A large epsilon: where gradients are near 0, Adam's division magnifies rounding.
  expect_micro_batches_to_train_like_one_batch([](const ParameterLayout& layout) {
    AdamOptions options = adamw(0.1);
    options.epsilon = 1e-2;
    return std::make_unique<Adam>(layout, options);
  });
}

// The sum over replicas and micro-batches in the documented order, one addition after the other.
std::vector<float> gradient_in_order(const Regression& model, const float* weights, const RegressionBatch& batch,
                                     const std::vector<int64_t>& sizes) {
  class Deaf final : public GradientListener {
    void gradient_final(int) override {}
  };
  Deaf listener;
  const auto workspace = model.make_workspace();
  const auto size = static_cast<size_t>(model.layout().size());
  std::vector<float> total;
  int64_t row = 0;
  for (const int64_t rows : sizes) {
    std::vector<std::vector<float>> parts;
    for (const BatchView& view : Distributor(8).split(rows_of(batch, row, row + rows))) {
      parts.emplace_back(size);
      if (view.rows() == 0) continue;
      ReplicaContext context{.gradients = parts.back(), .listener = &listener, .workspace = workspace.get()};
      model.train_step(view, weights, context);
    }
    for (size_t step = 1; step < 8; step *= 2) {
      for (size_t i = 0; i < 8; i += 2 * step) {
        for (size_t place = 0; place < size; ++place) parts[i][place] += parts[i + step][place];
      }
    }
    if (total.empty()) {
      total = parts[0];
    } else {
      for (size_t place = 0; place < size; ++place) total[place] += parts[0][place];
    }
    row += rows;
  }
  return total;
}

TEST(StepGraph, AddsMicroBatchesInTheirOrderBitForBitForAnyNumberOfThreads) {
  const std::vector<std::vector<int64_t>> table = {{64}, {32, 32}, {16, 16, 16, 16}, {9, 7, 16}, {1, 31}};
  for (const std::vector<int64_t>& sizes : table) {
    for (const int threads : {1, 2, 4}) {
      const global_control limit(global_control::max_allowed_parallelism, static_cast<size_t>(threads));
      for (const bool update : {false, true}) {
        const Regression model;
        const Sgd optimizer({.momentum = 0.5});  // its slot is the gradient after the first update
        Training training(model, optimizer, {.threads = threads});
        const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
        const RegressionBatch batch(rows, 3);
        std::vector<float> expected = gradient_in_order(model, training.state.weights.data(), batch, sizes);
        for (float& value : expected) value *= static_cast<float>(1 / static_cast<double>(rows));
        accumulated_step(training.graph, batch, sizes, 0, 0, update);
        for (const Parameter& parameter : model.layout().parameters()) {
          for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
            ASSERT_EQ(training.state.slots[0].data()[i], expected[static_cast<size_t>(i)])
                << sizes.size() << " micro-batches, " << threads << " threads, float " << i << " of " << parameter.name;
          }
        }
      }
    }
  }
}

TEST(StepGraph, MetricsThatAreFewerOrMoreInSomeReplicaAreAnErrorWithBothLists) {
  for (const int with_more : {0, 3}) {
    Regression model;
    const Sgd optimizer;
    Training training(model, optimizer, {.threads = 1});
    model.add_metrics = [&](const ReplicaContext& context, StepResult& result) {
      result.metrics = {{.name = "accuracy", .sum = 1, .weight = 2}};
      if ((context.replica == 0) == (with_more == 0))
        result.metrics.push_back({.name = "recall", .sum = 1, .weight = 2});
    };
    const std::string message = thrown_by([&] { training.graph.train(RegressionBatch(16).view(), {}, 0.1); });
    EXPECT_THAT(message, testing::StartsWith("invalid_argument: "));
    EXPECT_THAT(message,
                testing::HasSubstr(
                    with_more == 0 ? "the metrics are [accuracy, recall] in one replica and [accuracy] in another"
                                   : "the metrics are [accuracy] in one replica and [accuracy, recall] in another"));
  }
}

// Its square is infinite in float32, and a second moment would be so forever.
TEST(StepGraph, SkipsAnUpdateWhoseGradientIsTooLargeToBeSquared) {
  const Regression model(1, 1);
  const Adam optimizer(model.layout(), adamw());
  Training training(model, optimizer, {.threads = 1});
  const std::vector<float> before = training.everything();
  RegressionBatch batch(8, 0, 1);
  std::ranges::fill(batch.y, 1e19F);
  const StepReport report = training.graph.train(batch.view(), {2, 2, 1}, 0.1);
  EXPECT_FALSE(report.updated);
  EXPECT_TRUE(std::isfinite(report.gradient_norm));
  EXPECT_THAT(report.skip_reason, testing::StartsWith("step 3 (batch 2): the norm of the gradient is "));
  EXPECT_EQ(training.everything(), before);
  // Clipped, it is as good as any other.
  Training clipped(model, optimizer, {.threads = 1, .clipping = Clipping{.norm = 1}});
  EXPECT_TRUE(clipped.graph.train(batch.view(), {2, 2, 1}, 0.1).updated);
}

TEST(StepGraph, AMicroBatchThatIsNotFiniteSkipsTheUpdateAndIsNamed) {
  for (const bool update : {false, true}) {
    const Regression model;
    const Adam optimizer(model.layout(), adamw());
    Training training(model, optimizer, {.threads = 2});
    const std::vector<float> before = training.everything();
    RegressionBatch batch(48);
    batch.y[16 + 6] = std::nanf("");
    const StepReport report = accumulated_step(training.graph, batch, {16, 16, 16}, 9, 27, update);
    EXPECT_FALSE(report.updated);
    EXPECT_EQ(report.skip_reason,
              "step 10 (batches 27 to 29): the loss of replica 3 in batch 28 is nan (weight 2); the update was "
              "skipped");
    EXPECT_EQ(training.everything(), before);
    // Nothing of it is left for the next one.
    training.graph.train(RegressionBatch(16).view(), {10, 30, 1}, 0.1);
    Training fresh(model, optimizer, {.threads = 2});
    fresh.graph.train(RegressionBatch(16).view(), {10, 30, 1}, 0.1);
    EXPECT_EQ(training.everything(), fresh.everything());
  }
}

TEST(StepGraph, GivesUpWhatWasAccumulatedWhenAReplicaThrowsOrWhenAskedTo) {
  Regression model;
  const Adam optimizer(model.layout(), adamw());
  Training training(model, optimizer, {.threads = 2});
  model.before_step = [](const ReplicaContext& context) {
    if (context.batch == 21 && context.replica == 3) throw std::runtime_error("out of luck");
  };
  const RegressionBatch batch(16);
  training.graph.accumulate(batch.view(), {10, 20, 1});
  EXPECT_EQ(thrown_by([&] {
              training.graph.accumulate(batch.view(), {10, 21, 1});
            }),
            "user_function: replica 3, step 11 (batch 21): out of luck");
  EXPECT_EQ(thrown_by([&] { training.graph.update({10, 21, 1}, 0.1); }), "invalid_argument: an update without a batch");
  training.graph.accumulate(batch.view(), {10, 20, 1});
  training.graph.discard();
  training.graph.train(batch.view(), {10, 22, 1}, 0.1);
  Training fresh(model, optimizer, {.threads = 2});
  fresh.graph.train(batch.view(), {10, 22, 1}, 0.1);
  EXPECT_EQ(training.everything(), fresh.everything());
}

TEST(StepGraph, GivesUpWhatWasAccumulatedWhenItsResultsCannotBeAdded) {
  Regression model;
  const Adam optimizer(model.layout(), adamw());
  Training training(model, optimizer, {.threads = 2});
  model.add_metrics = [](const ReplicaContext& context, StepResult& result) {
    const bool other = context.batch == 21 && context.replica == 3;
    result.metrics = {{.name = other ? "recall" : "accuracy", .sum = 1, .weight = 2}};
  };
  const RegressionBatch batch(16);
  training.graph.accumulate(batch.view(), {10, 20, 1});
  EXPECT_THAT(thrown_by([&] {
                training.graph.accumulate(batch.view(), {10, 21, 1});
              }),
              testing::HasSubstr("the metrics are [accuracy] in one replica and [recall] in another"));
  EXPECT_EQ(thrown_by([&] { training.graph.update({10, 21, 1}, 0.1); }), "invalid_argument: an update without a batch");
  const StepReport report = training.graph.train(batch.view(), {10, 22, 1}, 0.1);
  EXPECT_EQ(report.result.weight, 16);
  ASSERT_EQ(report.result.metrics.size(), 1U);
  EXPECT_EQ(report.result.metrics[0].sum, 8) << "of its eight replicas only";
}

TEST(StepGraph, AnEvaluationLeavesWhatWasAccumulated) {
  const Regression model;
  const Sgd optimizer;
  Training training(model, optimizer, {.threads = 2});
  Training undisturbed(model, optimizer, {.threads = 2});
  const RegressionBatch first(16, 1);
  const RegressionBatch second(16, 2);
  for (Training* each : {&training, &undisturbed}) {
    each->graph.accumulate(first.view(), {0, 0, 1});
    if (each == &training) each->graph.evaluate(RegressionBatch(9, 3).view());
    each->graph.train(second.view(), {0, 1, 1}, 0.1);
  }
  EXPECT_EQ(training.everything(), undisturbed.everything());
}

TEST(StepGraph, RefusesWhatCannotWork) {
  const Regression model;
  const Sgd optimizer;
  TrainedState state(model.layout(), optimizer);
  EXPECT_THROW(StepGraph(model, optimizer, state, {.replicas = 0}), ErrorException);
  EXPECT_THROW(StepGraph(model, optimizer, state, {.threads = -1}), ErrorException);
  EXPECT_THROW(StepGraph(model, optimizer, state, {.clipping = Clipping{.norm = 0}}), ErrorException);
  StepGraph graph(model, optimizer, state, {});
  EXPECT_THROW(graph.train(RegressionBatch(0).view(), {0, 0, 1}, 0.1), ErrorException);
}

}  // namespace
}  // namespace millrace::step_graph_test
