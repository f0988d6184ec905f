#include "millrace/trainer/models/roberta.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/gradient_check.h"
#include "millrace/trainer/models/labelled_positions.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/step/all_reduce.h"
#include "millrace/trainer/step/bucket_countdown.h"
#include "millrace/trainer/step/distributor.h"
#include "millrace/trainer/step/step_graph.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/embedding.h"
#include "tests/support/loaded_tensors.h"
#include "tests/support/places.h"

namespace millrace::roberta_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string golden(const std::string& name) { return test::data_path("trainer/roberta_tiny/") + name; }

RobertaForMaskedLm tiny_model(int64_t bucket_bytes = int64_t{1} << 20) {
  return RobertaForMaskedLm(load_roberta_config(golden("")), bucket_bytes);
}

std::vector<int32_t> narrow(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

// The batch of io.safetensors or id1_inside.safetensors.
struct GoldenBatch {
  explicit GoldenBatch(const std::string& name)
      : file(golden(name)),
        ids(narrow(file.values<int64_t>("input_ids"))),
        mask(file.values<int64_t>("attention_mask")),
        shape(file.find("input_ids")->shape) {
    if (file.find("labels") != nullptr) labels = narrow(file.values<int64_t>("labels"));
  }
  BatchView view() const {
    return BatchView({{"input_ids", std::span<const int32_t>(ids), shape},
                      {"labels", std::span<const int32_t>(labels), shape},
                      {"attention_mask", std::span<const int64_t>(mask), shape}});
  }
  RobertaInput input() const { return {.rows = shape[0], .length = shape[1], .ids = ids, .attention_mask = mask}; }
  std::vector<int32_t> labelled() const {
    std::vector<int32_t> positions;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != kNoLabel) positions.push_back(static_cast<int32_t>(i));
    }
    return positions;
  }
  std::vector<int32_t> their_labels() const {
    std::vector<int32_t> found;
    for (int32_t position : labelled()) found.push_back(labels[static_cast<size_t>(position)]);
    return found;
  }

  SafetensorsFile file;
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  std::vector<int64_t> mask;
  std::vector<int64_t> shape;
};

template <typename T>
double largest_difference(const T* values, const std::vector<float>& expected) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i]));
    if (!(difference <= largest)) largest = difference;  // also for NaN
  }
  return largest;
}

class Announced final : public GradientListener {
 public:
  void gradient_final(int id) override { ids.push_back(id); }
  std::vector<int> ids;
};

TEST(Roberta, HiddenStatesAndLogitsAreThoseOfTransformers) {
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  const GoldenBatch batch("io.safetensors");
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(model.layout(), weights.data());
  const std::vector<Tensor<float>> states = model.encode(tape, batch.input());
  ASSERT_EQ(states.size(), 3U);
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_LT(largest_difference(states[i].values, batch.file.values<float>(fmt::format("hidden.{}", i))), 3e-6) << i;
  }
  const Tensor<float> logits = model.logits(tape, states.back());
  EXPECT_LT(largest_difference(logits.values, batch.file.values<float>("logits")), 5e-6);
}

TEST(Roberta, AnIdEqualToThePaddingIdInsideARowGetsThePaddingPosition) {
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  const GoldenBatch batch("id1_inside.safetensors");
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(model.layout(), weights.data());
  const Tensor<float> logits = model.logits(tape, model.encode(tape, batch.input()).back());
  EXPECT_LT(largest_difference(logits.values, batch.file.values<float>("logits")), 5e-6);
}

TEST(Roberta, LossAndEveryGradientAreThoseOfTransformers) {
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  const GoldenBatch batch("io.safetensors");
  const auto workspace = model.make_workspace();
  FlatBuffer gradients(model.layout().size());
  std::fill(gradients.span().begin(), gradients.span().end(), std::nanf(""));
  Announced announced;
  // Dropout is off in the golden config, so seed and step do not matter.
  ReplicaContext context{.gradients = gradients.span(), .listener = &announced, .workspace = workspace.get()};
  const StepResult result = model.train_step(batch.view(), weights.data(), context);
  const auto labels = static_cast<double>(batch.file.values<int64_t>("num_labels")[0]);
  EXPECT_EQ(result.weight, labels);
  EXPECT_NEAR(result.sum_loss, batch.file.values<double>("loss_sum_float64")[0], 1e-4);

  const SafetensorsFile expected(golden("grads.safetensors"));
  ASSERT_EQ(expected.tensors().size(), model.layout().parameters().size());
  for (const Parameter& parameter : model.layout().parameters()) {
    const std::vector<float> gradient = expected.values<float>(parameter.name);
    float largest = 0;
    for (float value : gradient) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double ours = static_cast<double>(gradients.data()[parameter.offset + static_cast<int64_t>(i)]) / labels;
      ASSERT_NEAR(ours, gradient[i], 1e-4 * largest + 1e-7) << parameter.name << " [" << i << "]";
    }
  }
  std::sort(announced.ids.begin(), announced.ids.end());
  std::vector<int> all(model.layout().parameters().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  EXPECT_EQ(announced.ids, all);  // each once
}

