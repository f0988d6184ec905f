// prepare_frozen_features and train_frozen_features as processes, on pictures that are drawn here.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "examples/frozen_features/feature_extractor.h"
#include "examples/frozen_features/feature_set.h"
#include "millrace/formats/storage/folder_lock.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "tests/examples/frozen_features/small_pictures.h"
#include "tests/support/child_process.h"
#include "tests/support/encoded_pictures.h"
#include "tests/support/killed_runs.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/training_files.h"

namespace millrace::frozen_features_programs_test {
namespace {

namespace fs = std::filesystem;
using test::ChildProcess;
using test::ChildResult;
using test::run_child;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using Command = std::vector<std::string>;

// What is given later counts.
Command operator+(const Command& command, const Command& more) { return test::with_options(command, more); }

// Pictures, their features, and a head, made once.
class FrozenFeatures : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new test::TemporaryFolder;
    test::draw_pictures(path("pictures"), 14);
    test::small_network().write(path("network"));
    succeed(prepare("set"));
    succeed(train("run"));
  }
  static void TearDownTestSuite() {
    delete data_;
    data_ = nullptr;
  }
  static std::string path(const std::string& name) { return data_->path(name); }
  static Command prepare(const std::string& out, const Command& more = {}) {
    return test::small_preparation(path("pictures"), path("network"), path(out)) + more;
  }
  static Command train(const std::string& out, const Command& more = {}) {
    return test::small_training(path("set"), path(out)) + more;
  }
  static ChildResult succeed(const Command& command) {
    ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  // What it says in one line, perhaps after one about what it was going to do.
  static std::string refusal(const Command& command) {
    const ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_LE(std::ranges::count(result.err, '\n'), 2) << result.err;
    return result.err;
  }
  static std::string weights(const std::string& out) { return test::read_file(path(out + "/model/model.safetensors")); }

  static inline test::TemporaryFolder* data_ = nullptr;
};

TEST_F(FrozenFeatures, AreThoseOfThePictureByItselfInTheShardOfItsNumber) {
  const FeatureSet set = read_feature_set(path("set"));
  EXPECT_EQ(set.classes, test::kPictureClasses);
  EXPECT_THAT(set.train, Each(11));
  EXPECT_THAT(set.test, Each(3));
  const FeatureExtractor extractor(test::small_network());
  EXPECT_EQ(set.network, extractor.network().describe());
  EXPECT_EQ(set.length(), extractor.length());
  for (const FeatureSplit split : {FeatureSplit::kTrain, FeatureSplit::kTest}) {
    const std::vector<std::string> paths = picture_paths(path("set"), split);
    ASSERT_EQ(std::ssize(paths), set.num_pictures(split));
    std::map<size_t, std::vector<float>> by_number;
    for (size_t shard = 0; shard < 8; ++shard) {
      const std::string file =
          fmt::format("{}/{}/dataset.{}.tfrecord", path("set"), kFeatureSplits[static_cast<size_t>(split)], shard);
      Pipeline pipeline = Dataset::tfrecord(Shards::files({file}))
                              .parse_example({fixed_len("features", {set.length()}, DType::kFloat32),
                                              fixed_len("label", {3}, DType::kFloat32)})
                              .start({.threads = 1});
      for (size_t number = shard; const std::optional<Batch> row = pipeline.next(); number += 8) {
        const auto features = row->values<float>("features");
        by_number[number].assign(features.begin(), features.end());
        const std::string of = paths.at(number).substr(0, paths[number].find('/'));
        for (size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(row->values<float>("label")[i], set.classes[i] == of ? 1 : 0) << paths[number];
        }
      }
    }
    ASSERT_EQ(by_number.size(), paths.size());
    Pipeline in_order = feature_rows(path("set"), set, split).start({.threads = 2});
    for (size_t number = 0; number < paths.size(); ++number) {
      Pipeline picture = Dataset::files(Shards::files({path("pictures/" + paths[number])}))
                             .decode_image("bytes", {.background = {{255, 255, 255}}})
                             .resize({.feature = "bytes", .shorter_side = 16, .antialias = true})
                             .crop({.features = {"bytes"}, .window = {.height = 16, .width = 16}})
                             .start({.threads = 1});
      std::vector<float> expected(static_cast<size_t>(extractor.length()));
      extractor.extract(picture.next()->values<float>("bytes"), 16, 16, expected);
      EXPECT_EQ(by_number.at(number), expected) << paths[number];
      const std::optional<Batch> row = in_order.next();
      EXPECT_TRUE(std::ranges::equal(row->values<float>("features"), expected)) << paths[number];
      if (number > 0) {
        EXPECT_NE(by_number.at(number), by_number.at(0));
      }
    }
  }
}

TEST_F(FrozenFeatures, AreTheSameBytesForAnyNumberOfThreads) {
  const auto files = test::files_below(path("set"));
  EXPECT_EQ(files.size(), 18U);
  for (const char* threads : {"1", "8"}) {
    succeed(prepare(std::string("threads") + threads, {"--threads", threads}));
    EXPECT_TRUE(test::files_below(path(std::string("threads") + threads)) == files) << threads;
  }
  succeed(prepare("other-seed", {"--seed", "7"}));
  EXPECT_FALSE(test::files_below(path("other-seed")) == files);
}

TEST_F(FrozenFeatures, AreOfThePictureTurnedAsItsExifOrientationSays) {
  const auto shade = [](int row, int column, int channel) {
    return static_cast<uint8_t>(7 * row + 3 * column + 40 * channel);
  };
  test::Picture upright{.height = 30, .width = 20, .channels = 3};
  for (int i = 0; i < 30 * 20 * 3; ++i) upright.pixels.push_back(shade(i / 60, i / 3 % 20, i % 3));
  // The 6th of the eight: its last row is the first column.
  test::Picture stored{.height = 20, .width = 30, .channels = 3};
  for (int i = 0; i < 20 * 30 * 3; ++i) stored.pixels.push_back(shade(i / 3 % 30, 19 - i / 90, i % 3));
  const std::string exif = test::png_chunk("eXIf", test::exif_data(6));
  const auto files = [](const std::string& name, const std::string& picture) {
    fs::copy(path("pictures"), path(name), fs::copy_options::recursive);
    test::write_file(path(name + "/dots/2.png"), picture);
    succeed(prepare("of-" + name, {"--pictures", path(name), "--classes", "3"}));
    return test::files_below(path("of-" + name));
  };
  const auto expected = files("upright", test::written_png(upright));
  EXPECT_TRUE(files("turned", test::written_png(stored, {.chunks = exif})) == expected);
  EXPECT_FALSE(files("lying", test::written_png(stored)) == expected);
}

TEST_F(FrozenFeatures, HaveMeanAndDeviationOfThePicturesToTrainOn) {
  const FeatureSet set = read_feature_set(path("set"));
  std::vector<double> sums(static_cast<size_t>(set.length()));
  std::vector<double> squares(sums.size());
  Pipeline rows = feature_rows(path("set"), set, FeatureSplit::kTrain).start({.threads = 1});
  while (const std::optional<Batch> row = rows.next()) {
    for (size_t i = 0; i < sums.size(); ++i) {
      const double value = row->values<float>("features")[i];
      sums[i] += value;
      squares[i] += value * value;
    }
  }
  const auto count = static_cast<double>(set.num_pictures(FeatureSplit::kTrain));
  for (size_t i = 0; i < sums.size(); ++i) {
    const double mean = sums[i] / count;
    EXPECT_NEAR(set.mean[i], mean, 1e-9 * (1 + std::abs(mean)));
    EXPECT_NEAR(set.deviation[i], std::sqrt(std::max(0.0, squares[i] / count - mean * mean)), 1e-6);
  }
}

TEST_F(FrozenFeatures, AreOfANetworkThatIsDrawnWhereNoneIsGiven) {
  Command command = prepare("drawn", {"--size", "20"});
  command.erase(std::ranges::find(command, "--features"), std::ranges::find(command, "--out"));
  succeed(command);
  const std::string network = read_feature_set(path("drawn")).network;
  EXPECT_EQ(Vgg::read(path("drawn/network.safetensors")).describe(), network);
  EXPECT_THAT(refusal(command + Command{"--size", "3"}), HasSubstr("pictures of 3 x 3 pixels; the network needs 4"));
  // With the file that was written the shards are the same.
  succeed(prepare("as-file", {"--size", "20", "--features", path("drawn/network.safetensors")}));
  auto files = test::files_below(path("drawn"));
  files.erase("network.safetensors");
  EXPECT_TRUE(test::files_below(path("as-file")) == files);
  // A set of a network that is given does not keep the drawn one of the set before it.
  fs::copy(path("drawn/network.safetensors"), path("given.safetensors"));
  succeed(prepare("drawn", {"--size", "20", "--features", path("given.safetensors")}));
  EXPECT_FALSE(fs::exists(path("drawn/network.safetensors")));
  EXPECT_TRUE(test::files_below(path("drawn")) == files);
}

TEST_F(FrozenFeatures, LeaveOutAPictureThatCannotBeDecodedOnlyWhereThatIsAskedFor) {
  fs::copy(path("pictures"), path("damaged"), fs::copy_options::recursive);
  const std::string good = test::read_file(path("pictures/dots/2.png"));
  test::write_file(path("damaged/dots/2.png"), good.substr(0, good.size() / 2));
  test::write_file(path("damaged/stripes/more/0.png"), "no picture");
  const Command command = prepare("from-damaged", {"--pictures", path("damaged"), "--classes", "3"});
  EXPECT_THAT(refusal(command), AnyOf(HasSubstr("damaged/dots/2.png"), HasSubstr("damaged/stripes/more/0.png")));
  EXPECT_FALSE(fs::exists(path("from-damaged")));
  const ChildResult result = succeed(command + Command{"--damage", "skip", "--json"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("left out: "), HasSubstr("damaged/dots/2.png"),
                                HasSubstr("damaged/stripes/more/0.png"), Not(HasSubstr("blank"))));
  EXPECT_EQ(nlohmann::json::parse(result.out).at("left_out").at("cannot be decoded"), 2);
  const FeatureSet set = read_feature_set(path("from-damaged"));
  EXPECT_EQ(set.num_pictures(FeatureSplit::kTrain) + set.num_pictures(FeatureSplit::kTest), 40);
  EXPECT_EQ(set.train[0] + set.test[0], 14);
  EXPECT_EQ(set.train[1] + set.test[1], 13);
  EXPECT_EQ(set.train[2] + set.test[2], 13);
  // The rows still belong to their pictures.
  const std::vector<std::string> paths = picture_paths(path("from-damaged"), FeatureSplit::kTrain);
  Pipeline rows = feature_rows(path("from-damaged"), set, FeatureSplit::kTrain).start({.threads = 1});
  for (const std::string& picture : paths) {
    const auto label = rows.next()->values<float>("label");
    const size_t number = static_cast<size_t>(std::ranges::max_element(label) - label.begin());
    EXPECT_TRUE(picture.starts_with(set.classes[number] + "/")) << picture;
  }
  // A class that has none left.
  for (const auto& entry : fs::recursive_directory_iterator(path("damaged/blank"))) {
    if (entry.is_regular_file()) test::write_file(entry.path().string(), "not " + entry.path().string());
  }
  EXPECT_THAT(run_child(command + Command{"--damage", "skip", "--out", path("none-left")}).err,
              HasSubstr("class 'blank' has no picture left to train on"));
  EXPECT_FALSE(fs::exists(path("none-left")));
}

TEST_F(FrozenFeatures, TeachAHeadThatTellsTheClasses) {
  const Command command = train("taught", {"--steps", "300", "--learning-rate", "0.03", "--report-every", "100"});
  const ChildResult result = succeed(command);
  EXPECT_THAT(result.err, AllOf(HasSubstr("rows of the replicas: 2 2 1 1 1 1 1 1"), HasSubstr("step 100 of 300: loss "),
                                HasSubstr("step 300 of 300: loss "), HasSubstr(", accuracy 1\n")));
  EXPECT_THAT(result.out, AllOf(HasSubstr(" over 9 rows"), HasSubstr("chance 0.3333"),
                                HasSubstr("written to " + path("taught/model"))));
  const auto json = nlohmann::json::parse(succeed(command + Command{"--resume", "last", "--json"}).out);
  EXPECT_EQ(json.at("steps"), 300);
  EXPECT_GT(json.at("accuracy"), 0.6);
  ASSERT_EQ(json.at("examples").size(), 3U);
  const auto& example = json.at("examples")[0];
  EXPECT_EQ(example.at("picture"), picture_paths(path("set"), FeatureSplit::kTest)[0]);
  EXPECT_GT(example.at("says").at(example.at("class").get<std::string>()), 0.5);
}

TEST_F(FrozenFeatures, TrainTheSameWeightsForAnyNumberOfThreads) {
  ASSERT_FALSE(weights("run").empty());
  for (const char* threads : {"1", "8"}) {
    succeed(train(std::string("run") + threads, {"--threads", threads}));
    EXPECT_TRUE(weights(std::string("run") + threads) == weights("run")) << threads;
  }
  succeed(train("other-order", {"--seed", "7"}));
  EXPECT_FALSE(weights("other-order") == weights("run"));
}

// MILLRACE_KILLS: how many of each.
TEST_F(FrozenFeatures, KilledPreparationsLeaveAWholeSetOrNoneAndAreMadeAnewToTheSameBytes) {
  test::kill_preparations(prepare("killed"), path("killed"), test::files_below(path("set")), test::num_kills(2, 10));
}

TEST_F(FrozenFeatures, KilledTrainingsGoOnToTheSameWeights) {
  const auto expected = testing_models::training_files(path("run/model"));
  const auto go_on = [&] {
    succeed(train("killed-run", {"--resume", "last"}));
    EXPECT_TRUE(testing_models::training_files(path("killed-run/model")) == expected);
    EXPECT_EQ(read_progress(*newest_checkpoint(path("killed-run/checkpoints"))).step, 40);
    fs::remove_all(path("killed-run"));
  };
  int times = 0;
  test::kill_at_random_moments(
      train("killed-run", {"--resume", "last", "--threads", "1"}),
      [&] {
        EXPECT_TRUE(!fs::exists(path("killed-run/model")) ||
                    testing_models::training_files(path("killed-run/model")) == expected);
        if (times++ % 2 == 0) go_on();  // the others are killed again before they have ended
      },
      test::num_kills(1, 10));
  go_on();
}

// The kill falls between two checkpoints, whatever the machine is like.
TEST_F(FrozenFeatures, ATrainingThatIsKilledAfterACheckpointGoesOnFromIt) {
  const Command command = train("cut", {"--steps", "600", "--resume", "last"});
  ChildProcess child(command);
  while (!fs::exists(path("cut/checkpoints/checkpoint-00000007")) && child.running()) {
    child.take_output();
    std::this_thread::yield();
  }
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait().signal, SIGKILL);
  const int64_t step = read_progress(*newest_checkpoint(path("cut/checkpoints"))).step;
  ASSERT_LT(step, 600);
  ASSERT_GE(step, 7);
  const ChildResult result = succeed(command);
  EXPECT_THAT(result.err, AllOf(HasSubstr(fmt::format("step {} of 600", step + 1)),
                                Not(HasSubstr(fmt::format("step {} of 600", step)))));
  succeed(train("uncut", {"--steps", "600"}));
  EXPECT_TRUE(weights("cut") == weights("uncut"));
}

