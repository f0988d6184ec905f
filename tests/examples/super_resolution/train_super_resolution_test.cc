// train_super_resolution, distill_super_resolution and interpolate_super_resolution as processes.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/example/tensor_writer.h"
#include "millrace/formats/example/writer.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/trainer/models/image_generator.h"
#include "tests/examples/super_resolution/small_generator_run.h"
#include "tests/support/killed_runs.h"
#include "tests/support/places.h"
#include "tests/trainer/training_files.h"

namespace millrace::train_super_resolution_test {
namespace {

using test::ChildResult;
using test::read_file;
using test::run_child;
using test::SmallGeneratorRun;
using testing::ElementsAreArray;
using testing::HasSubstr;

// The events of a kind in a log, by step.
std::map<int64_t, nlohmann::json> events(const std::string& log, const std::string& kind) {
  std::map<int64_t, nlohmann::json> found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["event"] == kind) found[json["step"].get<int64_t>()] = json;
  }
  return found;
}

// Loss, rate and terms of each report, and what each evaluation says.
std::vector<std::string> numbers_in(const std::string& log) {
  std::vector<std::string> numbers;
  for (const auto& [step, event] : events(log, "report")) {
    numbers.push_back(fmt::format("{}: {} {} {}", step, event["loss"].dump(), event["learning_rate"].dump(),
                                  event["metrics"].dump()));
  }
  for (const auto& [step, event] : events(log, "evaluation")) {
    numbers.push_back(fmt::format("{}: {} {}", step, event["loss"].dump(), event["metrics"].dump()));
  }
  return numbers;
}

int64_t last_step(const std::string& log) {
  const auto reports = events(log, "report");
  return reports.empty() ? 0 : reports.rbegin()->first;
}

class TrainSuperResolution : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_ = new SmallGeneratorRun;
    const ChildResult result = run_child(run_->training(test::kTrainSuperResolution, "pixels"));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  static void TearDownTestSuite() {
    delete run_;
    run_ = nullptr;
  }
  static std::vector<std::string> gan(const std::string& out, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--gan", "--model", run_->path("pixels/model"), "--discriminator-channels", "4",
                               "--discriminator-levels", "2"});
    return run_->training(test::kTrainSuperResolution, out, more);
  }
  static std::string log(const std::string& out) { return read_file(run_->path(out + "/log.jsonl")); }
  static std::string weights(const std::string& out) { return read_file(run_->path(out + "/model/model.safetensors")); }
  // Copies the shards of a split into brighter/, their values so many times larger.
  static void write_brighter(const std::string& split, float times) {
    std::filesystem::create_directories(run_->path("brighter/" + split));
    for (int shard = 0; shard < 8; ++shard) {
      const std::string name = fmt::format("{}/dataset.{}.tfrecord", split, shard);
      Pipeline pairs = Dataset::tfrecord(Shards::files({run_->path("shards/" + name)}))
                           .parse_example({fixed_len("low_res_image", {}, DType::kBytes),
                                           fixed_len("high_res_image", {}, DType::kBytes)})
                           .parse_tensor("low_res_image", DType::kFloat32, {4, 4, 3})
                           .parse_tensor("high_res_image", DType::kFloat32, {16, 16, 3})
                           .start({.threads = 1});
      RecordWriter writer(run_->path("brighter/" + name));
      while (const std::optional<Batch> pair = pairs.next()) {
        ExampleWriter example;
        for (const auto& [feature, side] : {std::pair("low_res_image", 4), std::pair("high_res_image", 16)}) {
          const auto values = pair->values<float>(feature);
          std::vector<float> brighter(values.begin(), values.end());
          for (float& value : brighter) value *= times;
          const std::string message = write_tensor(brighter, {side, side, 3});
          example.add(feature, std::array{std::string_view(message)});
        }
        writer.write(example.finish());
      }
      writer.close();
    }
  }
  // The error of a command that must fail, which is one line.
  static std::string refusal(const std::vector<std::string>& command) {
    const ChildResult result = run_child(command);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  }

  static SmallGeneratorRun* run_;
};

SmallGeneratorRun* TrainSuperResolution::run_ = nullptr;