TEST(Roberta, DoublesGiveTheLossOfAFloat64Run) {
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  const std::vector<double> doubles(weights.span().begin(), weights.span().end());
  const GoldenBatch batch("io.safetensors");
  Arena arena;
  Tape<double> tape(arena);
  tape.begin(model.layout(), doubles.data());
  const std::vector<int32_t> positions = batch.labelled();
  const std::vector<int32_t> labels = batch.their_labels();
  const Tensor<double> logits = model.logits(tape, model.encode_tokens(tape, batch.input(), positions));
  EXPECT_NEAR(cross_entropy(tape, logits, labels).sum, batch.file.values<double>("loss_sum_float64")[0], 1e-9);
}

// Small enough for central differences.
RobertaForMaskedLm model_with_dropout(int64_t hidden_size) {
  return RobertaForMaskedLm({.vocab_size = 11,
                             .hidden_size = hidden_size,
                             .num_hidden_layers = 2,
                             .num_attention_heads = 2,
                             .intermediate_size = 10,
                             .max_position_embeddings = 9,
                             .hidden_dropout_prob = 0.3,
                             .attention_probs_dropout_prob = 0.25,
                             .initializer_range = 0.4});
}

std::vector<double> start_weights(const RobertaForMaskedLm& model) {
  FlatBuffer start(model.layout().size());
  model.initialize(start.span(), 3);
  return {start.span().begin(), start.span().end()};
}

// What is left out of the last layer is read by nobody: states are those of the whole, dropout included, and so are
// the gradients, up to the order of additions. Lengths and widths that are no multiples of 4 or 8 as well.
TEST(Roberta, ChosenTokensHaveTheStatesAndGradientsOfTheWhole) {
  for (const int64_t hidden : {6, 8}) {
    const RobertaForMaskedLm model = model_with_dropout(hidden);
    const std::vector<double> weights = start_weights(model);
    const std::vector<int32_t> ids = {0, 5, 7, 2, 9, 0, 4, 10, 2, 1, 3, 8, 6, 5, 2};
    const RobertaInput input{.rows = 3, .length = 5, .first_row = 6, .ids = ids};
    const RobertaForMaskedLm::DropoutKey key{.seed = 5, .batch = 12};
    Arena arena;
    Tape<double> tape(arena);
    for (const std::vector<int32_t>& tokens : std::vector<std::vector<int32_t>>{{1, 4, 7, 12, 14}, {11}, {}}) {
      const auto gradients_of = [&](bool chosen, std::vector<double>& states) {
        std::vector<double> gradients(weights.size(), NAN);
        tape.begin(model.layout(), weights.data(), {.values = gradients.data()});
        const Tensor<double> x =
            chosen ? model.encode_tokens(tape, input, tokens, &key)
                   : embedding_sum<double>(tape, {{.table = model.encode(tape, input, &key).back(), .ids = tokens}});
        states.assign(x.values, x.values + x.count());
        std::vector<double> upstream(states.size());
        for (size_t i = 0; i < upstream.size(); ++i) upstream[i] = static_cast<double>(i * 7 % 5) - 1.5;
        std::vector<int> encoder;  // the ids that the head does not have
        for (int id = 0; id < *model.layout().find("lm_head.dense.weight"); ++id) encoder.push_back(id);
        tape.backward(x, upstream, encoder);
        return gradients;
      };
      std::vector<double> whole_states;
      std::vector<double> states;
      const std::vector<double> whole = gradients_of(false, whole_states);
      const std::vector<double> gradients = gradients_of(true, states);
      ASSERT_EQ(states.size(), tokens.size() * static_cast<size_t>(hidden));
      for (size_t i = 0; i < states.size(); ++i) EXPECT_NEAR(states[i], whole_states[i], 1e-13) << i;
      double largest = 0;
      for (const Parameter& parameter : model.layout().parameters()) {
        if (parameter.name.starts_with("lm_head")) continue;
        for (int64_t i = 0; i < parameter.size; ++i) {
          const auto at = static_cast<size_t>(parameter.offset + i);
          ASSERT_NEAR(gradients[at], whole[at], 1e-12) << parameter.name << " [" << i << "]";
          largest = std::max(largest, std::abs(whole[at]));
        }
      }
      EXPECT_EQ(largest > 0.1, !tokens.empty());
    }
  }
}

TEST(Roberta, RefusesTokensThatAreNotThere) {
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  const GoldenBatch batch("io.safetensors");
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(model.layout(), weights.data());
  for (const int32_t token : {-1, static_cast<int32_t>(batch.ids.size())}) {
    const std::vector<int32_t> tokens = {token};
    EXPECT_THROW((void)model.encode_tokens(tape, batch.input(), tokens), ErrorException) << token;
  }
}

