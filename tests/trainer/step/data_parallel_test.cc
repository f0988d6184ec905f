// What replicas, losses and optimizers add up to, against slow references.
#include <atomic>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/optimizers/lamb.h"
#include "millrace/trainer/optimizers/optimizer_groups.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/step/distributor.h"
#include "millrace/trainer/step/step_graph.h"
#include "tests/trainer/toy_models.h"

namespace millrace::data_parallel_test {
namespace {

using testing::HasSubstr;
using testing_models::Regression;
using testing_models::RegressionBatch;
using testing_models::thrown_by;

class Ignore final : public GradientListener {
 public:
  void gradient_final(int) override {}
};

// One replica's gradient, by the model alone.
struct Replica {
  Replica(const Model& model, const BatchView& rows, std::span<const float> weights)
      : gradients(static_cast<size_t>(model.layout().size())) {
    if (rows.rows() == 0) return;
    Ignore ignore;
    const auto workspace = model.make_workspace();
    ReplicaContext context{.gradients = gradients, .listener = &ignore, .workspace = workspace.get()};
    result = model.train_step(rows, weights.data(), context);
  }
  double norm() const {
    double squares = 0;
    for (const float gradient : gradients) squares += static_cast<double>(gradient) * gradient;
    return std::sqrt(squares);
  }
  std::vector<float> gradients;
  StepResult result;
};

std::vector<Replica> replicas_of(const Model& model, const BatchView& batch, std::span<const float> weights) {
  std::vector<Replica> replicas;
  for (const BatchView& view : Distributor(8).split(batch)) replicas.emplace_back(model, view, weights);
  return replicas;
}

// By hand: what each mode says in docs/training.md.
std::vector<double> normalised(const std::vector<Replica>& replicas, Normalization mode, double scale) {
  std::vector<double> sum(replicas[0].gradients.size());
  double weight = 0;
  for (const Replica& replica : replicas) {
    const double own = replica.result.weight;
    weight += own;
    for (size_t i = 0; i < sum.size(); ++i) {
      const bool means = mode == Normalization::kMeanOfReplicaMeans || mode == Normalization::kSumOfReplicaMeans;
      sum[i] += means ? (own == 0 ? 0 : replica.gradients[i] / own) : replica.gradients[i];
    }
  }
  for (double& value : sum) {
    if (mode == Normalization::kGlobalMean) value /= weight;
    if (mode == Normalization::kMeanOfReplicaMeans) value /= 8;
    if (mode == Normalization::kScaled) value *= scale;
  }
  return sum;
}

// The gradient that an update of SGD with a rate of 1 has used.
std::vector<double> used(const Model& model, const TrainedState& state, std::span<const float> before) {
  std::vector<double> gradient(static_cast<size_t>(model.layout().size()));
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<double>(before[i]) - state.weights.data()[i];
  return gradient;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0);
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, largest)) << "at " << i;
  }
}

struct Case {
  Normalization mode;
  double scale;
};

TEST(DataParallel, EachNormalizationIsTheFormulaForEveryNumberOfRows) {
  const Regression model;
  const Sgd sgd;
  std::vector<std::vector<double>> gradients_of_9;
  for (const Case& c : {Case{Normalization::kGlobalMean, 1}, Case{Normalization::kMeanOfReplicaMeans, 1},
                        Case{Normalization::kSumOfReplicaMeans, 1}, Case{Normalization::kScaled, 0.01}}) {
    for (const int64_t rows : {64, 63, 9, 8, 7, 1}) {
      SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(c.mode) << ", rows " << rows);
      TrainedState state(model.layout(), sgd);
      model.initialize(state.weights.span(), 3);
      StepGraph graph(model, sgd, state, {.normalization = {.mode = c.mode, .scale = c.scale}});
      const std::vector<float> before(state.weights.span().begin(), state.weights.span().end());
      const RegressionBatch batch(rows);
      const StepReport report = graph.train(batch.view(), {}, 1);
      const auto replicas = replicas_of(model, batch.view(), before);
      const std::vector<double> expected = normalised(replicas, c.mode, c.scale);
      expect_near(used(model, state, before), expected, 1e-5);
      const double norm = std::sqrt(std::inner_product(expected.begin(), expected.end(), expected.begin(), 0.0));
      EXPECT_NEAR(report.gradient_norm, norm, 1e-5 * norm);
      // What is reported is the exact mean in all modes.
      EXPECT_NEAR(report.loss, report.result.sum_loss / static_cast<double>(rows), 1e-12);
      if (rows == 9) gradients_of_9.push_back(expected);
    }
  }
  // They are four different things.
  for (size_t i = 0; i < gradients_of_9.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(gradients_of_9[i], gradients_of_9[j]);
  }
}

