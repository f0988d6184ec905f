#include "millrace/tokenizer/text_pattern.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex.h>

namespace millrace::text_pattern_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TextPattern pattern_of(const json& value) { return TextPattern(JsonNode(value, "t.json")); }

// The matches, each as its beginning and its text.
std::vector<std::pair<size_t, std::string>> matches(const json& value, const std::string& text) {
  const TextPattern pattern = pattern_of(value);
  std::vector<std::pair<size_t, std::string>> found;
  TextPattern::Cursor cursor(pattern, text);
  while (const auto match = cursor.next()) {
    found.emplace_back(match->begin, text.substr(match->begin, match->end - match->begin));
  }
  return found;
}

TEST(TextPattern, FindsAStringFromLeftToRight) {
  EXPECT_THAT(matches({{"String", "aa"}}, "aaaaa"), ElementsAre(std::pair(0, "aa"), std::pair(2, "aa")));
  EXPECT_THAT(matches({{"String", "a+"}}, "aa"), IsEmpty());
}

TEST(TextPattern, CountsBytesOfUtf8) {
  EXPECT_THAT(matches({{"Regex", R"(\p{L}+)"}}, "\u00e91\u6c34\u8eca"),
              ElementsAre(std::pair(0, "\u00e9"), std::pair(3, "\u6c34\u8eca")));
}

TEST(TextPattern, ReadsTheSyntaxOfRuby) {
  EXPECT_THAT(matches({{"Regex", "^."}}, "ab\ncd"), ElementsAre(std::pair(0, "a"), std::pair(3, "c")));
  EXPECT_THAT(matches({{"Regex", "\\h+"}}, "xff 0"), ElementsAre(std::pair(1, "ff"), std::pair(4, "0")));
}

TEST(TextPattern, TakesNoEmptyMatchBehindAnother) {
  EXPECT_THAT(matches({{"Regex", "b*"}}, "abbc"), ElementsAre(std::pair(0, ""), std::pair(1, "bb"), std::pair(4, "")));
}

TEST(TextPattern, LeavesTheRegularExpressionsOfTheCLibraryAlone) {
  regex_t regex;
  ASSERT_EQ(regcomp(&regex, "^io: [^\n]+ \\(shard [0-9]\\)$", REG_EXTENDED | REG_NOSUB), 0);
  EXPECT_EQ(regexec(&regex, "io: cannot read (shard 7)", 0, nullptr, 0), 0);
  regfree(&regex);
}

}  // namespace
}  // namespace millrace::text_pattern_test