TEST(Roberta, GradientsWithDropoutAreThoseOfCentralDifferences) {
  const RobertaForMaskedLm model = model_with_dropout(6);
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 3);
  const std::vector<int32_t> ids = {0, 5, 7, 2, 9, 0, 4, 10, 2, 1};
  const std::vector<int64_t> mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  const std::vector<int32_t> labels = {-100, 5, 8, -100, 9, -100, -100, 3, -100, -100};
  const BatchView rows({{"input_ids", std::span<const int32_t>(ids), {2, 5}},
                        {"attention_mask", std::span<const int64_t>(mask), {2, 5}},
                        {"labels", std::span<const int32_t>(labels), {2, 5}}});
  // Padding's entries are kept at what they were, on purpose.
  const auto is_padding = [&](const Parameter& parameter, int64_t value) {
    return value / 6 == model.config().pad_token_id && (parameter.name.ends_with("word_embeddings.weight") ||
                                                        parameter.name.ends_with("position_embeddings.weight"));
  };
  const GradientCheckOptions options{.left_out = is_padding, .seed = 5};
  for (const WrongGradient& wrong : check_gradients(model, rows, weights.span(), options)) {
    ADD_FAILURE() << wrong.to_string();
  }
}

// The mean gradient over a batch by replicas as the trainer has them: views, a tape each, buckets added in the tree.
// There is dropout.
template <typename T>
std::vector<double> mean_gradient(int replicas, int64_t num_rows) {
  const RobertaForMaskedLm model({.vocab_size = 31,
                                  .hidden_size = 8,
                                  .num_hidden_layers = 2,
                                  .num_attention_heads = 2,
                                  .intermediate_size = 12,
                                  .max_position_embeddings = 9,
                                  .hidden_dropout_prob = 0.2,
                                  .attention_probs_dropout_prob = 0.2,
                                  .initializer_range = 0.3},
                                 256);
  const ParameterLayout& layout = model.layout();
  FlatBuffer start(layout.size());
  model.initialize(start.span(), 3);
  const std::vector<T> weights(start.span().begin(), start.span().end());
  constexpr int64_t kLength = 5;
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < num_rows * kLength; ++i) {
    ids.push_back(static_cast<int32_t>(2 + i * 7 % 29));
    labels.push_back(i % 3 == 0 ? static_cast<int32_t>(2 + i * 5 % 29) : kNoLabel);
  }
  const std::vector<int64_t> shape = {num_rows, kLength};
  const BatchView batch(
      {{"input_ids", std::span<const int32_t>(ids), shape}, {"labels", std::span<const int32_t>(labels), shape}});
  const std::vector<BatchView> views = Distributor(replicas).split(batch);
  const auto active = static_cast<int>(std::min<int64_t>(num_rows, replicas));
  AllReduce<T> all_reduce(layout.size(), layout.buckets(), replicas);
  const BucketsOfParameters buckets(layout, layout.buckets());
  size_t reduced = 0;
  double num_labels = 0;
  all_reduce.begin(active);
  for (int replica = 0; replica < active; ++replica) {
    const std::span<T> gradients = all_reduce.take_buffer(replica);
    BucketCountdown countdown(
        layout, buckets, [&](int bucket) { reduced += all_reduce.arrive(replica, bucket) ? 1 : 0; }, [] {});
    const BatchView& rows = views[static_cast<size_t>(replica)];
    LabelledPositions labelled;
    labelled.collect(rows.feature("labels").values<int32_t>());
    const RobertaForMaskedLm::DropoutKey key{.seed = 5, .batch = 12};
    Arena arena;
    Tape<T> tape(arena);
    tape.begin(layout, weights.data(), {.values = gradients.data(), .listener = &countdown});
    const Tensor<T> logits =
        model.logits(tape, model.encode_tokens(tape, RobertaInput::of(rows), labelled.indices, &key));
    const SummedLoss<T> loss = cross_entropy(tape, logits, labelled.labels);
    tape.backward(loss.tensor);
    countdown.check_complete();
    all_reduce.leave(replica);
    num_labels += static_cast<double>(loss.num_labels);
  }
  EXPECT_EQ(reduced, layout.buckets().size());
  std::vector<double> mean;
  for (const Parameter& parameter : layout.parameters()) {
    for (int64_t i = 0; i < parameter.size; ++i) mean.push_back(all_reduce.result()[parameter.offset + i] / num_labels);
  }
  return mean;
}

template <typename T>
void expect_eight_replicas_to_be_as_one(double tolerance) {
  for (const int64_t rows : {64, 63, 9, 8, 7, 1}) {
    const std::vector<double> one = mean_gradient<T>(1, rows);
    const std::vector<double> eight = mean_gradient<T>(8, rows);
    double difference = 0;
    double largest = 0;
    for (size_t i = 0; i < one.size(); ++i) {
      difference = std::max(difference, std::abs(one[i] - eight[i]));
      largest = std::max(largest, std::abs(one[i]));
      ASSERT_TRUE(std::isfinite(eight[i]));
    }
    EXPECT_GT(largest, 1e-3);
    EXPECT_LE(difference, tolerance * largest) << rows << " rows";
    // Other additions, so that the comparison is one.
    if (rows == 64) {
      EXPECT_GT(difference, 0);
    }
  }
}

TEST(Roberta, TheGradientOfEightReplicasIsThatOfOneInFloats) { expect_eight_replicas_to_be_as_one<float>(1e-5); }
TEST(Roberta, TheGradientOfEightReplicasIsThatOfOneInDoubles) { expect_eight_replicas_to_be_as_one<double>(1e-12); }