TEST(DataParallel, MicroBatchesAreAsOneBatchInEachNormalization) {
  const Regression model;
  const Sgd sgd;
  for (const Normalization mode : {Normalization::kGlobalMean, Normalization::kMeanOfReplicaMeans,
                                   Normalization::kSumOfReplicaMeans, Normalization::kScaled}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const StepGraphOptions options{.normalization = {.mode = mode, .scale = 0.1}};
    // 4 batches of 8 rows; in the one batch replica r has row r of each.
    std::vector<RegressionBatch> parts;
    for (uint64_t i = 0; i < 4; ++i) parts.emplace_back(8, i);
    RegressionBatch whole(32);
    for (size_t r = 0; r < 8; ++r) {
      for (size_t part = 0; part < 4; ++part) {
        whole.y[r * 4 + part] = parts[part].y[r];
        for (size_t i = 0; i < 5; ++i) whole.x[(r * 4 + part) * 5 + i] = parts[part].x[r * 5 + i];
      }
    }
    TrainedState one(model.layout(), sgd);
    TrainedState many(model.layout(), sgd);
    model.initialize(one.weights.span(), 3);
    model.initialize(many.weights.span(), 3);
    const std::vector<float> before(one.weights.span().begin(), one.weights.span().end());
    StepGraph graph_of_one(model, sgd, one, options);
    StepGraph graph_of_many(model, sgd, many, options);
    graph_of_one.train(whole.view(), {}, 1);
    for (int64_t i = 0; i < 3; ++i) graph_of_many.accumulate(parts[static_cast<size_t>(i)].view(), {.batch = i});
    graph_of_many.train(parts[3].view(), {.batch = 3}, 1);
    expect_near(used(model, many, before), used(model, one, before), 1e-5);
  }
}

TEST(DataParallel, TheGradientOfEightReplicasIsThatOfOne) {
  const Regression model;
  const Sgd sgd;
  for (const int64_t rows : {64, 63, 9, 8, 7, 1}) {
    const RegressionBatch batch(rows);
    std::vector<std::vector<double>> gradients;
    for (const int replicas : {1, 8}) {
      TrainedState state(model.layout(), sgd);
      model.initialize(state.weights.span(), 3);
      const std::vector<float> before(state.weights.span().begin(), state.weights.span().end());
      StepGraph(model, sgd, state, {.replicas = replicas}).train(batch.view(), {}, 1);
      gradients.push_back(used(model, state, before));
    }
    expect_near(gradients[1], gradients[0], 1e-5);
  }
}