TEST_F(TrainSuperResolution, LearnsThePixels) {
  const ChildResult result = run_child(run_->training(test::kTrainSuperResolution, "longer",
                                                      {"--steps", "150", "--learning-rate", "2e-3", "--json",
                                                       "--no-augment", "--evaluate-every", "75", "--keep-best", "1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto reports = events(log("longer"), "report");
  EXPECT_LT(reports.at(150)["loss"].get<double>(), 0.7 * reports.at(1)["loss"].get<double>());
  const auto evaluations = events(log("longer"), "evaluation");
  ASSERT_EQ(evaluations.size(), 2U);
  EXPECT_GT(evaluations.at(150)["metrics"]["psnr"].get<double>(), 10);
  EXPECT_EQ(nlohmann::json::parse(result.out).at("evaluation_rows"), 12);
  EXPECT_EQ(TrainedGenerator(run_->path("longer/model")).generator().config().blocks, 1);
}

TEST_F(TrainSuperResolution, TrainsBothSidesOfAGanInOneStep) {
  ASSERT_EQ(run_child(gan("gan", {"--steps", "60", "--learning-rate", "1e-3"})).exit_code, 0);
  const auto reports = events(log("gan"), "report");
  for (const auto& [step, report] : reports) {
    for (const char* name : {"absolute", "perceptual", "adversarial", "told_apart"}) {
      EXPECT_TRUE(std::isfinite(report["metrics"][name].get<double>())) << name << " of step " << step;
    }
  }
  std::vector<std::string> names;
  const auto evaluations = events(log("gan"), "evaluation");
  for (const auto& [name, value] : evaluations.rbegin()->second.at("metrics").items()) {
    EXPECT_TRUE(std::isfinite(value.get<double>())) << name;
    names.push_back(name);
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("absolute", "perceptual", "adversarial", "told_apart", "psnr", "loss_1"));
  // Without the adversarial term it becomes another one, of other images: by 0.2 dB.
  ASSERT_EQ(run_child(gan("no_gan", {"--steps", "60", "--learning-rate", "1e-3"})).exit_code, 0);
  EXPECT_EQ(weights("gan"), weights("no_gan"));
  const ChildResult without =
      run_child(run_->training(test::kTrainSuperResolution, "no_gan",
                               {"--gan", "--overwrite", "--model", run_->path("pixels/model"), "--adversarial", "0",
                                "--steps", "60", "--learning-rate", "1e-3"}));
  ASSERT_EQ(without.exit_code, 0) << without.err;
  const auto psnr = [](const std::string& out) {
    return events(log(out), "evaluation").rbegin()->second.at("metrics").at("psnr").get<double>();
  };
  EXPECT_GT(std::abs(psnr("gan") - psnr("no_gan")), 0.05);
  // The network of its perceptual loss is there, for those who measure.
  EXPECT_FALSE(read_file(run_->path("gan/model/features.safetensors")).empty());
}

TEST_F(TrainSuperResolution, TheDiscriminatorLearnsToTellMadeImagesFromHeldOutOnes) {
  ASSERT_EQ(run_child(gan("told", {"--steps", "60", "--learning-rate", "1e-3", "--freeze", "^generator",
                                   "--evaluate-every", "20"}))
                .exit_code,
            0);
  const auto evaluations = events(log("told"), "evaluation");
  ASSERT_EQ(evaluations.size(), 3U);
  const auto value = [&](int64_t step, const char* name) {
    return evaluations.at(step)["metrics"][name].get<double>();
  };
  EXPECT_LT(value(60, "loss_1"), 0.5 * value(20, "loss_1"));
  EXPECT_GT(value(60, "told_apart"), 0.9);                  // 0.5 is chance
  EXPECT_EQ(value(60, "absolute"), value(20, "absolute"));  // the generator is frozen, what it makes the same
}

TEST_F(TrainSuperResolution, InterpolatesExactly) {
  ASSERT_EQ(run_child(gan("second", {"--learning-rate", "1e-2"})).exit_code, 0);
  const TrainedGenerator first(run_->path("pixels/model"));
  const TrainedGenerator second(run_->path("second/model"));
  for (const double alpha : {0.0, 0.8, 1.0}) {
    const std::string out = fmt::format("between/{}", alpha);
    const ChildResult result =
        run_child({test::kInterpolateSuperResolution, "--first", run_->path("pixels/model"), "--second",
                   run_->path("second/model"), "--alpha", fmt::format("{}", alpha), "--out", run_->path(out)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const TrainedGenerator between(run_->path(out));
    for (size_t i = 0; i < between.weights().size(); ++i) {
      const double a = first.weights()[i];
      const double b = second.weights()[i];
      ASSERT_EQ(between.weights()[i], static_cast<float>((1 - alpha) * a + alpha * b)) << i;
    }
    if (alpha == 0) {
      EXPECT_THAT(between.weights(), ElementsAreArray(first.weights()));
    } else if (alpha == 1) {
      EXPECT_THAT(between.weights(), ElementsAreArray(second.weights()));
    }
  }
  EXPECT_THAT(refusal({test::kInterpolateSuperResolution, "--first", run_->path("pixels/model"), "--second",
                       run_->path("second/model"), "--out", run_->path("between/1")}),
              HasSubstr("is there already; --overwrite replaces it"));
  EXPECT_THAT(refusal({test::kInterpolateSuperResolution, "--first", run_->path("pixels/model"), "--second",
                       run_->path("second/model"), "--out", "s3://bucket/between"}),
              HasSubstr("only local files are written here, named by their path alone (file s3://bucket/between)"));
  EXPECT_FALSE(std::filesystem::exists("s3:"));
  ASSERT_EQ(
      run_child(run_->training(test::kTrainSuperResolution, "wide", {"--channels", "5", "--steps", "1"})).exit_code, 0);
  EXPECT_THAT(refusal({test::kInterpolateSuperResolution, "--first", run_->path("pixels/model"), "--second",
                       run_->path("wide/model"), "--out", run_->path("mixed")}),
              HasSubstr("channels=5"));
}

TEST_F(TrainSuperResolution, RefusesWhatCannotBe) {
  const auto refused = [&](const std::vector<std::string>& more) {
    return refusal(run_->training(test::kTrainSuperResolution, "refused", more));
  };
  EXPECT_THAT(refused({"--discriminator-channels", "3"}), HasSubstr("--discriminator-channels needs --gan"));
  EXPECT_THAT(refused({"--features", "x"}), HasSubstr("--features needs the perceptual term: --gan, or --perceptual"));
  EXPECT_THAT(refused({"--absolute", "0"}), HasSubstr("all factors of the loss are 0"));
  EXPECT_THAT(refused({"--crop", "16"}), HasSubstr("--crop goes with --records"));
  EXPECT_THAT(refused({"--records", "x"}), HasSubstr("--shards and --records are two kinds of files"));
  EXPECT_THAT(refused({"--no-augment", "--contrast", "0.5"}), HasSubstr("--contrast and --no-augment"));
  EXPECT_THAT(refused({"--model", run_->path("pixels/model"), "--blocks", "2"}), HasSubstr("blocks=1"));
  const std::string nothing = run_->path("nothing");
  for (const char* option : {"--model", "--teacher"}) {
    EXPECT_THAT(
        refused({option, nothing}),
        HasSubstr("no model in '" + nothing + "' (no config.json); train_super_resolution writes one to OUT/model"));
  }
  const std::string missing = "there is no " + nothing + "/statistics.json; prepare_super_resolution writes it";
  EXPECT_THAT(refused({"--shards", nothing}), HasSubstr(missing));
  const auto looked =
      run_child(run_->training(test::kTrainSuperResolution, "refused", {"--shards", nothing, "--check"}));
  EXPECT_EQ(looked.exit_code, 0) << looked.err;
  EXPECT_THAT(looked.out, HasSubstr(missing));
  EXPECT_THAT(refusal(run_->training(test::kDistillSuperResolution, "refused")), HasSubstr("--teacher is missing"));
  EXPECT_FALSE(std::filesystem::exists(run_->path("refused")));
}

TEST_F(TrainSuperResolution, ReadsTheRecordsOfOthers) {
  // The same crops, by patterns and without what is known of a set.
  const std::vector<std::string> by_pattern =
      run_->training_on({"--records", run_->path("shards/train/dataset.*.tfrecord"), "--evaluation-records",
                         run_->path("shards/validation/dataset.*.tfrecord"), "--crop", "16", "--evaluate-every", "12"},
                        test::kTrainSuperResolution, "pattern");
  const ChildResult result = run_child(by_pattern);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(weights("pattern"), weights("pixels"));
  const auto evaluation = events(log("pattern"), "evaluation").at(12);
  EXPECT_EQ(evaluation["rows"], 12);
  // As others have them, with values to a number that is not 1: a power of two, so that nothing is rounded.
  for (const char* split : {"train", "validation"}) write_brighter(split, 256);
  ASSERT_EQ(run_child(run_->training_on({"--records", run_->path("brighter/train/*.tfrecord"), "--evaluation-records",
                                         run_->path("brighter/validation/*.tfrecord"), "--crop", "16", "--peak", "256",
                                         "--evaluate-every", "12"},
                                        test::kTrainSuperResolution, "brighter_run"))
                .exit_code,
            0);
  EXPECT_EQ(weights("brighter_run"), weights("pixels"));
  EXPECT_EQ(events(log("brighter_run"), "evaluation").at(12)["metrics"], evaluation["metrics"]);
  // How many there are nobody knows, so there are no epochs to count.
  EXPECT_THAT(refusal(test::with_options(by_pattern, {"--overwrite", "--epochs", "3"})), HasSubstr("epochs"));
}

// What is killed goes on to the same weights, numbers and rates.
TEST_F(TrainSuperResolution, GoesOnAfterKillsInEachPhase) {
  constexpr int64_t kSteps = 60;
  constexpr int64_t kFirstCheckpoint = 4;
  ASSERT_EQ(run_child(run_->training(test::kTrainSuperResolution, "teacher", {"--blocks", "2"})).exit_code, 0);
  const std::map<std::string, std::vector<std::string>> phases = {
      {"by_pixels", run_->training(test::kTrainSuperResolution, "x")},
      {"with_gan", gan("x")},
      {"distilled", run_->training(test::kDistillSuperResolution, "x", {"--teacher", run_->path("teacher/model")})},
      {"distilled_gan", run_->training(test::kDistillSuperResolution, "x",
                                       {"--teacher", run_->path("teacher/model"), "--gan", "--discriminator-channels",
                                        "4", "--discriminator-levels", "1"})}};
  for (const auto& [phase, command] : phases) {
    SCOPED_TRACE(phase);
    const auto training = [&, &arguments = command](const std::string& out, const std::vector<std::string>& more) {
      std::vector<std::string> given = {"--out",
                                        run_->path(out),
                                        "--steps",
                                        std::to_string(kSteps),
                                        "--checkpoint-every",
                                        std::to_string(kFirstCheckpoint),
                                        "--keep-checkpoints",
                                        "1",
                                        "--evaluate-every",
                                        "30",
                                        "--decay",
                                        "milestones",
                                        "--milestones",
                                        "20:40"};
      given.insert(given.end(), more.begin(), more.end());
      return test::with_options(arguments, given);
    };
    const std::string whole = phase + "_whole";
    const ChildResult first = run_child(training(whole, {}));
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const auto expected = testing_models::training_files(run_->path(whole + "/checkpoints"));
    const auto rates = events(log(whole), "report");
    EXPECT_DOUBLE_EQ(rates.at(41)["learning_rate"].get<double>(), rates.at(1)["learning_rate"].get<double>() / 4);
    const int kills = test::num_kills(1);
    test::KillHistogram histogram(kFirstCheckpoint, kSteps, kills);
    for (uint64_t run = 0; !histogram.has_enough(); ++run) {
      const std::string out = fmt::format("{}_{}", phase, run);
      const auto start = [&](uint64_t attempt) {
        return training(out, {"--resume", "last", "--threads", std::to_string(1 + attempt % 2)});
      };
      const ChildResult last = histogram.kill_until_it_ends(
          {.log = run_->path(out + "/log.jsonl"), .command = start, .steps_in = &last_step}, run);
      ASSERT_EQ(last.exit_code, 0) << last.err;
      EXPECT_EQ(weights(out), weights(whole));
      EXPECT_TRUE(testing_models::training_files(run_->path(out + "/checkpoints")) == expected);
      EXPECT_EQ(numbers_in(log(out)), numbers_in(log(whole)));
    }
    fmt::print("{}: {}\n", phase, histogram.to_string());
    EXPECT_GE(histogram.num_that_count(), kills);
  }
}

}  // namespace
}  // namespace millrace::train_super_resolution_test