TEST_F(FrozenFeatures, StopWhereAskedToAndGoOn) {
  const Command command = train("stopped", {"--steps", "600"});
  ChildResult stopped;
  for (int attempt = 0; stopped.exit_code != 143; ++attempt) {  // until the signal comes before its end
    ASSERT_LT(attempt, 100) << stopped.err;
    fs::remove_all(path("stopped"));
    ChildProcess child(command);
    while (!fs::exists(path("stopped/checkpoints/checkpoint-00000007")) && child.running()) {
      child.take_output();
      std::this_thread::yield();
    }
    child.signal(SIGTERM);
    stopped = child.wait();
  }
  EXPECT_THAT(stopped.err, HasSubstr("stopped; go on with the same options and --resume last"));
  EXPECT_FALSE(fs::exists(path("stopped/model")));
  // No step is lost: the last one is in the checkpoint.
  const int64_t step = read_progress(*newest_checkpoint(path("stopped/checkpoints"))).step;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr(fmt::format("step {} of 600", step)),
                                 Not(HasSubstr(fmt::format("step {} of 600", step + 1)))));
  EXPECT_THAT(
      succeed(command + Command{"--resume", "last"}).err,
      AllOf(HasSubstr(fmt::format("step {} of 600", step + 1)), Not(HasSubstr(fmt::format("step {} of 600", step)))));
  succeed(train("never-stopped", {"--steps", "600"}));
  EXPECT_TRUE(weights("stopped") == weights("never-stopped"));
}

