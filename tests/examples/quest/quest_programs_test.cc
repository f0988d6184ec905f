// prepare_quest, train_quest and predict_quest as processes, on a table of letters.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "examples/csv/csv_table.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/run/cross_validation.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/examples/quest/quest_table.h"
#include "tests/examples/quest/small_quest_run.h"
#include "tests/support/child_process.h"
#include "tests/support/killed_runs.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::quest_programs_test {
namespace {

namespace fs = std::filesystem;
using test::ChildProcess;
using test::ChildResult;
using test::run_child;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using Command = std::vector<std::string>;

// What is given later counts.
Command operator+(const Command& command, const Command& more) { return test::with_options(command, more); }

// The numbers of a CSV of predictions, without its ids.
std::vector<double> numbers_of(const std::string& csv) {
  std::vector<double> numbers;
  for (size_t line = csv.find('\n') + 1; line < csv.size(); line = csv.find('\n', line) + 1) {
    for (size_t at = csv.find(',', line); at < csv.find('\n', line); at = csv.find(',', at + 1)) {
      numbers.push_back(std::stod(csv.substr(at + 1)));
    }
  }
  return numbers;
}

// Of 40 packages, two of a source, 36 have tags.
std::string package_list() {
  std::string list;
  for (int i = 0; i < 40; ++i) {
    list += fmt::format(
        "Package: p{}\nSource: s{}\nSection: misc\n{}Description: thing {}\n first {} part\n .\n second part of {}\n\n",
        i, i / 2, i % 10 == 9 ? "" : fmt::format("Tag: a, b, c, d, e{}, f\n", i % 3 == 0 ? ", g" : ""), i, i, i);
  }
  return list;
}

// Shards of two folds, and a tiny model trained on both, made once.
class Quest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new test::TemporaryFolder;
    test::write_file(data_->path("tokenizer.json"), test::letter_tokenizer_json());
    test::write_file(data_->path("table.csv"), test::quest_csv(16));
    succeed(prepare("shards"));
    succeed(train("run"));
  }
  static void TearDownTestSuite() {
    delete data_;
    data_ = nullptr;
  }
  static std::string path(const std::string& name) { return data_->path(name); }

  static Command prepare(const std::string& out, const Command& more = {}) {
    return test::small_quest_preparation(path("table.csv"), path("tokenizer.json"), path(out)) + more;
  }
  static Command train(const std::string& out, const Command& more = {}) {
    return test::small_quest_training(path("shards"), path("tokenizer.json"), path(out)) + more;
  }
  // Two folds of 20 packages; beside their shards 3 others to predict, and the texts of all others.
  static Command prepare_packages(const std::string& out, const Command& more = {}) {
    fs::create_directories(path(out));
    return Command{test::kPrepareQuest,
                   "--packages",
                   path("packages"),
                   "--tokenizer",
                   path("tokenizer.json"),
                   "--out",
                   path(out + "/shards"),
                   "--rows",
                   "20",
                   "--tags",
                   "6",
                   "--folds",
                   "2",
                   "--test-rows",
                   "3",
                   "--test-csv",
                   path(out + "/test.csv"),
                   "--other-texts",
                   path(out + "/other.txt")} +
           more;
  }
  // Only figures of the validation rows.
  static Command measure(const std::string& models, const Command& more = {}) {
    return Command{test::kPredictQuest, "--models", path(models), "--shards", path("shards"), "--threads", "2"} + more;
  }
  static Command predict(const std::string& csv, const std::string& out, const Command& more = {}) {
    return Command{test::kPredictQuest, "--models",  path("run"), "--csv", path(csv), "--out",
                   path(out),           "--threads", "2"} +
           more;
  }
  // What is in the log of a run.
  static std::vector<nlohmann::json> log_of(const std::string& run, const std::string& event) {
    std::vector<nlohmann::json> found;
    std::istringstream log(test::read_file(path(run + "/log.jsonl")));
    for (std::string line; std::getline(log, line);) {
      auto report = nlohmann::json::parse(line);
      if (report.at("event") == event) found.push_back(std::move(report));
    }
    return found;
  }
  static ChildResult succeed(const Command& command) {
    ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  // The error of a command that must fail, which is one line.
  static std::string refusal(const Command& command) {
    const ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    const std::string name = fs::path(command.front()).filename().string() + ": ";
    const size_t last = result.err.rfind(name);
    EXPECT_NE(last, std::string::npos) << result.err;
    EXPECT_EQ(std::ranges::count(result.err.substr(last), '\n'), 1) << result.err;
    return last == std::string::npos ? result.err : result.err.substr(last);
  }

  static test::TemporaryFolder* data_;
};

test::TemporaryFolder* Quest::data_ = nullptr;

