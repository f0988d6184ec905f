#include "millrace/formats/example/survey.h"

#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/example/parser.h"
#include "millrace/formats/example/writer.h"

namespace millrace::survey_test {
namespace {

std::string record(const std::function<void(ExampleWriter&)>& add) {
  ExampleWriter writer;
  add(writer);
  return writer.finish();
}

std::string refusal(ExampleSurvey& survey, std::string_view bytes) {
  try {
    survey.add(bytes);
    return "accepted";
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kParse);
    return e.error().message;
  }
}

TEST(ExampleSurvey, ProposesFixedShapesWhereEveryRecordHasAsManyValues) {
  ExampleSurvey survey;
  for (int64_t i = 0; i < 3; ++i) {
    survey.add(record([i](ExampleWriter& writer) {
      const std::vector<int64_t> ids(4, i);
      const std::vector<float> weights(static_cast<size_t>(i), 0.5F);
      const std::vector<std::string_view> names = {"a"};
      writer.add("ids", std::span<const int64_t>(ids));
      writer.add("weights", std::span<const float>(weights));
      writer.add("name", std::span<const std::string_view>(names));
      if (i == 1) writer.add("rare", std::span<const int64_t>(ids));
      if (i == 2) writer.add("none", std::span<const int64_t>());
    }));
  }
  EXPECT_EQ(survey.num_records(), 3);
  EXPECT_EQ(survey.to_string(),
            "parse_example({\n"
            "    fixed_len(\"ids\", {4}, DType::kInt64),               // 4 values\n"
            "    fixed_len(\"name\", {}, DType::kBytes),               // 1 values\n"
            "    var_len(\"none\", DType::kInt64),                     // 0 values, in 1 of 3 records\n"
            "    var_len(\"rare\", DType::kInt64),                     // 4 values, in 1 of 3 records\n"
            "    var_len(\"weights\", DType::kFloat32),                // 0 to 2 values\n"
            "})\n");
  std::vector<std::string> found;
  for (const FeatureDescription& feature : survey.proposal()) found.push_back(feature.to_string());
  const std::vector<std::string> expected = {
      fixed_len("ids", {4}, DType::kInt64).to_string(), fixed_len("name", {}, DType::kBytes).to_string(),
      var_len("none", DType::kInt64).to_string(), var_len("rare", DType::kInt64).to_string(),
      var_len("weights", DType::kFloat32).to_string()};
  EXPECT_EQ(found, expected);
}

TEST(ExampleSurvey, WritesNamesAsLiteralsOfCpp) {
  ExampleSurvey survey;
  survey.add(record([](ExampleWriter& writer) {
    const std::vector<int64_t> ids = {1};
    for (const std::string_view name :
         {std::string_view("a\"b\\c"), std::string_view("gr\xc3\xb6\xc3\x9f e"), std::string_view("n\nl"),
          std::string_view("nul\0007x", 6), std::string_view("\x1b[31m9"), std::string_view("\xc2\x9bx")}) {
      writer.add(name, std::span<const int64_t>(ids));
    }
  }));
  EXPECT_EQ(survey.to_string(),
            "parse_example({\n"
            "    fixed_len(\"\\033[31m9\", {}, DType::kInt64),          // 1 values\n"
            "    fixed_len(\"a\\\"b\\\\c\", {}, DType::kInt64),            // 1 values\n"
            "    fixed_len(\"gr\xc3\xb6\xc3\x9f e\", {}, DType::kInt64),             // 1 values\n"
            "    fixed_len(\"n\\nl\", {}, DType::kInt64),               // 1 values\n"
            "    fixed_len(\"nul\\0007x\"s, {}, DType::kInt64),         // 1 values\n"
            "    fixed_len(\"\\302\\233x\", {}, DType::kInt64),          // 1 values\n"
            "})\n");
}

// A map entry, or any message, in field `number`.
std::string field(char number, const std::string& message) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(message.size())} + message;
}

TEST(ExampleSurvey, SaysWhatItLeavesOutAndWhy) {
  ExampleSurvey survey;
  const std::string good = field(1, field(1, "id") + field(2, field(3, field(1, "\1"))));
  const std::string bad = field(1, field(1, "bad\n"));  // no kind
  const std::string unnamed = field(1, field(2, field(3, field(1, "\1"))));
  const std::string steps = field(1, field(1, "s") + field(2, field(1, field(3, field(1, "\1")))));
  survey.add(field(1, good + bad) + field(2, steps));
  survey.add(field(1, good + unnamed + bad));
  EXPECT_EQ(survey.to_string(),
            "parse_example({\n"
            "    fixed_len(\"id\", {}, DType::kInt64),                 // 1 values\n"
            "    // left out: \"\", a feature without a name\n"
            "    // left out: \"bad\\n\", of which no record has a value, so that its type is not known\n"
            "    // left out: \"s\", the steps of SequenceExamples, which parse_sequence_example reads\n"
            "})\n");
  ASSERT_EQ(survey.proposal().size(), 1U);
  EXPECT_EQ(survey.proposal()[0].key, "id");

  // It is left out only as long as it has no value. What only looks like steps is nothing.
  ExampleSurvey later;
  later.add(field(1, field(1, field(1, "id"))) + field(2, "\7\7"));
  EXPECT_TRUE(later.proposal().empty());
  later.add(field(1, good));
  EXPECT_EQ(later.to_string(),
            "parse_example({\n"
            "    var_len(\"id\", DType::kInt64),                       // 1 values, in 1 of 2 records\n"
            "})\n");
}

// CPU time of this thread, in seconds.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Surveys a record of so many features, and makes what parses it as proposed.
double seconds_of_features(int64_t count) {
  ExampleWriter writer;
  for (int64_t i = 0; i < count; ++i) writer.add(std::to_string(i), std::span<const int64_t>(&i, 1));
  const std::string bytes = writer.finish();
  const double begin = thread_seconds();
  ExampleSurvey survey;
  survey.add(bytes);
  const ExampleParser parser(survey.proposal());
  EXPECT_EQ(Schema(parser.columns()).size(), static_cast<size_t>(count));
  return thread_seconds() - begin;
}

// No bound on a time: both grow with the machine. Eight times the features are 64 times the work where it is quadratic,
// and somewhat more than 8 times where it is not; rounds until one shows that.
TEST(ExampleSurvey, TakesWorkInProportionToTheFeatures) {
  constexpr double kMostTimes = 24;
  double times = 0;
  for (int round = 0; round < 5 && (round == 0 || times > kMostTimes); ++round) {
    times = seconds_of_features(8'000) / seconds_of_features(1'000);
  }
  EXPECT_LE(times, kMostTimes);
}

TEST(ExampleSurvey, RefusesWhatIsNoExampleAndValuesOfAnotherType) {
  ExampleSurvey survey;
  const std::vector<int64_t> ids = {1};
  const std::vector<float> reals = {1};
  survey.add(record([&](ExampleWriter& writer) { writer.add("x", std::span<const int64_t>(ids)); }));
  EXPECT_EQ(refusal(survey, "no protobuf"), "an invalid wire type at byte 1 of the record");
  EXPECT_EQ(refusal(survey, record([&](ExampleWriter& writer) { writer.add("x", std::span<const float>(reals)); })),
            "feature 'x' holds float32, and int64 in an earlier record");
  EXPECT_EQ(survey.num_records(), 1);
  EXPECT_EQ(survey.features().at("x").records, 1);
}

}  // namespace
}  // namespace millrace::survey_test
