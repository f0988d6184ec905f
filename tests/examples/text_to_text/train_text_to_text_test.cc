// train_text_to_text as a process.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "examples/text_to_text/prepared_rows.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/models/t5_classifier.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/predictor.h"
#include "tests/examples/text_to_text/questions.h"
#include "tests/examples/text_to_text/small_run.h"
#include "tests/examples/text_to_text/small_t5.h"
#include "tests/support/places.h"

namespace millrace::train_text_to_text_test {
namespace {

using test::ChildResult;
using test::read_file;
using test::run_child;
using test::SmallRun;
using test::write_file;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class TrainTextToText : public testing::Test {
 protected:
  static void SetUpTestSuite() { run_ = new SmallRun; }
  static void TearDownTestSuite() {
    delete run_;
    run_ = nullptr;
  }

  // The error of a training that must fail, which is one line.
  static std::string refusal(const std::vector<std::string>& more) {
    const ChildResult result = run_child(run_->training("refused", more));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  }

  // The numbers of a field in the reports of a log.
  static std::vector<double> in_log(const std::string& out, const std::string& field) {
    std::istringstream lines(read_file(run_->path(out + "/log.jsonl")));
    std::vector<double> values;
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json["event"] == "report") values.push_back(json[field]);
    }
    return values;
  }

  static SmallRun* run_;
};

SmallRun* TrainTextToText::run_ = nullptr;

