#include "millrace/trainer/run/cross_validation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "tests/support/temporary_folder.h"

namespace millrace::cross_validation_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Rows with one key each.
std::vector<size_t> groups_of_names(const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> keys;
  keys.reserve(names.size());
  for (const std::string& name : names) keys.push_back({name});
  return groups_of(keys);
}

TEST(Groups, AreOfRowsThatShareAKeyDirectlyOrOverOthers) {
  EXPECT_THAT(groups_of_names({"z", "a", "z", "b", "a"}), ElementsAre(0, 1, 0, 2, 1));
  using Keys = std::vector<std::vector<std::string>>;
  EXPECT_THAT(groups_of(Keys{{"a", "x"}, {"b", "y"}, {"c", "z"}, {"d", "y"}, {"e", "x"}, {"f"}, {"d", "c"}}),
              ElementsAre(0, 1, 1, 1, 0, 2, 1));
  EXPECT_THAT(groups_of(Keys{{"a"}, {"b"}, {"c"}, {"a", "b", "c"}}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(groups_of(Keys{{}, {}}), ElementsAre(0, 1));
}

TEST(Groups, AreThoseOfASlowSearch) {
  const CounterRng rng(8, 9);
  std::vector<std::vector<std::string>> keys(400);
  for (uint64_t row = 0; row < keys.size(); ++row) {
    for (const size_t word : {0, 1}) keys[row].push_back(fmt::format("{}", uniform_below(rng.words(row)[word], 500U)));
  }
  const std::vector<size_t> groups = groups_of(keys);
  std::vector<size_t> slow(keys.size());
  std::iota(slow.begin(), slow.end(), size_t{0});
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t a = 0; a < keys.size(); ++a) {
      for (size_t b = 0; b < keys.size(); ++b) {
        if (slow[b] <= slow[a] || std::ranges::find_first_of(keys[a], keys[b]) == keys[a].end()) continue;
        slow[b] = slow[a];
        changed = true;
      }
    }
  }
  EXPECT_GT(std::set(groups.begin(), groups.end()).size(), 20U);
  for (size_t a = 0; a < keys.size(); ++a) {
    for (size_t b = 0; b < a; ++b) ASSERT_EQ(groups[a] == groups[b], slow[a] == slow[b]) << a << " " << b;
  }
}

TEST(GroupFolds, PutsTheBiggestGroupFirstIntoTheLightestFold) {
  // b has 3 rows, c 2, d 2, a 1, e 1.
  const std::vector<size_t> groups = groups_of_names({"a", "b", "c", "b", "d", "c", "b", "d", "e"});
  // b to 0 (3), c to 1 (2), d to 2 (2), a to 1 (3), e to 2 (3).
  EXPECT_THAT(folds_of(groups, 3), ElementsAre(1, 0, 1, 0, 2, 1, 0, 2, 2));
  // b to 0 (3), c to 1 (2), d to 1 (4), a to 0 (4), e to 0.
  EXPECT_THAT(folds_of(groups, 2), ElementsAre(0, 0, 1, 0, 1, 1, 0, 1, 0));
}

TEST(GroupFolds, TakesGroupsOfOneSizeInTheOrderInWhichTheyAppear) {
  EXPECT_THAT(folds_of(std::vector<size_t>{0, 1, 2, 3}, 2), ElementsAre(0, 1, 0, 1));
}

TEST(GroupFolds, LeaksNoGroupAndKeepsFoldsEven) {
  std::vector<std::string> names;
  const CounterRng rng(3, 4);
  for (uint64_t i = 0; i < 3000; ++i) names.push_back(fmt::format("{}", uniform_below(rng.words(i)[0], 700U)));
  const std::vector<size_t> groups = groups_of_names(names);
  const std::vector<int> folds = folds_of(groups, 5);
  std::map<size_t, std::set<int>> folds_of_group;
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
        (void)folds_of(std::vector<size_t>{0, 1, 0}, 3);
      },
      ThrowsMessage<ErrorException>(HasSubstr("3 rows in 2 groups cannot be cut into 3 folds")));
}

BinningGain some_gain() {
  const double none = std::nan("");
  return {.raw = {{0.5, none}, {0.25, none}},
          .binned = {{0.75, none}, {0.5, none}},
          .bins = {{.k = 3, .least = -1, .largest = 2}, {}}};
}

