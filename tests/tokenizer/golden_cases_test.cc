#include "tests/tokenizer/golden_cases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/places.h"

namespace millrace::golden_cases_test {
namespace {

using test::check_tokenizer_cases;
using test::TokenizerReport;
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