TEST_F(Quest, TrainsEachFoldIntoAFolderOfItsOwnWithItsBestModel) {
  for (const char* fold : {"fold-0", "fold-1"}) {
    const std::string run = path("run") + "/" + fold;
    EXPECT_THAT(test::read_file(run + "/log.jsonl"),
                AllOf(HasSubstr("\"spearman\""), HasSubstr("\"constant_columns\"")));
    for (const char* file :
         {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "quest.json"}) {
      EXPECT_TRUE(fs::exists(run + "/model/" + file)) << file;
    }
    EXPECT_FALSE(fs::is_empty(run + "/best"));
    const SafetensorsFile weights(run + "/model/model.safetensors");
    EXPECT_NE(weights.find("roberta.embeddings.word_embeddings.weight"), nullptr);
    EXPECT_NE(weights.find("heads.joint.gate.reduce.weight"), nullptr);
  }
}

TEST_F(Quest, PredictsEachRowOnceInTheirOrderWithTheNamesOfTheTargets) {
  for (const int questions : {1, 7}) {
    test::write_file(path("new.csv"), test::quest_csv(questions));
    const ChildResult result = succeed(predict("new.csv", "new-said.csv", {"--show", "2"}));
    EXPECT_THAT(result.out, AllOf(HasSubstr("\n100: "), HasSubstr("\n101: "), HasSubstr("rows predicted: "),
                                  HasSubstr("models of the folds 0 1\n")));
    EXPECT_THAT(result.out, testing::Not(HasSubstr("\n102: ")));
    const std::string csv = test::read_file(path("new-said.csv"));
    EXPECT_THAT(csv, testing::StartsWith("qa_id,a_long,q_short,both_fit,q_far,a_even\n100,"));
    EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 3 * questions);
    for (int row = 0; row < 3 * questions; ++row) EXPECT_THAT(csv, HasSubstr(fmt::format("\n{},", 100 + row)));
    EXPECT_THAT(numbers_of(csv),
                AllOf(SizeIs(15 * questions), testing::Each(testing::AllOf(testing::Ge(0), testing::Le(1)))));
    succeed(predict("new.csv", "again.csv", {"--threads", "1"}));
    EXPECT_EQ(test::read_file(path("again.csv")), csv);
    // Sums of other batches are rounded elsewhere.
    succeed(predict("new.csv", "again.csv", {"--global-batch", "5"}));
    EXPECT_THAT(numbers_of(test::read_file(path("again.csv"))),
                testing::Pointwise(testing::DoubleNear(1e-5), numbers_of(csv)));
  }
}

TEST_F(Quest, PredictsByLogitsProbabilitiesOrRanks) {
  std::vector<std::vector<double>> said;
  for (const char* kind : {"logits", "probabilities", "ranks"}) {
    succeed(predict("table.csv", "said.csv", {"--ensemble", kind}));
    said.push_back(numbers_of(test::read_file(path("said.csv"))));
  }
  EXPECT_NE(said[0], said[1]);
  for (size_t i = 0; i < said[0].size(); ++i) EXPECT_NEAR(said[0][i], said[1][i], 0.1);
  // Ranks of a column are spread evenly over all rows.
  double sum = 0;
  for (size_t i = 0; i < said[2].size(); i += 5) sum += said[2][i];
  EXPECT_NEAR(sum, 24, 1e-4);
}

