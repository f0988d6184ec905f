#include "millrace/trainer/models/question_answer_roberta.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/gradient_check.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/predictor.h"
#include "tests/support/temporary_folder.h"

namespace millrace::question_answer_roberta_test {
namespace {

using testing::Each;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;
using testing::ThrowsMessage;

const RobertaConfig kConfig = {.vocab_size = 13,
                               .hidden_size = 12,
                               .num_hidden_layers = 1,
                               .num_attention_heads = 2,
                               .intermediate_size = 10,
                               .max_position_embeddings = 9,
                               .hidden_dropout_prob = 0.2,
                               .attention_probs_dropout_prob = 0.1,
                               .initializer_range = 0.4};
const QuestionAnswerTargets kTargets = {.question = {2, 0}, .answer = {4}, .joint = {1, 3}};

// Three rows of five targets: questions of 6 tokens, answers of 4, of which some are padding (1).
struct Rows {
  std::vector<int32_t> questions = {0, 5, 6, 7, 2, 1, 0, 8, 2, 1, 1, 1, 0, 9, 10, 11, 12, 2};
  std::vector<int64_t> question_mask = {1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  std::vector<int32_t> answers = {0, 3, 2, 1, 0, 4, 5, 2, 0, 6, 2, 1};
  std::vector<int64_t> answer_mask = {1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0};
  std::vector<float> labels = {0, 1, 0.5F, 0.25F, 1, 1, 0, 1, 0.75F, 0, 0.5F, 0.5F, 0, 1, 0.1F};

  BatchView view(bool labelled = true) const {
    std::vector<FeatureView> features = {{"question_ids", questions, {3, 6}},
                                         {"question_mask", question_mask, {3, 6}},
                                         {"answer_ids", answers, {3, 4}},
                                         {"answer_mask", answer_mask, {3, 4}}};
    if (labelled) features.emplace_back("labels", labels, std::vector<int64_t>{3, 5});
    return BatchView(features);
  }
};

FlatBuffer start_values(const QuestionAnswerRoberta& model, uint64_t seed = 1) {
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), seed);
  return weights;
}

std::vector<float> logits_of(const QuestionAnswerRoberta& model, const FlatBuffer& weights, const BatchView& rows) {
  Predictor predictor(model, weights.span(), {.replicas = 2, .threads = 1});
  const Predictions predictions = predictor.predict(rows);
  const std::span<const float> logits = predictions.values<float>("logits");
  return {logits.begin(), logits.end()};
}

TEST(QuestionAnswerRoberta, HasTheGradientsOfItsLossWithDropout) {
  const QuestionAnswerRoberta model(kConfig, kTargets);
  const FlatBuffer weights = start_values(model);
  GradientCheckOptions options{.values_per_parameter = 0};
  options.left_out = [](const Parameter& parameter, int64_t value) {
    return value / kConfig.hidden_size == kConfig.pad_token_id &&
           (parameter.name.ends_with("word_embeddings.weight") ||
            parameter.name.ends_with("position_embeddings.weight"));
  };
  for (const WrongGradient& wrong : check_gradients(model, Rows().view(), weights.span(), options)) {
    ADD_FAILURE() << wrong.to_string();
  }
}

TEST(QuestionAnswerRoberta, SaysTargetsInTheirOrderAndHasTheCrossEntropyOfThemForALoss) {
  const QuestionAnswerRoberta model(kConfig, kTargets);
  const FlatBuffer weights = start_values(model);
  const Rows rows;
  const std::vector<float> logits = logits_of(model, weights, rows.view());
  double loss = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(logits[i])));
    loss -= rows.labels[i] * std::log(p) + (1 - rows.labels[i]) * std::log(1 - p);
  }
  const auto workspace = model.make_workspace();
  const StepResult result = model.evaluate(rows.view(), weights.data(), *workspace);
  EXPECT_NEAR(result.sum_loss / result.weight, loss / 15, 1e-6);
  // Another order of the columns, of the same heads: the same numbers in other places.
  const QuestionAnswerRoberta other(kConfig, {.question = {0, 1}, .answer = {2}, .joint = {3, 4}});
  const std::vector<float> in_order = logits_of(other, weights, rows.view(/*labelled=*/false));
  constexpr std::array<size_t, 5> kPlaces = {1, 3, 0, 4, 2};  // of target i in the order of the heads
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_EQ(logits[i], in_order[i / 5 * 5 + kPlaces[i % 5]]) << i;
}