TEST(DataParallel, ClipsEachReplicaOnItsOwnBeforeTheyAreAdded) {
  const Regression model;
  const Sgd sgd;
  for (const Normalization mode : {Normalization::kGlobalMean, Normalization::kMeanOfReplicaMeans}) {
    TrainedState state(model.layout(), sgd);
    model.initialize(state.weights.span(), 3);
    const std::vector<float> before(state.weights.span().begin(), state.weights.span().end());
    const RegressionBatch batch(13);
    std::vector<Replica> replicas = replicas_of(model, batch.view(), before);
    std::vector<double> norms;
    for (const Replica& replica : replicas) norms.push_back(replica.norm() / replica.result.weight);
    std::vector<double> sorted = norms;
    std::ranges::sort(sorted);
    const double limit = sorted[4];  // some are clipped, some are not
    StepGraph graph(model, sgd, state,
                    {.clipping = Clipping{.norm = limit, .per_replica = true}, .normalization = {.mode = mode}});
    graph.train(batch.view(), {}, 1);
    int clipped = 0;
    for (size_t r = 0; r < replicas.size(); ++r) {
      if (norms[r] <= limit) continue;
      ++clipped;
      for (float& gradient : replicas[r].gradients) gradient *= static_cast<float>(limit / norms[r]);
    }
    EXPECT_EQ(clipped, 3);
    expect_near(used(model, state, before), normalised(replicas, mode, 1), 1e-5);
  }
}