TEST_F(Quest, PrintsTheRankCorrelationOfEachFoldAndTarget) {
  const ChildResult result =
      succeed({test::kPredictQuest, "--models", path("run"), "--shards", path("shards"), "--json"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_THAT(json.at("targets"), ElementsAre("a_long", "q_short", "both_fit", "q_far", "a_even"));
  ASSERT_THAT(json.at("spearman"), SizeIs(2));
  for (const char* kind : {"spearman", "binned_spearman"}) {
    for (const auto& fold : json.at(kind)) {
      ASSERT_THAT(fold, SizeIs(5));
      EXPECT_TRUE(fold[3].is_null());  // q_far is the same for all
    }
  }
  EXPECT_EQ(json.at("bins")[3].at("k"), 0);
  EXPECT_EQ(json.at("folds"), nlohmann::json({0, 1}));
  // The mean of the evaluation of the best model is that of these columns.
  for (const int fold : {0, 1}) {
    double sum = 0;
    for (const int column : {0, 1, 2, 4}) sum += json.at("spearman")[fold][column].get<double>();
    std::vector<double> evaluations;
    for (const auto& report : log_of(fmt::format("run/fold-{}", fold), "evaluation")) {
      evaluations.push_back(report.at("metrics").at("spearman").get<double>());
    }
    ASSERT_THAT(evaluations, SizeIs(2));
    EXPECT_GT(std::abs(evaluations[0] - evaluations[1]), 1e-4);  // they can be told apart
    EXPECT_NEAR(sum / 4, std::ranges::max(evaluations), 1e-5);
    EXPECT_DOUBLE_EQ(json.at("mean_spearman")[fold].get<double>(), sum / 4);
  }
  EXPECT_THAT(succeed({test::kPredictQuest, "--models", path("run"), "--shards", path("shards")}).out,
              AllOf(HasSubstr("rank correlation of fold"), HasSubstr("both_fit "), HasSubstr("mean")));
}

TEST_F(Quest, BinsPredictionsAsTheFoldsChooseUnlessToldOtherwise) {
  succeed(predict("table.csv", "raw.csv", {"--shards", path("shards"), "--no-binning"}));
  succeed(predict("table.csv", "none.csv"));
  EXPECT_EQ(test::read_file(path("raw.csv")), test::read_file(path("none.csv")));
  const auto json =
      nlohmann::json::parse(succeed(predict("table.csv", "bins.csv", {"--shards", path("shards"), "--json"})).out);
  const std::vector<double> raw = numbers_of(test::read_file(path("raw.csv")));
  const std::vector<double> bins = numbers_of(test::read_file(path("bins.csv")));
  int binned_columns = 0;
  for (size_t column = 0; column < 5; ++column) {
    const int k = json.at("bins")[column].at("k").get<int>();
    binned_columns += k > 0 ? 1 : 0;
    for (size_t i = column; i < raw.size(); i += 5) {
      if (k == 0) {
        EXPECT_EQ(raw[i], bins[i]);
      } else {
        EXPECT_NEAR(bins[i] * k, std::round(bins[i] * k), 1e-3);
      }
    }
  }
  EXPECT_GT(binned_columns, 0);
  // What is said of a row does not depend on the rows beside it, but where all of a column would become equal.
  const std::string csv = test::read_file(path("table.csv"));
  const size_t header = csv.find('\n') + 1;
  const size_t third = csv.find("\n103,") + 1;
  test::write_file(path("few.csv"), csv.substr(0, third));
  succeed(predict("few.csv", "few-bins.csv", {"--shards", path("shards")}));
  succeed(predict("few.csv", "few-raw.csv"));
  const std::vector<double> few = numbers_of(test::read_file(path("few-bins.csv")));
  const std::vector<double> few_raw = numbers_of(test::read_file(path("few-raw.csv")));
  ASSERT_THAT(few, SizeIs(15));
  for (size_t column = 0; column < 5; ++column) {
    const bool equal = bins[column] == bins[column + 5] && bins[column] == bins[column + 10];
    for (size_t i = column; i < 15; i += 5) EXPECT_NEAR(few[i], equal && few[i] == few_raw[i] ? raw[i] : bins[i], 1e-5);
  }
  test::write_file(path("one.csv"), csv.substr(0, header) + csv.substr(header, csv.find("\n101,") + 1 - header));
  succeed(predict("one.csv", "one-bins.csv", {"--shards", path("shards")}));
  const std::vector<double> one = numbers_of(test::read_file(path("one-bins.csv")));
  ASSERT_THAT(one, SizeIs(5));
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(one[i], bins[i], 1e-5);
}

TEST_F(Quest, SaysOfTheFirstRowsWhatTheModelsSaidBeforeBins) {
  const Command show = {"--shards", path("shards"), "--show", "2"};
  const auto json = nlohmann::json::parse(succeed(predict("table.csv", "shown.csv", show + Command{"--json"})).out);
  succeed(predict("table.csv", "unbinned.csv"));
  const std::vector<double> raw = numbers_of(test::read_file(path("unbinned.csv")));
  ASSERT_THAT(json.at("shown"), SizeIs(2));
  EXPECT_EQ(json.at("shown")[1].at("id"), "101");
  for (size_t row = 0; row < 2; ++row) {
    for (size_t i = 0; i < 5; ++i) {
      const auto name = json.at("targets")[i].get<std::string>();
      EXPECT_NEAR(json.at("shown")[row].at("said").at(name).get<double>(), raw[5 * row + i], 1e-6);
    }
  }
  EXPECT_EQ(json.at("out"), path("shown.csv"));
  test::write_file(path("wild.csv"), "qa_id,question_title,question_body,answer\n1\x1b,\"a\x1b[2J\nb\",b,a\n");
  EXPECT_THAT(succeed(predict("wild.csv", "wild-said.csv")).out,
              AllOf(HasSubstr("\n1\\x1b: a\\x1b[2J"), testing::Not(HasSubstr("\x1b"))));
}

TEST_F(Quest, AveragesTheModelsOfTheFoldsThatAreNamedAndMissesNoneSilently) {
  fs::create_directories(path("part"));
  fs::copy(path("run/fold-1"), path("part/fold-1"), fs::copy_options::recursive);
  EXPECT_THAT(refusal(predict("table.csv", "part.csv", {"--models", path("part")})),
              HasSubstr("has models of 1 of 2 folds (1): train the others, or name these with --fold"));
  EXPECT_THAT(succeed(predict("table.csv", "part.csv", {"--models", path("part"), "--fold", "1"})).out,
              HasSubstr("models of the folds 1\n"));
  succeed(predict("table.csv", "one-fold.csv", {"--fold", "1"}));
  EXPECT_EQ(test::read_file(path("part.csv")), test::read_file(path("one-fold.csv")));
  const auto json = nlohmann::json::parse(succeed(measure("part", {"--fold", "1", "--json"})).out);
  const auto both = nlohmann::json::parse(succeed(measure("run", {"--json"})).out);
  EXPECT_EQ(json.at("spearman"), nlohmann::json({both.at("spearman")[1]}));
  EXPECT_EQ(json.at("binned_spearman"), json.at("spearman"));
  Command twice = measure("run", {"--fold", "1"});
  twice.insert(twice.end(), {"--fold", "0"});
  EXPECT_EQ(succeed(twice).out, succeed(measure("run")).out);
  EXPECT_THAT(refusal(measure("run", {"--fold", "2"})), HasSubstr("fold 2 has no run"));
  EXPECT_THAT(refusal(measure("run", {"--fold", "x"})), HasSubstr("--fold is 'x', must be the number of a fold"));
  fs::create_directories(path("part/fold-0"));
  fs::copy(path("run/fold-0/best"), path("part/fold-0/best"), fs::copy_options::recursive);
  EXPECT_THAT(refusal(predict("table.csv", "x.csv", {"--models", path("part")})),
              HasSubstr("the training of fold 0 has not ended"));
  const std::string best = best_models_of_folds(path("part"), {1}).front().folder;
  test::write_file(best + "/tokenizer.json", test::letter_tokenizer_json() + "\n");
  EXPECT_THAT(refusal(measure("part", {"--fold", "1"})),
              HasSubstr("tokenizer.json is another tokenizer than that of 32"));
}

TEST_F(Quest, MeasuresOnTheSplitAloneThatTheModelsWereTrainedOn) {
  std::string csv = test::read_file(path("table.csv"));
  const size_t second = csv.find("\n112,") + 1;
  const size_t header = csv.find('\n') + 1;
  test::write_file(path("turned.csv"),
                   csv.substr(0, header) + csv.substr(second) + csv.substr(header, second - header));
  Command other = prepare("turned");
  other[2] = path("turned.csv");
  succeed(other);
  EXPECT_THAT(refusal(measure("run", {"--shards", path("turned")})),
              HasSubstr("turned has another split of rows into folds than"));
}

TEST_F(Quest, MeasuresRowsWithoutPaddingAsThoseWithIt) {
  succeed(prepare("no-padding", {"--unpadded"}));
  const auto padded = nlohmann::json::parse(succeed(measure("run", {"--json"})).out);
  const auto unpadded = nlohmann::json::parse(succeed(measure("run", {"--json", "--shards", path("no-padding")})).out);
  for (const int fold : {0, 1}) {
    for (const int column : {0, 1, 2, 4}) {
      EXPECT_NEAR(padded.at("spearman")[fold][column].get<double>(),
                  unpadded.at("spearman")[fold][column].get<double>(), 0.01);
    }
  }
}

TEST_F(Quest, MakesOneStepOfTwoBatchesInEightReplicasAsOfOneOfTwiceTheRows) {
  // The first step of RAdam is along the gradient, so that rounded sums stay small.
  const auto weights = [](const std::string& name, const Command& more) {
    succeed(train(name, Command{"--fold", "0", "--dropout", "0", "--head-dropout", "0", "--replicas", "8", "--steps",
                                "1", "--warmup-steps", "0", "--evaluate-every", "1", "--learning-rate", "1"} +
                            more));
    return SafetensorsFile(path(name + "/fold-0/model/model.safetensors"))
        .values<float>("heads.joint.gate.reduce.weight");
  };
  const std::vector<float> at_once = weights("at-once", {"--global-batch", "16"});
  const std::vector<float> in_two = weights("in-two", {"--global-batch", "8", "--accumulate", "2"});
  EXPECT_THAT(in_two, testing::Pointwise(testing::FloatNear(1e-6F), at_once));
  EXPECT_THAT(weights("half", {"--global-batch", "8"}),
              testing::Not(testing::Pointwise(testing::FloatNear(1e-5F), at_once)));
}

TEST_F(Quest, TrainsOnRowsOfAnyLengthInFewShapes) {
  succeed(prepare("unpadded", {"--unpadded"}));
  EXPECT_THAT(refusal(train("x", {"--shards", path("unpadded")})), HasSubstr("which need --dynamic"));
  const auto shapes = [](const Command& command) {
    return nlohmann::json::parse(succeed(command + Command{"--json"}).out).at("distinct_shapes").get<int>();
  };
  EXPECT_EQ(shapes(train("dynamic", {"--dynamic", "--fold", "0"})), 1);  // of 44 and 30
  succeed(prepare("short", {"--max-title", "2", "--max-question", "64"}));
  EXPECT_EQ(shapes(train("short-run", {"--dynamic", "--fold", "0", "--shards", path("short")})), 2);
  succeed(train("dynamic-unpadded", {"--dynamic", "--fold", "0", "--shards", path("unpadded")}));
  const std::string weights = test::read_file(path("dynamic/fold-0/model/model.safetensors"));
  EXPECT_TRUE(weights == test::read_file(path("dynamic-unpadded/fold-0/model/model.safetensors")));
  EXPECT_EQ(shapes(train("one-shape", {"--dynamic", "--max-shapes", "1", "--fold", "1"})), 1);
  EXPECT_THAT(refusal(train("x", {"--max-shapes", "3"})), HasSubstr("--max-shapes is of --dynamic"));
}

TEST_F(Quest, StartsFromATrainedEncoder) {
  const Command from_model = {test::kTrainQuest,
                              "--out",
                              path("tuned"),
                              "--shards",
                              path("shards"),
                              "--model",
                              path("run/fold-0/model"),
                              "--fold",
                              "0",
                              "--global-batch",
                              "8",
                              "--steps",
                              "2",
                              "--warmup-steps",
                              "0",
                              "--learning-rate",
                              "1e-12",
                              "--threads",
                              "2"};
  succeed(from_model);
  const SafetensorsFile before(path("run/fold-0/model/model.safetensors"));
  const SafetensorsFile after(path("tuned/fold-0/model/model.safetensors"));
  const char* words = "roberta.embeddings.word_embeddings.weight";
  EXPECT_TRUE(is_equal(*before.find(words), *after.find(words)));
  const char* head = "heads.question.output.weight";
  EXPECT_FALSE(is_equal(*before.find(head), *after.find(head)));
  EXPECT_THAT(refusal(from_model + Command{"--overwrite", "--hidden", "32"}),
              HasSubstr("--hidden is what --model has"));
  // More tokens than the encoder has positions for.
  succeed(prepare("longer", {"--max-answer", "45"}));
  EXPECT_THAT(refusal(from_model + Command{"--overwrite", "--shards", path("longer")}),
              HasSubstr("is a model for 44 tokens, rows have 45"));
}

// A cross validation that is killed in one of its folds, and started again by the same command.
TEST_F(Quest, GoesOnWithTheFoldThatWasInWorkBitForBit) {
  succeed(prepare("thirds", {"--folds", "3"}));
  const Command all = {"--shards", path("thirds"), "--resume", "last"};
  succeed(train("thirds-straight", all));
  const auto trained = [](const std::string& run) {
    std::map<std::string, std::string> files;
    for (const int fold : {0, 1, 2}) {
      for (const char* part : {"model", "best"}) {
        for (const auto& [name, bytes] : test::files_below(path(fmt::format("{}/fold-{}/{}", run, fold, part)))) {
          if (!name.ends_with("training.id")) files[fmt::format("{}/{}/{}", fold, part, name)] = bytes;
        }
      }
    }
    return files;
  };
  const auto expected = trained("thirds-straight");
  // Whether the kill fell between the first checkpoint of fold 1 and the end of that fold.
  const auto is_killed_in_fold_1 = [&] {
    fs::remove_all(path("thirds-killed"));
    ChildProcess child(train("thirds-killed", all));
    while (!fs::exists(path("thirds-killed/fold-1/checkpoints/checkpoint-00000004")) && child.running()) {
      child.take_output();
      std::this_thread::yield();
    }
    child.signal(SIGKILL);
    return child.wait().signal == SIGKILL && !fs::exists(path("thirds-killed/fold-1/model"));
  };
  for (const Command& more : {Command(), Command{"--fold", "1"}}) {
    for (int attempt = 0; !is_killed_in_fold_1(); ++attempt) ASSERT_LT(attempt, 100);
    const size_t starts = log_of("thirds-killed/fold-1", "start").size();
    succeed(train("thirds-killed", all + more));
    const auto started = log_of("thirds-killed/fold-1", "start");
    ASSERT_EQ(started.size(), starts + 1);
    EXPECT_GE(started.back().at("step"), 4) << "it begins anew";
    succeed(train("thirds-killed", all));
    const auto found = trained("thirds-killed");
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(found.at(name) == bytes) << name;
  }
  // One that is told to stop says how to go on.
  ChildProcess child(train("thirds-stopped", {"--shards", path("thirds"), "--steps", "4000"}));
  while (!fs::exists(path("thirds-stopped/fold-0/checkpoints")) && child.running()) {
    child.take_output();
    std::this_thread::yield();
  }
  child.signal(SIGINT);
  const ChildResult stopped = child.wait();
  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("train_quest: fold 0, of 0 to 2"),
                                 HasSubstr("; go on with the same options and --resume last")));
}

