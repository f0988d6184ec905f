// The head and the loop that trains it, on rows in memory.
#include "examples/frozen_features/frozen_head.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "examples/frozen_features/own_loop.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/gradient_check.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/step/step_graph.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_models.h"

namespace millrace::frozen_head_test {
namespace {

using testing::HasSubstr;
using testing_models::thrown_by;

constexpr int64_t kLength = 5;
constexpr int64_t kClasses = 3;

FeatureSet small_set() {
  return {.classes = {"a", "b", "c"},
          .train = {4, 5, 4},
          .test = {1, 1, 1},
          .network = "vgg(small)",
          .size = 16,
          .background = {255, 255, 255},
          .mean = {0.5, -1, 2, 0, 0.25},
          .deviation = {2, 0.5, 1, 0, 4}};
}

// Features and labels of so many rows; the class is that of one of the features, mostly.
struct Rows {
  explicit Rows(int64_t count) : num_rows(count) {
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < kLength; ++i) {
        features.push_back(static_cast<float>(2 * std::sin(1.3 * static_cast<double>(row * kLength + i))));
      }
      const float* values = features.data() + row * kLength;
      const int64_t label = values[0] > 1 ? 0 : values[1] > -1 ? 1 : 2;
      for (int64_t i = 0; i < kClasses; ++i) labels.push_back(i == label ? 1.0F : 0.0F);
    }
  }
  BatchView view() const {
    return BatchView({{"features", std::span<const float>(features), {num_rows, kLength}},
                      {"label", std::span<const float>(labels), {num_rows, kClasses}}});
  }
  Dataset dataset() const {
    const auto by_row = [&](const std::vector<float>& values) {
      std::vector<std::vector<float>> rows;
      const int64_t length = std::ssize(values) / num_rows;
      for (auto row = values.begin(); row != values.end(); row += length) rows.emplace_back(row, row + length);
      return rows;
    };
    return Dataset::rows({{.name = "features", .values = by_row(features), .shape = {{kLength}}},
                          {.name = "label", .values = by_row(labels), .shape = {{kClasses}}}});
  }
  int64_t num_rows;
  std::vector<float> features;
  std::vector<float> labels;
};

FlatBuffer drawn_weights(const FrozenHead& model) {
  FlatBuffer weights(model.layout().size());
  for (const Parameter& parameter : model.layout().parameters()) {
    for (int64_t i = 0; i < parameter.size; ++i) {
      weights.data()[parameter.offset + i] =
          static_cast<float>(std::sin(0.7 * static_cast<double>(parameter.size + i)));
    }
  }
  return weights;
}

TEST(FrozenHead, HasTheGradientsOfItsLoss) {
  const FrozenHead model(small_set());
  const FlatBuffer weights = drawn_weights(model);
  const Rows rows(11);
  for (const WrongGradient& wrong : check_gradients(model, rows.view(), weights.span(), {.values_per_parameter = 0})) {
    ADD_FAILURE() << wrong.to_string();
  }
}

TEST(FrozenHead, CountsInItsReplicasWhatASlowCountOverAllRowsFinds) {
  const FeatureSet set = small_set();
  const FrozenHead model(set);
  const Adam adam(model.layout(), {});
  TrainedState state(model.layout(), adam);
  const FlatBuffer weights = drawn_weights(model);
  std::ranges::copy(weights.span(), state.weights.data());
  const Parameter& matrix = model.layout().parameters()[0];
  const Parameter& bias = model.layout().parameters()[1];
  for (const int64_t count : {1, 7, 8, 13, 200}) {
    const Rows rows(count);
    int64_t right = 0;
    double loss = 0;
    for (int64_t row = 0; row < count; ++row) {
      std::vector<double> logits;
      for (int64_t i = 0; i < kClasses; ++i) {
        double logit = weights.data()[bias.offset + i];
        for (int64_t j = 0; j < kLength; ++j) {
          const auto feature = static_cast<size_t>(j);
          if (set.deviation[feature] == 0) continue;
          logit += weights.data()[matrix.offset + i * kLength + j] *
                   (rows.features[static_cast<size_t>(row * kLength + j)] - set.mean[feature]) / set.deviation[feature];
        }
        logits.push_back(logit);
        const double label = rows.labels[static_cast<size_t>(row * kClasses + i)];
        loss += std::log1p(std::exp(-(label == 1 ? logit : -logit)));
      }
      const int64_t said = std::ranges::max_element(logits) - logits.begin();
      right += rows.labels[static_cast<size_t>(row * kClasses + said)] == 1 ? 1 : 0;
    }
    for (const int replicas : {1, 3, 8}) {
      StepGraph graph(model, adam, state, {.replicas = replicas, .threads = 2});
      const StepResult result = graph.evaluate(rows.view());
      ASSERT_EQ(result.metrics.size(), 1U);
      EXPECT_EQ(result.metrics[0].name, "accuracy");
      EXPECT_EQ(result.metrics[0].sum, static_cast<double>(right)) << count << " rows, " << replicas << " replicas";
      EXPECT_EQ(result.metrics[0].weight, static_cast<double>(count));
      EXPECT_NEAR(result.sum_loss, loss, 1e-4 * loss);
      EXPECT_EQ(result.weight, static_cast<double>(count * kClasses));
      const Predictions predictions = graph.predict(rows.view());
      EXPECT_EQ(predictions.result.metrics[0].sum, static_cast<double>(right));
      EXPECT_EQ(predictions.values<float>("probabilities").size(), static_cast<size_t>(count * kClasses));
    }
  }
  EXPECT_THAT(thrown_by([&] {
                const std::vector<float> values(8);
                const BatchView narrow({{"features", std::span<const float>(values), {2, 4}}});
                (void)StepGraph(model, adam, state, {.replicas = 1}).predict(narrow);
              }),
              HasSubstr("a row has 5 features"));
}

