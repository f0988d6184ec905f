// Trainings in processes of their own: interrupted, terminated, killed, on a full disk.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/process_locale.h"
#include "tests/support/soak.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"
#include "tests/trainer/training_files.h"

namespace millrace::training_process_test {
namespace {

namespace fs = std::filesystem;
using test::ChildProcess;
using test::ChildResult;
using test::run_child;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing_models::kLongTrainingSteps;
using testing_models::LongTraining;
using testing_models::RegressionSource;
using testing_models::training_files;
using testing_models::trainings_in;
using Files = std::map<std::string, std::string>;

std::vector<std::string> toy_training(const std::string& folder, int64_t steps, int64_t checkpoint_every) {
  return {test::kToyTraining, folder, std::to_string(steps), std::to_string(checkpoint_every)};
}

// The checkpoint of a training without interruption.
const Files& straight_checkpoint(int64_t step) {
  static std::map<int64_t, Files> known;
  if (known.count(step) == 0) {
    const TemporaryFolder folder;
    LongTraining toy({.step = {.threads = 2}, .total_steps = step, .checkpoint_folder = folder.path()});
    RegressionSource source(kLongTrainingSteps);
    known[step] = training_files(toy.trainer.train(source).last_checkpoint);
  }
  return known[step];
}

// Steps of the checkpoints in a folder.
std::vector<int64_t> checkpoints_in(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& path : CheckpointFolder(folder, {}).paths()) {
    steps.push_back(std::stoll(path.substr(path.rfind('-') + 1)));
  }
  return steps;
}

std::string checkpoint(const std::string& folder, int64_t step) {
  return fmt::format("{}/checkpoint-{:08}", folder, step);
}

std::vector<std::string> unfinished_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("checkpoint-")) names.push_back(name);
  }
  return names;
}