TEST_F(Quest, GoesOnWithAFoldBitForBit) {
  std::optional<std::string> checkpoint;
  for (int attempt = 0; attempt < 100 && !checkpoint; ++attempt) {  // until it is killed before its end
    fs::remove_all(path("stopped"));
    ChildProcess child(train("stopped", {"--fold", "0", "--steps", "12"}));
    while (!fs::exists(path("stopped/fold-0/checkpoints/checkpoint-00000004")) && child.running()) {
      std::this_thread::yield();
    }
    child.signal(SIGKILL);
    if (child.wait().signal == SIGKILL) checkpoint = newest_checkpoint(path("stopped/fold-0/checkpoints"));
  }
  ASSERT_TRUE(checkpoint);
  succeed(train("stopped", {"--fold", "0", "--resume", *checkpoint}));
  for (const char* file : {"model.safetensors", "quest.json", "config.json"}) {
    EXPECT_TRUE(test::read_file(path("stopped/fold-0/model/") + file) ==
                test::read_file(path("run/fold-0/model/") + file));
  }
  EXPECT_THAT(refusal(train("stopped", {"--resume", *checkpoint})), HasSubstr("--fold is missing"));
}

// MILLRACE_KILLS: how many of each.
TEST_F(Quest, KilledPreparationsTrainingsAndPredictionsLeaveNothingHalfWritten) {
  const int kills = test::num_kills(2, 50);
  test::kill_preparations(prepare("killed"), path("killed"), test::files_below(path("shards")), kills);

  const Command binned = {"--shards", path("shards")};
  succeed(predict("table.csv", "whole.csv", binned));
  const std::string csv = test::read_file(path("whole.csv"));
  succeed(predict("table.csv", "old.csv"));
  const std::string old = test::read_file(path("old.csv"));
  ASSERT_NE(old, csv);
  test::write_file(path("killed.csv"), old);
  test::kill_at_random_moments(
      predict("table.csv", "killed.csv", binned),
      [&] {
        const std::string said = test::read_file(path("killed.csv"));
        EXPECT_TRUE(said == old || said == csv);
        succeed(predict("table.csv", "killed.csv", binned));
        EXPECT_EQ(test::read_file(path("killed.csv")), csv);
        test::write_file(path("killed.csv"), old);
      },
      kills);

  const Command training = train("killed-run", {"--fold", "0", "--resume", "last"});
  const auto files = [](const std::string& run) {
    auto found = test::files_below(path(run + "/model"));
    for (const auto& [name, bytes] : test::files_below(path(run + "/best"))) {
      if (!name.ends_with("training.id")) found["best/" + name] = bytes;  // says which training wrote them
    }
    return found;
  };
  const auto evaluation = [](const std::string& run) {
    const auto report = log_of(run, "evaluation").back();
    return report.at("loss").dump() + report.at("metrics").dump();
  };
  const auto trained = files("run/fold-0");
  int times = 0;
  test::kill_at_random_moments(
      training,
      [&] {
        EXPECT_TRUE(!fs::exists(path("killed-run/fold-0/model")) || files("killed-run/fold-0") == trained);
        if (++times % 2 == 0) return;  // half of the trainings go on from where another one was killed
        succeed(training);
        EXPECT_TRUE(files("killed-run/fold-0") == trained);
        EXPECT_EQ(evaluation("killed-run/fold-0"), evaluation("run/fold-0"));
        fs::remove_all(path("killed-run"));
      },
      kills);
}

