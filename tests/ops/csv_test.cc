#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/records/skipped_region.h"
#include "millrace/ops/parse/parse_csv.h"
#include "millrace/ops/sources/csv_records.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/operator_chain.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace millrace::csv_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Csv : public ::testing::Test {
 protected:
  Shards file(const std::string& content) const {
    test::write_file(folder_.path("a.csv"), content);
    return Shards::files({folder_.path("a.csv")});
  }
  // The elements as text; an error is the last.
  static std::vector<std::string> take(const Dataset& dataset) {
    const WorkerLimit workers(2);
    std::vector<std::string> elements;
    Pipeline pipeline = dataset.start({.threads = 2});
    try {
      while (const std::optional<Batch> batch = pipeline.next()) {
        elements.push_back(test::print_element(batch->block(), 0));
      }
    } catch (const ErrorException& e) {
      elements.emplace_back(e.what());
    }
    return elements;
  }
  static std::string refusal(const std::function<void()>& build) {
    try {
      build();
      return "accepted";
    } catch (const ErrorException& e) {
      return e.what();
    }
  }
  const test::TemporaryFolder folder_;
};

DType dtype_of(const json& name) {
  return name == "int64" ? DType::kInt64 : name == "float" ? DType::kFloat32 : DType::kBytes;
}

std::vector<CsvColumn> columns_of(const json& one) {
  std::vector<CsvColumn> columns;
  for (size_t c = 0; c < one.at("types").size(); ++c) {
    CsvColumn& column = columns.emplace_back();
    column.name = "c" + std::to_string(c);
    column.dtype = dtype_of(one.at("types")[c]);
    const json& value = one.at("defaults")[c];
    if (value.is_null()) continue;
    if (column.dtype == DType::kInt64) column.default_value = value.get<int64_t>();
    if (column.dtype == DType::kFloat32) column.default_value = value.get<double>();
    if (column.dtype == DType::kBytes) column.default_value = test::bytes_of(value);
  }
  return columns;
}

CsvFormat format_of(const json& one) {
  CsvFormat format;
  format.delimiter = one.value("field_delim", ",")[0];
  format.quotes = one.value("use_quote_delim", true);
  format.header = one.value("header", false);
  format.missing = one.value("na_value", "");
  format.select_columns = one.value("select_cols", std::vector<int64_t>());
  return format;
}

// The bits of a float as digits, all NaNs alike.
std::string printed(float value) {
  return std::isnan(value) ? "nan" : fmt::format("{:08x}", std::bit_cast<uint32_t>(value));
}

// An element of TensorFlow's or of ours.
std::vector<std::string> printed(const json& one, const json& element) {
  std::vector<std::string> values;
  for (size_t c = 0; c < element.size(); ++c) {
    switch (dtype_of(one.at("types")[c])) {
      case DType::kBytes: values.push_back(test::bytes_of(element[c])); break;
      case DType::kFloat32:
        values.push_back(printed(
            std::bit_cast<float>(static_cast<uint32_t>(std::stoul(element[c].get<std::string>(), nullptr, 16)))));
        break;
      default: values.push_back(std::to_string(element[c].get<int64_t>()));
    }
  }
  return values;
}

std::vector<std::string> printed(const json& one, const Batch& batch) {
  std::vector<std::string> values;
  for (size_t c = 0; c < one.at("types").size(); ++c) {
    const std::string name = "c" + std::to_string(c);
    switch (dtype_of(one.at("types")[c])) {
      case DType::kBytes: values.emplace_back(batch.values<std::string_view>(name)[0]); break;
      case DType::kFloat32: values.push_back(printed(batch.values<float>(name)[0])); break;
      default: values.push_back(std::to_string(batch.values<int64_t>(name)[0]));
    }
  }
  return values;
}

