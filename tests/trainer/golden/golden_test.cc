// Operators, models, optimizers and schedules against PyTorch, transformers, TensorFlow and the original codes: what
// model_golden_test does with a directory, on the committed one.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "tests/support/loaded_tensors.h"
#include "tests/support/places.h"
#include "tests/trainer/golden/directory.h"
#include "tests/trainer/golden/json_file.h"
#include "tests/trainer/golden/models.h"
#include "tests/trainer/golden/operators.h"
#include "tests/trainer/golden/rules.h"

namespace millrace::test::golden_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kData = test::data_path("trainer");

TEST(Golden, Operators) {
  GoldenReport report;
  check_golden_operators(kData + "/ops", 2e-5, report);
  EXPECT_THAT(report.failures(), IsEmpty());
  EXPECT_EQ(report.passed(), 124U);
}

TEST(Golden, Convolutions) {
  GoldenReport report;
  check_golden_operators(kData + "/ops_conv", 1e-5, report);
  EXPECT_THAT(report.failures(), IsEmpty());
  EXPECT_EQ(report.passed(), 80U);
}

TEST(Golden, Roberta) {
  GoldenReport report;
  check_golden_roberta(kData + "/roberta_tiny", report);
  EXPECT_THAT(report.failures(), IsEmpty());
  EXPECT_GT(report.passed(), 300U);
}

TEST(Golden, T5) {
  GoldenReport report;
  check_golden_t5(kData + "/t5_tiny", report);
  EXPECT_THAT(report.failures(), IsEmpty());
  EXPECT_GT(report.passed(), 700U);
}

TEST(Golden, Optimizers) {
  GoldenReport report;
  check_golden_optimizers(kData + "/optimizers.json", report);
  EXPECT_THAT(report.failures(), IsEmpty());
  EXPECT_EQ(report.passed(), 4476U);
}

TEST(Golden, Schedules) {
  GoldenReport report;
  check_golden_schedules(kData + "/schedules.json", report);
  EXPECT_THAT(report.failures(), IsEmpty());
  EXPECT_EQ(report.passed(), 199U);
}

TEST(Golden, AChangedFigureOfAnOptimizerOrScheduleIsFound) {
  const fs::path copy = fs::path(testing::TempDir()) / "millrace_changed_rules.json";
  const auto changed = [&](const std::string& file, const std::string& place, auto check) {
    nlohmann::json json = read_json(kData + "/" + file);
    auto& figure = json.at(nlohmann::json::json_pointer(place));
    figure = figure.get<double>() * 1.00001;
    std::ofstream(copy) << json;
    GoldenReport report;
    check(copy.string(), report);
    fs::remove(copy);
    return report.failures();
  };
  const auto optimizer = [&](const std::string& place) {
    return changed("optimizers.json", place, check_golden_optimizers);
  };
  for (const std::string type : {"float32", "float64"}) {
    EXPECT_THAT(optimizer("/cases/adam/vector." + type + "/trajectory/dense.kernel/6/1"),
                ElementsAre(HasSubstr("optimizers adam vector." + type + " dense.kernel after update 7: value 1 is")));
    EXPECT_THAT(optimizer("/cases/lamb/vector." + type + "/trajectory/LayerNorm.weight/19/0"),
                ElementsAre(HasSubstr("optimizers lamb vector." + type + " LayerNorm.weight after update 20")));
    EXPECT_THAT(optimizer("/cases/adam/vector." + type + "/final_slots/dense.bias.v/2"),
                ElementsAre(HasSubstr("optimizers adam vector." + type + " slot dense.bias.v")));
  }
  EXPECT_THAT(optimizer("/clip_by_global_norm/0/norm"), ElementsAre(HasSubstr("clip_by_global_norm below tf norm")));
  EXPECT_THAT(optimizer("/clip_by_global_norm/0/scale"), ElementsAre(HasSubstr("clip_by_global_norm below tf scale")));
  EXPECT_THAT(optimizer("/clip_by_global_norm/5/clipped/a/1"),
              ElementsAre(HasSubstr("clip_by_global_norm above torch clipped a: value 1 is")));
  EXPECT_THAT(optimizer("/radam_rectification/beta2=0.999/rows/5/r"), ElementsAre(HasSubstr("update 6")));
  EXPECT_THAT(changed("schedules.json", "/tables/3/table/2/1", check_golden_schedules),
              ElementsAre(HasSubstr("at step 2349")));
}

