// A model of one's own as one forward pass: what training, evaluation and prediction make of it, and the check of its
// gradients.
#include "millrace/trainer/tape_model.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/gradient_check.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/models/t5.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/predictor.h"
#include "millrace/trainer/schedules/schedule.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/squared_error.h"
#include "millrace/trainer/tensor/sum.h"
#include "millrace/trainer/tensor/tanh.h"
#include "millrace/trainer/trainer.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_models.h"

namespace millrace::tape_model_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_models::RegressionBatch;
using testing_models::thrown_by;

// x passed on with a gradient that is `factor` times the right one.
template <typename T>
Tensor<T> with_gradient_times(Tape<T>& tape, const Tensor<T>& x, T factor) {
  const Tensor<T> y = tape.make(x.shape);
  std::copy_n(x.values, x.count(), y.values);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    if (!t.wants(x)) return;
    const GradientSlot<T> slot = t.gradient_of(x);
    for (int64_t i = 0; i < x.count(); ++i) slot.values[i] = factor * dy[i] + (slot.add ? slot.values[i] : 0);
  });
  return y;
}

// Two regressions in one: the first loss trains `first` and `hidden`, the second, which has twice the weight, `second`.
class TwoHeads final : public TapeModel {
 public:
  explicit TwoHeads(double gradient_factor = 1, bool uses_second = true)
      : factor_(gradient_factor), uses_second_(uses_second) {
    hidden_ = layout_.add("hidden.weight", {7, 5});
    first_ = layout_.add("first.weight", {1, 7});
    second_ = layout_.add("second.weight", {1, 5}, 1);
    layout_.finish(64);
  }
  void initialize(std::span<float> weights, uint64_t seed) const override {
    for (const int id : {hidden_, first_, second_}) initialize_parameter(layout_, id, 0.5, weights, seed);
  }
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }

  mutable int num_losses = 2;

 private:
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const {
    Tape<T>& tape = pass.tape();
    const int64_t rows = pass.rows().rows();
    const Tensor<T> x = pass.constant("x");
    Tensor<T> hidden = tanh(tape, linear(tape, x, tape.parameter(hidden_)));
    hidden = dropout(tape, hidden, rows, pass.dropout(0.25, "hidden"));
    hidden = with_gradient_times(tape, hidden, static_cast<T>(factor_));
    const Tensor<T> first = linear(tape, hidden, tape.parameter(first_));
    const Tensor<T> second = linear(tape, x, tape.parameter(uses_second_ ? second_ : hidden_));
    ForwardResult<T> result;
    if (pass.predicts()) {
      result.columns = {predicted_column("first", first.reshaped({rows})), largest_column("largest", x)};
    }
    const FeatureView* labels = pass.labels("y");
    if (labels == nullptr) return result;
    const Tensor<T> y = pass.constant(*labels).reshaped(first.shape);
    result.losses.emplace_back(sum(tape, squared_error(tape, first, y)), static_cast<double>(rows));
    if (num_losses > 1) {
      const Tensor<T> target = uses_second_ ? y : tape.constant(second.values, second.shape);
      result.losses.emplace_back(sum(tape, squared_error(tape, second, target)), 2 * static_cast<double>(rows));
    }
    result.metrics = {{.name = "rows", .sum = static_cast<double>(rows), .weight = 1}};
    return result;
  }

  double factor_;
  bool uses_second_;
  int hidden_ = 0;
  int first_ = 0;
  int second_ = 0;
};

FlatBuffer start_values(const Model& model) {
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 3);
  return weights;
}

BatchView without_labels(const RegressionBatch& batch) {
  return BatchView({{"x", std::span<const float>(batch.x), {batch.num_rows, batch.num_inputs}}});
}

// Its constructor forgets `finish`.
class Unfinished final : public TapeModel {
 public:
  Unfinished() { weight_ = layout_.add("weight", {1, 5}); }
  void initialize(std::span<float>, uint64_t) const override {}
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }

 private:
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const {
    const Tensor<T> y = linear(pass.tape(), pass.constant("x"), pass.tape().parameter(weight_));
    return {.losses = {ForwardLoss<T>(sum(pass.tape(), y), static_cast<double>(pass.rows().rows()))}};
  }

  int weight_ = 0;
};

