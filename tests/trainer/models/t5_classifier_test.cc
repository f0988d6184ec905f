#include "millrace/trainer/models/t5_classifier.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "tests/support/places.h"

namespace millrace::t5_classifier_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kGolden = test::data_path("trainer/t5_tiny");

struct Batch {
  std::vector<int32_t> ids = {3, 5, 7, 2, 9, 1, 4, 10, 2, 0, 8, 8, 1, 0, 0};
  std::vector<int64_t> mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0};
  std::vector<int32_t> labels = {5, 1, 6, 1, 5, 1};

  BatchView view(bool labelled) const {
    std::vector<FeatureView> features = {{"input_ids", std::span<const int32_t>(ids), {3, 5}},
                                         {"attention_mask", std::span<const int64_t>(mask), {3, 5}}};
    if (labelled) features.emplace_back("labels", std::span<const int32_t>(labels), std::vector<int64_t>{3, 2});
    return BatchView(features);
  }
};

TEST(T5Classifier, SaysTheClassOfTheFirstTokenThatGreedySearchGives) {
  const T5ForConditionalGeneration t5(load_t5_config(kGolden));
  const FlatBuffer weights = load_t5_weights(kGolden, t5);
  const auto workspace = t5.make_workspace();
  const Batch batch;
  const std::vector<int32_t> ids = t5.generate(T5Input::of(batch.view(false)), 3, weights.data(), *workspace);
  const std::vector<int32_t> first = {ids[0], ids[3], ids[6]};
  const int32_t other = first[0] == 2 ? 3 : 2;

  const T5Classifier model(t5.config(), {other, first[0]});
  const Predictions found = model.predict(batch.view(false), weights.data(), *model.make_workspace());
  EXPECT_THAT(found.values<int32_t>("token"), testing::ElementsAreArray(first));
  std::vector<int64_t> classes;
  for (const int32_t token : first) classes.push_back(token == first[0] ? 1 : token == other ? 0 : -1);
  EXPECT_THAT(found.values<int64_t>("class"), testing::ElementsAreArray(classes));
  EXPECT_EQ(found.result.loss(0).weight, 0);

  // A token that is no class's.
  const T5Classifier none(t5.config(), {other});
  EXPECT_EQ(none.predict(batch.view(false), weights.data(), *none.make_workspace()).values<int64_t>("class")[0], -1);

  // With labels the loss is the T5's.
  const StepResult expected = t5.evaluate(batch.view(true), weights.data(), *workspace);
  const StepResult result = model.predict(batch.view(true), weights.data(), *model.make_workspace()).result;
  EXPECT_EQ(result.loss(0).sum, expected.loss(0).sum);
  EXPECT_EQ(result.loss(0).weight, 6);
}

// Of many rows, so that a difference in the last bit of a logit would be seen.
TEST(T5Classifier, SaysTheSameOfRowsWithLabelsWhichAreReadInOnePass) {
  const T5Classifier model({.vocab_size = 300,
                            .d_model = 16,
                            .d_kv = 4,
                            .d_ff = 32,
                            .num_layers = 2,
                            .num_decoder_layers = 2,
                            .num_heads = 4},
                           {5, 6, 7});
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 3);
  constexpr size_t kRows = 500;
  constexpr size_t kLength = 7;
  std::vector<int32_t> ids(kRows * kLength);
  std::vector<int64_t> mask(kRows * kLength, 1);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((i * 2654435761U >> 7U) % 300);
    if (i % kLength > 3 + i % 3) mask[i] = 0;
  }
  std::vector<int32_t> labels(kRows * 2, 1);
  for (size_t i = 0; i < labels.size(); i += 2) labels[i] = static_cast<int32_t>(5 + i / 2 % 3);
  std::vector<int64_t> label_mask(labels.size(), 1);
  const auto predict = [&](const std::vector<const char*>& more) {
    const auto rows = static_cast<int64_t>(kRows);
    std::vector<FeatureView> features = {
        {"input_ids", std::span<const int32_t>(ids), {rows, static_cast<int64_t>(kLength)}},
        {"attention_mask", std::span<const int64_t>(mask), {rows, static_cast<int64_t>(kLength)}}};
    for (const std::string_view name : more) {
      if (name == "labels")
        features.emplace_back("labels", std::span<const int32_t>(labels), std::vector<int64_t>{rows, 2});
      if (name == "mask") {
        features.emplace_back("decoder_attention_mask", std::span<const int64_t>(label_mask),
                              std::vector<int64_t>{rows, 2});
      }
    }
    const BatchView view(features);
    const Predictions found = model.predict(view, weights.data(), *model.make_workspace());
    const auto tokens = found.values<int32_t>("token");
    if (!more.empty()) {
      const StepResult expected = model.evaluate(view, weights.data(), *model.make_workspace());
      EXPECT_EQ(found.result.loss(0).sum, expected.loss(0).sum);
      EXPECT_EQ(found.result.loss(0).weight, expected.loss(0).weight);
    }
    EXPECT_EQ(found.values<int64_t>("class").size(), kRows);
    return std::vector<int32_t>(tokens.begin(), tokens.end());
  };
  const std::vector<int32_t> expected = predict({});
  EXPECT_GT(std::set<int32_t>(expected.begin(), expected.end()).size(), 5U);
  EXPECT_EQ(predict({"labels"}), expected);
  EXPECT_EQ(predict({"labels", "mask"}), expected);
  // A first label that is missing, or masked: the decoder would read something else, or nothing.
  labels[6] = kNoLabel;
  EXPECT_EQ(predict({"labels"}), expected);
  labels[6] = 5;
  label_mask[8] = 0;
  EXPECT_EQ(predict({"labels", "mask"}), expected);

  // Both come of the T5's one forward pass.
  const Batch batch;
  const T5Classifier small(load_t5_config(kGolden), {5});
  const FlatBuffer read = load_t5_weights(kGolden, small.t5());
  const Predictions pass = small.t5().TapeModel::predict(batch.view(true), read.data(), *small.make_workspace());
  EXPECT_EQ(pass.result.loss(0).weight, 6);
  EXPECT_EQ(pass.values<int32_t>("token").size(), 3U);
}

TEST(T5Classifier, StartsFromATrainedT5) {
  const T5Classifier model(load_t5_config(kGolden), {5, 6}, kGolden);
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 1);
  const FlatBuffer expected = load_t5_weights(kGolden, model.t5());
  EXPECT_TRUE(std::ranges::equal(weights.span(), expected.span()));
  EXPECT_EQ(model.describe(), model.t5().describe());
}

TEST(T5Classifier, RefusesTokensThatCannotBeThoseOfClasses) {
  const T5Config config = load_t5_config(kGolden);
  EXPECT_THAT(
      [&] {
        T5Classifier(config, {5, static_cast<int32_t>(config.vocab_size)});
      },
      ThrowsMessage<ErrorException>(HasSubstr("the token of a class")));
  EXPECT_THAT([&] { T5Classifier(config, {5, 6, 5}); }, ThrowsMessage<ErrorException>(HasSubstr("token 5 is of two")));
}

}  // namespace
}  // namespace millrace::t5_classifier_test