TEST_F(Csv, GivesWhatTensorFlowGives) {
  const std::vector<json> cases = test::file_source_cases("csv.jsonl");
  ASSERT_GE(cases.size(), 300);
  const WorkerLimit workers(1);
  int num_marks = 0;
  for (const json& one : cases) {
    // TensorFlow takes the mark of byte order for data.
    if (test::bytes_of(one.at("content")).starts_with("\xef\xbb\xbf")) {
      ++num_marks;
      continue;
    }
    std::vector<std::vector<std::string>> expected;
    for (const json& element : one.at("expect")) expected.push_back(printed(one, element));
    const Dataset dataset = Dataset::csv(file(test::bytes_of(one.at("content"))), columns_of(one), format_of(one));
    std::vector<std::vector<std::string>> elements;
    std::string error;
    Pipeline pipeline = dataset.start({.threads = 1});
    try {
      while (const std::optional<Batch> batch = pipeline.next()) elements.push_back(printed(one, *batch));
    } catch (const ErrorException& e) {
      error = e.what();
    }
    EXPECT_EQ(elements, expected) << one;
    EXPECT_EQ(!error.empty(), one.at("error").get<bool>()) << one << error;
  }
  EXPECT_LE(num_marks, 2);
}

TEST_F(Csv, ReadsTypedColumnsWithDefaults) {
  const Dataset dataset = Dataset::csv(file("id,score,text\n"
                                            "1,0.5,\"a \"\"quoted\"\"\nline\"\r\n"
                                            "2,,plain\n"
                                            "-3,1e3,\n"),
                                       {{.name = "id", .dtype = DType::kInt32},
                                        {.name = "score", .dtype = DType::kFloat32, .default_value = -0.25},
                                        {.name = "text", .default_value = "none"}},
                                       {.header = true});
  EXPECT_THAT(take(dataset), ElementsAre("id=1 score=0.5 text=a \"quoted\"\nline", "id=2 score=-0.25 text=plain",
                                         "id=-3 score=1000 text=none"));
}

TEST_F(Csv, AByteOrderMarkAtTheBeginningIsNoData) {
  const std::string mark = "\xef\xbb\xbf";
  const std::vector<CsvColumn> columns{{.name = "id", .dtype = DType::kInt64}, {.name = "text"}};
  const auto elements = [&](const std::string& content, const CsvFormat& format = {}) {
    return take(Dataset::csv(file(content), columns, format));
  };
  EXPECT_THAT(elements(mark + "1,x\n2,y\n"), ElementsAre("id=1 text=x", "id=2 text=y"));
  EXPECT_THAT(elements(mark + "\"1\",x"), ElementsAre("id=1 text=x"));
  EXPECT_THAT(elements(mark + "\"id\",\"text\"\r\n\"1\",\"x\"\r\n", {.header = true}), ElementsAre("id=1 text=x"));
  EXPECT_THAT(elements(mark + "id,text", {.header = true}), ElementsAre());
  EXPECT_THAT(elements(mark), ElementsAre());
  EXPECT_THAT(elements(mark, {.header = true}), ElementsAre(HasSubstr("the file has no header")));
  // Elsewhere it is data.
  EXPECT_THAT(elements("1," + mark + "\n"), ElementsAre("id=1 text=" + mark));
  EXPECT_THAT(elements("1,x\n" + mark + "2,y\n").back(), HasSubstr("is no int64"));
  EXPECT_THAT(elements(mark + mark + "1,x\n").back(), HasSubstr("is no int64"));
  EXPECT_THAT(elements(mark.substr(0, 2) + "1,x\n").back(), HasSubstr("is no int64"));
  // It does not count.
  EXPECT_THAT(take(Dataset::csv(file(mark + "1,x\n"), columns, {}, {.max_record_bytes = 3})),
              ElementsAre("id=1 text=x"));
  // Resumed at each place.
  const Dataset dataset = Dataset::csv(file(mark + "1,x\n2,y\n"), columns);
  const WorkerLimit workers(1);
  for (size_t place = 0; place <= 2; ++place) {
    Pipeline first = dataset.start({.threads = 1});
    for (size_t i = 0; i < place; ++i) ASSERT_TRUE(first.next());
    Pipeline second = dataset.start({.threads = 1, .state = first.save()});
    for (size_t i = place; i < 2; ++i) {
      const std::optional<Batch> batch = second.next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->values<int64_t>("id")[0], static_cast<int64_t>(i) + 1);
    }
    EXPECT_FALSE(second.next());
  }
}