std::unique_ptr<Optimizer> golden_optimizer(const std::string& run, const ParameterLayout& layout,
                                            const nlohmann::json& config) {
  if (run == "sgd_momentum") {
    return std::make_unique<Sgd>(SgdOptions{.momentum = config.at("momentum").get<double>()});
  }
  const auto decay = config.at("weight_decay").get<double>();
  if (run == "adamw_torch") return std::make_unique<Adam>(layout, adamw(decay));
  return std::make_unique<Adam>(layout, adam_weight_decay(decay, config.at("exclude_regex").get<std::string>()));
}

class RobertaTrajectory : public testing::TestWithParam<const char*> {};

TEST_P(RobertaTrajectory, TenStepsOnEightReplicasAreThoseOfTheGoldenRun) {
  std::ifstream stream(golden("trajectory.json"));
  const nlohmann::json run = nlohmann::json::parse(stream).at("runs").at(GetParam());
  const RobertaForMaskedLm model = tiny_model(4096);
  const auto optimizer = golden_optimizer(GetParam(), model.layout(), run.at("config"));
  TrainedState state(model.layout(), *optimizer);
  const FlatBuffer start = load_roberta_weights(golden(""), model);
  std::copy(start.span().begin(), start.span().end(), state.weights.data());
  StepGraph graph(model, *optimizer, state, {.replicas = 8, .threads = 2});
  const GoldenBatch batch("io.safetensors");
  const auto losses = run.at("losses").get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 11U);
  for (int step = 0; step < 10; ++step) {
    const StepReport report =
        graph.train(batch.view(), {step, step, step + 1}, run.at("config").at("lr").get<double>());
    EXPECT_NEAR(report.loss, losses[static_cast<size_t>(step)], 1e-5) << step;
  }
  const StepResult last = graph.evaluate(batch.view());
  EXPECT_NEAR(last.sum_loss / last.weight, losses.back(), 1e-5);
  for (const Parameter& parameter : model.layout().parameters()) {
    if (parameter.name.ends_with("key.bias")) continue;  // noise divided by noise
    double sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < parameter.size; ++i) {
      const double value = state.weights.data()[parameter.offset + i];
      sum += value;
      squares += value * value;
    }
    const nlohmann::json& expected = run.at("final").at(parameter.name);
    const auto l2 = expected.at("l2").get<double>();
    EXPECT_NEAR(std::sqrt(squares), l2, 1e-5 * l2) << parameter.name;
    EXPECT_NEAR(sum, expected.at("sum").get<double>(), 5e-5) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, RobertaTrajectory,
                         testing::Values("adamw_torch", "adam_weight_decay_keras", "adam_weight_decay_keras_hf_names",
                                         "sgd_momentum"));

RobertaConfig config_with_dropout() {
  RobertaConfig config = load_roberta_config(golden(""));
  config.hidden_dropout_prob = 0.1;
  config.attention_probs_dropout_prob = 0.1;
  return config;
}

// Weights after some steps with dropout.
std::vector<float> trained(int replicas, int threads, uint64_t seed, int steps = 3,
                           ActivationStorage activations = ActivationStorage::kFull) {
  const RobertaForMaskedLm model(config_with_dropout(), 4096);
  const Adam optimizer(model.layout(), adam_weight_decay(1e-3));
  TrainedState state(model.layout(), optimizer);
  model.initialize(state.weights.span(), 1);
  StepGraph graph(model, optimizer, state,
                  {.replicas = replicas, .threads = threads, .seed = seed, .activations = activations});
  const GoldenBatch batch("io.safetensors");
  for (int step = 0; step < steps; ++step) graph.train(batch.view(), {step, step, step + 1}, 1e-3);
  return {state.weights.span().begin(), state.weights.span().end()};
}

TEST(Roberta, WeightsAfterFiftyStepsAreTheSameBitForBitForAnyNumberOfThreads) {
  const WorkerLimit limit(8);  // this machine may have fewer cores
  const std::vector<float> expected = trained(8, 1, 9, 50);
  for (int threads : {2, 4, 8}) EXPECT_EQ(trained(8, threads, 9, 50), expected) << threads;
  EXPECT_NE(trained(8, 1, 10, 50), expected);  // dropout is of another seed
}

TEST(Roberta, ActivationsInBfloat16TakeLessMemoryAndRoundTheGradientAlone) {
  RobertaConfig config{.vocab_size = 64,
                       .hidden_size = 64,
                       .num_hidden_layers = 4,
                       .num_attention_heads = 4,
                       .intermediate_size = 256,
                       .max_position_embeddings = 130};
  const RobertaForMaskedLm model(config);
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 1);
  constexpr int64_t kRows = 16;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < kRows * 128; ++i) ids.push_back(2 + i * 37 % 61);
  const RobertaInput input{.rows = kRows, .length = 128, .ids = ids};
  const std::vector<int32_t> positions = {3, 200, 1000, 2000};
  const std::vector<int32_t> labels = {5, 8, 9, 3};
  const RobertaForMaskedLm::DropoutKey key{.seed = 5, .batch = 12};
  std::vector<double> losses;
  std::vector<size_t> memory;
  std::vector<FlatBuffer> gradients;
  for (const ActivationStorage storage : {ActivationStorage::kFull, ActivationStorage::kBfloat16}) {
    Arena arena;
    Tape<float> tape(arena);
    gradients.emplace_back(model.layout().size());
    for (int step = 0; step < 2; ++step) {  // after the first the arena is one block
      tape.begin(model.layout(), weights.data(), {.values = gradients.back().data(), .storage = storage});
      const SummedLoss<float> loss =
          cross_entropy(tape, model.logits(tape, model.encode_tokens(tape, input, positions, &key)), labels);
      tape.backward(loss.tensor);
      losses.push_back(loss.sum);
    }
    memory.push_back(arena.capacity());
  }
  EXPECT_EQ(losses[0], losses[2]) << "the forward pass does not see what is kept";
  EXPECT_LT(static_cast<double>(memory[1]), 0.8 * static_cast<double>(memory[0]));
  double difference = 0;
  double norm = 0;
  for (int64_t i = 0; i < model.layout().size(); ++i) {
    const double full = gradients[0].data()[i];
    difference += std::pow(gradients[1].data()[i] - full, 2);
    norm += full * full;
  }
  EXPECT_LT(std::sqrt(difference / norm), 5e-3);
  EXPECT_GT(std::sqrt(difference / norm), 1e-5);
}

