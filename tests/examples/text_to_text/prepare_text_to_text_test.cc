// prepare_text_to_text as a process.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/tokenizer/tokenizer.h"
#include "tests/examples/text_to_text/questions.h"
#include "tests/examples/text_to_text/small_t5.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::prepare_text_to_text_test {
namespace {

using test::ChildResult;
using test::file_of;
using test::files_below;
using test::QuestionRow;
using test::read_file;
using test::rows_in;
using test::run_child;
using test::write_file;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class PrepareTextToText : public testing::Test {
 protected:
  PrepareTextToText() {
    write_file(path("questions.csv"), test::questions_csv(200));
    write_file(path("tokenizer.json"), test::small_t5_tokenizer_json());
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

  ChildResult prepare(const std::vector<std::string>& more, const std::string& out = "out") const {
    std::vector<std::string> arguments = {test::kPrepareTextToText, "--out", path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_child(arguments);
  }
  ChildResult prepare_csv(std::vector<std::string> more, const std::string& out = "out") const {
    more.insert(more.end(), {"--csv", path("questions.csv"), "--tokenizer", path("tokenizer.json")});
    return prepare(more, out);
  }

  // The error of a run that must fail: one line, and nothing is written.
  std::string refusal(const std::vector<std::string>& more) const {
    const ChildResult result = prepare(more, "refused");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_THAT(result.err, StartsWith("prepare_text_to_text: "));
    EXPECT_FALSE(std::filesystem::exists(path("refused")));
    return result.err;
  }
  std::string refused_csv(const std::string& csv) const {
    write_file(path("bad.csv"), csv);
    return refusal({"--csv", path("bad.csv"), "--tokenizer", path("tokenizer.json")});
  }

  test::TemporaryFolder folder_;
};

TEST_F(PrepareTextToText, WritesAFileASplitWithTheFeaturesOfTheTask) {
  const ChildResult result = prepare_csv({"--max-length", "64", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json, nlohmann::json::parse(read_file(path("out/statistics.json"))));
  EXPECT_EQ(read_file(path("out/tokenizer.json")), test::small_t5_tokenizer_json());
  EXPECT_EQ(files_below(path("out")).size(), 5U);
  int64_t num_rows = 0;
  for (const std::string split : {"train", "validation", "test"}) {
    const std::vector<QuestionRow> rows = rows_in(file_of(path("out"), split), 64);
    EXPECT_EQ(json[split]["rows"], rows.size());
    EXPECT_THAT(file_of(path("out"), split), EndsWith(fmt::format("/{}-{}.tfrecord", split, rows.size())));
    num_rows += std::ssize(rows);
    std::map<int64_t, int64_t> classes;
    int64_t tokens = 0;
    for (const QuestionRow& row : rows) {
      ++classes[row.number];
      const auto length = std::ranges::count(row.mask, 1);
      tokens += length;
      for (size_t i = 0; i < row.ids.size(); ++i) EXPECT_EQ(row.mask[i], static_cast<int64_t>(i) < length ? 1 : 0);
      EXPECT_EQ(row.ids[static_cast<size_t>(length) - 1], 1);
      EXPECT_THAT(row.labels, ElementsAre(30 + row.number, 1));
      EXPECT_THAT(row.decoder_mask, ElementsAre(1, 1));
    }
    EXPECT_EQ(json[split]["tokens"], tokens);
    EXPECT_EQ(json[split]["classes"]["LQ_EDIT"], classes[1]);
    EXPECT_GT(std::ssize(rows), 5);
  }
  EXPECT_EQ(num_rows, 200);
  EXPECT_GT(json["train"]["truncated_rows"], 0);
}

TEST_F(PrepareTextToText, StripsHtmlUnlessBodiesAreText) {
  const std::string csv = "\xef\xbb\xbfId,Title,Body,Y\n1,a,<p>x&amp;y</p>,HQ\n2,\"b,c\",z,LQ_EDIT\n3,d,e,LQ_CLOSE\n";
  write_file(path("three.csv"), csv);
  const std::vector<std::string> options = {"--csv",
                                            path("three.csv"),
                                            "--tokenizer",
                                            path("tokenizer.json"),
                                            "--max-length",
                                            "32",
                                            "--test-share",
                                            "0",
                                            "--validation-share",
                                            "0",
                                            "--prefix",
                                            ""};
  ASSERT_EQ(prepare(options, "html").exit_code, 0);
  std::vector<std::string> as_text = options;
  as_text.insert(as_text.end(), {"--body", "text"});
  ASSERT_EQ(prepare(as_text, "text").exit_code, 0);
  const Tokenizer tokenizer = Tokenizer::from_json(test::small_t5_tokenizer_json());
  const auto first = [&](const std::string& out) {
    const QuestionRow row = rows_in(path(out + "/train-3.tfrecord"), 32).at(0);
    const std::vector<int32_t> ids(row.ids.begin(), row.ids.begin() + std::ranges::count(row.mask, 1));
    return tokenizer.decode(ids, /*skip_special_tokens=*/false);
  };
  EXPECT_EQ(first("html"), "a</s> x<unk>y</s>");
  EXPECT_EQ(first("text"), "a</s> <unk>p<unk>x<unk>amp<unk>y<unk>p<unk></s>");
  // Splits that nothing is in are there.
  EXPECT_THAT(rows_in(path("html/test-0.tfrecord"), 32), IsEmpty());
}

TEST_F(PrepareTextToText, GivesTheSameBytesForAnyNumberOfThreads) {
  for (const std::string threads : {"1", "2", "5"}) {
    ASSERT_EQ(prepare({"--csv", path("questions.csv"), "--vocab-size", "200", "--threads", threads}, threads).exit_code,
              0);
  }
  EXPECT_EQ(files_below(path("1")), files_below(path("2")));
  EXPECT_EQ(files_below(path("1")), files_below(path("5")));
  ASSERT_EQ(prepare_csv({"--seed", "1"}, "one").exit_code, 0);
  ASSERT_EQ(prepare_csv({"--seed", "2"}, "two").exit_code, 0);
  EXPECT_NE(files_below(path("one")), files_below(path("two")));
}

TEST_F(PrepareTextToText, LearnsATokenizerWithTheWordsAsTokens) {
  const ChildResult result = prepare({"--csv", path("questions.csv"), "--vocab-size", "200"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Tokenizer tokenizer = Tokenizer::load(path("out/tokenizer.json"));
  EXPECT_EQ(tokenizer.size(), 200);
  EXPECT_EQ(tokenizer.id_of("<extra_id_0>"), 199);
  for (const char* word : {"none", "low", "high"}) EXPECT_EQ(tokenizer.encode(word, false).ids.size(), 1U);
}

TEST_F(PrepareTextToText, TakesCsvsOfSplitsAsTheyAre) {
  write_file(path("validation.csv"), test::questions_csv(7));
  const ChildResult result = prepare_csv({"--validation-csv", path("validation.csv"), "--test-share", "0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto files = files_below(path("out"));
  EXPECT_TRUE(files.contains("train-200.tfrecord"));
  EXPECT_TRUE(files.contains("validation-7.tfrecord"));
  EXPECT_TRUE(files.contains("test-0.tfrecord"));
}

TEST_F(PrepareTextToText, TakesPackagesAndKeepsThoseOfASourceTogether) {
  std::string list;
  for (int i = 0; i < 300; ++i) {
    list += fmt::format("Package: p{}\nSource: s{}\nSection: {}\nDescription: number {} of p{}\n It is part {}.\n\n", i,
                        i / 3, i % 2 == 0 ? "libs" : "games", i, i, i);
  }
  write_file(path("packages.txt"), list);
  const ChildResult result = prepare({"--packages", path("packages.txt"), "--vocab-size", "150", "--sections", "2",
                                      "--rows-per-class", "140", "--max-length", "32"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("20 packages left out: more than are wanted of a section"), HasSubstr("libs"),
                                HasSubstr("validation")));
  const Tokenizer tokenizer = Tokenizer::load(path("out/tokenizer.json"));
  std::map<int64_t, std::set<std::string>> splits;  // of a source
  int64_t num_rows = 0;
  for (const std::string split : {"train", "validation", "test"}) {
    for (const QuestionRow& row : rows_in(file_of(path("out"), split), 32)) {
      const std::vector<int32_t> ids(row.ids.begin(), row.ids.begin() + std::ranges::count(row.mask, 1));
      const std::string text = tokenizer.decode(ids, /*skip_special_tokens=*/true);
      EXPECT_THAT(text, AllOf(StartsWith("section: number "), Not(HasSubstr("of p"))));
      splits[std::stol(text.substr(16)) / 3].insert(split);
      ++num_rows;
    }
  }
  EXPECT_EQ(num_rows, 280);
  EXPECT_GT(splits.size(), 90U);
  for (const auto& [source, in] : splits) EXPECT_EQ(in.size(), 1U) << source;
}

TEST_F(PrepareTextToText, HasAPresetOfTheOriginal) {
  ASSERT_EQ(prepare_csv({"--preset", "original"}).exit_code, 0);
  const auto json = nlohmann::json::parse(read_file(path("out/statistics.json")));
  EXPECT_EQ(json["task"]["max_length"], 512);
  EXPECT_EQ(json["task"]["head"], 255);
  EXPECT_EQ(rows_in(file_of(path("out"), "test"), 512).front().ids.size(), 512U);
}

TEST_F(PrepareTextToText, RefusesAWordThatIsNotOneTokenBeforeAnythingIsWritten) {
  EXPECT_THAT(refusal({"--csv", path("questions.csv"), "--tokenizer", path("tokenizer.json"), "--classes", "LQ_CLOSE",
                       "LQ_EDIT", "HQ", "--words", "bad", "low", "high"}),
              HasSubstr("'bad', the word of class 'LQ_CLOSE', is 4 tokens"));
  EXPECT_THAT(refusal({"--csv", path("questions.csv"), "--vocab-size", "200", "--words", "so so", "low", "high"}),
              HasSubstr("'so so' cannot be one token"));
}

TEST_F(PrepareTextToText, RefusesSpecialTokensAsWordsWhateverTheTokenizer) {
  const auto refused = [&](const std::string& word, const std::vector<std::string>& tokenizer) {
    std::vector<std::string> options = {"--csv", path("questions.csv"), "--words", "none", word, "high"};
    options.insert(options.end(), tokenizer.begin(), tokenizer.end());
    return refusal(options);
  };
  for (const std::string word : {"<pad>", "</s>", "<unk>", "<extra_id_1>"}) {
    EXPECT_THAT(refused(word, {"--vocab-size", "200"}),
                HasSubstr("'" + word + "' cannot be one token: it has a special"));
    EXPECT_THAT(refused(word, {"--tokenizer", path("tokenizer.json")}),
                HasSubstr("'" + word + "', the word of class 'LQ_EDIT', is a special token"));
  }
  for (const std::vector<std::string>& tokenizer :
       std::vector<std::vector<std::string>>{{"--vocab-size", "200"}, {"--tokenizer", path("tokenizer.json")}}) {
    EXPECT_THAT(refused("", tokenizer), HasSubstr("class 'LQ_EDIT' has an empty word"));
  }
}

TEST_F(PrepareTextToText, NamesTheOptionThatIsNotUtf8) {
  EXPECT_THAT(refusal({"--csv", path("questions.csv"), "--prefix", "caf\xe9"}), HasSubstr("--prefix is not UTF-8"));
  EXPECT_THAT(refusal({"--csv", path("questions.csv"), "--words", "caf\xe9", "low", "high"}),
              HasSubstr("--words is not UTF-8"));
  EXPECT_THAT(refusal({"--csv", path("questions.csv"), "--classes", "caf\xe9", "x"}),
              HasSubstr("--classes is not UTF-8"));
}

TEST_F(PrepareTextToText, KeepsPackagesWithOneDescriptionInOneSplit) {
  std::string list;
  for (int i = 0; i < 200; ++i) {
    list += fmt::format("Package: p{0}\nSource: s{0}\nSection: {1}\nDescription: synopsis {0}\n text {2}.\n\n", i,
                        i % 2 == 0 ? "libs" : "games", i / 4);
  }
  write_file(path("packages.txt"), list);
  ASSERT_EQ(prepare({"--packages", path("packages.txt"), "--vocab-size", "150", "--max-length", "32"}).exit_code, 0);
  const Tokenizer tokenizer = Tokenizer::load(path("out/tokenizer.json"));
  std::map<std::string, std::set<std::string>> splits;  // of a description
  for (const std::string split : {"train", "validation", "test"}) {
    for (const QuestionRow& row : rows_in(file_of(path("out"), split), 32)) {
      const std::vector<int32_t> ids(row.ids.begin(), row.ids.begin() + std::ranges::count(row.mask, 1));
      const std::string text = tokenizer.decode(ids, /*skip_special_tokens=*/false);
      splits[text.substr(text.find("text "))].insert(split);
    }
  }
  EXPECT_EQ(splits.size(), 50U);
  for (const auto& [description, in] : splits) EXPECT_EQ(in.size(), 1U) << description;
}

TEST_F(PrepareTextToText, SaysWhichLineAndColumnOfACsvIsWrong) {
  const std::string header = "Id,Title,Body,Y\n";
  EXPECT_THAT(refused_csv(header + "1,a,\"b\nc\",HQ\n2,d,e,GOOD\n"),
              AllOf(HasSubstr("bad.csv"), HasSubstr("line 4, column 'Y': 'GOOD' is no class")));
  EXPECT_THAT(refused_csv(header + "1,a,b,\n"), HasSubstr("line 2, column 'Y': '' is no class"));
  EXPECT_THAT(refused_csv(header + "1, ,<p> </p>,HQ\n"), HasSubstr("line 2, column 'Body': there is no text"));
  EXPECT_THAT(refused_csv(header + "1,\u00a0,<p>&nbsp;\u2003</p>,HQ\n"), HasSubstr("column 'Body': there is no text"));
  std::string tags;
  for (int i = 0; i < 10'001; ++i) tags += "<i>";
  EXPECT_THAT(refused_csv(header + "1,a,b,HQ\n1,a," + tags + ",HQ\n"),
              AllOf(HasSubstr("bad.csv"), HasSubstr("line 3, column 'Body': the HTML has more than 10000 tags")));
  EXPECT_THAT(refused_csv(header + "1,a,\xc3,HQ\n"), HasSubstr("line 2, column 'Body': not UTF-8"));
  EXPECT_THAT(refused_csv(header + "1,a,b\n"), HasSubstr("line 2: 3 fields"));
  EXPECT_THAT(refused_csv(header + "1,a,\"b,HQ\n"), HasSubstr("line 2"));
  EXPECT_THAT(refused_csv("Id,Title,Text,Y\n1,a,b,HQ\n"), HasSubstr("has no column 'Body'"));
  EXPECT_THAT(refused_csv(header), HasSubstr("there is no row to train on"));
  EXPECT_THAT(refused_csv(header + "1,a,b,HQ\n"), HasSubstr("has no row to train on"));
  EXPECT_THAT(refusal({"--csv", path("missing.csv")}), HasSubstr("missing.csv"));
  write_file(path("packages.txt"), "");
  EXPECT_THAT(refusal({"--packages", path("packages.txt")}), HasSubstr("packages.txt: there is no package in it"));
}

TEST_F(PrepareTextToText, RefusesOptionsThatCannotBeTogether) {
  EXPECT_THAT(refusal({}), HasSubstr("give either --csv or --packages"));
  EXPECT_THAT(refusal({"--csv", "a", "--packages", "b"}), HasSubstr("give either --csv or --packages"));
  EXPECT_THAT(refusal({"--csv", "a", "--classes", "x", "y", "--words", "z"}), HasSubstr("2 --classes and 1 --words"));
  EXPECT_THAT(refusal({"--packages", "a", "--words", "x", "y"}), HasSubstr("--words needs --classes"));
  for (const std::string option : {"--body", "--validation-csv", "--test-csv", "--id-column", "--title-column",
                                   "--body-column", "--class-column"}) {
    EXPECT_THAT(refusal({"--packages", "a", option, "html"}), HasSubstr(option + " goes with --csv"));
  }
  for (const std::string option : {"--sections", "--rows-per-class"}) {
    EXPECT_THAT(refusal({"--csv", "a", option, "8"}), HasSubstr(option + " goes with --packages"));
  }
  EXPECT_THAT(refusal({"--packages", "a", "--sections", "8", "--classes", "x", "y"}),
              HasSubstr("--sections says nothing beside --classes"));
  EXPECT_THAT(refusal({"--csv", "a", "--tokenizer", "b", "--vocab-size", "8000"}),
              HasSubstr("--vocab-size is of a new tokenizer, and --tokenizer gives one"));
  EXPECT_THAT(refusal({"--csv", "a", "--validation-csv", "b", "--validation-share", "0.1"}),
              HasSubstr("--validation-share says nothing beside --validation-csv"));
  EXPECT_THAT(refusal({"--csv", "a", "--test-csv", "b", "--test-share", "0.1"}),
              HasSubstr("--test-share says nothing beside --test-csv"));
  for (const std::string option : {"--max-length", "--head"}) {
    EXPECT_THAT(refusal({"--csv", "a", "--preset", "original", option, "100"}),
                HasSubstr(option + " is what --preset has"));
  }
  EXPECT_THAT(refusal({"--csv", "a", "--test-share", "0.6", "--validation-share", "0.4"}), HasSubstr("leave no row"));
  EXPECT_THAT(refusal({"--csv", "a", "--preset", "small"}), HasSubstr("--preset is 'small'"));
  EXPECT_THAT(refusal({"--csv", path("questions.csv"), "--max-length", "8", "--head", "7"}), HasSubstr("head is 7"));
}

TEST_F(PrepareTextToText, LeavesAnEarlierSetAsItIsWhenItFails) {
  ASSERT_EQ(prepare_csv({}).exit_code, 0);
  const auto before = files_below(path("out"));
  write_file(path("questions.csv"), test::questions_csv(50) + "1,a,b,c,d,NO\n");
  EXPECT_EQ(prepare_csv({}).exit_code, 1);
  EXPECT_EQ(files_below(path("out")), before);
  write_file(path("questions.csv"), test::questions_csv(50));
  EXPECT_EQ(prepare_csv({}).exit_code, 0);
  EXPECT_EQ(files_below(path("out")).size(), 5U);
}

}  // namespace
}  // namespace millrace::prepare_text_to_text_test