TEST_F(Csv, ErrorsNameFileLineAndColumn) {
  const std::vector<CsvColumn> columns{{.name = "id", .dtype = DType::kInt64}, {.name = "text"}};
  const std::string content = "id,text\n1,\"a\nb\"\n2x,c\n3,\n4\n5,d,e\n6,f\"\n7,g\n\"8\nx\"y,z\n9,\"h";
  const Dataset dataset = Dataset::csv(file(content), columns, {.header = true});
  const std::string place = " (shard " + folder_.path("a.csv") + ", offset ";
  const Dataset good = dataset.ignore_errors();
  EXPECT_THAT(take(good), ElementsAre("id=1 text=a\nb", "id=7 text=g"));
  // Each by itself.
  const auto error_of = [&](const std::string& record, const CsvFormat& format = {}) {
    return take(Dataset::csv(file(record), columns, format)).back();
  };
  const std::string at_0 = place + "0, record 0, stage parse_csv)";
  EXPECT_EQ(error_of("3,\n"),
            "missing_feature: line 1: column 'text' (field 1) is missing, and has no default value" + at_0);
  EXPECT_EQ(error_of("4\n"), "parse: line 1: the record has 1 fields, 2 are needed" + at_0);
  EXPECT_EQ(error_of("5,d,e\n"), "parse: line 1: the record has 3 fields, 2 are needed" + at_0);
  EXPECT_EQ(error_of("5,d,e\n", {.select_columns = {1, 3}}),
            "parse: line 1: the record has 3 fields, at least 4 are needed" + at_0);
  EXPECT_EQ(error_of("6,f\"\n"), "parse: line 1: field 1: it has a quote inside, and does not begin with one" + at_0);
  EXPECT_EQ(error_of("\"8\nx\"y,z\n"), "parse: line 1: field 0: something stands after its closing quote" + at_0);
  EXPECT_EQ(error_of("9,\"h"), "parse: line 1: field 1: its quote is not closed" + at_0);
  EXPECT_EQ(error_of(std::string(60, '1') + "\tx,y\n"),
            "parse: line 1: column 'id' (field 0): '" + std::string(40, '1') + "…' is no int64" + at_0);
  EXPECT_EQ(error_of("1\tx,y\n"), "parse: line 1: column 'id' (field 0): '1?x' is no int64" + at_0);
  EXPECT_EQ(error_of("a\"b\n1,x\n", {.header = true}),
            "parse: the header: field 0: it has a quote inside, and does not begin with one" + place + "0, record 0)");
  EXPECT_EQ(error_of("", {.header = true}), "truncated: the file has no header" + place + "0, record 0)");
  EXPECT_EQ(take(Dataset::csv(file(content), columns, {.header = true})).back(),
            "parse: line 4: column 'id' (field 0): '2x' is no int64" + place + "16, record 1, stage parse_csv)");
}

