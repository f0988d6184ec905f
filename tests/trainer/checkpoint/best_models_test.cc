#include "millrace/trainer/checkpoint/best_models.h"

#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_models.h"

namespace millrace::best_models_test {
namespace {

namespace fs = std::filesystem;
using test::files_below;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing_models::thrown_by;

const std::string kTraining = "0123456789abcdef0123456789abcdef";
const std::string kOther = "ffffffffffffffffffffffffffffffff";

// A model of two files that says which step it is of.
BestModels::Write model(int64_t step) {
  return [step](const std::string& directory) {
    write_file(directory + "/model", fmt::format("model {}", step));
    fs::create_directory(directory + "/more");
    write_file(directory + "/more/config", "{}");
  };
}

bool offer(BestModels& best, int64_t step, double value) { return best.offer(step, value, model(step)); }

std::vector<int64_t> steps_of(const BestModels& best) {
  std::vector<int64_t> steps;
  for (const BestModel& each : best.models()) steps.push_back(each.step);
  return steps;
}

// What `best` should have left in its folder and nothing else.
void expect_folder(const std::string& folder, const std::vector<int64_t>& steps) {
  std::map<std::string, std::string> expected;
  for (const int64_t step : steps) {
    expected[fmt::format("step-{:08}/model", step)] = fmt::format("model {}", step);
    expected[fmt::format("step-{:08}/more/config", step)] = "{}";
    expected[fmt::format("step-{:08}/training.id", step)] = kTraining + "\n";
  }
  std::map<std::string, std::string> there = files_below(folder);
  for (const int64_t step : steps) {
    EXPECT_EQ(there.erase(fmt::format("step-{:08}/evaluation.json", step)), 1U) << step;
  }
  EXPECT_EQ(there, expected);
}

class BestModelsTest : public testing::Test {
 protected:
  // A checkpoint of this list.
  std::string checkpoint_of(BestModels& best, const std::string& name = "checkpoint") const {
    fs::create_directory(temporary_.path(name));
    best.save_into(temporary_.path(name));
    return temporary_.path(name);
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path("out/best");
};

TEST_F(BestModelsTest, KeepsTheLowestAndRemovesTheOneThatFallsOff) {
  BestModels best(folder_, {.keep = 2}, kTraining);
  EXPECT_TRUE(offer(best, 10, 3));
  EXPECT_TRUE(offer(best, 20, 4));
  expect_folder(folder_, {10, 20});
  EXPECT_FALSE(offer(best, 30, 5));
  expect_folder(folder_, {10, 20});
  EXPECT_TRUE(offer(best, 40, 3.5));
  EXPECT_THAT(steps_of(best), ElementsAre(10, 40));
  expect_folder(folder_, {10, 40});
  EXPECT_TRUE(offer(best, 50, 1));
  EXPECT_THAT(steps_of(best), ElementsAre(50, 10));
  EXPECT_EQ(best.models()[0].value, 1);
  EXPECT_EQ(best.models()[0].path, folder_ + "/step-00000050");
  expect_folder(folder_, {50, 10});
}

TEST_F(BestModelsTest, KeepsTheHighestWhereThatIsBetter) {
  BestModels best(folder_, {.keep = 2, .metric = "accuracy", .better = Better::kHigher}, kTraining);
  for (const auto& [step, value] : std::map<int64_t, double>{{1, 0.5}, {2, 0.7}, {3, 0.6}, {4, 0.1}}) {
    offer(best, step, value);
  }
  EXPECT_THAT(steps_of(best), ElementsAre(2, 3));
  expect_folder(folder_, {2, 3});
}

TEST_F(BestModelsTest, OfEqualValuesTheEarlierIsTheBetter) {
  BestModels best(folder_, {.keep = 2}, kTraining);
  for (const int64_t step : {1, 2, 3}) offer(best, step, 0.5);
  EXPECT_THAT(steps_of(best), ElementsAre(1, 2));
}

TEST_F(BestModelsTest, AValueThatIsNotFiniteIsNeverAmongTheBest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Better better : {Better::kLower, Better::kHigher}) {
    BestModels best(folder_, {.keep = 2, .better = better}, kTraining);
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
      EXPECT_FALSE(best.offer(1, value, [](const std::string&) { ADD_FAILURE() << "written"; }));
    }
    EXPECT_THAT(best.models(), IsEmpty());
  }
  expect_folder(folder_, {});
}

TEST_F(BestModelsTest, OneOfTheSameStepIsReplaced) {
  BestModels best(folder_, {.keep = 2}, kTraining);
  offer(best, 1, 0.5);
  offer(best, 2, 0.25);
  EXPECT_TRUE(best.offer(2, 0.75, model(7)));
  EXPECT_THAT(steps_of(best), ElementsAre(1, 2));
  EXPECT_EQ(read_file(folder_ + "/step-00000002/model"), "model 7");
}

TEST_F(BestModelsTest, AModelThatCannotBeWrittenChangesNothing) {
  BestModels best(folder_, {.keep = 1}, kTraining);
  offer(best, 1, 0.5);
  EXPECT_EQ(thrown_by([&] {
              best.offer(2, 0.25, [](const std::string& directory) {
                write_file(directory + "/model", "half");
                throw ErrorException(ErrorCode::kIo, "the disk is full");
              });
            }),
            "io: the disk is full");
  EXPECT_THAT(steps_of(best), ElementsAre(1));
  expect_folder(folder_, {1});
}

TEST_F(BestModelsTest, ACheckpointHoldsTheListAndTheModelsAsLinks) {
  BestModels best(folder_, {.keep = 2}, kTraining);
  offer(best, 10, 3);
  offer(best, 20, 0.1 + 0.2);
  const std::string checkpoint = checkpoint_of(best);
  EXPECT_EQ(nlohmann::json::parse(read_file(checkpoint + "/best.json")), nlohmann::json::parse(R"({
    "version": 1, "metric": "loss", "better": "lower",
    "models": [{"step": 20, "value": 0.30000000000000004, "directory": "best/step-00000020"},
               {"step": 10, "value": 3, "directory": "best/step-00000010"}]})"));
  expect_folder(checkpoint + "/best", {10, 20});
  EXPECT_TRUE(fs::equivalent(checkpoint + "/best/step-00000010/model", folder_ + "/step-00000010/model"));
}

TEST_F(BestModelsTest, GoesOnWithTheListOfACheckpointWhateverAKilledRunHasLeft) {
  std::string checkpoint;
  {
    BestModels best(folder_, {.keep = 2}, kTraining);
    offer(best, 10, 3);
    offer(best, 20, 2);
    checkpoint = checkpoint_of(best);
    offer(best, 30, 1);  // pushes 10 out
    offer(best, 40, 0.5);
  }
  fs::create_directory(folder_ + "/.tmp-step-00000050");
  write_file(folder_ + "/.tmp-step-00000050/model", "half");
  write_file(folder_ + "/notes.txt", "mine");
  BestModels best(folder_, {.keep = 2}, kTraining);
  best.resume(checkpoint, kTraining);
  EXPECT_THAT(steps_of(best), ElementsAre(20, 10));
  EXPECT_TRUE(fs::exists(folder_ + "/step-00000040")) << "nothing is changed before the training goes on";
  const std::string next = checkpoint_of(best, "next");
  EXPECT_TRUE(fs::exists(folder_ + "/notes.txt"));
  fs::remove(folder_ + "/notes.txt");
  expect_folder(folder_, {10, 20});
  EXPECT_EQ(read_file(next + "/best.json"), read_file(checkpoint + "/best.json"));
  offer(best, 30, 1);
  expect_folder(folder_, {20, 30});
}

TEST_F(BestModelsTest, GoesOnInAnotherFolderWhenTheFirstIsGone) {
  std::string checkpoint;
  {
    BestModels best(folder_, {.keep = 2}, kTraining);
    offer(best, 10, 3);
    offer(best, 20, 2);
    checkpoint = checkpoint_of(best);
  }
  fs::remove_all(folder_);
  BestModels best(temporary_.path("other/best"), {.keep = 2}, kTraining);
  best.resume(checkpoint, kTraining);
  offer(best, 30, 2.5);
  EXPECT_THAT(steps_of(best), ElementsAre(20, 30));
  expect_folder(temporary_.path("other/best"), {20, 30});
}

TEST_F(BestModelsTest, KeepsTheBestOfTheListWhenFewerAreToBeKeptNow) {
  BestModels first(folder_, {.keep = 3}, kTraining);
  for (const int64_t step : {1, 2, 3}) offer(first, step, static_cast<double>(step));
  const std::string checkpoint = checkpoint_of(first);
  BestModels best(folder_, {.keep = 1}, kTraining);
  best.resume(checkpoint, kTraining);
  EXPECT_FALSE(offer(best, 4, 1.5));
  expect_folder(folder_, {1});
}

TEST_F(BestModelsTest, AModelThatSomebodyHasTakenAwayIsOffTheList) {
  BestModels best(folder_, {.keep = 2}, kTraining);
  offer(best, 10, 3);
  offer(best, 20, 2);
  fs::rename(folder_ + "/step-00000020", temporary_.path("mine"));
  const std::string checkpoint = checkpoint_of(best);
  EXPECT_THAT(steps_of(best), ElementsAre(10));
  expect_folder(checkpoint + "/best", {10});
}

TEST_F(BestModelsTest, ModelsOfAnotherTrainingAreNotTouched) {
  BestModels other(folder_, {}, kTraining);
  offer(other, 10, 3);
  const std::string refusal = fmt::format(
      "invalid_argument: the folder for the best models {} holds 1 of another training; remove or move them", folder_);
  const auto expect_refused = [&](BestModels& best) {
    EXPECT_EQ(thrown_by([&] { best.check_folder(); }), refusal);
    EXPECT_EQ(thrown_by([&] { offer(best, 20, 2); }), refusal);
    EXPECT_EQ(thrown_by([&] { best.save_into(temporary_.path("without")); }), refusal);
    expect_folder(folder_, {10});
  };
  fs::create_directory(temporary_.path("without"));
  BestModels fresh(folder_, {}, kOther);
  expect_refused(fresh);
  BestModels without_list(folder_, {}, kOther);
  without_list.resume(temporary_.path("without"), kOther);
  expect_refused(without_list);
  // With a list: also one of the same step is not replaced.
  BestModels elsewhere(temporary_.path("other/best"), {}, kOther);
  offer(elsewhere, 10, 1);
  const std::string checkpoint = checkpoint_of(elsewhere);
  BestModels with_list(folder_, {}, kTraining);
  with_list.resume(checkpoint, kOther);
  expect_refused(with_list);
}

TEST_F(BestModelsTest, ModelsWithoutAnIdAreNotTouchedEither) {
  BestModels first(folder_, {}, kTraining);
  offer(first, 10, 3);
  fs::remove(folder_ + "/step-00000010/training.id");
  const std::string checkpoint = checkpoint_of(first);
  BestModels best(folder_, {}, kTraining);
  best.resume(checkpoint, kTraining);
  EXPECT_THAT(thrown_by([&] { best.check_folder(); }), HasSubstr("of another training"));
  EXPECT_TRUE(fs::exists(folder_ + "/step-00000010/model"));
  // Once they are out of the way, those in the checkpoint, of an earlier version, become this training's.
  fs::remove_all(folder_);
  offer(best, 20, 4);
  expect_folder(folder_, {10});
  EXPECT_FALSE(fs::exists(checkpoint + "/best/step-00000010/training.id"));
  write_file(folder_ + "/step-00000010/training.id", "mine");
  BestModels again(folder_, {}, kTraining);
  EXPECT_EQ(thrown_by([&] { again.check_folder(); }),
            fmt::format("parse: not the id of a training (file {}/step-00000010/training.id)", folder_));
}

TEST_F(BestModelsTest, ModelsOfAnotherTrainingAreReplacedWhereThatIsAskedFor) {
  BestModels other(folder_, {.keep = 2}, kOther);
  offer(other, 10, 3);
  offer(other, 20, 3);
  BestModels best(folder_, {.replace_others = true}, kTraining);
  best.check_folder();
  EXPECT_TRUE(fs::exists(folder_ + "/step-00000020")) << "not yet";
  offer(best, 20, 4);
  expect_folder(folder_, {20});
}

TEST_F(BestModelsTest, WithoutAListWhatTheSameTrainingHasLeftIsRemoved) {
  {
    BestModels killed(folder_, {}, kTraining);
    offer(killed, 10, 3);
  }
  fs::create_directory(temporary_.path("without"));
  BestModels best(folder_, {}, kTraining);
  best.resume(temporary_.path("without"), kTraining);
  best.check_folder();
  offer(best, 20, 4);
  expect_folder(folder_, {20});
}

TEST_F(BestModelsTest, ListAndModelsAreCarriedOverFromCheckpointToCheckpoint) {
  BestModels first(folder_, {.keep = 2}, kTraining);
  const std::string empty = checkpoint_of(first, "empty");
  offer(first, 10, 3);
  offer(first, 20, 2);
  const std::string from = checkpoint_of(first, "from");
  for (const std::string& source : {empty, from}) {
    const std::string to = source + "_next";
    fs::create_directory(to);
    BestModels::carry_over(source, to);
    EXPECT_EQ(files_below(to), files_below(source));
  }
  EXPECT_TRUE(fs::equivalent(from + "_next/best/step-00000010/model", folder_ + "/step-00000010/model"));
  fs::create_directory(temporary_.path("without"));
  fs::create_directory(temporary_.path("without_next"));
  BestModels::carry_over(temporary_.path("without"), temporary_.path("without_next"));
  EXPECT_THAT(files_below(temporary_.path("without_next")), IsEmpty());
}

TEST_F(BestModelsTest, AnotherProcessFindsThemTheBestFirst) {
  EXPECT_THAT(best_models_in(folder_), IsEmpty());
  const auto found = [&] {
    std::vector<std::pair<int64_t, double>> models;
    for (const BestModel& each : best_models_in(folder_)) {
      models.emplace_back(each.step, each.value);
      EXPECT_TRUE(fs::exists(each.path + "/model"));
    }
    return models;
  };
  {
    BestModels best(folder_, {.keep = 3, .metric = "accuracy", .better = Better::kHigher}, kTraining);
    offer(best, 10, 0.25);
    offer(best, 20, 0.75);
    offer(best, 30, 0.25);
    EXPECT_THAT(found(), ElementsAre(Pair(20, 0.75), Pair(10, 0.25), Pair(30, 0.25)));
    offer(best, 40, 1.0 / 3);
    EXPECT_THAT(found(), ElementsAre(Pair(20, 0.75), Pair(40, 1.0 / 3), Pair(10, 0.25)));
    // Those of a checkpoint of an earlier version, which do not say it, say it once they are in a folder again.
    const std::string checkpoint = checkpoint_of(best);
    fs::remove(checkpoint + "/best/step-00000040/evaluation.json");
    fs::remove_all(folder_);
    BestModels again(folder_, {.keep = 3, .metric = "accuracy", .better = Better::kHigher}, kTraining);
    again.resume(checkpoint, kTraining);
    fs::create_directory(temporary_.path("next"));
    again.save_into(temporary_.path("next"));
    EXPECT_THAT(found(), ElementsAre(Pair(20, 0.75), Pair(40, 1.0 / 3), Pair(10, 0.25)));
  }
  BestModels other(temporary_.path("other"), {}, kTraining);
  offer(other, 5, 2);
  EXPECT_EQ(best_models_in(temporary_.path("other")).front().step, 5);
  fs::rename(temporary_.path("other/step-00000005"), folder_ + "/step-00000005");
  EXPECT_THAT(thrown_by([&] { best_models_in(folder_); }), HasSubstr("are by several metrics: "));
  fs::remove(folder_ + "/step-00000005/evaluation.json");
  EXPECT_THAT(thrown_by([&] { best_models_in(folder_); }), HasSubstr("step-00000005/evaluation.json"));
}

TEST_F(BestModelsTest, RefusesACheckpointOfAnotherMetricOrADamagedOne) {
  BestModels first(folder_, {.keep = 2}, kTraining);
  offer(first, 10, 3);
  const std::string checkpoint = checkpoint_of(first);
  const std::string file = checkpoint + "/best.json";
  BestModels accuracy(folder_, {.metric = "accuracy", .better = Better::kHigher}, kTraining);
  EXPECT_EQ(thrown_by([&] { accuracy.resume(checkpoint, kTraining); }),
            fmt::format("invalid_argument: the best models in {} are by loss, lower is better, here by accuracy, "
                        "higher is better",
                        checkpoint));
  BestModels best(folder_, {}, kTraining);
  const std::string whole = read_file(file);
  write_file(file, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(thrown_by([&] { best.resume(checkpoint, kTraining); }),
              testing::AllOf(HasSubstr("parse: "), HasSubstr(file)));
  fs::remove(file);
  EXPECT_EQ(
      thrown_by([&] { best.resume(checkpoint, kTraining); }),
      fmt::format("invalid_argument: the checkpoint {} has lost its best.json, the list of the best models; take a "
                  "whole one",
                  checkpoint));
  std::string newer = whole;
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 2");
  write_file(file, newer);
  EXPECT_EQ(thrown_by([&] { best.resume(checkpoint, kTraining); }),
            fmt::format("parse: version 2; 1 is known (file {})", file));
  write_file(file, whole);
  fs::remove_all(checkpoint + "/best/step-00000010");
  EXPECT_THAT(thrown_by([&] { best.resume(checkpoint, kTraining); }),
              testing::AllOf(HasSubstr("io: cannot read the folder"), HasSubstr("step-00000010")));
}

TEST_F(BestModelsTest, RefusesOptionsThatCannotWork) {
  EXPECT_EQ(thrown_by([] { BestModels("", {}, kTraining); }), "invalid_argument: the best models need a folder");
  EXPECT_EQ(thrown_by([] { BestModels("x", {.keep = 0}, kTraining); }),
            "invalid_argument: keep is 0; at least 1 of the best models is needed");
  EXPECT_EQ(thrown_by([] { BestModels("x", {.metric = ""}, kTraining); }),
            "invalid_argument: the best models need a metric");
  EXPECT_EQ(thrown_by([] { BestModels("x", {.metric = "accuracy"}, kTraining); }),
            "invalid_argument: say of 'accuracy' whether the higher value is the better one or the lower");
}

}  // namespace
}  // namespace millrace::best_models_test