// Those of one choice are no test for models of another one.
TEST_F(Quest, KilledPreparationsLeaveNoTestRowsOfAnotherChoiceBesideAWholeSet) {
  test::write_file(path("packages"), package_list());
  const Command first = prepare_packages("choices", {"--seed", "1"});
  Command second = prepare_packages("choices", {"--seed", "2"});
  const auto state = [] {
    auto files = test::files_below(path("choices"));
    std::erase_if(files, [](const auto& file) {  // what the next run clears away
      return file.first.starts_with("shards/.incomplete-shards/") || file.first.find(".tmp-") != std::string::npos;
    });
    return files;
  };
  succeed(second);
  const auto expected = state();
  succeed(first);
  const auto before = state();
  ASSERT_NE(before.at("test.csv"), expected.at("test.csv"));
  ASSERT_NE(before.at("other.txt"), expected.at("other.txt"));
  int without_set = 0;
  const auto check = [&] {
    const auto left = state();
    if (left.contains("shards/statistics.json")) {
      EXPECT_TRUE(left == before || left == expected);
    } else {
      ++without_set;
    }
    if (left == before) return;
    succeed(first);
    EXPECT_TRUE(state() == before);
  };
  test::kill_at_random_moments(second, check, test::num_kills(2, 50));
  second[0] = test::kPrepareQuestWithFaults;
  without_set = 0;
  test::kill_at_each_call(second, check);
  EXPECT_GE(without_set, 5);  // both files and four shards are put in place meanwhile
}