TEST_F(Csv, BadRecordsAreLeftOutWhereThePolicySaysSo) {
  const std::vector<CsvColumn> columns{{.name = "id", .dtype = DType::kInt64}, {.name = "text"}};
  // A quote that is not closed swallows no more than its line.
  const std::string content = "id,text\n1,\"a\nb\"\n2x,c\n3,\n4\n7,g\n9,\"h\n10,i\n";
  const Shards shards = file(content);
  const FileReadOptions options{.damage = {.action = DamagePolicy::kSkip}};
  const Dataset dataset = Dataset::csv(shards, columns, {.header = true}, options);
  const std::vector<std::string> good{"id=1 text=a\nb", "id=7 text=g", "id=10 text=i"};
  EXPECT_EQ(take(dataset), good);
  const std::vector<std::string> regions{
      "a.csv, bytes 16 to 20, 1 record from 1 on, epoch 0: parse: line 4: column 'id'",
      "a.csv, bytes 21 to 23, 1 record from 2 on, epoch 0: missing_feature: line 5",
      "a.csv, bytes 24 to 25, 1 record from 3 on, epoch 0: parse: line 6: the record has 1 fields",
      "a.csv, bytes 30 to 35, 1 record from 5 on, epoch 0: parse: a quote in the record that begins on line 8 is not"};
  for (size_t at = 0; at <= good.size(); ++at) {
    const WorkerLimit workers(2);
    Pipeline first = dataset.start({.threads = 2});
    for (size_t i = 0; i < at; ++i) ASSERT_TRUE(first.next());
    std::vector<SkippedRegion> skipped = first.skipped().regions;
    Pipeline rest = dataset.start({.threads = 2, .state = PipelineState::parse(first.save().serialize())});
    for (size_t i = at; i < good.size(); ++i) EXPECT_EQ(test::print_element(rest.next()->block(), 0), good[i]);
    EXPECT_FALSE(rest.next());
    for (const SkippedRegion& region : rest.skipped().regions) skipped.push_back(region);
    ASSERT_EQ(skipped.size(), regions.size());
    for (size_t i = 0; i < regions.size(); ++i) EXPECT_THAT(skipped[i].to_string(), HasSubstr(regions[i]));
    EXPECT_EQ(rest.skipped().counts.records, 4);
  }
  // One budget for what the file and what its records lose.
  for (const int64_t most : {2, 3, 4}) {
    const Dataset limited = Dataset::csv(shards, columns, {.header = true},
                                         {.damage = {.action = DamagePolicy::kSkip, .max_records = most}});
    std::vector<std::string> expected(good.begin(), good.begin() + (most == 4 ? 3 : most == 3 ? 2 : 1));
    const std::vector<std::string> taken = take(limited);
    if (most == 4) {
      EXPECT_EQ(taken, expected);
      continue;
    }
    ASSERT_EQ(taken.size(), expected.size() + 1);
    EXPECT_THAT(taken.back(), HasSubstr(fmt::format("damage_budget: {} records and ", most + 1)));
  }
  EXPECT_EQ(dataset.cardinality(), Cardinality::unknown());
  // A header that is no good, or not there, costs nothing else.
  EXPECT_THAT(take(Dataset::csv(file("a\"b\n1,x\n"), columns, {.header = true}, options)), ElementsAre("id=1 text=x"));
  EXPECT_THAT(take(Dataset::csv(file(""), columns, {.header = true}, options)), ElementsAre());
}

