#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/tokenizer/tokenizer.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"

namespace millrace::train_unigram_test {
namespace {

using test::ChildResult;
using test::files_below;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainUnigram : public testing::Test {
 protected:
  TrainUnigram() {
    for (int i = 0; i < 200; ++i) {
      text_ += "the mill race turns wheel " + std::to_string(i) + " and slow water feeds a pond\n";
    }
    write("text", text_);
  }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path(name), std::ios::binary) << bytes;
  }
  ChildResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::kTrainUnigram);
    return test::run_child(arguments);
  }
  // The one line of a run that must fail.
  std::string refusal(const std::vector<std::string>& arguments) {
    const ChildResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  }

  TemporaryFolder folder_;
  std::string text_;
  const std::string out_ = folder_.path("out");
  const std::string file_ = folder_.path("text");
};

TEST_F(TrainUnigram, WritesATokenizerThatLoads) {
  const ChildResult result = run({"--text", file_, "--out", out_, "--vocab-size", "60"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("200 lines with"));
  EXPECT_THAT(result.out, HasSubstr("60 tokens written to " + out_ + "/tokenizer.json"));
  const Tokenizer tokenizer = Tokenizer::load(out_ + "/tokenizer.json");
  EXPECT_EQ(tokenizer.size(), 60);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the mill race").ids), "the mill race");
}

TEST_F(TrainUnigram, PrintsOneJsonObjectWhenAsked) {
  const ChildResult result = run({"--text", file_, file_, "--out", out_, "--vocab-size", "60", "--json"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("tokenizer"), out_ + "/tokenizer.json");
  EXPECT_EQ(json.at("vocab_size"), 60);
  EXPECT_EQ(json.at("lines"), 400);
  EXPECT_EQ(json.at("text_files"), 2);
  EXPECT_EQ(json.at("words"), 400 * 12);
  EXPECT_EQ(json.at("distinct_words"), 211);
  EXPECT_EQ(result.err, "");
}

TEST_F(TrainUnigram, WritesTheSameBytesForAnyNumberOfThreads) {
  for (const char* threads : {"1", "2", "0"}) {
    ASSERT_EQ(
        run({"--text", file_, "--out", folder_.path(threads), "--vocab-size", "60", "--threads", threads}).exit_code,
        0);
  }
  EXPECT_EQ(files_below(folder_.path("1")), files_below(folder_.path("2")));
  EXPECT_EQ(files_below(folder_.path("1")), files_below(folder_.path("0")));
}

TEST_F(TrainUnigram, ExplainsItsOptions) {
  const ChildResult result = run({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* option :
       {"--text", "--out", "--vocab-size 6..10000000 (=10048)", "--seed 0..9223372036854775807 (=42)",
        "--threads 0..1024 (=0)", "--max-words 1..1000000000 (=150000)", "--character-coverage 1e-06..1 (=1)",
        "--invalid-utf8 arg (=refuse)", "--json"}) {
    EXPECT_THAT(result.out, HasSubstr(option));
  }
}

TEST_F(TrainUnigram, SaysInOneLineWhatIsWrong) {
  EXPECT_EQ(refusal({"--text", file_}),
            "train_unigram: invalid_argument: --out is missing; see train_unigram --help\n");
  EXPECT_THAT(refusal({"--out", out_, "--vocab", "50"}), HasSubstr("unrecognised option '--vocab'"));
  EXPECT_THAT(refusal({"--out", out_, "--vocab-size", "5"}),
              HasSubstr("--vocab-size is 5; 6 to 10000000 are possible"));
  EXPECT_THAT(refusal({"--out", out_, "--vocab-size", "many"}), HasSubstr("--vocab-size is many; 6 to "));
  EXPECT_THAT(refusal({"--out", out_, "--threads", "-1"}), HasSubstr("--threads is -1; 0 to 1024 are possible"));
  EXPECT_THAT(refusal({"--out", out_, "--character-coverage", "1.5"}), HasSubstr("--character-coverage is 1.5"));
  EXPECT_THAT(refusal({"--out", out_, "--invalid-utf8", "drop"}), HasSubstr("'drop', must be refuse or replace"));
  EXPECT_THAT(refusal({"--out", out_, "--text", file_, "--vocab-size", "5000"}),
              HasSubstr("a vocabulary of 5000 is too large for this text: on the way to it "));
  EXPECT_THAT(refusal({"--out", out_, "--text", folder_.path("none")}), HasSubstr("No such file or directory"));
  EXPECT_THAT(refusal({"--out", file_, "--text", file_}),
              AllOf(HasSubstr("cannot make the folder: Not a directory"), HasSubstr(file_)));
  EXPECT_THAT(refusal({"--out", "file://" + out_, "--text", file_}), HasSubstr("only local files are written here"));
  write("empty", "");
  EXPECT_THAT(refusal({"--out", out_, "--text", folder_.path("empty")}), HasSubstr("there is no text"));
  EXPECT_FALSE(files_below(folder_.path()).contains("out/tokenizer.json"));
}

TEST_F(TrainUnigram, RefusesTextThatIsNotUtf8UnlessItMayReplaceIt) {
  write("bad", text_ + "a \xff race\n");
  EXPECT_THAT(refusal({"--out", out_, "--text", folder_.path("bad")}),
              HasSubstr(folder_.path("bad") + ": not UTF-8 at byte " + std::to_string(text_.size() + 2) + " (0xff)"));
  const ChildResult result =
      run({"--out", out_, "--text", folder_.path("bad"), "--invalid-utf8=replace", "--vocab-size", "60"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("1 sequences that are not UTF-8 replaced by U+FFFD"));
  EXPECT_TRUE(Tokenizer::load(out_ + "/tokenizer.json").id_of("\ufffd").has_value());
}

}  // namespace
}  // namespace millrace::train_unigram_test