// The program is no use when it cannot fail: each kind of file with one figure changed.
TEST(Golden, AChangedFigureIsFound) {
  const fs::path copy = fs::path(testing::TempDir()) / "millrace_changed_figures";
  fs::remove_all(copy);
  const auto changed = [&](const std::string& file, const std::string& tensor, size_t index) {
    fs::remove_all(copy);
    fs::copy(kData, copy, fs::copy_options::recursive);
    fs::permissions(copy / file, fs::perms::owner_write, fs::perm_options::add);
    {
      const test::LoadedTensors original(kData + "/" + file);
      std::vector<NamedTensor> tensors = original.tensors();
      std::vector<std::vector<std::byte>> bytes;
      for (NamedTensor& t : tensors) {
        if (t.name != tensor) continue;
        bytes.emplace_back(t.bytes.begin(), t.bytes.end());
        const size_t size = size_of(t.type);
        // The first bit of the last byte but one: a factor of about 2 for floats.
        bytes.back().at((index + 1) * size - 2) ^= std::byte{0x40};
        t.bytes = bytes.back();
      }
      EXPECT_EQ(bytes.size(), 1U) << tensor;
      write_safetensors((copy / file).string(), tensors);
    }
    GoldenReport report;
    check_golden_directory(copy.string(), report);
    return report.failures();
  };
  EXPECT_THAT(changed("ops.safetensors", "rms_norm.grad.x", 7),
              Contains(HasSubstr("rms_norm float64 y, gradient of x")));
  EXPECT_THAT(changed("t5_tiny/io.safetensors", "len5.logits", 100), Contains(HasSubstr("t5_tiny len5.logits")));
  EXPECT_THAT(changed("t5_tiny/grads_len2.safetensors", "shared.weight", 64),
              Contains(HasSubstr("t5_tiny len2 gradient of shared.weight")));
  EXPECT_THAT(changed("roberta_tiny/model.safetensors", "lm_head.dense.bias", 3),
              Contains(HasSubstr("roberta_tiny logits")));
  fs::remove_all(copy);
}

TEST(Golden, EachPartOfADirectoryIsAGroup) {
  GoldenReport report;
  check_golden_directory(kData, report);
  EXPECT_THAT(report.failures(), IsEmpty());
  std::vector<std::string> names;
  size_t checks = 0;
  for (const GoldenGroup& group : report.groups()) {
    names.push_back(group.name);
    checks += group.checks;
    EXPECT_EQ(group.failed, 0U) << group.name;
    EXPECT_LE(group.largest.value_or(0), 1) << group.name;
  }
  EXPECT_EQ(checks, report.passed());
  const std::vector<std::string> runs = {"adam_weight_decay_keras", "adam_weight_decay_keras_hf_names", "adamw_torch",
                                         "sgd_momentum"};
  std::vector<std::string> expected = {
      "ops operators in float64",      "ops operators in float32",  "ops_conv operators in float64",
      "ops_conv operators in float32", "optimizers beside float32", "optimizers beside float64",
      "clipping by global norm",       "RAdam's rectification",     "roberta_tiny position ids",
      "roberta_tiny hidden states",    "roberta_tiny logits",       "roberta_tiny token losses",
      "roberta_tiny gradients"};
  for (const std::string& run : runs) expected.push_back("roberta_tiny training with " + run);
  for (const char* part : {"roberta_tiny id1_inside", "schedules", "t5_tiny decoder_input_ids", "t5_tiny hidden states",
                           "t5_tiny logits", "t5_tiny token losses"}) {
    expected.emplace_back(part);
  }
  for (const std::string set : {"len2", "len5"}) {
    expected.push_back("t5_tiny " + set + " gradients");
    for (const std::string& run : runs) expected.push_back("t5_tiny " + set + " training with " + run);
  }
  expected.emplace_back("t5_tiny sets of labels");
  EXPECT_EQ(names, expected);
}

TEST(Golden, ADirectoryIsComparedInBothPrecisions) {
  const fs::path copy = fs::path(testing::TempDir()) / "millrace_both_precisions";
  fs::remove_all(copy);
  fs::create_directory(copy);
  for (const char* name : {"ops.json", "ops.safetensors"}) fs::copy_file(kData + "/" + name, copy / name);
  GoldenReport report;
  check_golden_directory(copy.string(), report);
  fs::remove_all(copy);
  EXPECT_THAT(report.failures(), IsEmpty());
  EXPECT_EQ(report.passed(), 124U);
}