TEST_F(Csv, FilesWhoseHeadersDifferAreRefused) {
  const std::vector<CsvColumn> columns{{.name = "id", .dtype = DType::kInt64}, {.name = "n", .dtype = DType::kInt64}};
  const auto files = [&](const std::vector<std::string>& contents) {
    std::vector<std::string> paths;
    for (const std::string& content : contents) {
      paths.push_back(folder_.path(fmt::format("{}.csv", paths.size())));
      test::write_file(paths.back(), content);
    }
    return Shards::files(paths);
  };
  const auto elements = [&](const std::vector<std::string>& contents, const FileReadOptions& options = {}) {
    return take(Dataset::csv(files(contents), columns, {.header = true}, options));
  };
  const std::string first = "id,n\n1,2\n";
  const std::string other = "n,id\n30,4\n50,6\n";
  const std::string last = "\"id\",\"n\"\r\n7,8\n";
  const std::string error = "parse: the header: field 0 is 'n', and 'id' in " + folder_.path("0.csv") +
                            "; values are read by their places (shard " + folder_.path("1.csv") +
                            ", offset 0, record 0)";
  EXPECT_THAT(elements({first, other, last}), ElementsAre("id=1 n=2", error));
  EXPECT_THAT(elements({first, last, first}), ElementsAre("id=1 n=2", "id=7 n=8", "id=1 n=2"));
  EXPECT_THAT(elements({"\xef\xbb\xbf" + first, last, "\xef\xbb\xbf" + last}),
              ElementsAre("id=1 n=2", "id=7 n=8", "id=7 n=8"));
  // As shards of the same lanes, in another order, and unpacked.
  for (const size_t cycle_length : {1, 2, 3}) {
    for (const bool shuffle_shards : {false, true}) {
      const Dataset dataset = Dataset::csv(files({first, other, last}), columns, {.header = true},
                                           {.cycle_length = cycle_length, .shuffle_shards = shuffle_shards, .seed = 3})
                                  .ignore_errors();
      EXPECT_THAT(take(dataset), ::testing::UnorderedElementsAre("id=1 n=2", "id=7 n=8"));
    }
  }
  const auto packed = [](const std::string& content) { return test::packed(content, Compression::kGzip); };
  EXPECT_THAT(elements({packed(first), packed(other)}, {.compression = Compression::kGzip}),
              ElementsAre("id=1 n=2", error));
  // Where damage is left out, the whole file is.
  const Dataset skipping =
      Dataset::csv(files({first, other, last}), columns, {.header = true}, {.damage = {.action = DamagePolicy::kSkip}});
  EXPECT_THAT(take(skipping), ElementsAre("id=1 n=2", "id=7 n=8"));
  Pipeline pipeline = skipping.start({.threads = 1});
  while (pipeline.next()) continue;
  ASSERT_EQ(pipeline.skipped().regions.size(), 1);
  EXPECT_EQ(pipeline.skipped().regions[0].begin, 0);
  EXPECT_EQ(pipeline.skipped().regions[0].end, other.size());
  // A first file that has no header, or a bad one, says nothing about the others.
  EXPECT_THAT(take(Dataset::csv(files({"", other}), columns, {.header = true}).ignore_errors()),
              ElementsAre("id=30 n=4", "id=50 n=6"));
  EXPECT_THAT(take(Dataset::csv(files({"a\"b\n1,2\n", other}), columns, {.header = true}).ignore_errors()),
              ElementsAre("id=30 n=4", "id=50 n=6"));
  // Columns behind those of the first file hurt nobody who selects those before them.
  EXPECT_THAT(
      take(Dataset::csv(files({first, "id,n,more\n3,4,5\n"}), columns, {.header = true, .select_columns = {0, 1}})),
      ElementsAre("id=1 n=2", "id=3 n=4"));
  // Without headers there is nothing to compare.
  EXPECT_THAT(take(Dataset::csv(files({"1,2\n", "3,4\n"}), columns)), ElementsAre("id=1 n=2", "id=3 n=4"));
}

TEST_F(Csv, RecordsMayBeLongButNotTooLong) {
  const std::vector<CsvColumn> columns{{.name = "a"}, {.name = "b"}};
  std::string content;
  for (int i = 0; i < 4; ++i) content += "\"" + std::string(1000000, static_cast<char>('a' + i)) + "\",x\n";
  for (const Compression compression : {Compression::kGzip, Compression::kZstd}) {
    const Shards shards = file(test::packed(content, compression));
    EXPECT_EQ(take(Dataset::csv(shards, columns, {}, {.compression = compression})).size(), 4);
  }
  EXPECT_THAT(take(Dataset::csv(file("1,2\n\"3,\n4,5\n6,7\n"), columns, {},
                                {.max_record_bytes = 8, .damage = {.action = DamagePolicy::kSkip}})),
              ElementsAre("a=1 b=2", "a=4 b=5", "a=6 b=7"));
  EXPECT_THAT(take(Dataset::csv(file("1,2\n\"3,\n4,5\n6,7\n"), columns, {}, {.max_record_bytes = 8})),
              ElementsAre("a=1 b=2", HasSubstr("record_too_large: the record that begins on line 2 has more than 8 "
                                               "bytes; is a quote not closed?")));
}