TEST(FrozenHead, IsSavedWithWhatItsFeaturesAreStandardisedBy) {
  const test::TemporaryFolder folder;
  const FrozenHead model(small_set());
  const FlatBuffer weights = drawn_weights(model);
  model.save(folder.path("model"), weights.span());
  const SafetensorsFile file(folder.path("model/model.safetensors"));
  EXPECT_EQ(file.find("head.weight")->shape, (std::vector<int64_t>{kClasses, kLength}));
  EXPECT_EQ(file.values<float>("head.bias")[2], weights.data()[model.layout().parameters()[1].offset + 2]);
  EXPECT_THAT(file.values<float>("features.mean"), testing::ElementsAre(0.5, -1, 2, 0, 0.25));
  EXPECT_THAT(file.values<float>("features.scale"), testing::ElementsAre(0.5, 2, 1, 0, 0.25));
  EXPECT_THAT(read_whole_file(folder.path("model/head.json")), HasSubstr("vgg(small)"));
}

class OwnLoop : public testing::Test {
 protected:
  // The bytes of the weights after so many steps.
  std::string trained(const std::string& out, int64_t steps, int threads = 2, uint64_t seed = 1) const {
    const FrozenHead model(small_set());
    const Adam adam(model.layout(), {});
    TrainedState state(model.layout(), adam);
    const Dataset batches = Rows(37).dataset().shuffle(50, {.seed = seed}).repeat().batch(8);
    const StopSignals signals;
    EXPECT_TRUE(train(model, adam, *constant_rate(0.01), batches,
                      {.out = folder_.path(out),
                       .steps = steps,
                       .report_every = 100,
                       .checkpoint_every = 50,
                       .threads = threads,
                       .batches = "37 rows in memory"},
                      signals, state));
    const auto bytes = std::as_bytes(state.weights.span());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  const test::TemporaryFolder folder_;
};

TEST_F(OwnLoop, MakesTheStepsThatItIsToldToAndNoOther) {
  const std::string weights = trained("straight", 257);
  const TrainingProgress done = read_progress(*newest_checkpoint(folder_.path("straight/checkpoints")));
  EXPECT_EQ(done.step, 257);
  EXPECT_EQ(done.updates, 257);
  EXPECT_EQ(done.micro_batches, 257);
  EXPECT_EQ(done.unreported.weight, 0);
  EXPECT_EQ(read_source_state(*newest_checkpoint(folder_.path("straight/checkpoints")))->num_delivered(), 257);
  EXPECT_NE(trained("shorter", 256), weights);
  EXPECT_NE(trained("one", 1), trained("two", 2));
  // What is done already is not done again.
  EXPECT_EQ(trained("straight", 257), weights);
  EXPECT_EQ(trained("straight", 200), weights);
  EXPECT_EQ(read_progress(*newest_checkpoint(folder_.path("straight/checkpoints"))).step, 257);
}

// One loop after the other, in float64. A count of updates that begins anew at 256 would change the steps after it.
TEST_F(OwnLoop, MovesTheWeightsAsASlowAdamDoesBeyondStep256) {
  constexpr int64_t kSteps = 300;
  const FeatureSet set = small_set();
  const FrozenHead model(set);
  constexpr auto kValues = static_cast<size_t>(kClasses * (kLength + 1));  // of a class its weights, then its bias
  std::vector<double> weights(kValues), m(kValues), v(kValues);
  Pipeline batches = Rows(37).dataset().shuffle(50, {.seed = 1}).repeat().batch(8).start({.threads = 1});
  for (int64_t step = 1; step <= kSteps; ++step) {
    const Batch batch = batches.next().value();
    std::vector<double> gradient(kValues);
    for (size_t row = 0; row < 8; ++row) {
      std::vector<double> x;
      for (size_t i = 0; i < kLength; ++i) {
        const double deviation = set.deviation[i];
        const double value = batch.values<float>("features")[row * kLength + i];
        x.push_back(deviation == 0 ? 0 : (value - set.mean[i]) / deviation);
      }
      x.push_back(1);
      for (size_t label = 0; label < kClasses; ++label) {
        double logit = 0;
        for (size_t i = 0; i <= kLength; ++i) logit += weights[label * (kLength + 1) + i] * x[i];
        const double error = 1 / (1 + std::exp(-logit)) - batch.values<float>("label")[row * kClasses + label];
        for (size_t i = 0; i <= kLength; ++i) gradient[label * (kLength + 1) + i] += error * x[i] / (8 * kClasses);
      }
    }
    for (size_t i = 0; i < kValues; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * gradient[i];
      v[i] = 0.999 * v[i] + 0.001 * gradient[i] * gradient[i];
      const double mean = m[i] / (1 - std::pow(0.9, step));
      const double square = v[i] / (1 - std::pow(0.999, step));
      weights[i] -= 0.01 * mean / (std::sqrt(square) + 1e-8);
    }
  }
  const std::string bytes = trained("out", kSteps);
  const auto* found = reinterpret_cast<const float*>(bytes.data());
  for (size_t label = 0; label < kClasses; ++label) {
    for (size_t i = 0; i <= kLength; ++i) {
      const Parameter& parameter = model.layout().parameters()[i < kLength ? 0 : 1];
      const auto place = static_cast<size_t>(parameter.offset) + (i < kLength ? label * kLength + i : label);
      EXPECT_NEAR(found[place], weights[label * (kLength + 1) + i], 1e-3) << label << " " << i;
    }
  }
}

TEST_F(OwnLoop, GoesOnFromAnyCheckpointBitForBit) {
  const std::string weights = trained("straight", 300);
  for (const int threads : {1, 2, 8}) EXPECT_EQ(trained("threads" + std::to_string(threads), 300, threads), weights);
  trained("cut", 7, 1);
  trained("cut", 8, 4);
  trained("cut", 257, 2);
  EXPECT_EQ(trained("cut", 300), weights);
  const auto read = [&](const std::string& out) {
    return read_whole_file(folder_.path(out + "/checkpoints/checkpoint-00000300/training.json"));
  };
  EXPECT_EQ(read("cut"), read("straight"));
}

TEST_F(OwnLoop, RefusesACheckpointOfAnotherTraining) {
  trained("out", 10);
  FeatureSet other = small_set();
  other.mean[1] = 7;
  const FrozenHead model(other);
  const Adam adam(model.layout(), {});
  TrainedState state(model.layout(), adam);
  const StopSignals signals;
  const LoopOptions options = {.out = folder_.path("out"), .steps = 20, .batches = "37 rows in memory"};
  const Dataset batches = Rows(37).dataset().shuffle(50, {.seed = 1}).repeat().batch(8);
  EXPECT_THAT(thrown_by([&] { train(model, adam, *constant_rate(0.01), batches, options, signals, state); }),
              HasSubstr("was made with the model frozen_head("));
  EXPECT_THAT(thrown_by([&] { train(model, adam, *constant_rate(0.02), batches, options, signals, state); }),
              HasSubstr("was made with the schedule"));
  LoopOptions others = options;
  others.batches = "38 rows";
  EXPECT_THAT(thrown_by([&] { train(model, adam, *constant_rate(0.01), batches, others, signals, state); }),
              HasSubstr("was made with the batches"));
  EXPECT_THAT(thrown_by([&] { trained("out", 20, 2, /*seed=*/2); }), HasSubstr("state: "));
}

// From its first line on, without what stands before it.
std::string loop_in(const std::string& text) {
  const size_t begin = text.find("bool train(");
  return text.substr(begin, text.find("\n}\n", begin) - begin);
}

TEST(OwnLoopPage, ShowsTheLoopThatIsTestedHere) {
  const std::string loop = loop_in(read_whole_file(test::source_path("examples/frozen_features/own_loop.cc")));
  ASSERT_GT(loop.size(), 1000U);
  EXPECT_EQ(loop_in(read_whole_file(test::source_path("docs/own_loop.md"))), loop);
  EXPECT_LE(std::ranges::count(loop, '\n'), 55) << "one screen";
}

}  // namespace
}  // namespace millrace::frozen_head_test
