#include "tests/tokenizer/golden_cases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::golden_cases_test {
namespace {

using test::check_tokenizer_cases;
using test::check_tokenizer_file;
using test::TokenizerReport;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

const std::string kCases = test::data_path("tokenizer/");

class TokenizerCases : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerCases, AreEncodedAndDecodedAsByThePythonPackage) {
  const TokenizerReport report = check_tokenizer_cases(kCases + GetParam());
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_EQ(report.num_tokenizers, 1);
  EXPECT_EQ(report.num_texts, 2 * 64);
  EXPECT_EQ(report.num_pairs, 2 * 22);
}

INSTANTIATE_TEST_SUITE_P(EachTokenizer, TokenizerCases,
                         testing::Values("mlm", "added_tokens", "bare", "roberta", "t5", "bpe", "bert", "word_level",
                                         "roberta_as_published", "t5_as_published"),
                         [](const auto& cases) { return std::string(cases.param); });

TEST(TokenizerFixtures, AreEncodedAndDecodedAsByThePythonPackage) {
  const char* shared = std::getenv("MILLRACE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "MILLRACE_SHARED does not name the folder of the shared fixtures";
  const fs::path folder = fs::path(shared) / "fixtures/tokenizer";
  const TokenizerReport report = check_tokenizer_cases(folder.string());
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_EQ(report.num_tokenizers, 2);
  EXPECT_EQ(report.num_texts, 2 * 800);
  EXPECT_EQ(report.num_pairs, 2 * 80);
}

// Layouts of published models.
TEST(TokenizerFixtures, WithTheComponentsOfPublishedModelsAreEncodedAndDecodedAsByThePythonPackage) {
  const char* shared = std::getenv("MILLRACE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "MILLRACE_SHARED does not name the folder of the shared fixtures";
  const fs::path folder = fs::path(shared) / "cases/tokenizer_components";
  if (!fs::exists(folder)) GTEST_SKIP() << "there is no '" << folder.string() << "'";
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".json") || path.ends_with(".expected.json")) continue;
    const TokenizerReport report = check_tokenizer_file(path);
    EXPECT_THAT(report.failures, IsEmpty());
    EXPECT_GT(report.num_texts, 0);
    ++num_files;
  }
  EXPECT_GE(num_files, 4);
}

TEST(TokenizerCases, MayBeInOneFileBesideTheTokenizer) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/mlm.json";
  fs::copy_file(kCases + "mlm/tokenizer.json", path);
  const auto check = [&](const std::string& cases) {
    std::ofstream(folder.path() + "/mlm.expected.json") << cases;
    return check_tokenizer_file(path);
  };
  const TokenizerReport report = check(R"([
    {"text": "the mill", "ids": [0, 6, 7, 1], "decoded": "[CLS] the mill[SEP]", "decoded_skip": "the mill"},
    {"text": "the", "ids_no_special": [6], "decoded": "[CLS] the[SEP]"},
    {"text": "the", "pair": "mill", "tokens": ["[CLS]", "▁the", "[SEP]", "▁mill", "[SEP]"]}])");
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_EQ(report.num_texts, 2 * 2);
  EXPECT_EQ(report.num_pairs, 2);
  EXPECT_THAT(check(R"([{"text": "the", "ids": [6], "decoded_skip": "The", "colour": "red"}])").failures,
              ElementsAre(HasSubstr("mlm.expected.json[0]: colour: expected \"red\", found \"nothing that"),
                          HasSubstr("decoded: expected \"The\", found \"the\""),
                          HasSubstr("[0]: ids: expected [6], found [0,6,1]"), HasSubstr("encode_ids of ids"),
                          testing::_, testing::_, testing::_, testing::_));
  EXPECT_THAT([&] { (void)check(R"([{"ids": []}])"); },
              testing::ThrowsMessage<ErrorException>(HasSubstr("mlm.expected.json[0]: expected a case with a text")));
  EXPECT_THAT([&] { (void)check("{}"); },
              testing::ThrowsMessage<ErrorException>(HasSubstr("mlm.expected.json: expected an array of cases")));
  EXPECT_THAT([&] { (void)check("["); }, testing::ThrowsMessage<ErrorException>(HasSubstr("mlm.expected.json: ")));
  EXPECT_THAT([] { (void)check_tokenizer_file("/nowhere/a.json"); },
              testing::ThrowsMessage<ErrorException>("io: cannot read '/nowhere/a.expected.json'"));
  EXPECT_THAT([] { (void)check_tokenizer_file("/nowhere/a.txt"); },
              testing::ThrowsMessage<ErrorException>(HasSubstr("does not end with .json")));
}

// The comparison itself must be able to fail.
TEST(TokenizerCases, NameTheFieldThatDiffers) {
  const fs::path folder = fs::temp_directory_path() / ("millrace_tokenizer_cases_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  fs::copy_file(kCases + "mlm/tokenizer.json", folder / "tokenizer.json", fs::copy_options::overwrite_existing);
  std::ofstream(folder / "pairs.jsonl");
  std::ofstream(folder / "encodings.jsonl")
      << R"({"text": "the", "ids": [0, 6, 1], "offsets": [[0, 0], [0, 2], [0, 0]], "ids_no_special": [6]})"
      << "\n"
      << R"({"text": "the", "ids": [0, 7, 1], "ids_no_special": [6], "colour": "red"})"
      << "\n";
  const TokenizerReport report = check_tokenizer_cases(folder.string());
  fs::remove_all(folder);
  ASSERT_EQ(report.failures.size(), 2 * 4);
  EXPECT_THAT(report.failures[0],
              HasSubstr("encodings.jsonl:1: offsets: expected [[0,0],[0,2],[0,0]], found [[0,0],[0,3]"));
  EXPECT_THAT(report.failures[1], HasSubstr("encodings.jsonl:2: colour"));
  EXPECT_THAT(report.failures[2], HasSubstr("encodings.jsonl:2: ids: expected [0,7,1], found [0,6,1]"));
  EXPECT_THAT(report.failures[3], HasSubstr("encode_ids of ids"));
}

}  // namespace
}  // namespace millrace::golden_cases_test