TEST(TapeModel, IsRefusedAtItsFirstUseWhenItsLayoutIsNotFinished) {
  const Unfinished model;
  const RegressionBatch batch(4);
  const std::vector<float> weights(16);
  for (const std::function<void()>& use :
       std::vector<std::function<void()>>{[&] { Trainer(model, std::make_unique<Sgd>(), constant_rate(0.1), {}); },
                                          [&] { const Predictor predictor(model, weights); },
                                          [&] { (void)check_gradients(model, batch.view(), weights); },
                                          [&] { (void)load_parameters("x", model.layout()); }}) {
    EXPECT_EQ(thrown_by(use),
              "invalid_argument: the model's layout is not finished: the model's constructor must call "
              "ParameterLayout::finish");
  }
}

TEST(TapeModel, EvaluatesAndTrainsOnTheLossesOfOneForwardPass) {
  const TwoHeads model;
  const FlatBuffer weights = start_values(model);
  const RegressionBatch batch(12);
  const auto workspace = model.make_workspace();
  const StepResult evaluated = model.evaluate(batch.view(), weights.data(), *workspace);
  EXPECT_EQ(evaluated.weight, 12);
  ASSERT_EQ(evaluated.more_losses.size(), 1U);
  EXPECT_EQ(evaluated.more_losses[0].weight, 24);
  ASSERT_EQ(evaluated.metrics.size(), 1U);
  EXPECT_EQ(evaluated.metrics[0].value(), 12);
  // Of the second loss, without a hidden layer, by hand.
  double by_hand = 0;
  const float* second = weights.data() + model.layout().parameters()[2].offset;
  for (size_t row = 0; row < 12; ++row) {
    double y = 0;
    for (size_t i = 0; i < 5; ++i) y += static_cast<double>(second[i]) * batch.x[5 * row + i];
    by_hand += (y - batch.y[row]) * (y - batch.y[row]);
  }
  EXPECT_NEAR(evaluated.more_losses[0].sum, by_hand, 1e-4 * by_hand);

  Sgd sgd;
  TrainedState state(model.layout(), sgd);
  StepGraph graph(model, sgd, state, {.replicas = 3, .threads = 2});
  model.initialize(state.weights.span(), 3);
  const double before = graph.evaluate(batch.view()).loss(1).sum;
  for (int64_t step = 0; step < 100; ++step)
    (void)graph.train(batch.view(), {.step = step, .batch = step, .update = step + 1}, 0.05);
  EXPECT_LT(graph.evaluate(batch.view()).loss(1).sum, before / 2);
  EXPECT_LT(graph.evaluate(batch.view()).sum_loss, evaluated.sum_loss / 2);
}

TEST(TapeModel, DropsInTrainingOnlyAndByTheRowOfTheGlobalBatch) {
  const TwoHeads model;
  const FlatBuffer weights = start_values(model);
  const RegressionBatch batch(12);
  const auto workspace = model.make_workspace();
  struct Listener final : GradientListener {
    void gradient_final(int) override {}
  } listener;
  FlatBuffer gradients(model.layout().size());
  const auto trained = [&](const BatchView& rows, uint64_t seed) {
    ReplicaContext context{
        .seed = seed, .gradients = gradients.span(), .listener = &listener, .workspace = workspace.get()};
    return model.train_step(rows, weights.data(), context).sum_loss;
  };
  const double whole = trained(batch.view(), 1);
  EXPECT_NE(whole, trained(batch.view(), 2));
  EXPECT_NE(whole, model.evaluate(batch.view(), weights.data(), *workspace).sum_loss);
  EXPECT_NEAR(whole, trained(batch.view().slice(0, 5), 1) + trained(batch.view().slice(5, 7), 1), 1e-5 * whole);
}

TEST(TapeModel, PredictsRowsWithoutLabelsAsThoseWithThem) {
  const TwoHeads model;
  const FlatBuffer weights = start_values(model);
  const RegressionBatch batch(11);
  Predictor predictor(model, weights.span(), {.replicas = 4, .threads = 2});
  const Predictions with = predictor.predict(batch.view());
  const Predictions without = predictor.predict(without_labels(batch));
  EXPECT_EQ(with.result.weight, 11);
  EXPECT_EQ(without.result.weight, 0);
  EXPECT_EQ(without.rows, 11);
  ASSERT_EQ(without.values<float>("first").size(), 11U);
  EXPECT_TRUE(std::ranges::equal(without.values<float>("first"), with.values<float>("first")));
  for (size_t row = 0; row < 11; ++row) {
    const auto begin = batch.x.begin() + static_cast<ptrdiff_t>(5 * row);
    EXPECT_EQ(without.values<int32_t>("largest")[row], std::max_element(begin, begin + 5) - begin);
  }
  const auto workspace = model.make_workspace();
  EXPECT_THAT(thrown_by([&] { model.evaluate(without_labels(batch), weights.data(), *workspace); }),
              HasSubstr("missing_feature: the batch has no feature 'y'"));
}

