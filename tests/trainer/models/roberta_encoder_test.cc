// The encoder as a part of another model: called twice, beside another one, under heads of its own.
#include "millrace/trainer/models/roberta_encoder.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/multiply.h"
#include "millrace/trainer/tensor/sum.h"

namespace millrace::roberta_encoder_test {
namespace {

const RobertaConfig kConfig = {.vocab_size = 11,
                               .hidden_size = 6,
                               .num_hidden_layers = 1,
                               .num_attention_heads = 2,
                               .intermediate_size = 10,
                               .max_position_embeddings = 9,
                               .hidden_dropout_prob = 0.3,
                               .attention_probs_dropout_prob = 0.25,
                               .initializer_range = 0.4};

// How well an answer fits a question: both through one encoder, each under a head of its own.
struct Matcher {
  Matcher() : encoder(layout, kConfig, "encoder") {
    question_head = layout.add("question.weight", {4, 6});
    answer_head = layout.add("answer.weight", {4, 6});
    layout.finish(256);
    FlatBuffer start(layout.size());
    encoder.initialize(layout, start.span(), 3);
    for (const int head : {question_head, answer_head}) {
      initialize_parameter(layout, head, 0.5, start.span(), 3);
    }
    weights.assign(start.span().begin(), start.span().end());
  }

  Tensor<double> loss(Tape<double>& tape, Tape<double>::Gradients gradients, uint64_t second_call = 1) const {
    tape.begin(layout, weights.data(), gradients);
    const auto first_states = [&](const std::vector<int32_t>& ids, uint64_t call) {
      const RobertaEncoder::DropoutKey key{.seed = 5, .batch = 12, .call = call};
      const RobertaInput input{.rows = 2, .length = 5, .first_row = 6, .ids = ids};
      return embedding_sum<double>(tape, {{.table = encoder.encode(tape, input, &key).back(), .ids = first}});
    };
    const Tensor<double> a = linear(tape, first_states(question, 0), tape.parameter(question_head));
    const Tensor<double> b = linear(tape, first_states(answer, second_call), tape.parameter(answer_head));
    return sum(tape, multiply(tape, a, b));
  }

  ParameterLayout layout;
  RobertaEncoder encoder;
  int question_head = 0;
  int answer_head = 0;
  std::vector<double> weights;
  std::vector<int32_t> question = {0, 5, 7, 2, 9, 0, 4, 10, 2, 1};
  std::vector<int32_t> answer = {0, 8, 3, 2, 1, 0, 6, 6, 7, 2};
  std::vector<int32_t> first = {0, 5};
};

class Announced final : public GradientListener {
 public:
  void gradient_final(int id) override { ids.push_back(id); }
  std::vector<int> ids;
};

TEST(RobertaEncoder, CalledTwiceUnderTwoHeadsItsGradientsAreThoseOfCentralDifferences) {
  Matcher model;
  Arena arena;
  Tape<double> tape(arena);
  std::vector<double> gradients(model.weights.size(), NAN);
  Announced announced;
  tape.backward(model.loss(tape, {.values = gradients.data(), .listener = &announced}));
  std::vector<int> all(model.layout.parameters().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  EXPECT_THAT(announced.ids, testing::UnorderedElementsAreArray(all));
  int compared = 0;
  for (const Parameter& parameter : model.layout.parameters()) {
    const bool table =
        parameter.name.ends_with("word_embeddings.weight") || parameter.name.ends_with("position_embeddings.weight");
    for (int64_t i = 0; i < parameter.size; i += std::max<int64_t>(1, parameter.size / 7)) {
      if (table && i / 6 == kConfig.pad_token_id) continue;  // kept at what it was, on purpose
      double& weight = model.weights[static_cast<size_t>(parameter.offset + i)];
      const double before = weight;
      weight = before + 1e-5;
      const double above = *model.loss(tape, {}).values;
      weight = before - 1e-5;
      const double below = *model.loss(tape, {}).values;
      weight = before;
      ASSERT_NEAR(gradients[static_cast<size_t>(parameter.offset + i)], (above - below) / 2e-5, 5e-7)
          << parameter.name << " [" << i << "]";
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(RobertaEncoder, EachCallDrawsItsOwnDropout) {
  const Matcher model;
  Arena arena;
  Tape<double> tape(arena);
  const double first = *model.loss(tape, {}).values;
  EXPECT_EQ(*model.loss(tape, {}).values, first);
  EXPECT_NE(*model.loss(tape, {}, 2).values, first);
}

TEST(RobertaEncoder, SeveralOfAModelHaveTheirOwnNamesValuesAndLosses) {
  ParameterLayout layout;
  const RobertaEncoder student(layout, kConfig, "student");
  const RobertaEncoder critic(layout, kConfig, "critic", /*loss=*/1);
  layout.finish();
  EXPECT_EQ(layout.num_losses(), 2);
  const int names = static_cast<int>(layout.parameters().size()) / 2;
  for (int id = 0; id < 2 * names; ++id) {
    const Parameter& parameter = layout.parameters()[static_cast<size_t>(id)];
    EXPECT_EQ(parameter.loss, id < names ? 0 : 1);
    EXPECT_THAT(parameter.name, testing::StartsWith(id < names ? "student." : "critic."));
  }
  FlatBuffer weights(layout.size());
  critic.initialize(layout, weights.span(), 1);
  const auto value = [&](int id) { return weights.data()[layout.parameters()[static_cast<size_t>(id)].offset]; };
  EXPECT_EQ(value(student.word_embeddings()), 0) << "the other's are not touched";
  EXPECT_NE(value(critic.word_embeddings()), 0);
  const float drawn = value(critic.word_embeddings());
  student.initialize(layout, weights.span(), 1);
  EXPECT_NE(value(student.word_embeddings()), drawn);
}

}  // namespace
}  // namespace millrace::roberta_encoder_test
