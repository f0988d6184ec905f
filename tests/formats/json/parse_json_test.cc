#include "millrace/formats/json/parse_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::parse_json_test {
namespace {

using testing::HasSubstr;

std::string message_of(const std::string& text) {
  try {
    (void)parse_json(text, "x.json");
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kParse);
    return error.what();
  }
  return "nothing thrown";
}

std::string nested(const std::string& open, int depth, const std::string& inner, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += inner;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(ParseJson, RefusesWhatIsNestedTooDeeplyBeforeAnythingWalksThroughIt) {
  EXPECT_EQ(message_of(nested("[", 100, "1", "]")), "nothing thrown");
  EXPECT_EQ(message_of(nested(R"({"a":)", 100, "1", "}")), "nothing thrown");
  for (const int depth : {101, 200'000}) {
    EXPECT_EQ(message_of(nested("[", depth, "1", "]")),
              "parse: JSON nested too deeply: more than 100 levels (shard x.json)");
    EXPECT_THAT(message_of(nested(R"({"a":)", depth, "1", "}")), HasSubstr("nested too deeply"));
    EXPECT_THAT(message_of(nested("[", depth, "", "")), HasSubstr("nested too deeply"));
  }
  // Brackets in texts are none, also after an escaped quote.
  EXPECT_EQ(message_of(R"({"a\"[": ")" + std::string(200'000, '[') + R"(\\"})"), "nothing thrown");
  // Side by side they are not in each other.
  EXPECT_EQ(message_of("[" + nested("[],", 10'000, "1", "") + "]"), "nothing thrown");
}

TEST(ParseJson, SaysWhereItIsNoJson) {
  EXPECT_EQ(message_of(R"({"a": )"), "parse: not JSON (byte 7) (shard x.json)");
  EXPECT_THAT(message_of("1e999"), HasSubstr("not JSON ("));
  EXPECT_EQ(message_of(""), "parse: not JSON (byte 1) (shard x.json)");
}

TEST(ParseJson, ShowsNoMoreOfAValueThanAMessageHasRoomFor) {
  EXPECT_EQ(shown_json(nlohmann::json("text")), "\"text\"");
  EXPECT_EQ(shown_json(nlohmann::json({1, 2})), "[1,2]");
  EXPECT_EQ(shown_json(nlohmann::json("a\nb\xc3\xa9")), "\"a\\nb\\u00e9\"");
  EXPECT_EQ(shown_json(nlohmann::json("\xff")), "\"\\ufffd\"");
  EXPECT_EQ(shown_json(nlohmann::json(std::string(100, 'x'))), "\"" + std::string(59, 'x') + "...");
}

}  // namespace
}  // namespace millrace::parse_json_test