TEST(BinningGainTable, HasALineForEachColumnAndTheMeansWithoutThoseThatAreNotDefined) {
  EXPECT_EQ(to_text(some_gain(), std::vector<std::string>{"a", "b\x1b"}, std::vector<int64_t>{0, 3}),
            "rank correlation of fold                       0       3     mean\n"
            "a                                         0.5000  0.2500   0.3750  in steps of 1/3\n"
            "b\\x1b                                        nan     nan      nan\n"
            "mean                                      0.5000  0.2500   0.3750\n"
            "mean in steps that other folds chose      0.7500  0.5000   0.6250\n");
}

TEST(BinningGainTable, HasTheSameFiguresAsJson) {
  const auto json = nlohmann::json::parse(to_json(some_gain()).dump());
  EXPECT_TRUE(json.at("spearman")[1][1].is_null());
  EXPECT_EQ(json.at("mean_spearman"), nlohmann::json({0.5, 0.25}));
  EXPECT_EQ(json.at("mean_binned_spearman"), nlohmann::json({0.75, 0.5}));
  EXPECT_EQ(json.at("mean_of_folds"), nlohmann::json({{"spearman", 0.375}, {"binned_spearman", 0.625}}));
  EXPECT_EQ(json.at("bins")[0], nlohmann::json({{"k", 3}, {"least", -1.0}, {"largest", 2.0}}));
}

TEST(Folds, OfACommandLineAreNumbers) {
  EXPECT_THAT(parse_folds("fold", std::vector<std::string>{"3", "0"}), ElementsAre(3, 0));
  for (const char* bad : {"", "-1", "a", "1x", "1,2"}) {
    EXPECT_THAT([&] { (void)parse_folds("fold", std::vector<std::string>{bad}); },
                ThrowsMessage<ErrorException>(HasSubstr(fmt::format("--fold is '{}', must be the number", bad))));
  }
}

class FoldModels : public testing::Test {
 protected:
  void begin(int64_t fold) const { std::filesystem::create_directories(fold_folder(folder_.path(), fold)); }
  void end(int64_t fold) const { std::filesystem::create_directories(fold_folder(folder_.path(), fold) + "/model"); }
  void keep(int64_t fold, int64_t step, double value) const {
    BestModels best(fold_folder(folder_.path(), fold) + "/best",
                    {.keep = 2, .metric = "spearman", .better = Better::kHigher}, "training");
    best.offer(step, value, [](const std::string& to) { test::write_file(to + "/model", "x"); });
  }
  std::vector<int64_t> found(const std::vector<int64_t>& folds = {}) const {
    std::vector<int64_t> numbers;
    for (const FoldModel& model : best_models_of_folds(folder_.path(), folds)) numbers.push_back(model.fold);
    return numbers;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(FoldModels, AreThoseOfAllFoldsThatAreThereOrOfThoseThatAreNamed) {
  for (const int64_t fold : {11, 2, 0}) {
    begin(fold);
    keep(fold, 5 + fold, 0.5);
    end(fold);
  }
  std::filesystem::create_directories(folder_.path("fold-"));
  std::filesystem::create_directories(folder_.path("fold-03"));
  std::filesystem::create_directories(folder_.path("shards"));
  EXPECT_THAT(found(), ElementsAre(0, 2, 11));
  EXPECT_THAT(found({11, 2, 11}), ElementsAre(2, 11));
  EXPECT_THAT(best_models_of_folds(folder_.path())[1].folder, testing::EndsWith("fold-2/best/step-00000007"));
  EXPECT_THAT([&] { (void)found({1}); },
              ThrowsMessage<ErrorException>(HasSubstr("fold-1 is not there; a training with --fold 1 writes it")));
}

TEST_F(FoldModels, NeedATrainingThatHasEndedAndHasKeptAModel) {
  EXPECT_THAT([&] { (void)found(); },
              ThrowsMessage<ErrorException>(HasSubstr("fold-0 is not there; a training writes it")));
  begin(0);
  keep(0, 5, 0.5);
  EXPECT_THAT([&] { (void)found(); },
              ThrowsMessage<ErrorException>(AllOf(HasSubstr("the training of fold 0 has not ended"),
                                                  HasSubstr("go on with --fold 0 --resume last"))));
  end(0);
  EXPECT_THAT(found(), ElementsAre(0));
  begin(1);
  end(1);
  EXPECT_THAT([&] { (void)found(); },
              ThrowsMessage<ErrorException>(AllOf(HasSubstr("fold 1 has no model in"), HasSubstr("--keep-best 1"))));
  EXPECT_THAT(found({0}), ElementsAre(0));
}

}  // namespace
}  // namespace millrace::cross_validation_test