TEST_F(Quest, StopsAPredictionAndLeavesNothing) {
  test::write_file(path("many.csv"), test::quest_csv(2000));
  fs::create_directories(path("interrupted"));
  ChildResult result{.exit_code = 0};
  for (int attempt = 0; attempt < 100 && result.exit_code == 0; ++attempt) {  // until the signal comes before the end
    fs::remove(path("interrupted/said.csv"));
    ChildProcess child(predict("many.csv", "interrupted/said.csv"));
    while (fs::is_empty(path("interrupted")) && child.running()) std::this_thread::yield();
    child.signal(SIGINT);
    result = child.wait();
  }
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.err, "predict_quest: interrupted; nothing is written\n");
  EXPECT_TRUE(fs::is_empty(path("interrupted")));
}

TEST_F(Quest, RefusesInOneLineWhatCannotBeAndLeavesAllAsItWas) {
  const auto before = test::files_below(path("shards"));
  EXPECT_THAT(refusal(prepare("shards", {"--folds", "17"})),
              HasSubstr("48 rows in 16 groups cannot be cut into 17 folds"));
  test::write_file(path("bad.csv"), "question_title,question_body,answer,q_a,a_a,both_a\nt,b,a,2,0,0\n");
  Command bad = prepare("shards");
  bad[2] = path("bad.csv");
  EXPECT_THAT(refusal(bad), HasSubstr("line 2, column 'q_a': 2 is outside [0, 1] (file " + path("bad.csv") + ")"));
  EXPECT_THAT(refusal(prepare("shards", {"--rows-to-predict", path("bad.csv")})), HasSubstr("has no column 'qa_id'"));
  test::write_file(path("blank.csv"), "qa_id,question_title,question_body,answer\n1,t,b, \n");
  EXPECT_THAT(refusal(prepare("shards", {"--rows-to-predict", path("blank.csv")})),
              HasSubstr("line 2, column 'answer': an empty text"));
  EXPECT_TRUE(test::files_below(path("shards")) == before);
  EXPECT_THAT(refusal(prepare("x", {"--packages", path("table.csv")})), HasSubstr("one of --csv and --packages"));
  EXPECT_THAT(refusal(prepare("x", {"--rows", "5"})), HasSubstr("--rows is of --packages"));
  EXPECT_THAT(refusal(prepare("x", {"--preset", "original"})),
              HasSubstr("--preset and --max-question do not go together"));

  EXPECT_THAT(succeed({test::kTrainQuest, "--help"}).out, HasSubstr("OUT/fold-N/model"));
  EXPECT_THAT(refusal(train("x", {"--freeze", "nosuch"})), HasSubstr("--freeze"));
  EXPECT_FALSE(fs::exists(path("x")));
  EXPECT_THAT(refusal(train("x", {"--fold", "2"})), HasSubstr("has the folds 0 to 1, and no fold 2"));
  test::write_file(path("other.json"), test::letter_tokenizer_json() + "\n");
  EXPECT_THAT(refusal(train("x", {"--tokenizer", path("other.json")})),
              HasSubstr("is another tokenizer than that of 32"));
  fs::copy(path("run/fold-0/model"), path("foreign"));
  std::string letters = test::letter_tokenizer_json();
  letters.replace(letters.rfind("[\"z\""), 4, "[\"Z\"");
  test::write_file(path("foreign/tokenizer.json"), letters);
  EXPECT_THAT(refusal({test::kTrainQuest, "--out", path("x"), "--shards", path("shards"), "--tokenizer",
                       path("tokenizer.json"), "--model", path("foreign")}),
              HasSubstr("is another tokenizer than that of the model in"));
  EXPECT_THAT(refusal(train("x", {"--trace", path("trace.json")})), HasSubstr("--trace is of one fold"));
  EXPECT_THAT(refusal(train("run")), HasSubstr("run/fold-0"));
  EXPECT_THAT(refusal(train("x", {"--shards", path("nothing")})), HasSubstr("nothing/statistics.json"));
  // A look before the rows are there says what is known, and what is in the folder.
  EXPECT_THAT(succeed(train("x", {"--shards", path("nothing"), "--check"})).out,
              AllOf(HasSubstr("not known"), HasSubstr("prepare_quest writes it")));
  EXPECT_THAT(refusal(train("run", {"--shards", path("nothing"), "--check"})), HasSubstr("run/fold-0"));

  EXPECT_THAT(refusal(predict("table.csv", "x.csv", {"--models", path("shards")})),
              HasSubstr("fold-0 is not there; train_quest writes it"));
  EXPECT_THAT(refusal({test::kPredictQuest, "--models", path("run")}), HasSubstr("give --csv FILE, or --shards DIR"));
  EXPECT_THAT(refusal(predict("table.csv", "x.csv", {"--ensemble", "votes"})),
              HasSubstr("must be logits, probabilities or ranks"));
  succeed(prepare("three", {"--folds", "3"}));
  EXPECT_THAT(
      refusal(measure("run", {"--shards", path("three")})),
      AllOf(HasSubstr("three has another split of rows into folds than"), HasSubstr("must be of one prepare_quest")));
  // Before anything is predicted.
  EXPECT_THAT(refusal(predict("table.csv", "nodir/x.csv", {"--shards", path("three")})), HasSubstr("nodir/x.csv"));
  EXPECT_THAT(refusal(predict("table.csv", "shards/../table.csv")), HasSubstr("--csv and --out are both "));
  succeed(prepare("wide", {"--max-answer", "40"}));
  EXPECT_THAT(refusal(measure("run", {"--shards", path("wide")})), HasSubstr("wide has other limits than"));
  fs::create_directories(path("mixed"));
  fs::copy(path("run/fold-0"), path("mixed/fold-0"), fs::copy_options::recursive);
  fs::create_directories(path("mixed/fold-1/best"));
  fs::create_directories(path("mixed/fold-1/model"));
  EXPECT_THAT(refusal(predict("table.csv", "x.csv", {"--models", path("mixed")})), HasSubstr("fold 1 has no model in"));
  succeed(train("mixed", {"--fold", "1", "--shards", path("wide"), "--overwrite"}));
  EXPECT_THAT(refusal(predict("table.csv", "x.csv", {"--models", path("mixed")})), HasSubstr("has other limits than"));
  EXPECT_FALSE(fs::exists(path("x.csv")));
}