TEST(TrainingProcess, NeitherTheTimeOfDayNorTheEnvironmentDecidesAnything) {
  const TemporaryFolder folder;
  const Files& expected = straight_checkpoint(3);
  const test::ProcessLocale pashto("ps_AF");
  for (const int64_t steps : {2, 3}) {  // the second goes on from the first
    std::vector<std::string> command = toy_training(folder.path(), steps, 1);
    const std::vector<std::string> locale = pashto.environment();
    command.insert(command.begin(), locale.begin(), locale.end());
    command.insert(command.begin(),
                   {"/usr/bin/env", "--ignore-environment", "TMPDIR=/no/such/folder", "MILLRACE_CLOCK_JUMPS=1"});
    const ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(training_files(checkpoint(folder.path(), 3)), expected);
}

// A child's view of a folder that holds the checkpoints of steps 1 and 2; it comes to step 3 and keeps two.
class InACheckpoint : public testing::Test {
 protected:
  InACheckpoint() { EXPECT_EQ(run_child(toy_training(before_, 2, 1)).exit_code, 0); }

  // Steps on, from step 2, with this fault in the checkpoint of step 3.
  ChildResult meet(const std::string& fault, int call, bool from_2 = false) {
    fs::remove_all(folder_);
    fs::copy(before_, folder_, fs::copy_options::recursive);
    std::vector<std::string> command = toy_training(folder_, 3, 1);
    command.push_back(fmt::format("{}={}", fault, call));
    if (from_2) command.emplace_back("from=2");
    return run_child(command);
  }

  void goes_on_to_step_4() {
    const ChildResult result = run_child(toy_training(folder_, 4, 1));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(checkpoints_in(folder_), ElementsAre(3, 4));
    EXPECT_THAT(unfinished_in(folder_), ElementsAre()) << "what was left is cleaned up";
    EXPECT_EQ(training_files(checkpoint(folder_, 3)), straight_checkpoint(3));
    EXPECT_EQ(training_files(checkpoint(folder_, 4)), straight_checkpoint(4));
    EXPECT_EQ(trainings_in(folder_), trainings_in(before_)) << "it is the same training still";
  }

  const TemporaryFolder temporary_;
  const std::string before_ = temporary_.path("before");
  const std::string folder_ = temporary_.path("checkpoints");
};

constexpr int kMostCalls = 500;

TEST_F(InACheckpoint, KilledAtAnyCallItLeavesWholeCheckpointsAndGoesOnFromTheNewest) {
  int kills = 0;
  int before_the_new_one = 0;
  int left_overs = 0;
  for (;; ++kills) {
    ASSERT_LT(kills, kMostCalls);
    const ChildResult result = meet("kill", kills + 1);
    if (result.exit_code == 0) break;
    ASSERT_EQ(result.signal, SIGKILL) << result.err;
    const std::vector<int64_t> steps = checkpoints_in(folder_);
    ASSERT_FALSE(steps.empty()) << "call " << kills + 1;
    EXPECT_GE(steps.back(), 2);
    for (const int64_t step : steps) {
      EXPECT_EQ(training_files(checkpoint(folder_, step)), straight_checkpoint(step)) << "call " << kills + 1;
    }
    if (steps.back() == 2) ++before_the_new_one;
    if (!unfinished_in(folder_).empty()) ++left_overs;
    goes_on_to_step_4();
    ASSERT_FALSE(HasFailure()) << "killed at call " << kills + 1;
  }
  EXPECT_THAT(checkpoints_in(folder_), ElementsAre(2, 3)) << "the child that was not killed";
  // Three files with at least creation, write, sync and name each, and the directory's own.
  EXPECT_GE(before_the_new_one, 3 * 4 + 3);
  EXPECT_GE(left_overs, 3 * 4 + 3);
  EXPECT_GE(kills - before_the_new_one, 3) << "while the oldest checkpoint was removed";
}

TEST_F(InACheckpoint, KilledWhileItReplacesOneOfTheSameStepItLeavesTheOldOrTheNewOne) {
  // A step 3 of another history: in other rows.
  Files other;
  {
    LongTraining toy(
        {.total_steps = 3, .checkpoint_folder = before_, .checkpoints = {.keep_last = 3}, .checkpoint_every = 3});
    toy.trainer.resume(checkpoint(before_, 2));
    RegressionSource source(kLongTrainingSteps, 2, kLongTrainingSteps, 9);
    other = training_files(toy.trainer.train(source).last_checkpoint);
    ASSERT_NE(other.at("model.safetensors"), straight_checkpoint(3).at("model.safetensors"));
    ASSERT_THAT(checkpoints_in(before_), ElementsAre(1, 2, 3));
  }
  int kills = 0;
  int old_ones = 0;
  for (;; ++kills) {
    ASSERT_LT(kills, kMostCalls);
    const ChildResult result = meet("kill", kills + 1, /*from_2=*/true);
    if (result.exit_code == 0) break;
    ASSERT_EQ(result.signal, SIGKILL) << result.err;
    ASSERT_THAT(checkpoints_in(folder_), testing::Contains(3)) << "the name is never missing";
    const Files found = training_files(checkpoint(folder_, 3));
    if (found == other) {
      ++old_ones;
    } else {
      EXPECT_EQ(found, straight_checkpoint(3)) << "call " << kills + 1;
    }
  }
  EXPECT_GE(old_ones, 3 * 4 + 3);
  EXPECT_GE(kills - old_ones, 3);
}

TEST_F(InACheckpoint, AFullDiskIsOneLineThatNamesTheFileAndNoCheckpointIsHarmed) {
  int failures = 0;
  for (;; ++failures) {
    ASSERT_LT(failures, kMostCalls);
    const ChildResult result = meet("full", failures + 1);
    if (result.exit_code == 0) break;
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, testing::MatchesRegex("toy_training: io: [^\n]+: No space left on device \\(file " +
                                                  folder_ + "/[^\n]*\\)\n"));
    EXPECT_THAT(checkpoints_in(folder_), ElementsAre(1, 2));
    EXPECT_THAT(unfinished_in(folder_), ElementsAre());
    goes_on_to_step_4();
    ASSERT_FALSE(HasFailure()) << "full at call " << failures + 1;
  }
  EXPECT_GE(failures, 1 + 3 * 2) << "a directory; each file's creation and a write";
}

