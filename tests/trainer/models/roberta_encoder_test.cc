// The encoder as a part of another model: called twice, beside another one, under heads of its own.
#include "millrace/trainer/models/roberta_encoder.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/gradient_check.h"
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
class Matcher final : public TapeModel {
 public:
  explicit Matcher(uint64_t second_call = 1) : second_call_(second_call), encoder_(layout_, kConfig, "encoder") {
    question_head_ = layout_.add("question.weight", {4, 6});
    answer_head_ = layout_.add("answer.weight", {4, 6});
    layout_.finish(256);
  }

  std::string describe() const override { return "matcher"; }
  void initialize(std::span<float> weights, uint64_t seed) const override {
    encoder_.initialize(layout_, weights, seed);
    for (const int head : {question_head_, answer_head_}) initialize_parameter(layout_, head, 0.5, weights, seed);
  }
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }

 private:
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const {
    Tape<T>& tape = pass.tape();
    const std::vector<int32_t> begins = {0, 5};
    const std::span<const int32_t> first = pass.keep(begins);
    const auto first_states = [&](std::string_view feature, uint64_t call) {
      const RobertaInput input{.rows = 2,
                               .length = 5,
                               .first_row = pass.rows().first_row(),
                               .ids = pass.rows().feature(feature).template values<int32_t>()};
      return embedding_sum<T>(tape,
                              {{.table = encoder_.encode(tape, input, pass.dropout_key(call)).back(), .ids = first}});
    };
    const Tensor<T> a = linear(tape, first_states("question", 0), tape.parameter(question_head_));
    const Tensor<T> b = linear(tape, first_states("answer", second_call_), tape.parameter(answer_head_));
    ForwardResult<T> result;
    result.losses.emplace_back(sum(tape, multiply(tape, a, b)), 2);
    return result;
  }

  uint64_t second_call_;
  RobertaEncoder encoder_;
  int question_head_ = 0;
  int answer_head_ = 0;
};

class Announced final : public GradientListener {
 public:
  void gradient_final(int id) override { ids.push_back(id); }
  std::vector<int> ids;
};

class MatchedRows : public testing::Test {
 protected:
  // The loss of a step of training, and which gradients it announced.
  std::pair<double, std::vector<int>> step(const Matcher& model) const {
    FlatBuffer weights(model.layout().size());
    model.initialize(weights.span(), 3);
    FlatBuffer gradients(model.layout().size());
    Announced announced;
    const auto workspace = model.make_workspace();
    ReplicaContext context{
        .seed = 5, .batch = 12, .gradients = gradients.span(), .listener = &announced, .workspace = workspace.get()};
    const double loss = model.train_step(rows_, weights.data(), context).sum_loss;
    return {loss, announced.ids};
  }

  const std::vector<int32_t> question_ = {0, 5, 7, 2, 9, 0, 4, 10, 2, 1};
  const std::vector<int32_t> answer_ = {0, 8, 3, 2, 1, 0, 6, 6, 7, 2};
  const BatchView rows_{{{"question", std::span<const int32_t>(question_), {2, 5}},
                         {"answer", std::span<const int32_t>(answer_), {2, 5}}}};
};

TEST_F(MatchedRows, CalledTwiceUnderTwoHeadsTheGradientsAreThoseOfCentralDifferences) {
  const Matcher model;
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 3);
  // Padding's entries are kept at what they were, on purpose.
  const auto is_padding = [](const Parameter& parameter, int64_t value) {
    return value / 6 == kConfig.pad_token_id && (parameter.name.ends_with("word_embeddings.weight") ||
                                                 parameter.name.ends_with("position_embeddings.weight"));
  };
  for (const WrongGradient& wrong : check_gradients(model, rows_, weights.span(), {.left_out = is_padding})) {
    ADD_FAILURE() << wrong.to_string();
  }
  std::vector<int> all(model.layout().parameters().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  EXPECT_THAT(step(model).second, testing::UnorderedElementsAreArray(all)) << "each once";
}

// The sum of the states of the first rows' tokens that are no padding.
double sum_of_states(const RobertaEncoder& encoder, const ParameterLayout& layout, const BatchView& rows,
                     const std::string& mask, bool masked) {
  FlatBuffer weights(layout.size());
  encoder.initialize(layout, weights.span(), 3);
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(layout, weights.data());
  const RobertaInput input =
      masked ? encoder.masked_input(tape, rows, "ids", mask) : RobertaInput::of(rows, "ids", mask);
  const Tensor<float> states = encoder.encode(tape, input).back();
  double sum = 0;
  for (int64_t i = 0; i < states.count(); ++i) {
    const bool padding = input.ids[static_cast<size_t>(i / states.columns())] == encoder.config().pad_token_id;
    if (!padding) sum += states.values[i] * static_cast<double>(i % 7);
  }
  return sum;
}

TEST(RobertaEncoder, WithoutAMaskPaddingIsLeftOutOnlyWhereOneIsAskedFor) {
  ParameterLayout layout;
  const RobertaEncoder encoder(layout, kConfig);
  layout.finish();
  const std::vector<int32_t> ids = {0, 5, 2, 1, 1, 0, 6, 7, 8, 2};
  const std::vector<int64_t> mask = {1, 1, 1, 0, 0, 1, 1, 1, 1, 1};
  const std::vector<int64_t> all(10, 1);
  const BatchView rows(
      {{"ids", std::span(ids), {2, 5}}, {"mask", std::span(mask), {2, 5}}, {"all", std::span(all), {2, 5}}});
  const auto sum = [&](const std::string& feature, bool masked) {
    return sum_of_states(encoder, layout, rows, feature, masked);
  };
  const double expected = sum("mask", false);
  EXPECT_EQ(sum("mask", true), expected);
  EXPECT_EQ(sum("none", true), expected) << "made of the ids";
  EXPECT_NE(sum("none", false), expected) << "padding is attended to";
  EXPECT_EQ(sum("all", true), sum("all", false)) << "a mask that is there counts";
  EXPECT_NE(sum("all", true), expected);

  Arena arena;
  Tape<float> tape(arena);
  EXPECT_THAT(encoder.masked_input(tape, rows, "ids", "none").attention_mask, testing::ElementsAreArray(mask));
  const std::vector<int64_t> short_mask(8, 1);
  const BatchView unlike({{"ids", std::span(ids), {2, 5}}, {"mask", std::span(short_mask), {2, 4}}});
  EXPECT_THAT([&] { (void)RobertaInput::of(unlike, "ids", "mask"); },
              testing::ThrowsMessage<ErrorException>(testing::HasSubstr("mask has 8 values, ids 10")));
  const std::vector<int64_t> none;
  const BatchView empty({{"ids", std::span(ids), {2, 5}}, {"mask", std::span(none), {2, 0}}});
  EXPECT_THAT([&] { (void)encoder.masked_input(tape, empty, "ids", "mask"); },
              testing::ThrowsMessage<ErrorException>(testing::HasSubstr("mask has 0 values, ids 10")));
}

TEST(RobertaEncoder, DescribesWhatItsShapesDoNotTell) {
  ParameterLayout layout;
  EXPECT_EQ(RobertaEncoder(layout, kConfig).describe(),
            "num_attention_heads=2, pad_token_id=1, layer_norm_eps=1e-05, hidden_dropout_prob=0.3, "
            "attention_probs_dropout_prob=0.25, hidden_act=gelu");
}

TEST_F(MatchedRows, EachCallDrawsItsOwnDropout) {
  const double first = step(Matcher()).first;
  EXPECT_EQ(step(Matcher()).first, first);
  EXPECT_NE(step(Matcher(2)).first, first);
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