TEST_F(Quest, PreparesPackagesWithTestRowsAndTextsOfOtherSources) {
  const std::string list = package_list();
  test::write_file(path("packages"), list);
  const Command command = prepare_packages("of-packages");
  EXPECT_THAT(
      succeed(command).out,
      AllOf(HasSubstr("left out: 4 packages without tags, 0 without a second paragraph, 13 not drawn; 3 test rows"),
            HasSubstr("20 rows in"), HasSubstr(" groups of at most 2, ")));
  const QuestRows test_rows = read_csv_rows(path("of-packages/test.csv"), std::nullopt);
  EXPECT_THAT(test_rows.rows, SizeIs(3));
  EXPECT_THAT(test::read_file(path("of-packages/other.txt")), AllOf(HasSubstr("thing "), HasSubstr("part")));
  const auto json = nlohmann::json::parse(succeed(command + Command{"--json"}).out);
  EXPECT_EQ(json.at("not_drawn"), 13);
  EXPECT_EQ(json.at("rows"), 20);
  EXPECT_EQ(json.at("test_rows"), 3);
  EXPECT_EQ(json.at("largest_group"), 2);
  const auto before = test::files_below(path("of-packages"));
  EXPECT_THAT(refusal(command + Command{"--test-csv", path("nodir/t.csv"), "--seed", "7"}), HasSubstr("nodir/t.csv"));
  EXPECT_THAT(refusal(command + Command{"--other-texts", path("nodir/t.txt"), "--seed", "7"}),
              HasSubstr("nodir/t.txt"));
  EXPECT_THAT(refusal(command + Command{"--other-texts", path("of-packages/../of-packages/test.csv"), "--seed", "7"}),
              HasSubstr("--test-csv and --other-texts are both "));
  EXPECT_THAT(refusal(command + Command{"--rows", "36"}), HasSubstr("3 test rows are asked for, and 0 packages"));
  EXPECT_TRUE(test::files_below(path("of-packages")) == before);
  EXPECT_GT(json.at("padding_share"), 0.1);
  EXPECT_THAT(refusal(command + Command{"--q-targets", "x"}), HasSubstr("q-targets"));
  EXPECT_THAT(refusal(command + Command{"--question-targets", "x"}), HasSubstr("--question-targets is of --csv"));
  test::write_file(path("packages"), list.substr(0, list.size() - 30));
  EXPECT_THAT(refusal(command), HasSubstr("the list is cut off"));
}

}  // namespace
}  // namespace millrace::quest_programs_test