TEST(TapeModel, AnotherNumberOfLossesThanTheParametersFollowIsRefused) {
  const TwoHeads model;
  model.num_losses = 1;
  const FlatBuffer weights = start_values(model);
  const RegressionBatch batch(4);
  const auto workspace = model.make_workspace();
  EXPECT_EQ(thrown_by([&] { model.evaluate(batch.view(), weights.data(), *workspace); }),
            "invalid_argument: the model's forward pass gave 1 losses; its parameters follow 2");
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(model.layout(), weights.data());
  EXPECT_EQ(thrown_by([&] { ForwardLoss<float>(tape.make({3}), 3); }),
            "wrong_shape: a loss of 3 values; `sum` makes one of them");
}

TEST(CheckGradients, FindsNothingInARightModelAndNamesWhatIsWrong) {
  const RegressionBatch batch(6);
  const TwoHeads right;
  EXPECT_THAT(check_gradients(right, batch.view(), start_values(right).span(), {.values_per_parameter = 0}), IsEmpty());
  const TwoHeads wrong(1.001);
  const std::vector<WrongGradient> found = check_gradients(wrong, batch.view(), start_values(wrong).span());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].parameter, "hidden.weight");
  EXPECT_NEAR(found[0].gradient / found[0].difference, 1.001, 1e-5);
  EXPECT_THAT(found[0].to_string(), HasSubstr("hidden.weight: value "));
  const TwoHeads forgotten(1, false);
  const std::vector<WrongGradient> none = check_gradients(forgotten, batch.view(), start_values(forgotten).span());
  ASSERT_EQ(none.size(), 1U);
  EXPECT_THAT(none[0].to_string(),
              HasSubstr("second.weight: no gradient, the difference is 0; what no step uses must be frozen"));
  EXPECT_THAT(thrown_by([&] { (void)check_gradients(right, batch.view(), {}); }), HasSubstr("0 weights"));
  EXPECT_THAT(thrown_by([&] { (void)check_gradients(right, batch.view(), start_values(right).span(), {.step = 0}); }),
              HasSubstr("step 0"));
}

// The mean of a few entries of a large table, as logits of a classification, with ids and labels as they come.
class Bag final : public TapeModel {
 public:
  explicit Bag(double gradient_factor = 1) : factor_(gradient_factor) {
    table_ = layout_.add("table", {1000, 4});
    layout_.finish();
  }
  void initialize(std::span<float> weights, uint64_t seed) const override {
    initialize_parameter(layout_, table_, 0.5, weights, seed);
  }
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }

 private:
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const {
    Tape<T>& tape = pass.tape();
    const Tensor<T> logits = embedding_sum<T>(
        tape, {{.table = tape.parameter(table_), .ids = pass.rows().feature("ids").template values<int32_t>()}});
    const Tensor<T> factored = with_gradient_times(tape, logits, static_cast<T>(factor_));
    return {.losses = {ForwardLoss<T>(cross_entropy(tape, factored, pass.labels()->template values<int32_t>()))}};
  }

  double factor_;
  int table_ = 0;
};

BatchView bag_rows(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels) {
  const auto rows = static_cast<int64_t>(ids.size());
  return BatchView(
      {{"ids", std::span<const int32_t>(ids), {rows}}, {"labels", std::span<const int32_t>(labels), {rows}}});
}

TEST(CheckGradients, ComparesTheFewValuesThatRowsReachAndSaysWhereItComparedNothing) {
  const std::vector<int32_t> ids = {77, 903};
  const std::vector<int32_t> labels = {1, 3};
  const Bag right;
  const FlatBuffer weights = start_values(right);
  EXPECT_THAT(check_gradients(right, bag_rows(ids, labels), weights.span()), IsEmpty());
  for (const int64_t values : {1, 8, 100}) {
    const std::vector<WrongGradient> found =
        check_gradients(Bag(2), bag_rows(ids, labels), weights.span(), {.values_per_parameter = values});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_NEAR(found[0].gradient / found[0].difference, 2, 1e-5);
  }
  EXPECT_NEAR(check_gradients(Bag(0), bag_rows(ids, labels), weights.span(), {.values_per_parameter = 0})[0].gradient,
              0, 0);
  const std::vector<int32_t> none = {-100, -100};
  const std::vector<WrongGradient> nothing = check_gradients(right, bag_rows(ids, none), weights.span());
  ASSERT_EQ(nothing.size(), 1U);
  EXPECT_EQ(nothing[0].to_string(),
            "table: nothing compared, all gradients and differences are 0; give rows that reach it, or leave it out");
  EXPECT_THAT(check_gradients(right, bag_rows(ids, none), weights.span(),
                              {.left_out = [](const Parameter&, int64_t) { return true; }}),
              IsEmpty());
}

