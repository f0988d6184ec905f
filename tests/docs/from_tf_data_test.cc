// The pipelines of docs/from_tf_data.md, as they stand there: what they give is compared with what TensorFlow gave for
// the Python beside them.

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/storage/whole_file.h"
#include "millrace/pipeline/dataset.h"
#include "tests/support/places.h"

namespace millrace::from_tf_data_test {
namespace {

using nlohmann::json;

Dataset pipeline_1() {
  Dataset dataset =
      Dataset::range(0, 20)
          .multiply("value", 2)
          .filter(RowPredicate{"thirds", [](const RowView& row) { return row.value<int64_t>("value") % 3 == 0; }})
          .batch(4);
  return dataset;
}

Dataset pipeline_2() {
  Dataset dataset = Dataset::tfrecord(Shards::glob("data/train-*.tfrecord"), {.cycle_length = 2})
                        .parse_example({fixed_len("id", {}, DType::kInt64)})
                        .batch(4, {.drop_remainder = true});
  return dataset;
}

Dataset pipeline_3() {
  Dataset dataset = Dataset::tfrecord(Shards::glob("data/train-*.tfrecord"), {.shuffle_shards = true, .seed = 7})
                        .parse_example({fixed_len("id", {}, DType::kInt64)})
                        .shuffle(8, {.seed = 7})
                        .repeat(2)
                        .prefetch(2);
  return dataset;
}

Dataset pipeline_4() {
  Dataset dataset =
      Dataset::tfrecord(Shards::files({"data/train-0.tfrecord", "data/train-1.tfrecord"}), {.cycle_length = 1})
          .parse_example({fixed_len("id", {}, DType::kInt64), var_len("tokens", DType::kInt64)})
          .padded_batch(3, {.features = {{"tokens", {.value = int64_t{-1}}}}});
  return dataset;
}

Dataset pipeline_5() {
  Dataset dataset =
      Dataset::tfrecord(Shards::files({"data/train-0.tfrecord"}))
          .parse_example({var_len("tokens", DType::kInt64)})
          .bucket_by_sequence_length({"tokens"}, {3, 5}, {4, 2, 1}, {.padding = {.drop_remainder = true}});
  return dataset;
}

Dataset pipeline_6() {
  Dataset dataset = Dataset::zip({Dataset::range(10, 15, 1, "a"), Dataset::range(100, 110, 2, "b")}).enumerate(1);
  return dataset;
}

Dataset pipeline_7() {
  Dataset dataset =
      Dataset::choose_from_datasets({Dataset::range(0, 5), Dataset::range(100, 103), Dataset::range(200, 203)},
                                    Dataset::range(0, 3).repeat(4), {.stop_on_empty = false});
  return dataset;
}

Dataset pipeline_8() {
  Dataset dataset = Dataset::range(0, 7).window(3, {.shift = 2}, BatchOptions{.drop_remainder = true});
  return dataset;
}

Dataset pipeline_9() {
  Dataset dataset = Dataset::range(0, 6).interleave(
      DatasetFunction{.name = "count up",
                      .gives = {{.name = "value", .dtype = DType::kInt64}},
                      .make = [](const RowView& row) { return Dataset::range(0, row.value<int64_t>("value")); }},
      {.cycle_length = 2, .block_length = 2});
  return dataset;
}

Dataset pipeline_10() {
  Dataset dataset = Dataset::text_lines(Shards::files({"data/lines.txt"}), {.cycle_length = 1})
                        .skip(1)
                        .filter(RowPredicate{"not empty", [](const RowView& row) {
                                               return !row.value<std::string_view>("record").empty();
                                             }});
  return dataset;
}

Dataset pipeline_11() {
  Dataset dataset = Dataset::csv(Shards::files({"data/table.csv"}),
                                 {{.name = "id", .dtype = DType::kInt64},
                                  {.name = "score", .dtype = DType::kFloat32, .default_value = 0.5},
                                  {.name = "name", .default_value = "?"}},
                                 {.header = true})
                        .batch(2);
  return dataset;
}

Dataset pipeline_12() {
  ScanFunction running_sum;
  running_sum.name = "running sum";
  running_sum.writes = {{.name = "sum", .dtype = DType::kInt64}};
  running_sum.initial.integers = {0};
  running_sum.function = [](ScanNumbers& carried, const RowView& row, RowWriter& out) {
    carried.integers[0] += row.value<int64_t>("value");
    out.set("sum", carried.integers[0]);
  };
  Dataset dataset = Dataset::range(0, 12).modulo("value", 5).unique("value").scan(running_sum).repeat(2).shard(2, 1);
  return dataset;
}

constexpr std::array kPipelines = {pipeline_1, pipeline_2, pipeline_3, pipeline_4,  pipeline_5,  pipeline_6,
                                   pipeline_7, pipeline_8, pipeline_9, pipeline_10, pipeline_11, pipeline_12};
constexpr size_t kShuffled = 2;  // whose elements may come in another order

template <typename T>
json values_of(const Batch& batch, const std::string& feature) {
  json values = json::array();
  for (const T& value : batch.values<T>(feature)) values.push_back(value);
  return values;
}

json element_of(const Batch& batch) {
  json element;
  for (const FeatureSpec& feature : batch.schema().features()) {
    json& column = element[feature.name];
    column["shape"] = batch.shape(feature.name);
    switch (feature.dtype) {
      case DType::kInt32: column["values"] = values_of<int32_t>(batch, feature.name); break;
      case DType::kInt64: column["values"] = values_of<int64_t>(batch, feature.name); break;
      case DType::kFloat32: column["values"] = values_of<float>(batch, feature.name); break;
      case DType::kUint8: column["values"] = values_of<uint8_t>(batch, feature.name); break;
      case DType::kBytes: column["values"] = values_of<std::string_view>(batch, feature.name); break;
    }
  }
  return element;
}

json elements_of(const Dataset& dataset) {
  json elements = json::array();
  Pipeline pipeline = dataset.start({.threads = 2});
  while (const std::optional<Batch> batch = pipeline.next()) elements.push_back(element_of(*batch));
  return elements;
}

std::string without_spaces(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             text.end());
  return text;
}

class FromTfData : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override { std::filesystem::current_path(test::data_path("from_tf_data")); }
};
INSTANTIATE_TEST_SUITE_P(, FromTfData, testing::Range<size_t>(0, kPipelines.size()),
                         [](const auto& number) { return std::to_string(number.param + 1); });

