#include "millrace/trainer/models/t5_classifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/t5_pretrained.h"
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