TEST(TapeModel, SaysInWhichFeatureAndRowOfTheBatchAnIdOrALabelIsWrong) {
  const Bag model;
  const FlatBuffer weights = start_values(model);
  const std::vector<int32_t> ids = {77, 903, 4, 5, 6, 1000};
  const std::vector<int32_t> labels = {1, 3, 0, 0, 4, 2};
  const auto workspace = model.make_workspace();
  const auto wrong = [&](int64_t begin, int64_t rows) {
    const BatchView batch = bag_rows(ids, labels);
    return thrown_by([&] { (void)model.evaluate(batch.slice(begin, rows), weights.data(), *workspace); });
  };
  EXPECT_EQ(wrong(0, 4), "nothing thrown");
  EXPECT_EQ(wrong(2, 4), "invalid_argument: id 1000 (feature 'ids', row 5); the table 'table' has 1000 entries");
  EXPECT_EQ(wrong(2, 3), "invalid_argument: label 4 (feature 'labels', row 4); there are 4 classes");
}

TEST(CheckGradients, TheModelsThatAreThereAreRight) {
  const std::vector<int32_t> ids = {0, 5, 7, 2, 9, 0, 4, 10, 2, 1};
  const std::vector<int32_t> labels = {-100, 3, -100, 8, -100, -100, -100, 6, 2, -100};
  const BatchView rows(
      {{"input_ids", std::span<const int32_t>(ids), {2, 5}}, {"labels", std::span<const int32_t>(labels), {2, 5}}});
  const RobertaForMaskedLm roberta({.vocab_size = 11,
                                    .hidden_size = 6,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .intermediate_size = 10,
                                    .max_position_embeddings = 9,
                                    .initializer_range = 0.4});
  // Row 1, 6 wide, is that of padding.
  const auto is_padding = [](const Parameter& parameter, int64_t value) {
    return value / 6 == 1 && (parameter.name.ends_with("word_embeddings.weight") ||
                              parameter.name.ends_with("position_embeddings.weight"));
  };
  const GradientCheckOptions options{.values_per_parameter = 0, .left_out = is_padding};
  for (const WrongGradient& wrong : check_gradients(roberta, rows, start_values(roberta).span(), options)) {
    ADD_FAILURE() << wrong.to_string();
  }
  EXPECT_EQ(check_gradients(roberta, rows, start_values(roberta).span(), {.values_per_parameter = 0}).size(), 2U);
  const T5ForConditionalGeneration t5({.vocab_size = 11,
                                       .d_model = 6,
                                       .d_kv = 3,
                                       .d_ff = 10,
                                       .num_layers = 1,
                                       .num_decoder_layers = 1,
                                       .num_heads = 2});
  for (const WrongGradient& wrong : check_gradients(t5, rows, start_values(t5).span())) {
    ADD_FAILURE() << wrong.to_string();
  }
}

TEST(RobertaForMaskedLm, PredictsEveryTokenOfRowsWithoutLabels) {
  const RobertaForMaskedLm model({.vocab_size = 11,
                                  .hidden_size = 6,
                                  .num_hidden_layers = 1,
                                  .num_attention_heads = 2,
                                  .intermediate_size = 10,
                                  .max_position_embeddings = 9,
                                  .initializer_range = 0.4});
  const FlatBuffer weights = start_values(model);
  const std::vector<int32_t> ids = {0, 5, 7, 2, 9, 0, 4, 10, 2, 1};
  const std::vector<int32_t> labels = {-100, 3, -100, 8, -100, -100, -100, 6, 2, -100};
  const FeatureView input("input_ids", std::span<const int32_t>(ids), {2, 5});
  Predictor predictor(model, weights.span(), {.replicas = 2, .threads = 1});
  const Predictions with = predictor.predict(BatchView({input, {"labels", std::span<const int32_t>(labels), {2, 5}}}));
  const Predictions without = predictor.predict(BatchView({input}));
  const auto all = without.values<int32_t>("ids");
  ASSERT_EQ(all.size(), ids.size());
  EXPECT_THAT(without.columns[0].row_shape, ElementsAre(5));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_GE(all[i], 0);
    EXPECT_EQ(with.values<int32_t>("ids")[i], labels[i] == -100 ? -100 : all[i]);
  }
  EXPECT_EQ(without.result.weight, 0);
}

