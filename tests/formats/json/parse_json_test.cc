#include "millrace/formats/json/parse_json.h"

#include <locale>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process_locale.h"

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
              "parse: JSON nested too deeply: more than 100 levels (file x.json)");
    EXPECT_THAT(message_of(nested(R"({"a":)", depth, "1", "}")), HasSubstr("nested too deeply"));
    EXPECT_THAT(message_of(nested("[", depth, "", "")), HasSubstr("nested too deeply"));
  }
  // Brackets in texts are none, also after an escaped quote.
  EXPECT_EQ(message_of(R"({"a\"[": ")" + std::string(200'000, '[') + R"(\\"})"), "nothing thrown");
  // Side by side they are not in each other.
  EXPECT_EQ(message_of("[" + nested("[],", 10'000, "1", "") + "]"), "nothing thrown");
}

TEST(ParseJson, SaysWhereItIsNoJson) {
  EXPECT_EQ(message_of(R"({"a": )"), "parse: not JSON (byte 7) (file x.json)");
  EXPECT_THAT(message_of("1e999"), HasSubstr("not JSON ("));
  EXPECT_EQ(message_of(""), "parse: not JSON (byte 1) (file x.json)");
}

// Of which the parser would see only what is before it.
TEST(ParseJson, RefusesAByte0) {
  using std::string_literals::operator""s;
  for (const std::string& rest : {"\0"s, "\0\0\0\0"s, "\0 garbage"s, "\0}"s}) {
    EXPECT_EQ(message_of("{}" + rest), "parse: not JSON (byte 3 is 0) (file x.json)");
  }
  EXPECT_THAT(message_of("\0{}"s), HasSubstr("byte 1 is 0"));
  EXPECT_THAT(message_of("[\0]"s), HasSubstr("byte 2 is 0"));
  EXPECT_THAT(message_of("[\"\0\"]"s), HasSubstr("byte 3 is 0"));
  EXPECT_EQ(message_of(R"(["\u0000"])"), "nothing thrown");
}

TEST(ParseJson, NamesTheEncodingOfATextThatIsNotUtf8) {
  using std::string_literals::operator""s;
  EXPECT_EQ(message_of("\xff\xfe{\0}\0"s),
            "parse: the text is UTF-16LE by its first bytes (ff fe), and UTF-8 is read here: iconv -f UTF-16 -t UTF-8 "
            "makes it of that (file x.json)");
  EXPECT_THAT(message_of("\xfe\xff\0{\0}"s), HasSubstr("UTF-16BE by its first bytes (fe ff)"));
  EXPECT_THAT(message_of("\xff\xfe\0\0{\0\0\0}\0\0\0"s),
              HasSubstr("UTF-32LE by its first bytes (ff fe 00 00), and UTF-8 is read here: iconv -f UTF-32"));
  EXPECT_THAT(message_of("\0\0\xfe\xff\0\0\0{\0\0\0}"s), HasSubstr("UTF-32BE by its first bytes (00 00 fe ff)"));
  EXPECT_EQ(message_of("\xef\xbb\xbf{}"), "nothing thrown");
}

// Pashto's decimal separator has two bytes.
TEST(ParseJson, ReadsTheSameNumbersInEveryLocale) {
  for (const char* name : {"de_DE", "ps_AF"}) {
    const test::ProcessLocale locale(name);
    const nlohmann::json json = parse_json("[1.75, -2.5e-3, 12345.5, 7]", "x.json");
    EXPECT_EQ(json.at(0), 1.75) << name;
    EXPECT_EQ(json.at(1), -2.5e-3) << name;
    EXPECT_EQ(json.at(2), 12345.5) << name;
    EXPECT_EQ(json.dump(), "[1.75,-0.0025,12345.5,7]") << name;
    EXPECT_EQ(std::locale().name(), name + std::string(".UTF-8"));
  }
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