TEST_F(FrozenFeatures, RefuseInOneLineWhatCannotBe) {
  const auto before = test::files_below(path("set"));
  EXPECT_THAT(refusal(prepare("x", {"--pictures", path("nothing")})), HasSubstr("nothing"));
  EXPECT_THAT(refusal(prepare("x", {"--background", "grey"})),
              HasSubstr("--background is 'grey', must be white or black"));
  EXPECT_THAT(refusal(prepare("x", {"--damage", "ignore"})), HasSubstr("--damage is 'ignore', must be fail or skip"));
  EXPECT_THAT(refusal(prepare("x", {"--features", path("pictures/dots/2.png")})), HasSubstr("2.png"));
  EXPECT_THAT(refusal(prepare("x", {"--classes", "4"})), HasSubstr("4 classes are asked for"));
  EXPECT_THAT(refusal(prepare("x", {"--without", "nothing"})), HasSubstr("there is no folder 'nothing'"));
  fs::create_directories(path("with-empty"));
  fs::copy(path("pictures"), path("with-empty"), fs::copy_options::recursive);
  fs::create_directories(path("with-empty/empty"));
  EXPECT_THAT(refusal(prepare("x", {"--pictures", path("with-empty")})),
              HasSubstr("class 'empty' has no picture that is taken"));
  EXPECT_FALSE(fs::exists(path("x")));
  {
    const FolderLock lock(path("set"), "looking at");
    EXPECT_THAT(refusal(prepare("set")), HasSubstr("another process is writing shards into"));
  }
  EXPECT_TRUE(test::files_below(path("set")) == before);

  EXPECT_THAT(refusal(train("x", {"--set", path("pictures")})),
              HasSubstr("pictures/statistics.json; prepare_frozen_features writes it"));
  EXPECT_THAT(refusal(train("run")), AllOf(HasSubstr("of an earlier run; give --overwrite, --resume")));
  EXPECT_THAT(refusal(train("run", {"--resume", "last", "--overwrite"})), HasSubstr("--overwrite begins anew"));
  EXPECT_THAT(refusal(train("run", {"--resume", "first"})), HasSubstr("--resume is 'first', must be last"));
  EXPECT_THAT(refusal(train("run", {"--resume", "last", "--global-batch", "9"})),
              HasSubstr("was made with the batches"));
  EXPECT_THAT(refusal(train("run", {"--resume", "last", "--learning-rate", "0.5"})),
              HasSubstr("was made with the schedule"));
  EXPECT_THAT(refusal(train("run", {"--out", "s3://bucket/run"})), HasSubstr("only local files are written here"));
  EXPECT_FALSE(fs::exists(path("x")));
  {
    const FolderLock lock(path("run"), "looking at");
    EXPECT_THAT(refusal(train("run", {"--resume", "last"})), HasSubstr("another process is training in"));
  }
  const std::string weights_before = weights("run");
  succeed(train("replaced"));
  succeed(train("replaced", {"--overwrite", "--seed", "5"}));
  EXPECT_FALSE(weights("replaced") == weights_before);
  EXPECT_EQ(weights("run"), weights_before);

  fs::copy(path("set"), path("broken"), fs::copy_options::recursive);
  fs::remove(path("broken/train/dataset.3.tfrecord"));
  EXPECT_THAT(run_child(train("y", {"--set", path("broken")})).err, HasSubstr("dataset.3.tfrecord"));
  auto statistics = nlohmann::json::parse(test::read_file(path("broken/statistics.json")));
  statistics["mean"].push_back(1);
  test::write_file(path("broken/statistics.json"), statistics.dump());
  EXPECT_THAT(refusal(train("z", {"--set", path("broken")})), HasSubstr("broken/statistics.json"));
}

}  // namespace
}  // namespace millrace::frozen_features_programs_test