// An encoder beside a head, whose names and ids are others than in a file.
class WithHead final : public TapeModel {
 public:
  explicit WithHead(const RobertaConfig& config)
      : head_(layout_.add("head.weight", {1, config.hidden_size})), encoder_(layout_, config, "text") {
    layout_.finish(256);
  }
  const RobertaEncoder& encoder() const { return encoder_; }
  void initialize(std::span<float> weights, uint64_t seed) const override {
    initialize_parameter(layout_, head_, 0.5, weights, seed);
  }
  ForwardResult<float> forward(ForwardPass<float>&) const override { return {}; }

 private:
  int head_;
  RobertaEncoder encoder_;
};

TEST(LoadRobertaEncoder, TakesTheEncoderOfAFileIntoAModelOfOnesOwnAndLeavesTheRest) {
  const test::TemporaryFolder folder;
  const RobertaConfig config{.vocab_size = 11,
                             .hidden_size = 6,
                             .num_hidden_layers = 1,
                             .num_attention_heads = 2,
                             .intermediate_size = 10,
                             .max_position_embeddings = 9};
  const RobertaForMaskedLm whole(config);
  FlatBuffer saved = start_values(whole);
  save_roberta_weights(folder.path(), whole, saved.span());
  // As `RobertaModel` of transformers writes it: without heads, and without the prefix.
  std::vector<NamedTensor> bare;
  for (NamedTensor& tensor : parameter_tensors(whole.layout(), saved.span())) {
    if (!tensor.name.starts_with("roberta.")) continue;
    bare.push_back(tensor);
    bare.back().name.erase(0, 8);
  }
  std::filesystem::create_directory(folder.path("bare"));
  write_safetensors(folder.path("bare/model.safetensors"), bare);
  for (const std::string& directory : {folder.path(), folder.path("bare")}) {
    const WithHead model(config);
    FlatBuffer weights = start_values(model);
    const float head = weights.data()[model.layout().parameters()[0].offset];
    load_roberta_encoder(directory, model.encoder(), model.layout(), weights.span());
    EXPECT_EQ(weights.data()[model.layout().parameters()[0].offset], head);
    size_t compared = 0;
    for (const Parameter& from : whole.layout().parameters()) {
      if (!from.name.starts_with("roberta.")) continue;
      const std::optional<int> id = model.layout().find("text." + from.name.substr(8));
      ASSERT_TRUE(id.has_value()) << from.name;
      const Parameter& to = model.layout().parameters()[static_cast<size_t>(*id)];
      EXPECT_TRUE(
          std::equal(saved.data() + from.offset, saved.data() + from.offset + from.size, weights.data() + to.offset))
          << from.name;
      ++compared;
    }
    EXPECT_EQ(compared, model.layout().parameters().size() - 1);
  }
  RobertaConfig wider = config;
  wider.intermediate_size = 12;
  const WithHead other(wider);
  FlatBuffer weights(other.layout().size());
  EXPECT_THAT(thrown_by([&] { load_roberta_encoder(folder.path(), other.encoder(), other.layout(), weights.span()); }),
              HasSubstr("of another shape: roberta.encoder.layer.0.intermediate.dense.weight"));
  EXPECT_TRUE(std::ranges::all_of(weights.span(), [](float weight) { return weight == 0; }));
}

TEST(LoadParameters, ReadsTheWeightsOfACheckpointForAPredictor) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(newest_checkpoint(folder.path("none")), std::nullopt);
  const TwoHeads model;
  Sgd sgd;
  TrainedState state(model.layout(), sgd);
  model.initialize(state.weights.span(), 3);
  CheckpointFolder checkpoints(folder.path("checkpoints"), {.keep_last = 2});
  for (const int64_t step : {9, 10, 100'000'000}) {
    state.weights.data()[0] = static_cast<float>(step);
    checkpoints.save({.step = step}, model.layout(), state, sgd, *constant_rate(1));
  }
  const std::optional<std::string> newest = newest_checkpoint(folder.path("checkpoints"));
  ASSERT_EQ(newest, folder.path("checkpoints/checkpoint-100000000"));
  EXPECT_EQ(checkpoints_in(folder.path("checkpoints")).size(), 2U);
  const FlatBuffer weights = load_parameters(*newest, model.layout());
  EXPECT_TRUE(std::ranges::equal(weights.span(), state.weights.span()));
  EXPECT_THAT(thrown_by([&] { (void)load_parameters(folder.path(), model.layout()); }), HasSubstr("model.safetensors"));
}

}  // namespace
}  // namespace millrace::tape_model_test