TEST(QuestionAnswerRoberta, ShowsEachHeadWhatItIsToSee) {
  const QuestionAnswerRoberta model(kConfig, kTargets);
  const FlatBuffer weights = start_values(model);
  Rows rows;
  const std::vector<float> before = logits_of(model, weights, rows.view());
  rows.answers[1] = 7;  // of the first row
  const std::vector<float> other_answer = logits_of(model, weights, rows.view());
  for (const size_t target : {0, 2}) EXPECT_EQ(other_answer[target], before[target]);
  for (const size_t target : {1, 3, 4}) EXPECT_NE(other_answer[target], before[target]);
  rows = Rows();
  rows.questions[1] = 7;
  const std::vector<float> other_question = logits_of(model, weights, rows.view());
  EXPECT_EQ(other_question[4], before[4]);
  for (const size_t target : {0, 1, 2, 3}) EXPECT_NE(other_question[target], before[target]);
  rows = Rows();
  rows.questions[5] = 7;  // padding
  rows.question_mask[5] = 0;
  const std::vector<float> other_padding = logits_of(model, weights, rows.view());
  EXPECT_THAT(other_padding, Pointwise(FloatNear(1e-5F), before));
}

TEST(QuestionAnswerRoberta, DescribesItsEncoderAndHeads) {
  const RobertaConfig config{.vocab_size = 9, .hidden_size = 4, .num_hidden_layers = 1, .num_attention_heads = 2};
  // What checkpoints hold and are compared by.
  EXPECT_EQ(QuestionAnswerRoberta(config, {.question = {1}, .joint = {0, 2}}).describe(),
            "question_answer_roberta(num_attention_heads=2, pad_token_id=1, layer_norm_eps=1e-05, "
            "hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, hidden_act=gelu, dropout=0.5, question=[1], "
            "joint=[0, 2])");
}

TEST(QuestionAnswerRoberta, LeavesOutHeadsWithoutTargetsAndRefusesTargetsThatDoNotFit) {
  const QuestionAnswerRoberta model(kConfig, {.answer = {0}});
  EXPECT_FALSE(model.layout().find("heads.joint.output.weight"));
  EXPECT_TRUE(model.layout().find("heads.answer.output.weight"));
  for (const QuestionAnswerTargets& targets :
       {QuestionAnswerTargets{}, {.question = {1}}, {.question = {0, 0}}, {.question = {0}, .joint = {0}}}) {
    EXPECT_THAT([&] { QuestionAnswerRoberta(kConfig, targets); },
                ThrowsMessage<ErrorException>(HasSubstr("are not the numbers from 0, each once")));
  }
  const Rows rows;
  const QuestionAnswerRoberta fewer(kConfig, {.question = {0, 1}});
  const auto workspace = fewer.make_workspace();
  EXPECT_THAT([&] { (void)fewer.evaluate(rows.view(), start_values(fewer).data(), *workspace); },
              ThrowsMessage<ErrorException>(HasSubstr("5 labels in a row, the model has 2 targets")));
}

TEST(QuestionAnswerRoberta, StartsWithTheEncoderOfAFolderAndHeadsOfItsOwn) {
  const test::TemporaryFolder folder;
  const RobertaForMaskedLm trained(kConfig);
  FlatBuffer trained_weights(trained.layout().size());
  trained.initialize(trained_weights.span(), 77);
  save_roberta_config(folder.path(), kConfig);
  save_roberta_weights(folder.path(), trained, trained_weights.span());
  const QuestionAnswerRoberta model(kConfig, kTargets, {.encoder_folder = folder.path()});
  const FlatBuffer weights = start_values(model);
  const FlatBuffer without = start_values(QuestionAnswerRoberta(kConfig, kTargets));
  for (const Parameter& parameter : model.layout().parameters()) {
    const auto values = [&](const FlatBuffer& of, int64_t offset) {
      return std::vector<float>(of.data() + offset, of.data() + offset + parameter.size);
    };
    if (const auto id = trained.layout().find(parameter.name)) {
      const Parameter& from = trained.layout().parameters()[static_cast<size_t>(*id)];
      EXPECT_EQ(values(weights, parameter.offset), values(trained_weights, from.offset)) << parameter.name;
    } else {
      EXPECT_TRUE(parameter.name.starts_with("heads.")) << parameter.name;
      EXPECT_EQ(values(weights, parameter.offset), values(without, parameter.offset)) << parameter.name;
    }
  }
}

TEST(QuestionAnswerRoberta, StartsHeadsWithTheVarianceOfHe) {
  RobertaConfig wide = kConfig;
  wide.hidden_size = 200;
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < 50; ++i) targets.push_back(i);
  const QuestionAnswerRoberta model(wide, {.joint = targets});
  const FlatBuffer weights = start_values(model);
  const Parameter& output =
      model.layout().parameters()[static_cast<size_t>(model.layout().find("heads.joint.output.weight").value())];
  double squares = 0;
  for (int64_t i = 0; i < output.size; ++i) squares += std::pow(weights.data()[output.offset + i], 2);
  EXPECT_NEAR(squares / static_cast<double>(output.size), 2.0 / 600, 0.05 * 2.0 / 600);
}

}  // namespace
}  // namespace millrace::question_answer_roberta_test