TEST(Roberta, WithActivationsInBfloat16WeightsAreTheSameBitForBitForAnyNumberOfThreads) {
  const WorkerLimit limit(8);
  const std::vector<float> expected = trained(8, 1, 9, 5, ActivationStorage::kBfloat16);
  for (int threads : {2, 4}) EXPECT_EQ(trained(8, threads, 9, 5, ActivationStorage::kBfloat16), expected) << threads;
  EXPECT_NE(trained(8, 1, 9, 5), expected);
}

TEST(Roberta, DropoutDoesNotDependOnHowTheBatchIsSplit) {
  const RobertaForMaskedLm model(config_with_dropout());
  const Adam optimizer(model.layout(), adam_weight_decay(1e-3));
  const GoldenBatch batch("io.safetensors");
  std::set<double> losses;
  std::vector<double> first;
  for (int replicas : {1, 2, 3, 8}) {
    TrainedState state(model.layout(), optimizer);
    model.initialize(state.weights.span(), 1);
    StepGraph graph(model, optimizer, state, {.replicas = replicas, .threads = 1, .seed = 4});
    for (int step = 0; step < 2; ++step) {
      const StepReport report = graph.train(batch.view(), {7, 7, step + 1}, 0);
      if (first.empty()) first.push_back(report.loss);
      EXPECT_NEAR(report.loss, first[0], 1e-5) << replicas;
    }
    const StepReport another = graph.train(batch.view(), {8, 8, 3}, 0);
    EXPECT_GT(std::abs(another.loss - first[0]), 1e-4);  // so the comparison above can fail
  }
}

TEST(Roberta, PredictsTheMostLikelyTokenWhereThereIsALabel) {
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  const GoldenBatch batch("io.safetensors");
  const auto workspace = model.make_workspace();
  const StepResult evaluated = model.evaluate(batch.view(), weights.data(), *workspace);
  const Predictions predictions = model.predict(batch.view(), weights.data(), *workspace);
  EXPECT_EQ(predictions.rows, batch.shape[0]);
  EXPECT_EQ(predictions.result.sum_loss, evaluated.sum_loss);
  EXPECT_EQ(predictions.result.weight, evaluated.weight);
  const auto logits = batch.file.values<float>("logits");
  const auto ids = predictions.values<int32_t>("ids");
  ASSERT_EQ(ids.size(), batch.labels.size());
  const size_t vocabulary = logits.size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (batch.labels[i] == kNoLabel) {
      EXPECT_EQ(ids[i], kNoLabel);
    } else {
      const auto row = logits.begin() + static_cast<ptrdiff_t>(i * vocabulary);
      EXPECT_EQ(ids[i], std::max_element(row, row + static_cast<ptrdiff_t>(vocabulary)) - row);
    }
  }
}

TEST(Roberta, TrainsOnlyWhatIsNotFrozenAndAsItWouldWithoutAScaleOfTheLoss) {
  const RobertaForMaskedLm model(config_with_dropout());
  const Adam optimizer(model.layout(), adam_weight_decay(1e-3));
  const GoldenBatch batch("io.safetensors");
  std::vector<std::vector<float>> weights;
  for (const double scale : {1.0, 512.0}) {
    TrainedState state(model.layout(), optimizer, "^roberta\\.");
    model.initialize(state.weights.span(), 1);
    const std::vector<float> before(state.weights.span().begin(), state.weights.span().end());
    StepGraph graph(model, optimizer, state, {});
    for (int step = 0; step < 2; ++step) {
      EXPECT_TRUE(graph.train(batch.view(), {step, step, step + 1, scale}, 1e-3).updated);
    }
    for (const Parameter& parameter : model.layout().parameters()) {
      bool moved = false;
      for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        moved |= state.weights.data()[i] != before[static_cast<size_t>(i)];
      }
      EXPECT_EQ(moved, parameter.name.starts_with("lm_head.")) << parameter.name;
    }
    weights.emplace_back(state.weights.span().begin(), state.weights.span().end());
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(Roberta, AReplicaWithoutLabelsGivesZeros) {
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  GoldenBatch batch("io.safetensors");
  std::fill(batch.labels.begin(), batch.labels.end(), kNoLabel);
  const auto workspace = model.make_workspace();
  FlatBuffer gradients(model.layout().size());
  std::fill(gradients.span().begin(), gradients.span().end(), std::nanf(""));
  Announced announced;
  ReplicaContext context{.gradients = gradients.span(), .listener = &announced, .workspace = workspace.get()};
  const StepResult result = model.train_step(batch.view(), weights.data(), context);
  EXPECT_EQ(result.sum_loss, 0);
  EXPECT_EQ(result.weight, 0);
  for (const Parameter& parameter : model.layout().parameters()) {
    for (int64_t i = 0; i < parameter.size; ++i) {
      ASSERT_EQ(gradients.data()[parameter.offset + i], 0.0F) << parameter.name;
    }
  }
  EXPECT_EQ(announced.ids.size(), model.layout().parameters().size());
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ErrorException& error) {
    return error.what();
  }
  return "no error";
}