TEST_P(FromTfData, GivesWhatTensorFlowGave) {
  const json expected = json::parse(read_whole_file("expected.json"));
  ASSERT_EQ(expected.size(), kPipelines.size());
  json wanted = expected[GetParam()];
  json found = elements_of(kPipelines[GetParam()]());
  ASSERT_FALSE(wanted.empty());
  if (GetParam() == kShuffled) {
    EXPECT_NE(found, wanted) << "the page need not say that the order differs";
    std::sort(wanted.begin(), wanted.end());
    std::sort(found.begin(), found.end());
  }
  EXPECT_EQ(found, wanted);
}

TEST(FromTfDataPage, HasThePipelinesOfThisTest) {
  const std::string page = read_whole_file(test::source_path("docs/from_tf_data.md"));
  const std::string here = without_spaces(read_whole_file(test::source_path("tests/docs/from_tf_data_test.cc")));
  const std::string begin = "```cpp\n";
  size_t count = 0;
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at)) {
    at += begin.size();
    const std::string block = page.substr(at, page.find("```", at) - at);
    ++count;
    EXPECT_NE(here.find("pipeline_" + std::to_string(count) + "(){" + without_spaces(block) + "returndataset;}"),
              std::string::npos)
        << block;
  }
  EXPECT_EQ(count, kPipelines.size());
}

}  // namespace
}  // namespace millrace::from_tf_data_test