// Which models are the best, and that they are there, is as exact as the rest.
TEST(BestModelsOfAProcess, KilledAtAnyCallItEndsWithTheFilesOfATrainingWithoutAKill) {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path("run");
  const auto train = [&](const std::string& out, int64_t steps, const std::string& fault = "") {
    std::vector<std::string> command = toy_training(out, steps, 1);
    command.emplace_back("best=2");
    if (!fault.empty()) command.push_back(fault);
    return run_child(command);
  };
  ASSERT_EQ(train(temporary.path("straight"), 4).exit_code, 0);
  const Files expected = training_files(temporary.path("straight"));
  ASSERT_TRUE(expected.contains("best/step-00000003/model.safetensors")) << "the loss falls";
  ASSERT_TRUE(expected.contains("checkpoint-00000003/best/step-00000002/model.safetensors"));
  ASSERT_EQ(train(temporary.path("before"), 2).exit_code, 0);
  ASSERT_EQ(trainings_in(temporary.path("before")).size(), 1U);
  ASSERT_NE(trainings_in(temporary.path("before")), trainings_in(temporary.path("straight")));
  const std::map<bool, Files> lists = {{false, training_files(checkpoint(temporary.path("before"), 2) + "/best")},
                                       {true, training_files(checkpoint(temporary.path("straight"), 3) + "/best")}};
  const int stride = test::soaking() ? 1 : 5;  // each call takes three processes and many syncs
  int strays = 0;
  int missing = 0;
  for (int call = 1;; call += stride) {
    ASSERT_LT(call, kMostCalls);
    fs::remove_all(folder);
    fs::copy(temporary.path("before"), folder, fs::copy_options::recursive);
    const ChildResult result = train(folder, 3, fmt::format("kill={}", call));
    if (result.exit_code == 0) break;
    ASSERT_EQ(result.signal, SIGKILL) << result.err;
    const bool went_on = fs::exists(checkpoint(folder, 3));
    if (!went_on && fs::exists(folder + "/best/step-00000003")) ++strays;
    if (!went_on && !fs::exists(folder + "/best/step-00000001")) ++missing;
    // Without a further step, which would write and remove the same models again: the folder is that of the list.
    ASSERT_EQ(train(folder, 2).exit_code, 0);
    EXPECT_EQ(training_files(folder + "/best"), lists.at(went_on)) << "call " << call;
    const ChildResult rest = train(folder, 4);
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_EQ(training_files(folder), expected);
    EXPECT_EQ(trainings_in(folder), trainings_in(temporary.path("before"))) << "also of its models";
    ASSERT_FALSE(HasFailure()) << "killed at call " << call;
  }
  EXPECT_GE(strays, 5) << "models that the newest checkpoint knows nothing of";
  EXPECT_GE(missing, 5) << "models of its list that had gone already";
}

class StopSignal : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, StopSignal, testing::Values(SIGINT, SIGTERM),
                         [](const auto& parameter) { return parameter.param == SIGINT ? "Interrupt" : "Terminate"; });

TEST_P(StopSignal, FinishesTheStepLeavesACheckpointAndExitsWithItsNumber) {
  const TemporaryFolder folder;
  ChildProcess child(toy_training(folder.path(), kLongTrainingSteps, 0));
  int64_t step = 0;
  std::string last;
  while (const std::optional<std::string> line = child.read_line()) {
    if (line == "step 3") child.signal(GetParam());
    if (line->starts_with("step ")) step = std::stoll(line->substr(5));
    last = *line;
  }
  const ChildResult result = child.wait();
  EXPECT_EQ(result.exit_code, 128 + GetParam());
  EXPECT_EQ(result.err, "");
  EXPECT_GE(step, 3);
  EXPECT_LT(step, kLongTrainingSteps);
  EXPECT_EQ(last, fmt::format("checkpoint {}", step));
  EXPECT_THAT(checkpoints_in(folder.path()), ElementsAre(step)) << "of the last step that ended";
  EXPECT_EQ(training_files(checkpoint(folder.path(), step)), straight_checkpoint(step));
}

TEST_P(StopSignal, TheSecondOneStopsAtOnce) {
  const TemporaryFolder folder;
  std::vector<std::string> command = toy_training(folder.path(), kLongTrainingSteps, 2);
  command.emplace_back("hang=3");
  ChildProcess child(command);
  while (child.read_line() != "hanging in step 3") ASSERT_TRUE(child.running());
  child.signal(GetParam());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(child.running()) << "the first one waits for the step";
  while (child.running()) {  // one at a time: two that are pending together count as one
    child.signal(GetParam());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const ChildResult result = child.wait();
  EXPECT_EQ(result.exit_code, 128 + GetParam());
  EXPECT_EQ(result.out, "step 1\nstep 2\ncheckpoint 2\nhanging in step 3\n") << "which did not end";
  EXPECT_THAT(checkpoints_in(folder.path()), ElementsAre(2));
  EXPECT_EQ(training_files(checkpoint(folder.path(), 2)), straight_checkpoint(2));
}

}  // namespace
}  // namespace millrace::training_process_test