TEST(Roberta, RefusesWhatCannotWork) {
  const auto refused = [](RobertaConfig config) { return message_of([&] { const RobertaForMaskedLm model(config); }); };
  EXPECT_THAT(refused({.hidden_size = 10, .num_attention_heads = 3}),
              HasSubstr("no multiple of num_attention_heads 3"));
  EXPECT_THAT(refused({.vocab_size = 0}), HasSubstr("vocab_size is 0"));
  EXPECT_THAT(refused({.hidden_dropout_prob = 1}), HasSubstr("hidden_dropout_prob is 1"));
  EXPECT_THAT(refused({.vocab_size = 4, .pad_token_id = 4}), HasSubstr("pad_token_id is 4"));
  EXPECT_THAT(refused({.max_position_embeddings = 2}), HasSubstr("max_position_embeddings is 2; at least 3"));
  const int64_t large = int64_t{1} << 31U;
  EXPECT_THAT(refused({.vocab_size = large}), HasSubstr("vocab_size is 2147483648; at most 2147483647 is possible"));
  EXPECT_THAT(refused({.hidden_size = large}), HasSubstr("hidden_size is 2147483648; at most 2147483647"));
  EXPECT_THAT(refused({.num_hidden_layers = 10001}), HasSubstr("num_hidden_layers is 10001; at most 10000"));
  EXPECT_THAT(refused({.num_attention_heads = large}), HasSubstr("num_attention_heads is 2147483648; at most"));
  EXPECT_THAT(refused({.intermediate_size = large}), HasSubstr("intermediate_size is 2147483648; at most"));
  EXPECT_THAT(refused({.max_position_embeddings = large}), HasSubstr("max_position_embeddings is 2147483648; at most"));
  EXPECT_THAT(refused({.type_vocab_size = large}), HasSubstr("type_vocab_size is 2147483648; at most"));
  EXPECT_THAT(
      refused({.vocab_size = large - 1}),
      HasSubstr("parameter 'roberta.embeddings.word_embeddings.weight' [2147483647,768] would make a model of"));

  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  const auto workspace = model.make_workspace();
  GoldenBatch batch("io.safetensors");
  batch.ids[30] = 97;
  EXPECT_THAT(message_of([&] { (void)model.evaluate(batch.view(), weights.data(), *workspace); }),
              HasSubstr("id 97 (feature 'input_ids', row 1, value 6); the table "
                        "'roberta.embeddings.word_embeddings.weight' has 97 entries"));
  const std::vector<int32_t> ids(39, 5);
  const std::vector<int32_t> labels(39, 5);
  const BatchView too_long(
      {{"input_ids", std::span<const int32_t>(ids), {1, 39}}, {"labels", std::span<const int32_t>(labels), {1, 39}}});
  EXPECT_THAT(message_of([&] { (void)model.evaluate(too_long, weights.data(), *workspace); }),
              HasSubstr("row 0 has 39 tokens; the model has positions for 38"));
}

TEST(Roberta, StartsWithNormalMatricesZeroBiasesAndNothingForPadding) {
  const RobertaForMaskedLm model({.vocab_size = 500,
                                  .hidden_size = 32,
                                  .num_hidden_layers = 1,
                                  .num_attention_heads = 1,
                                  .intermediate_size = 32,
                                  .max_position_embeddings = 40,
                                  .pad_token_id = 3});
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 1);
  for (const Parameter& parameter : model.layout().parameters()) {
    const std::span<const float> values =
        weights.span().subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
    if (parameter.name.find("LayerNorm.weight") != std::string::npos || parameter.name == "lm_head.layer_norm.weight") {
      EXPECT_THAT(values, testing::Each(1.0F)) << parameter.name;
    } else if (parameter.name.ends_with("bias")) {
      EXPECT_THAT(values, testing::Each(0.0F)) << parameter.name;
    } else {
      double squares = 0;
      for (float value : values) squares += static_cast<double>(value) * value;
      const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
      const double error = 4 / std::sqrt(2.0 * static_cast<double>(values.size()));  // four standard errors
      EXPECT_NEAR(deviation / 0.02, 1, error + 0.02) << parameter.name;
    }
    if (parameter.name.find("word_embeddings") == std::string::npos &&
        parameter.name.find("position_embeddings") == std::string::npos) {
      continue;
    }
    EXPECT_THAT(values.subspan(3 * 32, 32), testing::Each(0.0F)) << parameter.name;
    EXPECT_THAT(values.subspan(0, 32), testing::Not(testing::Contains(0.0F))) << parameter.name;
  }
}

