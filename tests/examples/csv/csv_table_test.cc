#include "examples/csv/csv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::csv_table_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CsvTableOf : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    test::write_file(folder_.path("rows.csv"), text);
    return folder_.path("rows.csv");
  }

  // The values of a column, one after the other.
  static std::vector<std::string> values(const CsvTable& table, const std::string& name) {
    const Dataset rows = table.rows(
        {{.name = "value", .dtype = DType::kBytes, .shape = {}}},
        [column = table.column(name)](const CsvRow& row, RowWriter& out) { out.set("value", row.text(column)); });
    std::vector<std::string> values;
    Pipeline pipeline = rows.start({.threads = 2});
    while (const auto row = pipeline.next()) values.emplace_back(row->values<std::string_view>("value")[0]);
    return values;
  }

  std::string message_of(const std::string& text, const std::string& column = "b") {
    try {
      values(CsvTable(file(text)), column);
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "";
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(CsvTableOf, ReadsFieldsByTheNamesOfTheirColumns) {
  const CsvTable table(
      file("\xef\xbb\xbf"
           "a,\"b,\"\"c\"\"\"\r\n1,\"two\nlines, \"\"quoted\"\"\"\r\n3,four\r\n"));
  EXPECT_THAT(table.names(), ElementsAre("a", "b,\"c\""));
  EXPECT_THAT(values(table, "a"), ElementsAre("1", "3"));
  EXPECT_THAT(values(table, "b,\"c\""), ElementsAre("two\nlines, \"quoted\"", "four"));
  EXPECT_EQ(table.find("c"), std::nullopt);
  EXPECT_THAT(values(CsvTable(file("a,b\n")), "b"), ElementsAre());
}

TEST_F(CsvTableOf, SaysOfABadHeaderInWhichFileItIs) {
  EXPECT_THAT(message_of("a,\"b\"x\n1,2\n"), AllOf(HasSubstr("the header, line 1: "), HasSubstr("rows.csv")));
  EXPECT_THAT(message_of("a,b\xff\n1,2\n"),
              AllOf(HasSubstr("line 1: the name of column 2 is not UTF-8"), HasSubstr("rows.csv")));
}

TEST_F(CsvTableOf, ThatIsNotThereIsAFileAndNoShard) {
  EXPECT_THAT(
      [] { (void)CsvTable("/no/such/rows.csv"); },
      ThrowsMessage<ErrorException>("io: the CSV: cannot open: No such file or directory (file /no/such/rows.csv)"));
}

TEST_F(CsvTableOf, GivesEachRecordAndNamesFileAndLineOfWhatIsRefused) {
  const CsvTable table(file("a,b\n1,x\n2,\"y\nz\"\n3,bad\n4,w\n"));
  std::vector<std::string> taken;
  const auto take = [&](const CsvRow& row) {
    if (row.text(1) == "bad") row.refuse(1, "it is bad");
    taken.push_back(row.text(1));
  };
  EXPECT_THAT([&] { table.for_each(take); },
              ThrowsMessage<ErrorException>("parse: line 5, column 'b': it is bad (file " + table.path() + ")"));
  EXPECT_THAT(taken, ElementsAre("x", "y\nz"));
}

TEST_F(CsvTableOf, SaysInWhichLineAndColumnWhatIsWrong) {
  EXPECT_THAT(message_of("a,b\n1,\"x\ny\"\n1\n"),
              AllOf(HasSubstr("line 4: 1 fields, and 2 in the header"), HasSubstr("rows.csv")));
  EXPECT_THAT(message_of("a,b\n1,\xff\n"), HasSubstr("line 2, column 'b': not UTF-8"));
  EXPECT_THAT(message_of("a,b\n1,\"x\n"), HasSubstr("line 2: "));
  EXPECT_THAT(message_of("a,c\n1,2\n"), HasSubstr("has no column 'b'; its columns are a, c"));
  EXPECT_THAT(message_of("a,b,b\n"), HasSubstr("has two columns 'b'"));
  EXPECT_THAT(message_of(""), HasSubstr("the CSV is empty"));
}

TEST(CsvField, IsInQuotesWhereItMustBe) {
  EXPECT_EQ(csv_field("plain 'text'"), "plain 'text'");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"a\"\n"), "\"say \"\"a\"\"\n\"");
  EXPECT_EQ(csv_field("a\rb"), "\"a\rb\"");
}

TEST(CsvOfNumbers, HasARecordForEachRowThatIsReadBack) {
  EXPECT_EQ(csv_record({"a,b", "c", ""}), "\"a,b\",c,\n");
  EXPECT_EQ(csv_of_numbers("id", {"x", "a \"y\""}, {"1", "2,3"}, std::vector<double>{0.5, 0.1, 1, 1e-9}),
            "id,x,\"a \"\"y\"\"\"\n1,0.5,0.1\n\"2,3\",1,1e-09\n");
}

}  // namespace
}  // namespace millrace::csv_table_test