TEST_F(TrainTextToText, LearnsTheClassAndSavesAT5) {
  const ChildResult result =
      run_child(run_->training("run", {"--json", "--steps", "100", "--dropout", "0", "--evaluate-every", "50"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GT(json.at("evaluation_accuracy").get<double>(), 0.9);
  EXPECT_EQ(json.at("evaluation_rows").get<int64_t>(), PreparedRows(run_->path("rows")).num_rows(1));
  const T5Config config = load_t5_config(run_->path("run/model"));
  EXPECT_EQ(config.vocab_size, 200);
  EXPECT_EQ(config.d_model, 16);
  EXPECT_EQ(load_text_task(run_->path("run/model")).names(), (std::vector<std::string>{"LQ_CLOSE", "LQ_EDIT", "HQ"}));
  EXPECT_EQ(read_file(run_->path("run/model/tokenizer.json")), read_file(run_->path("rows/tokenizer.json")));
  EXPECT_FALSE(test::files_below(run_->path("run/best")).empty());
}

TEST_F(TrainTextToText, KeepsNoBestModelWhereNothingIsEvaluated) {
  ASSERT_EQ(
      run_child({test::kPrepareTextToText, "--csv", run_->path("questions.csv"), "--out", run_->path("unvalidated"),
                 "--vocab-size", "200", "--max-length", "48", "--validation-share", "0"})
          .exit_code,
      0);
  const ChildResult result = run_child(run_->training("no-best", {"--rows", run_->path("unvalidated")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(run_->path("no-best/model/config.json")));
  EXPECT_FALSE(std::filesystem::exists(run_->path("no-best/best")));
}

// Every batch has fewer rows than there are replicas, and the last one of an epoch still fewer.
TEST_F(TrainTextToText, IsExactForBatchesWithFewerRowsThanReplicas) {
  const int64_t num_rows = PreparedRows(run_->path("rows")).num_rows(0);
  const int64_t batch = num_rows % 7 == 0 ? 5 : 7;
  ASSERT_NE(num_rows % batch, 0);
  const std::string steps = std::to_string(num_rows / batch + 3);
  for (const std::string replicas : {"1", "8"}) {
    const ChildResult result =
        run_child(run_->training("r" + replicas, {"--global-batch", std::to_string(batch), "--replicas", replicas,
                                                  "--steps", steps, "--learning-rate", "0.001"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  const std::vector<double> rows = in_log("r1", "rows");
  EXPECT_EQ(rows[static_cast<size_t>(num_rows / batch)], num_rows % batch);
  EXPECT_EQ(rows, in_log("r8", "rows"));
  const std::vector<double> losses = in_log("r1", "loss");
  const std::vector<double> split = in_log("r8", "loss");
  ASSERT_EQ(losses.size(), split.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(split[i], losses[i], 2e-5 * losses[i]) << "step " << i + 1;
  const T5ForConditionalGeneration model(load_t5_config(run_->path("r1/model")));
  const FlatBuffer one = load_t5_weights(run_->path("r1/model"), model);
  const FlatBuffer eight = load_t5_weights(run_->path("r8/model"), model);
  double largest = 0;
  for (size_t i = 0; i < one.span().size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(one.span()[i]) - static_cast<double>(eight.span()[i])));
  }
  EXPECT_LT(largest, 1e-4);
  EXPECT_GT(largest, 0);  // they did not take the same way
}

TEST_F(TrainTextToText, GivesTheSameBytesForAnyNumberOfThreadsAndWhenItGoesOn) {
  ASSERT_EQ(run_child(run_->training("whole", {"--checkpoint-every", "12"})).exit_code, 0);
  ASSERT_EQ(run_child(run_->training("threads", {"--threads", "1"})).exit_code, 0);
  const std::string checkpoint = run_->path("whole/checkpoints/checkpoint-00000012");
  const ChildResult on = run_child(run_->training("on", {"--resume", checkpoint}));
  ASSERT_EQ(on.exit_code, 0) << on.err;
  const std::string expected = read_file(run_->path("whole/model/model.safetensors"));
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(read_file(run_->path("threads/model/model.safetensors")), expected);
  EXPECT_EQ(read_file(run_->path("on/model/model.safetensors")), expected);
  EXPECT_THAT(refusal({"--resume", checkpoint, "--heads", "4", "--d-kv", "4"}), HasSubstr("num_heads"));
}

// Of version 1.1 as transformers 5 writes it, whose outputs are not scaled although it says that they are tied.
TEST_F(TrainTextToText, StartsFromAT5OfTransformers) {
  const std::string t5 = test::data_path("models/t5_scale");
  write_file(run_->path("tokenizer.json"), test::small_t5_tokenizer_json());
  ASSERT_EQ(run_child({test::kPrepareTextToText, "--csv", run_->path("questions.csv"), "--out", run_->path("letters"),
                       "--tokenizer", run_->path("tokenizer.json"), "--max-length", "16"})
                .exit_code,
            0);
  const std::vector<std::string> arguments = {test::kTrainTextToText,
                                              "--out",
                                              run_->path("tuned"),
                                              "--rows",
                                              run_->path("letters"),
                                              "--model",
                                              t5,
                                              "--steps",
                                              "1",
                                              "--warmup-steps",
                                              "0",
                                              "--learning-rate",
                                              "1e-12",
                                              "--weight-decay",
                                              "0",
                                              "--threads",
                                              "2",
                                              "--json"};
  const ChildResult result = run_child(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(load_t5_config(run_->path("tuned/model")).scale_decoder_outputs, false);

  const T5Classifier model(load_t5_config(t5), {30, 31, 32}, t5);
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 0);
  Predictor predictor(model, weights.span());
  const PreparedRows rows(run_->path("letters"));
  PipelineSource source(rows.rows(1, /*labels=*/true).batch(32).start({.threads = 1}));
  const double expected = predictor.evaluate(source).loss;
  EXPECT_NEAR(nlohmann::json::parse(result.out).at("evaluation_loss").get<double>(), expected, 1e-4 * expected);
  const FlatBuffer written = load_t5_weights(run_->path("tuned/model"), model.t5());
  for (size_t i = 0; i < weights.span().size(); ++i) EXPECT_NEAR(written.span()[i], weights.span()[i], 1e-6);
}

TEST_F(TrainTextToText, RefusesAModelOfAnotherVocabulary) {
  ASSERT_EQ(run_child(run_->training("own", {"--steps", "1", "--warmup-steps", "0"})).exit_code, 0);
  const auto from = [](const std::string& model) {
    const ChildResult result = run_child({test::kTrainTextToText, "--out", run_->path("refused"), "--rows",
                                          run_->path("rows"), "--model", model, "--steps", "1"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(from(test::data_path("models/t5_scale")),
              AllOf(HasSubstr("has a vocabulary of 64, the tokenizer "), HasSubstr(" one of 200")));
  // As many tokens, and others.
  auto tokenizer = nlohmann::json::parse(read_file(run_->path("own/model/tokenizer.json")));
  tokenizer["model"]["vocab"][50][0] = "other";
  write_file(run_->path("own/model/tokenizer.json"), tokenizer.dump());
  EXPECT_THAT(from(run_->path("own/model")), HasSubstr("is another tokenizer than that of the model in"));
}

TEST_F(TrainTextToText, RefusesRowsThatAreNotWhole) {
  const SmallRun other(60);
  const auto refused = [&] {
    const ChildResult result = run_child(other.training("refused"));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  };
  const std::string tokenizer = read_file(other.path("rows/tokenizer.json"));
  write_file(other.path("rows/tokenizer.json"), test::small_t5_tokenizer_json());
  EXPECT_THAT(refused(), HasSubstr("were written with a tokenizer of 200 tokens"));
  write_file(other.path("rows/tokenizer.json"), tokenizer);
  std::filesystem::remove(test::file_of(other.path("rows"), "test"));
  EXPECT_THAT(refused(), HasSubstr("rows are missing"));
  write_file(other.path("rows/statistics.json"), "{}");
  EXPECT_THAT(refused(), HasSubstr("statistics.json"));
  std::filesystem::remove(other.path("rows/statistics.json"));
  EXPECT_THAT(refused(), HasSubstr("prepare_text_to_text writes them"));
}

TEST_F(TrainTextToText, DoesNotGoOnWithRowsOfOtherWordsOrAnotherTokenizer) {
  const SmallRun other(60);
  ASSERT_EQ(run_child(other.training("run", {"--steps", "5"})).exit_code, 0);
  const auto prepared = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {
        test::kPrepareTextToText, "--csv", other.path("questions.csv"), "--out", other.path("rows"),
        "--max-length",           "48",    "--validation-share",        "0.2"};
    options.insert(options.end(), more.begin(), more.end());
    EXPECT_EQ(run_child(options).exit_code, 0);
  };
  const auto refused = [&] {
    const ChildResult result = run_child(other.training("run", {"--steps", "5", "--resume", "last"}));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  };
  const std::string tokenizer = read_file(other.path("rows/tokenizer.json"));
  prepared({"--tokenizer", other.path("run/model"), "--words", "low", "none", "high"});
  EXPECT_THAT(refused(), HasSubstr("was written with another text_to_text.json than this run has"));
  prepared({"--vocab-size", "200", "--seed", "7"});
  ASSERT_NE(read_file(other.path("rows/tokenizer.json")), tokenizer);
  EXPECT_THAT(refused(), AnyOf(HasSubstr("was written with another tokenizer.json"), HasSubstr("rows of 48 tokens")));
}

// What --help shows works here.
TEST_F(TrainTextToText, FreezesWhatItsHelpHasForAnExample) {
  const std::string help = run_child({test::kTrainTextToText, "--help"}).out;
  const size_t begin = help.find("such as '", help.find("--freeze")) + 9;
  const std::string pattern = help.substr(begin, help.find('\'', begin) - begin);
  EXPECT_EQ(run_child(run_->training("frozen", {"--check", "--freeze", pattern})).exit_code, 0) << pattern;
}

TEST_F(TrainTextToText, RefusesOptionsThatCannotBeTogether) {
  EXPECT_THAT(refusal({"--ignore-config", "x"}), HasSubstr("--ignore-config is of --model"));
  EXPECT_THAT(refusal({"--model", test::data_path("models/t5_scale")}),
              HasSubstr("--layers is of a T5 from scratch, and --model gives one"));
}

}  // namespace
}  // namespace millrace::train_text_to_text_test
