#include "millrace/trainer/run/cross_validation.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "tests/support/temporary_folder.h"

namespace millrace::cross_validation_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GroupFolds, PutsTheBiggestGroupFirstIntoTheLightestFold) {
  // b has 3 rows, c 2, d 2, a 1, e 1.
  const std::vector<std::string> groups = {"a", "b", "c", "b", "d", "c", "b", "d", "e"};
  // b to 0 (3), c to 1 (2), d to 2 (2), a to 1 (3), e to 2 (3).
  EXPECT_THAT(folds_of(groups, 3), ElementsAre(1, 0, 1, 0, 2, 1, 0, 2, 2));
  // b to 0 (3), c to 1 (2), d to 1 (4), a to 0 (4), e to 0.
  EXPECT_THAT(folds_of(groups, 2), ElementsAre(0, 0, 1, 0, 1, 1, 0, 1, 0));
}

TEST(GroupFolds, TakesGroupsOfOneSizeInTheOrderInWhichTheyAppear) {
  EXPECT_THAT(folds_of(std::vector<std::string>{"z", "a", "m", "b"}, 2), ElementsAre(0, 1, 0, 1));
}

TEST(GroupFolds, LeaksNoGroupAndKeepsFoldsEven) {
  std::vector<std::string> groups;
  const CounterRng rng(3, 4);
  for (uint64_t i = 0; i < 3000; ++i) groups.push_back(fmt::format("{}", uniform_below(rng.words(i)[0], 700U)));
  const std::vector<int> folds = folds_of(groups, 5);
  std::map<std::string, std::set<int>> folds_of_group;
  std::vector<int> sizes(5);
  for (size_t i = 0; i < groups.size(); ++i) {
    folds_of_group[groups[i]].insert(folds[i]);
    ++sizes.at(static_cast<size_t>(folds[i]));
  }
  for (const auto& [group, in] : folds_of_group) EXPECT_EQ(in.size(), 1U) << group;
  EXPECT_THAT(sizes, testing::Each(600));
}

TEST(GroupFolds, RefusesFewerGroupsThanFolds) {
  EXPECT_THAT(
      [] {
        (void)folds_of(std::vector<std::string>{"a", "b", "a"}, 3);
      },
      ThrowsMessage<ErrorException>(HasSubstr("3 rows in 2 groups cannot be cut into 3 folds")));
}

TEST(BinningGainTable, HasALineForEachColumnAndTheMeansWithoutThoseThatAreNotDefined) {
  const double none = std::nan("");
  const BinningGain gain = {.raw = {{0.5, none}, {0.25, none}}, .binned = {{0.75, none}, {0.5, none}}, .bins = {3, 0}};
  EXPECT_EQ(to_text(gain, std::vector<std::string>{"a", "b"}),
            "rank correlation by fold, and mean\n"
            "a                                         0.5000  0.2500   0.3750  in steps of 1/3\n"
            "b                                            nan     nan      nan\n"
            "mean                                      0.5000  0.2500   0.3750\n"
            "mean in steps that other folds chose      0.7500  0.5000   0.6250\n");
}

TEST(BestModelsOfFolds, NeedARunAndAModelOfEach) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([&] { (void)best_models_of_folds(folder.path()); },
              ThrowsMessage<ErrorException>(HasSubstr("fold-0 is not there")));
  for (const int64_t fold : {0, 1, 2}) std::filesystem::create_directories(fold_folder(folder.path(), fold));
  const auto keep = [&](int64_t fold, int64_t step, double value) {
    BestModels best(fold_folder(folder.path(), fold) + "/best",
                    {.keep = 2, .metric = "spearman", .better = Better::kHigher}, "training");
    best.offer(step, value, [](const std::string& to) { test::write_file(to + "/model", "x"); });
  };
  keep(0, 5, 0.5);
  keep(1, 7, 0.25);
  EXPECT_THAT([&] { (void)best_models_of_folds(folder.path()); },
              ThrowsMessage<ErrorException>(HasSubstr("fold 2 has no model in")));
  keep(2, 9, 0.125);
  const std::vector<std::string> models = best_models_of_folds(folder.path());
  ASSERT_EQ(models.size(), 3U);
  EXPECT_THAT(models[1], testing::EndsWith("fold-1/best/step-00000007"));
}

}  // namespace
}  // namespace millrace::cross_validation_test