TEST(Roberta, IsWrittenAndReadInTheLayoutOfTransformers) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_roberta_layout";
  fs::remove_all(directory);
  fs::create_directory(directory);
  const RobertaForMaskedLm model = tiny_model();
  const FlatBuffer weights = load_roberta_weights(golden(""), model);
  save_roberta_config(directory.string(), model.config());
  save_roberta_weights(directory.string(), model, weights.span());
  const RobertaForMaskedLm again(load_roberta_config(directory.string()));
  const FlatBuffer read = load_roberta_weights(directory.string(), again);
  EXPECT_TRUE(std::ranges::equal(read.span(), weights.span()));
  const SafetensorsFile file((directory / "model.safetensors").string());
  EXPECT_EQ(file.values<float>("lm_head.decoder.bias"), file.values<float>("lm_head.bias"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  // All fields of the golden config but the version of the library that wrote it.
  std::ifstream ours_stream(directory / "config.json");
  std::ifstream golden_stream(golden("config.json"));
  const nlohmann::json ours = nlohmann::json::parse(ours_stream);
  nlohmann::json theirs = nlohmann::json::parse(golden_stream);
  theirs.erase("transformers_version");
  theirs.erase("use_cache");
  EXPECT_EQ(ours, theirs);

  const std::string damaged = (directory / "model.safetensors").string();
  const test::LoadedTensors kept(damaged);
  std::vector<NamedTensor> tensors = kept.tensors();
  std::vector<float> other_bias = file.values<float>("lm_head.bias");
  other_bias[3] += 1;
  std::ranges::find(tensors, "lm_head.decoder.bias", &NamedTensor::name)->bytes =
      std::as_bytes(std::span<const float>(other_bias));
  write_safetensors(damaged, tensors);
  EXPECT_THAT(message_of([&] { (void)load_roberta_weights(directory.string(), again); }),
              HasSubstr("different: lm_head.bias and lm_head.decoder.bias"));

  for (const auto& [value, name] : {std::pair{NAN, "nan"}, std::pair{-INFINITY, "-inf"}}) {
    std::vector<NamedTensor> broken = kept.tensors();
    std::vector<float> matrix = file.values<float>("lm_head.dense.weight");
    matrix.back() = value;
    std::ranges::find(broken, "lm_head.dense.weight", &NamedTensor::name)->bytes =
        std::as_bytes(std::span<const float>(matrix));
    write_safetensors(damaged, broken);
    EXPECT_THAT(message_of([&] { (void)load_roberta_weights(directory.string(), again); }),
                AllOf(HasSubstr(damaged), HasSubstr(fmt::format("tensor 'lm_head.dense.weight' is not finite: its "
                                                                "value {} is {}",
                                                                matrix.size() - 1, name))));
  }

  std::erase_if(tensors, [](const NamedTensor& tensor) { return tensor.name == "lm_head.dense.bias"; });
  tensors[0].name = "extra";
  write_safetensors(damaged, tensors);
  const std::string message = message_of([&] { (void)load_roberta_weights(directory.string(), again); });
  EXPECT_THAT(message, HasSubstr("missing: "));
  EXPECT_THAT(message, HasSubstr("lm_head.dense.bias"));
  EXPECT_THAT(message, HasSubstr("unexpected: extra"));
  fs::remove_all(directory);
}

TEST(Roberta, LoadsFilesWithThePositionsAndThePoolerThatPublishedOnesHold) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_roberta_published";
  fs::remove_all(directory);
  fs::create_directory(directory);
  const test::LoadedTensors file(golden("model.safetensors"));
  std::vector<NamedTensor> tensors = file.tensors();
  for (const char* part : {"weight", "bias"}) {
    NamedTensor pooler = *file.find(std::string("lm_head.dense.") + part);
    pooler.name = std::string("roberta.pooler.dense.") + part;
    tensors.push_back(pooler);
  }
  const std::vector<int64_t> positions = {0, 1, 2};
  tensors.push_back({.name = "roberta.embeddings.position_ids",
                     .type = TensorType::kI64,
                     .shape = {1, 3},
                     .bytes = std::as_bytes(std::span<const int64_t>(positions))});
  write_safetensors((directory / "model.safetensors").string(), tensors);
  const RobertaForMaskedLm model = tiny_model();
  EXPECT_TRUE(std::ranges::equal(load_roberta_weights(directory.string(), model).span(),
                                 load_roberta_weights(golden(""), model).span()));
  fs::remove_all(directory);
}

