#include "tests/trainer/golden/update_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::test::update_rule_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

UpdateRule read(const std::string& rule, const json& config) {
  ParameterLayout layout;
  layout.add("dense.kernel", {2});
  layout.add("dense.bias", {1});
  layout.finish();
  return read_update_rule(rule, config, layout);
}

const json kMoments = {{"lr", 0.5}, {"beta1", 0.75}, {"beta2", 0.875}, {"eps", 0.25}};

json with(json config, const json& more) {
  config.update(more);
  return config;
}

std::string refusal(const std::string& rule, const json& config) {
  try {
    read(rule, config);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(UpdateRule, EachRuleIsTheOptimizerOfThatNameWithTheNumbersOfTheConfig) {
  const auto described = [](const std::string& rule, const json& config) {
    return read(rule, config).optimizer->describe();
  };
  EXPECT_EQ(described("sgd", {{"lr", 0.5}}), "sgd(momentum=0)");
  EXPECT_EQ(described("sgd", {{"lr", 0.5}, {"momentum", 0.5}}), "sgd(momentum=0.5)");
  EXPECT_EQ(described("momentum", {{"lr", 0.5}, {"momentum", 0.5}}), "sgd(momentum=0.5)");
  const std::string moments = "beta1=0.75, beta2=0.875, epsilon=0.25, ";
  EXPECT_EQ(described("adam", kMoments), "adam(" + moments +
                                             "epsilon_form=corrected, weight_decay=0, decay_form=scale, "
                                             "exclude_from_decay='')");
  EXPECT_EQ(described("adam_epsilon_hat", kMoments), "adam(" + moments +
                                                         "epsilon_form=hat, weight_decay=0, decay_form=scale, "
                                                         "exclude_from_decay='')");
  const json decay = with(kMoments, {{"weight_decay", 0.125}, {"exclude_regex", "bias"}});
  EXPECT_EQ(described("adamw", decay), "adam(" + moments +
                                           "epsilon_form=corrected, weight_decay=0.125, decay_form=scale, "
                                           "exclude_from_decay='bias')");
  EXPECT_EQ(described("adam_weight_decay", decay), "adam(" + moments +
                                                       "epsilon_form=hat, weight_decay=0.125, decay_form=subtract, "
                                                       "exclude_from_decay='bias')");
  const std::string decayed = moments + "weight_decay=0.125, exclude_from_decay='bias')";
  EXPECT_EQ(described("radam", decay), "radam(" + decayed);
  EXPECT_EQ(described("lamb", decay), "lamb(" + decayed);
}

TEST(UpdateRule, NothingIsExcludedFromDecayUnlessTheConfigSaysSo) {
  EXPECT_THAT(read("adam_weight_decay", with(kMoments, {{"weight_decay", 0.125}})).optimizer->describe(),
              HasSubstr("exclude_from_decay=''"));
}

TEST(UpdateRule, LearningRateAndClippingAreTheConfigs) {
  const UpdateRule plain = read("sgd", {{"lr", 0.5}, {"clip_norm", nullptr}});
  EXPECT_EQ(plain.learning_rate, 0.5);
  EXPECT_FALSE(plain.clipping);
  EXPECT_FALSE(plain.adaptive);
  const UpdateRule clipped = read("lamb", with(kMoments, {{"clip_norm", 2}, {"clip_form", "torch"}}));
  EXPECT_EQ(clipped.clipping.value().norm, 2);
  EXPECT_EQ(clipped.clipping.value().form, ClipForm::kTorch);
  EXPECT_TRUE(clipped.adaptive);
  EXPECT_EQ(read("sgd", {{"lr", 0.5}, {"clip_norm", 2}}).clipping.value().form, ClipForm::kTf);
}

TEST(UpdateRule, FieldsThatARuleDoesNotReadAreRefused) {
  EXPECT_EQ(refusal("sgd", {{"lr", 0.5}, {"nesterov", true}}), "config: the rule sgd has no use for nesterov (true)");
  EXPECT_EQ(refusal("adam", with(kMoments, {{"weight_decay", 0.1}})),
            "config: the rule adam has no use for weight_decay (0.1)");
  EXPECT_EQ(refusal("radam", with(kMoments, {{"amsgrad", false}})),
            "config: the rule radam has no use for amsgrad (false)");
}

TEST(UpdateRule, FieldsThatAreMissingOrOfAnotherTypeAreNamed) {
  EXPECT_EQ(refusal("sgd", json::object()), "config: there is no lr");
  EXPECT_EQ(refusal("momentum", {{"lr", 0.5}}), "config: there is no momentum");
  EXPECT_EQ(refusal("adam", {{"lr", 0.5}, {"beta1", 0.9}, {"beta2", 0.9}}), "config: there is no eps");
  EXPECT_EQ(refusal("sgd", {{"lr", "fast"}}), "config: lr is \"fast\", no number");
  EXPECT_EQ(refusal("lamb", with(kMoments, {{"exclude_regex", 3}})), "config: exclude_regex is 3, no text");
  EXPECT_EQ(refusal("sgd", {{"lr", 0.5}, {"clip_norm", 0}}), "config: clip_norm is 0; more than 0 is needed");
  EXPECT_THAT(refusal("sgd", {{"lr", 0.5}, {"clip_norm", 1}, {"clip_form", "keras"}}), HasSubstr("'keras'"));
  EXPECT_EQ(refusal("adamax", kMoments), "unknown rule adamax");
}

TEST(UpdateRule, TheRuleOfARunIsTheLongestThatItsNameBeginsWith) {
  const json run = json::object();
  EXPECT_EQ(rule_of_run("sgd_momentum", run), "sgd");
  EXPECT_EQ(rule_of_run("momentum", run), "momentum");
  EXPECT_EQ(rule_of_run("adam_torch", run), "adam");
  EXPECT_EQ(rule_of_run("adam_epsilon_hat_keras", run), "adam_epsilon_hat");
  EXPECT_EQ(rule_of_run("adamw_torch", run), "adamw");
  EXPECT_EQ(rule_of_run("adam_weight_decay_keras_hf_names", run), "adam_weight_decay");
  EXPECT_EQ(rule_of_run("radam", run), "radam");
  EXPECT_EQ(rule_of_run("lamb_exclude", run), "lamb");
  EXPECT_EQ(rule_of_run("a_run", {{"rule", "lamb"}}), "lamb");
  EXPECT_THROW(rule_of_run("adamax", run), std::runtime_error);
  EXPECT_THROW(rule_of_run("run_adam", run), std::runtime_error);
}

}  // namespace
}  // namespace millrace::test::update_rule_test
