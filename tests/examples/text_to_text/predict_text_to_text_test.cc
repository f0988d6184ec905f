// predict_text_to_text as a process.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "tests/examples/text_to_text/questions.h"
#include "tests/examples/text_to_text/small_run.h"
#include "tests/examples/text_to_text/small_t5.h"
#include "tests/support/places.h"

namespace millrace::predict_text_to_text_test {
namespace {

using test::ChildResult;
using test::read_file;
using test::run_child;
using test::SmallRun;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class PredictTextToText : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_ = new SmallRun;
    const ChildResult trained = run_child(
        run_->training("run", {"--steps", "100", "--dropout", "0", "--keep-best", "1", "--evaluate-every", "20"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  static void TearDownTestSuite() {
    delete run_;
    run_ = nullptr;
  }

  static ChildResult predict(const std::vector<std::string>& more, const std::string& model = "run/model") {
    return run_child(run_->prediction(model, more));
  }
  static std::string refusal(const std::vector<std::string>& more, const std::string& model = "run/model") {
    const ChildResult result = predict(more, model);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(read_file(run_->path("refused.csv")), "");
    return result.err;
  }

  // A T5 that nobody has trained, with a vocabulary of this size.
  static std::string untrained(int64_t vocab_size, int64_t d_model) {
    const std::string folder = run_->path(fmt::format("untrained{}", vocab_size));
    std::filesystem::create_directories(folder);
    const T5ForConditionalGeneration model({.vocab_size = vocab_size,
                                            .d_model = d_model,
                                            .d_kv = 4,
                                            .d_ff = 8,
                                            .num_layers = 1,
                                            .num_decoder_layers = 1,
                                            .num_heads = 2});
    FlatBuffer weights(model.layout().size());
    model.initialize(weights.span(), 1);
    save_t5_config(folder, model.config());
    save_t5_weights(folder, model, weights.span());
    write_file(folder + "/tokenizer.json", read_file(run_->path("rows/tokenizer.json")));
    write_file(folder + "/text_to_text.json", read_file(run_->path("run/model/text_to_text.json")));
    return folder.substr(run_->path("").size());
  }

  static SmallRun* run_;
};

SmallRun* PredictTextToText::run_ = nullptr;

TEST_F(PredictTextToText, AnswersEveryRowOfACsvInOrder) {
  std::string answers;
  for (const int num_rows : {0, 1, 7, 8, 9, 1000}) {
    write_file(run_->path("new.csv"), test::questions_csv(num_rows));
    for (const std::vector<std::string>& how :
         std::vector<std::vector<std::string>>{{"--threads", "1"}, {"--threads", "2", "--batch", "5"}}) {
      std::vector<std::string> options = {"--csv", run_->path("new.csv"), "--out", run_->path("answers.csv"), "--json"};
      options.insert(options.end(), how.begin(), how.end());
      const ChildResult result = predict(options);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      answers = read_file(run_->path("answers.csv"));
      const std::vector<std::string> lines = lines_of(answers);
      ASSERT_EQ(std::ssize(lines), num_rows + 1);
      EXPECT_EQ(lines[0], "id,class,word");
      for (int i = 0; i < num_rows; ++i) {
        EXPECT_EQ(lines[static_cast<size_t>(i) + 1].substr(0, 5), fmt::format("{},", 1000 + i).substr(0, 5));
      }
      EXPECT_EQ(nlohmann::json::parse(result.out)["rows"], num_rows);
    }
  }
  // Those of the rows do not depend on how many come with them.
  write_file(run_->path("new.csv"), test::questions_csv(9));
  ASSERT_EQ(predict({"--csv", run_->path("new.csv"), "--out", run_->path("nine.csv"), "--batch", "4"}).exit_code, 0);
  EXPECT_EQ(read_file(run_->path("nine.csv")), answers.substr(0, read_file(run_->path("nine.csv")).size()));
}

TEST_F(PredictTextToText, CountsWhatItSaidOfWhatIsKnown) {
  const ChildResult result = predict({"--csv", run_->path("questions.csv"), "--out", run_->path("all.csv"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  const std::vector<std::string> truths = lines_of(test::questions_csv(300));
  const std::vector<std::string> lines = lines_of(read_file(run_->path("all.csv")));
  const std::vector<std::string> names = {"LQ_CLOSE", "LQ_EDIT", "HQ"};
  const std::vector<std::string> words = {"none", "low", "high"};
  int64_t right = 0;
  int64_t row = 0;
  for (const std::string& line : truths) {
    if (!line.starts_with("</code></pre>\",")) continue;  // the end of a row
    const std::string truth = line.substr(line.rfind(',') + 1);
    ++row;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != truth) continue;
      right += lines[static_cast<size_t>(row)] == fmt::format("{},{},{}", 999 + row, i, words[i]) ? 1 : 0;
    }
  }
  EXPECT_EQ(json["rows_with_class"], row);
  EXPECT_GT(right, 250);
  EXPECT_DOUBLE_EQ(json["accuracy"].get<double>(), static_cast<double>(right) / static_cast<double>(row));
  int64_t diagonal = 0;
  for (const std::string& name : names) diagonal += json["confusion"][name][name].get<int64_t>();
  EXPECT_EQ(diagonal, right);
  const ChildResult table = predict({"--csv", run_->path("questions.csv"), "--show", "1"});
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("row 1000: quality: a "),
                    MatchesRegex("(.|\n)*the model says '(none', LQ_CLOSE|low', LQ_EDIT|high', HQ): right\n(.|\n)*"),
                    HasSubstr("% right"), HasSubstr("accuracy 1.0000 over 300 rows")));
}

TEST_F(PredictTextToText, ShowsRowsWithTheClassOfTheWordAndWhetherItIsRight) {
  const std::string body =
      "\"<p>How does the <b>gate</b> turn, &quot;by water&quot;?</p><pre><code>if (a &lt; 5) turn();</code></pre>\"";
  write_file(run_->path("new.csv"), "Id,Title,Body,Y\n1,a urgent question about the mill," + body +
                                        ",HQ\n2,a careful question about the mill," + body + ",\n3,z,z,\n");
  const std::vector<std::string> options = {"--csv", run_->path("new.csv"), "--show", "2"};
  const ChildResult table = predict(options);
  EXPECT_THAT(table.out, HasSubstr("turn();</s>\n  the model says 'none', LQ_CLOSE: wrong, it is HQ\n"));
  EXPECT_THAT(table.out, HasSubstr("turn();</s>\n  the model says 'high', HQ\n"));
  EXPECT_THAT(table.out, Not(HasSubstr("row 3")));
  std::vector<std::string> as_json = options;
  as_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(predict(as_json).out);
  EXPECT_EQ(json["rows"], 3);
  ASSERT_EQ(json["shown"].size(), 2U);
  EXPECT_THAT(json["shown"][0]["text"], testing::StartsWith("quality: a urgent question about the mill</s>"));
  const auto& second = json["shown"][1];
  EXPECT_EQ(second["id"], "2");
  EXPECT_EQ(second["word"], "high");
  EXPECT_EQ(second["class"], "HQ");
  EXPECT_TRUE(second["is"].is_null());
  EXPECT_EQ(json["shown"][0]["is"], "HQ");
}

TEST_F(PredictTextToText, ShowsTextsOfOthersAsATerminalTakesThem) {
  write_file(run_->path("wild.csv"), "Id,Title,Body\n1\x1b[2J,a title,a text\n");
  EXPECT_THAT(predict({"--csv", run_->path("wild.csv"), "--show", "1"}).out,
              AllOf(HasSubstr("row 1\\x1b[2J: quality: a title"), Not(HasSubstr("\x1b"))));
}

TEST_F(PredictTextToText, PredictsRowsThatWerePreparedWithTheBestModel) {
  const ChildResult result = predict({"--rows", run_->path("rows"), "--split", "validation", "--json"}, "run/best");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  double best = 0;
  std::istringstream log(read_file(run_->path("run/log.jsonl")));
  for (std::string line; std::getline(log, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["event"] == "evaluation") best = std::max(best, json["metrics"]["accuracy"].get<double>());
  }
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(result.out)["accuracy"].get<double>(), best);
}

TEST_F(PredictTextToText, SaysMinusOneForAWordThatIsNoClass) {
  write_file(run_->path("new.csv"), "Id,Title,Body\n\"a,b\",some title,body\nx,another,<p>text</p>\n");
  const ChildResult result =
      predict({"--csv", run_->path("new.csv"), "--out", run_->path("none.csv"), "--json"}, untrained(200, 16));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["no_class"], 2);
  EXPECT_FALSE(nlohmann::json::parse(result.out).contains("accuracy"));
  const std::vector<std::string> lines = lines_of(read_file(run_->path("none.csv")));
  ASSERT_GE(lines.size(), 3U);
  EXPECT_THAT(lines[1], testing::StartsWith("\"a,b\",-1,"));
  EXPECT_THAT(lines[2], testing::StartsWith("x,-1,"));
}

TEST_F(PredictTextToText, TakesNoMoreMemoryForMoreRows) {
  const auto peak = [](int num_rows) {
    write_file(run_->path("many.csv"), test::questions_csv(num_rows));
    const ChildResult result = predict({"--csv", run_->path("many.csv"), "--out", run_->path("many_answers.csv")});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.peak_resident_bytes;
  };
  // With the first the buffers between the file and the answers are full: fewer rows take less. What the second has
  // more would take some 28 MiB as ids and masks alone.
  const int64_t few = peak(20'000);
  EXPECT_LT(peak(60'000), few + (int64_t{8} << 20));
}

// The logits are of one token a row, and of the replicas that run at once.
TEST_F(PredictTextToText, TakesForALargerVocabularyItsWeightsAndLogitsAndNoMore) {
  write_file(run_->path("new.csv"), test::questions_csv(64));
  const auto peak = [](const std::string& model) {
    const ChildResult result = predict({"--csv", run_->path("new.csv")}, model);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.peak_resident_bytes;
  };
  constexpr int64_t kVocabulary = 400'000;
  const int64_t weights = kVocabulary * 8 * 4;
  const int64_t logits = kVocabulary * 32 * 4;
  const int64_t grown = peak(untrained(kVocabulary, 8)) - peak(untrained(1000, 8));
  EXPECT_LT(grown, weights + logits + logits / 2);
  EXPECT_GT(grown, weights);  // it measures what it is about
}

TEST_F(PredictTextToText, RefusesWhatItCannotRead) {
  const auto refused = [](const std::string& csv) {
    write_file(run_->path("bad.csv"), csv);
    return refusal({"--csv", run_->path("bad.csv"), "--out", run_->path("refused.csv")});
  };
  EXPECT_THAT(refused("Id,Title,Body,Y\n1,a,b,\n2,a,b,NO\n"), HasSubstr("line 3, column 'Y': 'NO' is no class"));
  EXPECT_THAT(refused("Id,Title,Body\n1,a,b\n2,,\n"), HasSubstr("line 3, column 'Body': there is no text"));
  EXPECT_THAT(refused("Id,Body\n1,a\n"), HasSubstr("has no column 'Title'"));
  const std::string csv = run_->path("questions.csv");
  EXPECT_THAT(refusal({"--csv", csv, "--class-column", "Nope"}), HasSubstr("has no column 'Nope'"));
  EXPECT_THAT(refusal({"--csv", csv, "--out", csv}), HasSubstr("--csv and --out are both "));
  EXPECT_THAT(refusal({"--csv", "a", "--rows", "b"}), HasSubstr("give either --csv or --rows"));
  EXPECT_THAT(refusal({"--csv", run_->path("questions.csv")}, "rows"), HasSubstr("no model in"));
  EXPECT_THAT(refusal({"--rows", run_->path("rows"), "--split", "dev"}), HasSubstr("--split is 'dev'"));
  EXPECT_THAT(refusal({"--csv", run_->path("questions.csv"), "--split", "train"}), HasSubstr("--split is of --rows"));
  for (const std::string column : {"--id-column", "--title-column", "--body-column", "--class-column"}) {
    EXPECT_THAT(refusal({"--rows", run_->path("rows"), column, "x"}), HasSubstr(column + " is of --csv"));
  }
}

TEST_F(PredictTextToText, RefusesRowsOfAnotherTokenizer) {
  write_file(run_->path("tokenizer.json"), test::small_t5_tokenizer_json());
  ASSERT_EQ(run_child({test::kPrepareTextToText, "--csv", run_->path("questions.csv"), "--out", run_->path("letters"),
                       "--tokenizer", run_->path("tokenizer.json"), "--max-length", "48"})
                .exit_code,
            0);
  EXPECT_THAT(refusal({"--rows", run_->path("letters")}),
              HasSubstr("of another tokenizer, other classes or another form"));
}

}  // namespace
}  // namespace millrace::predict_text_to_text_test