TEST(Roberta, DescribesWhatItsShapesDoNotTell) {
  const auto described = [](const auto& change) {
    RobertaConfig config = tiny_model().config();
    change(config);
    return RobertaForMaskedLm(config).describe();
  };
  const std::string same = described([](RobertaConfig&) {});
  // What checkpoints hold and are compared by.
  EXPECT_EQ(RobertaForMaskedLm({.vocab_size = 9, .hidden_size = 4, .num_hidden_layers = 1, .num_attention_heads = 2})
                .describe(),
            "roberta(num_attention_heads=2, pad_token_id=1, layer_norm_eps=1e-05, hidden_dropout_prob=0.1, "
            "attention_probs_dropout_prob=0.1)");
  EXPECT_THAT(described([](RobertaConfig& config) { config.hidden_act = Activation::kRelu; }),
              testing::EndsWith(", hidden_act=relu)"));
  EXPECT_EQ(described([](RobertaConfig& config) { config.initializer_range = 1; }), same) << "only for the start";
  EXPECT_NE(described([](RobertaConfig& config) { config.num_attention_heads = 2; }), same);
  EXPECT_NE(described([](RobertaConfig& config) { config.layer_norm_eps = 1e-12; }), same);
  EXPECT_NE(described([](RobertaConfig& config) { config.pad_token_id = 0; }), same);
  EXPECT_NE(described([](RobertaConfig& config) { config.hidden_dropout_prob = 0.25; }), same);
  EXPECT_NE(described([](RobertaConfig& config) { config.attention_probs_dropout_prob = 0.25; }), same);
}

TEST(Roberta, TheActivationOfTheConfigIsThatOfTheFeedForwardLayersAndIsWrittenAgain) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_roberta_activation";
  fs::create_directories(directory);
  nlohmann::json json;
  std::ifstream(golden("config.json")) >> json;
  const FlatBuffer weights = load_roberta_weights(golden(""), tiny_model());
  const GoldenBatch batch("io.safetensors");
  std::set<double> losses;
  for (const auto& [name, written] : std::vector<std::pair<std::string, std::string>>{{"relu", "relu"},
                                                                                      {"gelu", "gelu"},
                                                                                      {"gelu_new", "gelu_new"},
                                                                                      {"gelu_pytorch_tanh", "gelu_new"},
                                                                                      {"silu", "silu"},
                                                                                      {"swish", "silu"}}) {
    json["hidden_act"] = name;
    std::ofstream(directory / "config.json") << json;
    const RobertaForMaskedLm model(load_roberta_config(directory.string()));
    const auto workspace = model.make_workspace();
    losses.insert(model.evaluate(batch.view(), weights.data(), *workspace).sum_loss);
    EXPECT_EQ(model.describe() == tiny_model().describe(), name == "gelu") << name;
    save_roberta_config(directory.string(), model.config());
    nlohmann::json again;
    std::ifstream(directory / "config.json") >> again;
    EXPECT_EQ(again.at("hidden_act"), written);
  }
  EXPECT_EQ(losses.size(), 4U);
  fs::remove_all(directory);
}

TEST(Roberta, AConfigOfAnotherModelIsRefused) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_roberta_config";
  fs::create_directories(directory);
  const auto message_for = [&](const std::string& text) {
    std::ofstream(directory / "config.json") << text;
    return message_of([&] { (void)load_roberta_config(directory.string()); });
  };
  EXPECT_THAT(message_for(R"({"model_type": "bert"})"),
              HasSubstr("model_type is \"bert\"; known is \"roberta\", \"xlm-roberta\", \"camembert\""));
  EXPECT_THAT(message_for(R"({"model_type": "roberta", "hidden_act": "tanh"})"),
              HasSubstr("hidden_act: there is no activation 'tanh'; relu, gelu"));
  EXPECT_THAT(message_for(R"({"model_type": "roberta", "position_embedding_type": "relative_key"})"),
              HasSubstr("position_embedding_type is \"relative_key\"; only \"absolute\""));
  EXPECT_THAT(message_for(R"({"model_type": null})"), HasSubstr("model_type is missing"));
  // As in transformers null stands for a value that is not given.
  EXPECT_EQ(message_for(R"({"model_type": "roberta", "hidden_act": null, "position_embedding_type": null,
                            "tie_word_embeddings": null, "is_decoder": null, "vocab_size": null})"),
            "no error");
  EXPECT_THAT(message_for(R"({"model_type": "roberta", "vocab_size": "many"})"), HasSubstr("config.json"));
  for (const auto& [field, number] : std::vector<std::pair<std::string, std::string>>{
           {"vocab_size", "9223372036854775808"}, {"vocab_size", "1e30"}, {"vocab_size", "true"}}) {
    EXPECT_THAT(message_for(fmt::format(R"({{"model_type": "roberta", "{}": {}}})", field, number)),
                AllOf(HasSubstr("config.json"), HasSubstr(field + ": "), HasSubstr("is no whole number of 64 bits")));
  }
  EXPECT_THAT(message_for(R"({"model_type": "roberta", "pad_token_id": 4294967297})"),
              HasSubstr("pad_token_id: 4294967297 is no whole number of 32 bits"));
  EXPECT_THAT(message_for(R"({"model_type": "roberta", "vocab_size": 1099511627776})"),
              AllOf(HasSubstr("config.json"), HasSubstr("vocab_size is 1099511627776; at most 2147483647")));
  EXPECT_THAT(message_for("{"), HasSubstr("config.json"));
  fs::remove_all(directory);
  EXPECT_THAT(message_of([&] { (void)load_roberta_config(directory.string()); }),
              HasSubstr("cannot read the file: No such file"));
}

}  // namespace
}  // namespace millrace::roberta_test
