#include "millrace/formats/csv/fields.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::fields_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> fields_of(std::string_view record, const CsvFormat& format = {}) {
  std::vector<CsvField> fields;
  try {
    split_csv(record, format, SIZE_MAX, fields);
  } catch (const ErrorException& e) {
    return {e.what()};
  }
  std::vector<std::string> texts;
  for (const CsvField& field : fields) texts.push_back(field.unquoted());
  return texts;
}

TEST(CsvFields, AreSplitAtDelimitersThatAreNotInsideQuotes) {
  EXPECT_THAT(fields_of("1,\"a,b\",\"say \"\"so\"\"\",\"x\ny\""), ElementsAre("1", "a,b", "say \"so\"", "x\ny"));
  EXPECT_THAT(fields_of(""), ElementsAre(""));
  EXPECT_THAT(fields_of(","), ElementsAre("", ""));
  EXPECT_THAT(fields_of("\"\",\"\"\"\""), ElementsAre("", "\""));
  EXPECT_THAT(fields_of("a;b,c", {.delimiter = ';'}), ElementsAre("a", "b,c"));
  EXPECT_THAT(fields_of("\"a,b\"\"", {.quotes = false}), ElementsAre("\"a", "b\"\""));
}

TEST(CsvFields, WithBadQuotesAreAnError) {
  EXPECT_THAT(fields_of("a,\"b"), ElementsAre("parse: field 1: its quote is not closed"));
  EXPECT_THAT(fields_of("\"b\"\""), ElementsAre("parse: field 0: its quote is not closed"));
  EXPECT_THAT(fields_of("\"a\"b,c"), ElementsAre("parse: field 0: something stands after its closing quote"));
  EXPECT_THAT(fields_of("c,a\"b"), ElementsAre("parse: field 1: it has a quote inside, and does not begin with one"));
}

// As Spark writes unless it is told otherwise.
TEST(CsvFields, WithQuotesThatABackslashEscapesAreAnErrorThatSaysSo) {
  const std::string hint =
      "; a quote after a backslash ends the field as well: where Spark wrote the file, write it with "
      "option(\"escape\", \"\\\"\")";
  EXPECT_THAT(fields_of(R"(1,"say \"hi\" now")"),
              ElementsAre("parse: field 1: something stands after its closing quote" + hint));
  EXPECT_THAT(fields_of(R"(1,say \"hi\")"),
              ElementsAre("parse: field 1: it has a quote inside, and does not begin with one" + hint));
  EXPECT_THAT(fields_of(R"(1,"ends \"")"), ElementsAre("parse: field 1: its quote is not closed" + hint));
  EXPECT_THAT(fields_of(R"("C:\dir\",2)"), ElementsAre("C:\\dir\\", "2"));
}

TEST(CsvNumbers, OfSmallTypesMustFit) {
  EXPECT_EQ(parse_csv_number(" 2147483647 ", DType::kInt32), (std::variant<int64_t, float>(int64_t{2147483647})));
  EXPECT_EQ(parse_csv_number("2147483648", DType::kInt32), std::nullopt);
  EXPECT_EQ(parse_csv_number("-2147483649", DType::kInt32), std::nullopt);
  EXPECT_EQ(parse_csv_number("+-1", DType::kInt64), std::nullopt);
  EXPECT_EQ(parse_csv_number("", DType::kInt64), std::nullopt);
}

TEST(CsvNumbers, BeyondTheRangeOfFloatsAreInfiniteOrNothing) {
  const auto real = [](std::string_view text) {
    const auto number = parse_csv_number(text, DType::kFloat32);
    return number ? std::get<float>(*number) : -1.0F;
  };
  EXPECT_EQ(real("1e400"), INFINITY);
  EXPECT_EQ(real("-1e400"), -INFINITY);
  EXPECT_EQ(real("1e-400"), 0);
  EXPECT_TRUE(std::signbit(real("-1e-400")));
  EXPECT_EQ(real("0." + std::string(400, '0') + "1"), 0);
  EXPECT_EQ(real(std::string(400, '9') + ".5"), INFINITY);
  EXPECT_EQ(real("0x1p-2000"), 0);
  EXPECT_EQ(real("0x1p2000"), INFINITY);
  EXPECT_EQ(real("-0x-1"), -1);
  EXPECT_EQ(real("+-1"), -1);
  EXPECT_EQ(real(""), -1);
}

}  // namespace
}  // namespace millrace::fields_test