TEST(Golden, FiguresThatAreNotThereAreNoSuccess) {
  GoldenReport report;
  report.compare("losses", {}, {}, 1e-5, 0);
  report.guard("a table", [] {});
  EXPECT_THAT(report.failures(), ElementsAre("losses: nothing to compare", "a table: nothing to compare"));
  EXPECT_EQ(report.passed(), 0U);

  const fs::path copy = fs::path(testing::TempDir()) / "millrace_emptied_figures.json";
  const auto emptied = [&](const std::string& file, const std::string& place, auto check) {
    nlohmann::json json = read_json(kData + "/" + file);
    json.at(nlohmann::json::json_pointer(place)).clear();
    std::ofstream(copy) << json;
    GoldenReport failed;
    check(copy.string(), failed);
    fs::remove(copy);
    return failed.failures();
  };
  const auto nothing = Contains(HasSubstr("nothing to compare"));
  for (const char* place : {"/tables", "/tables/1/table"}) {
    EXPECT_THAT(emptied("schedules.json", place, check_golden_schedules), nothing) << place;
  }
  for (const char* place : {"/cases", "/problems", "/clip_by_global_norm", "/radam_rectification",
                            "/radam_rectification/beta2=0.999/rows", "/cases/adam/vector.float32/final_slots",
                            "/cases/adam/vector.float64/final_slots", "/clip_by_global_norm/0/clipped"}) {
    EXPECT_FALSE(emptied("optimizers.json", place, check_golden_optimizers).empty()) << place;
  }
}

TEST(Golden, FiguresAreWithoutDropoutWhateverTheConfigSays) {
  const fs::path copy = fs::path(testing::TempDir()) / "millrace_config_with_dropout";
  const auto with_dropout = [&](const std::string& model, const std::vector<std::string>& rates) {
    fs::remove_all(copy);
    fs::copy(kData + "/" + model, copy, fs::copy_options::recursive);
    fs::permissions(copy / "config.json", fs::perms::owner_write, fs::perm_options::add);
    nlohmann::json config = read_json((copy / "config.json").string());
    for (const std::string& rate : rates) config.at(rate) = 0.1;
    std::ofstream(copy / "config.json") << config;
    GoldenReport report;
    check_golden_directory(copy.string(), report);
    fs::remove_all(copy);
    EXPECT_GT(report.passed(), 300U) << model;
    return report.failures();
  };
  EXPECT_THAT(with_dropout("roberta_tiny", {"hidden_dropout_prob"}), IsEmpty());
  EXPECT_THAT(with_dropout("roberta_tiny", {"attention_probs_dropout_prob"}), IsEmpty());
  EXPECT_THAT(with_dropout("t5_tiny", {"dropout_rate"}), IsEmpty());
}

TEST(Golden, AModelsOwnFolderIsThatModel) {
  GoldenReport own;
  check_golden_directory(kData + "/roberta_tiny/", own);
  GoldenReport expected;
  check_golden_roberta(kData + "/roberta_tiny", expected);
  EXPECT_THAT(own.failures(), IsEmpty());
  EXPECT_EQ(own.passed(), expected.passed());
}

TEST(Golden, AFileThatIsMissingOrNoJsonIsNamed) {
  GoldenReport report;
  check_golden_schedules(kData + "/none.json", report);
  check_golden_optimizers(kData + "/ops.safetensors", report);
  EXPECT_THAT(report.failures(),
              ElementsAre(AllOf(HasSubstr("cannot open"), HasSubstr("none.json")), HasSubstr("ops.safetensors: ")));
}