TEST(DataParallel, LossScalingChangesNothingButTheGradientsOfTheModel) {
  std::vector<std::vector<float>> weights;
  for (const double scale : {1.0, 1024.0}) {
    Regression model;
    double seen = 0;
    model.before_step = [&](const ReplicaContext& context) {
      if (context.replica == 0) seen = context.loss_scale;
    };
    const Adam adam(model.layout(), adamw());
    TrainedState state(model.layout(), adam);
    model.initialize(state.weights.span(), 3);
    StepGraph graph(model, adam, state,
                    {.clipping = Clipping{.norm = 0.5}, .normalization = {.mode = Normalization::kMeanOfReplicaMeans}});
    double norm = 0;
    for (int64_t step = 0; step < 3; ++step) {
      const RegressionBatch batch(24, static_cast<uint64_t>(step));
      norm = graph.train(batch.view(), {.step = step, .update = step + 1, .loss_scale = scale}, 0.01).gradient_norm;
    }
    EXPECT_EQ(seen, scale);
    EXPECT_LT(norm, 100);
    weights.emplace_back(state.weights.span().begin(), state.weights.span().end());
  }
  // Multiplying by a power of two is exact.
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(DataParallel, FrozenParametersStayAndHaveNeitherBucketNorSlot) {
  Regression model;
  const Adam adam(model.layout(), adamw(0.1));
  TrainedState state(model.layout(), adam, "^first");
  model.initialize(state.weights.span(), 3);
  const std::vector<float> before(state.weights.span().begin(), state.weights.span().end());
  std::vector<int> trainable;
  model.before_step = [&](const ReplicaContext& context) {
    if (context.replica == 0) trainable = {context.trainable->begin(), context.trainable->end()};
  };
  model.forgotten_gradient = 1;  // of a frozen parameter none needs to be announced
  StepGraph graph(model, adam, state, {.clipping = Clipping{.norm = 1}});
  for (const Bucket& bucket : graph.buckets()) {
    for (const int id : bucket.parameters) EXPECT_GE(id, 2);
  }
  EXPECT_LT(graph.buckets().size(), model.layout().buckets().size());
  const RegressionBatch batch(16);
  for (int64_t step = 0; step < 3; ++step) {
    EXPECT_TRUE(graph.train(batch.view(), {.step = step, .update = step + 1}, 0.01).updated);
  }
  EXPECT_THAT(trainable, testing::ElementsAre(2, 3));
  for (size_t id = 0; id < 4; ++id) {
    const Parameter& parameter = model.layout().parameters()[id];
    bool moved = false;
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      moved |= state.weights.data()[i] != before[static_cast<size_t>(i)];
      if (id < 2) {
        EXPECT_EQ(state.slots[0].data()[i], 0);
      }
    }
    EXPECT_EQ(moved, id >= 2) << parameter.name;
  }
  EXPECT_THAT(thrown_by([&] { TrainedState(model.layout(), adam, "."); }), HasSubstr("nothing is left to train"));
  EXPECT_THAT(thrown_by([&] { TrainedState(model.layout(), adam, "("); }),
              HasSubstr("frozen '(' is no regular expression"));
  // One that a backtracking engine overflows its stack by, one that it never ends with, and two that need one.
  const std::string deep = std::string(20'000, '(') + std::string(20'000, ')');
  EXPECT_LT(thrown_by([&] { TrainedState(model.layout(), adam, deep); }).size(), 200U);
  EXPECT_THAT(thrown_by([&] { TrainedState(model.layout(), adam, "([a-z_.]+)+#"); }),
              HasSubstr("matches no parameter"));
  for (const char* pattern : {R"((a)\1)", "a(?=b)"}) {
    EXPECT_THAT(thrown_by([&] { TrainedState(model.layout(), adam, pattern); }),
                HasSubstr("no regular expression of RE2"));
  }
  EXPECT_THAT(thrown_by([&] { TrainedState(model.layout(), adam, "frist"); }),
              HasSubstr("frozen 'frist' matches no parameter"));
}

// A generator g and a discriminator d, three numbers each: fake = g x (by element), score = d . fake. From one forward
// pass the generator's loss is the sum of (score - 1)^2 with the rows as weight, and the discriminator's that of
// score^2 + (d . x - 1)^2 with two for each row.
class Adversaries final : public Model {
 public:
  Adversaries() {
    layout_.add("generator.weight", {3});
    layout_.add("discriminator.weight", {3}, /*loss=*/1);
    layout_.finish();
  }
  const ParameterLayout& layout() const override { return layout_; }
  void initialize(std::span<float> weights, uint64_t) const override {
    for (int64_t i = 0; i < 3; ++i) {
      at(weights.data(), 0)[i] = 0.5F + 0.1F * static_cast<float>(i);
      at(weights.data(), 1)[i] = 0.3F - 0.2F * static_cast<float>(i);
    }
  }
  std::unique_ptr<Workspace> make_workspace() const override { return std::make_unique<Workspace>(); }
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override {
    const auto x = rows.feature("x").values<float>();
    const float* g = at(weights, 0);
    const float* d = at(weights, 1);
    float* dg = at(context.gradients.data(), 0);
    float* dd = at(context.gradients.data(), 1);
    std::fill_n(dg, 3, 0.0F);
    std::fill_n(dd, 3, 0.0F);
    StepResult result{.more_losses = {{}}};
    for (size_t row = 0; row < static_cast<size_t>(rows.rows()); ++row) {
      const float* in = x.data() + row * 3;
      float fake_score = 0;
      float real_score = 0;
      for (int i = 0; i < 3; ++i) {
        fake_score += d[i] * g[i] * in[i];
        real_score += d[i] * in[i];
      }
      result.sum_loss += static_cast<double>(fake_score - 1) * (fake_score - 1);
      result.weight += 1;
      result.more_losses[0].sum +=
          static_cast<double>(fake_score) * fake_score + static_cast<double>(real_score - 1) * (real_score - 1);
      result.more_losses[0].weight += 2;
      for (int i = 0; i < 3; ++i) {
        dg[i] += 2 * (fake_score - 1) * d[i] * in[i];
        dd[i] += 2 * fake_score * g[i] * in[i] + 2 * (real_score - 1) * in[i];
      }
    }
    context.listener->gradient_final(1);
    context.listener->gradient_final(0);
    if (change_losses) change_losses(result);
    return result;
  }
  StepResult evaluate(const BatchView&, const float*, Workspace&) const override { return {}; }

  mutable std::function<void(StepResult&)> change_losses;

  template <typename T>
  T* at(T* flat, size_t parameter) const {
    return flat + layout_.parameters()[parameter].offset;
  }

 private:
  ParameterLayout layout_;
};

std::unique_ptr<OptimizerGroups> two_optimizers(const ParameterLayout& layout) {
  std::vector<OptimizerGroup> groups;
  groups.push_back({.parameters = "^generator", .optimizer = std::make_unique<Sgd>(SgdOptions{.momentum = 0.5})});
  groups.push_back({.parameters = "^discriminator",
                    .optimizer = std::make_unique<Adam>(layout, AdamOptions{}),
                    .schedule = milestones(0.1, {2}, 0.1)});
  return std::make_unique<OptimizerGroups>(layout, std::move(groups));
}

TEST(DataParallel, TwoLossesOfOneForwardPassTrainTwoPartsWithTwoOptimizers) {
  const Adversaries model;
  const auto optimizer = two_optimizers(model.layout());
  TrainedState state(model.layout(), *optimizer);
  model.initialize(state.weights.span(), 0);
  StepGraph graph(model, *optimizer, state, {.clipping = Clipping{.norm = 0.4}});

  // By hand, each part as if it were alone, on the whole batch at once.
  const Sgd sgd({.momentum = 0.5});
  const Adam adam(model.layout(), {});
  std::vector<float> weights(state.weights.span().begin(), state.weights.span().end());
  std::vector<float> v(weights.size());
  std::vector<float> m1(weights.size());
  std::vector<float> m2(weights.size());
  for (int64_t step = 0; step < 4; ++step) {
    const RegressionBatch rows(13, static_cast<uint64_t>(step), 3);
    const BatchView batch = rows.view();
    const StepReport report = graph.train(batch, {.step = step, .update = step + 1}, 0.05);
    EXPECT_EQ(report.result.more_losses.size(), 1U);
    EXPECT_EQ(report.result.loss(1).weight, 26);

    Replica whole(model, batch, weights);
    const auto part = [&](int parameter, double weight, double rate, std::vector<float*> slots, const Optimizer& rule) {
      const Parameter& p = model.layout().parameters()[static_cast<size_t>(parameter)];
      double squares = 0;
      for (int64_t i = 0; i < 3; ++i) {
        const double g = whole.gradients[static_cast<size_t>(p.offset + i)];
        squares += g * g;
      }
      const double norm = std::sqrt(squares) / weight;
      const double scale = clip_scale(norm, 0.4, ClipForm::kTf) / weight;
      rule.update({.parameter = parameter, .begin = p.offset, .end = p.offset + 3},
                  {.number = step + 1, .learning_rate = rate, .gradient_scale = static_cast<float>(scale)},
                  {.weights = weights.data(), .gradients = whole.gradients.data(), .slots = slots});
    };
    part(0, 13, 0.05, {v.data()}, sgd);
    part(1, 26, step < 2 ? 0.1 : 0.01, {m1.data(), m2.data()}, adam);
    for (size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(state.weights.data()[i], weights[i], 1e-5) << step;
  }
}

TEST(DataParallel, GroupsSayWhatTheyAreAndRefuseWhatCannotWork) {
  const Adversaries model;
  const auto groups = two_optimizers(model.layout());
  EXPECT_THAT(groups->describe(), testing::AllOf(HasSubstr("'^generator': sgd(momentum=0.5)"),
                                                 HasSubstr("'^discriminator': adam("), HasSubstr(" at milestones(")));
  EXPECT_THAT(std::vector<std::string_view>(groups->slot_names().begin(), groups->slot_names().end()),
              testing::ElementsAre("v", "m"));
  const auto with = [&](const std::string& pattern) {
    std::vector<OptimizerGroup> one;
    one.push_back({.parameters = pattern, .optimizer = std::make_unique<Sgd>()});
    return thrown_by([&] { OptimizerGroups(model.layout(), std::move(one)); });
  };
  EXPECT_THAT(with("generator"), HasSubstr("'discriminator.weight' belongs to no group"));
  EXPECT_THAT(with("("), HasSubstr("group '(' is no regular expression"));
  EXPECT_THAT(with("genarator"), HasSubstr("group 'genarator' matches no parameter"));
  std::vector<OptimizerGroup> two;
  two.push_back({.parameters = "weight", .optimizer = std::make_unique<Sgd>()});
  two.push_back({.parameters = "generator", .optimizer = std::make_unique<Sgd>()});
  EXPECT_THAT(thrown_by([&] { OptimizerGroups(model.layout(), std::move(two)); }),
              HasSubstr("group 'generator' matches only parameters of groups before it"));
}

TEST(DataParallel, TheRatesOfGroupsWithSchedulesOfTheirOwnAreReported) {
  const Adversaries model;
  const auto groups = two_optimizers(model.layout());
  TrainedState state(model.layout(), *groups);
  StepGraph graph(model, *groups, state, {});
  const RegressionBatch batch(16, 0, 3);
  const StepReport report = graph.train(batch.view(), {.step = 3, .update = 4}, 0.5);
  ASSERT_EQ(report.learning_rates.size(), 2U);
  EXPECT_EQ(report.learning_rates[0].parameters, "^generator");
  EXPECT_EQ(report.learning_rates[0].learning_rate, 0.5);
  EXPECT_EQ(report.learning_rates[1].parameters, "^discriminator");
  EXPECT_NEAR(report.learning_rates[1].learning_rate, 0.01, 1e-12);
}

// Throws where it is asked to.
class Throwing final : public Optimizer {
 public:
  enum class Place { kRates, kDirection, kUpdate };
  explicit Throwing(Place place) : place_(place) {}
  std::string describe() const override { return "throwing"; }
  std::span<const std::string_view> slot_names() const override { return {}; }
  std::vector<GroupRate> learning_rates(const UpdateStep&) const override {
    return throw_at(Place::kRates), std::vector<GroupRate>();
  }
  bool layerwise() const override { return place_ == Place::kDirection; }
  LayerSquares direction(const UpdateRange&, const UpdateStep&, const UpdateBuffers&) const override {
    throw_at(Place::kDirection);
    return {};
  }
  void update(const UpdateRange&, const UpdateStep&, const UpdateBuffers&) const override { throw_at(Place::kUpdate); }
  mutable std::atomic<bool> throws{true};

 private:
  void throw_at(Place place) const {
    if (throws && place == place_) throw std::runtime_error("no rate for this step");
  }
  Place place_;
};

TEST(DataParallel, WhatAnOptimizerThrowsEndsItsStepAndNamesIt) {
  const Regression model;
  const RegressionBatch batch(16);
  for (const auto place : {Throwing::Place::kRates, Throwing::Place::kDirection, Throwing::Place::kUpdate}) {
    for (const bool accumulated : {false, true}) {
      const Throwing optimizer(place);
      TrainedState state(model.layout(), optimizer);
      StepGraph graph(model, optimizer, state, {.threads = 2});
      const auto step = [&] {
        if (!accumulated) return graph.train(batch.view(), {.step = 6, .batch = 6}, 0.1);
        graph.accumulate(batch.view(), {.step = 6, .batch = 6});
        return graph.update({.step = 6, .batch = 6}, 0.1);
      };
      EXPECT_EQ(thrown_by([&] { step(); }), "user_function: step 7 (batch 6), its update: no rate for this step");
      optimizer.throws = false;
      if (place != Throwing::Place::kDirection) {
        EXPECT_TRUE(step().updated);
      }
    }
  }
}

TEST(DataParallel, AGroupOfALayerwiseRuleIsUpdatedAsIfItWereAlone) {
  const Regression model;
  const RegressionBatch batch(16);
  const auto train = [&](const Optimizer& optimizer) {
    TrainedState state(model.layout(), optimizer);
    model.initialize(state.weights.span(), 3);
    StepGraph graph(model, optimizer, state, {});
    for (int64_t step = 0; step < 3; ++step) graph.train(batch.view(), {.step = step, .update = step + 1}, 0.01);
    return std::vector<float>(state.weights.span().begin(), state.weights.span().end());
  };
  const auto both = [&](bool lamb_first) {
    std::vector<OptimizerGroup> groups;
    groups.push_back(
        {.parameters = lamb_first ? "first" : "second", .optimizer = std::make_unique<Lamb>(model.layout())});
    groups.push_back({.parameters = ".", .optimizer = std::make_unique<Lamb>(model.layout())});
    return train(OptimizerGroups(model.layout(), std::move(groups)));
  };
  EXPECT_EQ(both(true), train(Lamb(model.layout())));
  std::vector<OptimizerGroup> mixed;
  mixed.push_back({.parameters = "first", .optimizer = std::make_unique<Lamb>(model.layout())});
  mixed.push_back({.parameters = "second", .optimizer = std::make_unique<Sgd>()});
  const auto weights = train(OptimizerGroups(model.layout(), std::move(mixed)));
  EXPECT_NE(weights, train(Lamb(model.layout())));
  EXPECT_NE(weights, train(Sgd()));
}

// A student that learns what its teacher says: the teacher's weights are a constant of the model.
class Student final : public Model {
 public:
  Student(const Regression& teacher, std::vector<float> teacher_weights)
      : teacher_(teacher), teacher_weights_(std::move(teacher_weights)), student_(5, 3) {}
  const ParameterLayout& layout() const override { return student_.layout(); }
  void initialize(std::span<float> weights, uint64_t seed) const override { student_.initialize(weights, seed); }
  std::unique_ptr<Workspace> make_workspace() const override {
    auto both = std::make_unique<Both>();
    both->teacher = teacher_.make_workspace();
    both->student = student_.make_workspace();
    return both;
  }
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override {
    auto& both = static_cast<Both&>(*context.workspace);
    const Predictions said = teacher_.predict(rows, teacher_weights_.data(), *both.teacher);
    ReplicaContext own = context;
    own.workspace = both.student.get();
    return student_.train_step(with_targets(rows, said), weights, own);
  }
  StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const override {
    auto& both = static_cast<Both&>(workspace);
    const Predictions said = teacher_.predict(rows, teacher_weights_.data(), *both.teacher);
    return student_.evaluate(with_targets(rows, said), weights, *both.student);
  }

 private:
  struct Both final : Workspace {
    std::unique_ptr<Workspace> teacher;
    std::unique_ptr<Workspace> student;
  };
  static BatchView with_targets(const BatchView& rows, const Predictions& said) {
    return BatchView({rows.feature("x"), {"y", said.values<float>("prediction"), {rows.rows()}}});
  }
  const Regression& teacher_;
  std::vector<float> teacher_weights_;
  Regression student_;
};

TEST(DataParallel, AStudentLearnsFromItsTeacherInTheSameForwardPass) {
  const Regression teacher;
  std::vector<float> teacher_weights(static_cast<size_t>(teacher.layout().size()));
  teacher.initialize(teacher_weights, 11);
  const Student student(teacher, teacher_weights);
  const Adam adam(student.layout(), {});
  TrainedState state(student.layout(), adam);
  student.initialize(state.weights.span(), 3);
  StepGraph graph(student, adam, state, {});
  const double at_first = graph.evaluate(RegressionBatch(64, 1000).view()).sum_loss;
  for (int64_t step = 0; step < 300; ++step) {
    const RegressionBatch batch(32, static_cast<uint64_t>(step));
    graph.train(batch.view(), {.step = step, .batch = step, .update = step + 1}, 0.02);
  }
  EXPECT_LT(graph.evaluate(RegressionBatch(64, 1000).view()).sum_loss, 0.01 * at_first);
}

TEST(DataParallel, PredictsEachRowInOrderForAnyNumberOfRows) {
  const Regression model;
  const Sgd sgd;
  TrainedState state(model.layout(), sgd);
  model.initialize(state.weights.span(), 3);
  for (const int threads : {1, 4}) {
    StepGraph graph(model, sgd, state, {.threads = threads});
    for (const int64_t rows : {64, 63, 9, 8, 7, 1}) {
      const RegressionBatch batch(rows);
      const auto workspace = model.make_workspace();
      const Predictions whole = model.predict(batch.view(), state.weights.data(), *workspace);
      const Predictions found = graph.predict(batch.view());
      EXPECT_EQ(found.rows, rows);
      EXPECT_THAT(found.values<float>("prediction"), testing::ElementsAreArray(whole.values<float>("prediction")));
      EXPECT_NEAR(found.result.sum_loss, whole.result.sum_loss, 1e-9 * whole.result.sum_loss);
      EXPECT_EQ(found.result.weight, static_cast<double>(rows));
      EXPECT_THAT(thrown_by([&] { (void)found.values<float>("other"); }), HasSubstr("there are: prediction"));
      EXPECT_THAT(thrown_by([&] { (void)found.values<int32_t>("prediction"); }), HasSubstr("another type"));
    }
  }
  const Adversaries silent;
  TrainedState other(silent.layout(), sgd);
  StepGraph graph(silent, sgd, other, {});
  EXPECT_THAT(thrown_by([&] { (void)graph.predict(RegressionBatch(3, 0, 3).view()); }),
              HasSubstr("replica 0, in a prediction: this model predicts nothing: predictions, and the metrics of an "
                        "evaluation, need its columns"));
}

// A generator alone, its discriminator frozen: what the other loss is, or whether there is one, is nobody's business.
TEST(DataParallel, ALossThatNoTrainedParameterFollowsIsNeitherDemandedNorLookedAt) {
  for (const bool given : {false, true}) {
    for (const char* frozen : {"^discriminator", "^generator"}) {
      const Adversaries model;
      const Sgd sgd;
      const bool first = std::string(frozen) == "^generator";
      if (first && !given) continue;  // the first loss is always given
      TrainedState state(model.layout(), sgd, frozen);
      model.initialize(state.weights.span(), 0);
      StepGraph graph(model, sgd, state, {.clipping = Clipping{.norm = 0.4, .per_replica = given}});
      model.change_losses = [&](StepResult& result) {
        if (!given) {
          result.more_losses.clear();
        } else {
          (first ? result.sum_loss : result.more_losses[0].sum) = std::nan("");
        }
      };
      const StepReport report = graph.train(RegressionBatch(8, 0, 3).view(), {}, 0.1);
      EXPECT_TRUE(report.updated) << frozen << ": " << report.skip_reason;
      model.change_losses = [&](StepResult& result) {
        (first ? result.more_losses[0].sum : result.sum_loss) = std::nan("");
      };
      EXPECT_FALSE(graph.train(RegressionBatch(8, 0, 3).view(), {}, 0.1).updated) << "its own still is";
    }
  }
  // A model that follows two and gives one is refused.
  const Adversaries model;
  model.change_losses = [](StepResult& result) { result.more_losses.clear(); };
  const Sgd sgd;
  TrainedState state(model.layout(), sgd);
  StepGraph graph(model, sgd, state, {});
  EXPECT_THAT(thrown_by([&] { graph.train(RegressionBatch(8, 0, 3).view(), {}, 0.1); }),
              HasSubstr("the model gave 1 losses; its parameters follow 2"));
}

TEST(DataParallel, ALossThatTheModelDoesNotGiveIsAnErrorAndOneThatIsNotFiniteSkipsTheUpdate) {
  const Adversaries model;
  const Sgd sgd;
  TrainedState state(model.layout(), sgd);
  model.initialize(state.weights.span(), 0);
  model.at(state.weights.data(), 1)[1] = std::numeric_limits<float>::infinity();
  StepGraph graph(model, sgd, state, {});
  const StepReport report = graph.train(RegressionBatch(8, 0, 3).view(), {}, 0.1);
  EXPECT_FALSE(report.updated);
  EXPECT_THAT(report.skip_reason, HasSubstr("the loss of replica 0 is"));
}

}  // namespace
}  // namespace millrace::data_parallel_test