TEST_F(Csv, LinesOfTextAreParsedToo) {
  const Dataset lines = Dataset::text_lines(file("# a comment\n1,a\n2,b\n")).skip(1);
  const Dataset dataset = lines.parse_csv({{.name = "id", .dtype = DType::kInt64}, {.name = "text"}});
  EXPECT_THAT(take(dataset), ElementsAre("id=1 text=a", "id=2 text=b"));
  EXPECT_THAT(take(lines.parse_csv({{.name = "id", .dtype = DType::kInt64}})),
              ElementsAre("parse: the record has 2 fields, 1 are needed (shard " + folder_.path("a.csv") +
                          ", offset 12, record 1, stage parse_csv)"));
}

TEST_F(Csv, AResumedPipelineKnowsTheLine) {
  // An interleave writes a state for every eighth block only.
  std::string content;
  for (int i = 0; i < 20000; ++i) content += fmt::format("{},\"a\nb\"\n", i == 18000 ? "bad" : std::to_string(i));
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    const Dataset dataset =
        Dataset::csv(file(test::packed(content, compression)),
                     {{.name = "id", .dtype = DType::kInt64}, {.name = "text"}}, {}, {.compression = compression});
    const WorkerLimit workers(1);
    Pipeline pipeline = dataset.start({.threads = 1});
    for (int i = 0; i < 17000; ++i) ASSERT_TRUE(pipeline.next());
    Pipeline resumed = dataset.start({.threads = 1, .state = pipeline.save()});
    for (int64_t i = 17000; i < 18000; ++i) ASSERT_EQ(resumed.next()->values<int64_t>("id")[0], i);
    EXPECT_THAT(refusal([&] { (void)resumed.next(); }),
                HasSubstr("parse: line 36001: column 'id' (field 0): 'bad' is no int64"));
  }
}

TEST_F(Csv, RefusesWhatCannotWork) {
  const Shards shards = file("1\n");
  const auto csv = [&](const std::vector<CsvColumn>& columns, const CsvFormat& format = {}) {
    return refusal([&] { (void)Dataset::csv(shards, columns, format); });
  };
  EXPECT_EQ(csv({{.name = "a"}}), "accepted");
  EXPECT_THAT(csv({}), HasSubstr("parse_csv: needs at least one column"));
  EXPECT_THAT(csv({{.name = "a", .default_value = 1.5}}), HasSubstr("the default value of column 'a' is no bytes"));
  EXPECT_THAT(csv({{.name = "a", .dtype = DType::kInt32, .default_value = int64_t{1} << 40}}),
              HasSubstr("the default value of column 'a' is no int32"));
  EXPECT_THAT(csv({{.name = "a", .dtype = DType::kFloat32, .default_value = 1}}), HasSubstr("is no float32"));
  EXPECT_THAT(csv({{.name = "a"}}, {.delimiter = '"'}), HasSubstr("the delimiter must be no end of a line"));
  EXPECT_EQ(csv({{.name = "a"}}, {.delimiter = '"', .quotes = false}), "accepted");
  EXPECT_THAT(csv({{.name = "a"}}, {.select_columns = {0, 1}}),
              HasSubstr("select_columns has 2 numbers for 1 columns"));
  EXPECT_THAT(csv({{.name = "a"}, {.name = "b"}}, {.select_columns = {1, 1}}),
              HasSubstr("select_columns must be ascending numbers from 0 on; number 1 is 1"));
  EXPECT_THAT(refusal([&] { (void)Dataset::range(0, 3).parse_csv({{.name = "a"}}); }),
              HasSubstr("parse_csv: needs records, one bytes value `record` in each element, found"));
  EXPECT_THAT(refusal([&] { (void)Dataset::text_lines(shards).batch(2).parse_csv({{.name = "a"}}); }),
              HasSubstr("needs records"));
}

}  // namespace
}  // namespace millrace::csv_test