// A file of a model's folder that is the model's, but for what is changed: other positions, one hidden state more, no
// final weights.
TEST(Golden, WhatAModelsFilesHaveBesideItIsFound) {
  const fs::path copy = fs::path(testing::TempDir()) / "millrace_more_figures";
  const auto changed = [&](const auto& change) {
    fs::remove_all(copy);
    fs::copy(kData + "/roberta_tiny", copy, fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(copy)) {
      fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
    }
    change();
    GoldenReport report;
    check_golden_directory(copy.string(), report);
    fs::remove_all(copy);
    return report.failures();
  };
  const auto with_tensors = [&](const auto& change) {
    return changed([&] {
      const test::LoadedTensors original(kData + "/roberta_tiny/io.safetensors");
      std::vector<NamedTensor> tensors = original.tensors();
      std::vector<std::byte> bytes;  // of a tensor that is changed
      change(tensors, bytes);
      write_safetensors((copy / "io.safetensors").string(), tensors);
    });
  };
  EXPECT_THAT(with_tensors([](std::vector<NamedTensor>& tensors, std::vector<std::byte>&) {
                NamedTensor more = *std::ranges::find(tensors, "hidden.2", &NamedTensor::name);
                more.name = "hidden.3";
                tensors.push_back(more);
              }),
              ElementsAre(HasSubstr("the model has 3, the file also hidden.3")));
  EXPECT_THAT(with_tensors([](std::vector<NamedTensor>& tensors, std::vector<std::byte>& bytes) {
                NamedTensor& positions = *std::ranges::find(tensors, "position_ids", &NamedTensor::name);
                bytes.assign(positions.bytes.begin(), positions.bytes.end());
                bytes[8 * 5] ^= std::byte{1};
                positions.bytes = bytes;
              }),
              ElementsAre(HasSubstr("position_ids: value 5 is")));
  const auto with_figure = [&](const std::string& place, double difference) {
    return changed([&] {
      nlohmann::json json = read_json((copy / "trajectory.json").string());
      auto& figure = json.at(nlohmann::json::json_pointer("/runs/sgd_momentum" + place));
      figure = figure.get<double>() + difference;
      std::ofstream(copy / "trajectory.json") << json;
    });
  };
  EXPECT_THAT(with_figure("/losses/4", 2e-5), ElementsAre(HasSubstr("sgd_momentum losses: value 4 is")));
  EXPECT_THAT(with_figure("/losses_float64/4", 2e-5), ElementsAre(HasSubstr("losses_float64: value 4 is")));
  EXPECT_THAT(with_figure("/final/lm_head.dense.weight/sum_float64", 1e-4),
              ElementsAre(HasSubstr("lm_head.dense.weight sum_float64: value 0 is")));
  EXPECT_THAT(with_figure("/final/lm_head.dense.weight/l2_float64", 1e-3),
              ElementsAre(HasSubstr("lm_head.dense.weight l2_float64: value 0 is")));
  EXPECT_THAT(changed([&] {
                nlohmann::json json = read_json((copy / "trajectory.json").string());
                json.at("runs").at("adamw_torch").at("final").clear();
                std::ofstream(copy / "trajectory.json") << json;
              }),
              ElementsAre(HasSubstr("adamw_torch final: nothing to compare")));
}

// A run of the trajectory under another name, or with another config.
TEST(Golden, TheConfigOfARunIsFollowedOrRefused) {
  const fs::path copy = fs::path(testing::TempDir()) / "millrace_other_runs";
  const auto changed = [&](const std::string& name, const nlohmann::json& config) {
    fs::remove_all(copy);
    fs::copy(kData + "/roberta_tiny", copy, fs::copy_options::recursive);
    fs::permissions(copy / "trajectory.json", fs::perms::owner_write, fs::perm_options::add);
    nlohmann::json json = read_json((copy / "trajectory.json").string());
    nlohmann::json run = json.at("runs").at("sgd_momentum");
    run.at("config").update(config);
    json.at("runs") = {{name, run}};
    std::ofstream(copy / "trajectory.json") << json;
    GoldenReport report;
    check_golden_directory(copy.string(), report);
    fs::remove_all(copy);
    return report.failures();
  };
  EXPECT_THAT(changed("momentum_of_torch", {{"clip_norm", 1e6}, {"clip_form", "torch"}}), IsEmpty());
  EXPECT_THAT(changed("sgd", {{"clip_norm", 1e-3}}), Contains(HasSubstr("sgd losses: value 10 is")));
  EXPECT_THAT(changed("sgd", {{"nesterov", true}}),
              ElementsAre(HasSubstr("sgd: config: the rule sgd has no use for nesterov (true)")));
  EXPECT_THAT(changed("adamax", nlohmann::json::object()),
              ElementsAre(HasSubstr("adamax: the name of the run says no rule")));
}

TEST(Golden, ADirectoryWithNothingToCheckIsAnError) {
  GoldenReport report;
  EXPECT_THROW(check_golden_directory(kData + "/none", report), std::runtime_error);
  EXPECT_THROW(check_golden_directory(test::data_path("zstd"), report), std::runtime_error);
}

}  // namespace
}  // namespace millrace::test::golden_test
