// The examples in the table of docs/operators.md that can be run as they stand there: each is in a row of its own call,
// and gives what that row says. Rows about files, functions and random choices only say what is meant.

#include <algorithm>
#include <cctype>

#include <gtest/gtest.h>

#include "millrace/formats/storage/whole_file.h"
#include "millrace/pipeline/dataset.h"
#include "tests/support/operator_chain.h"
#include "tests/support/places.h"

namespace millrace::operators_test {
namespace {

using enum DType;

struct Example {
  std::string call;   // as it is written here
  std::string gives;  // as the page has it: all elements, or one feature of all; with an … at the end the first ones
  Dataset dataset;
};

// Of all features, and of each by itself.
std::vector<std::string> printed(const Dataset& dataset) {
  const size_t features = dataset.schema().size();
  std::vector<std::string> texts(features + 1);
  Pipeline pipeline = dataset.start({.threads = 1});
  while (const std::optional<Batch> batch = pipeline.next()) {
    if (!texts[0].empty()) {
      for (std::string& text : texts) text += ' ';
    }
    texts[0] += test::print_element(batch->block(), 0);
    for (size_t f = 0; f < features; ++f) texts[f + 1] += test::print_value(batch->block().column(f), 0);
  }
  return texts;
}

std::string without_spaces(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             text.end());
  return text;
}

// The last column of the row of this call.
std::string cell_of(const std::string& page, const std::string& call) {
  for (size_t begin = page.find("\n| `"); begin != std::string::npos; begin = page.find("\n| `", begin + 1)) {
    const std::string row = page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
    const size_t end = row.find("` |");
    if (without_spaces(row.substr(3, end - 3)) != without_spaces(call)) continue;
    return row.substr(row.rfind('|', row.size() - 2) + 1);
  }
  return "no row of this call";
}

Dataset integers(const std::vector<int64_t>& values, const std::string& feature = "x") {
  return Dataset::rows({{feature, values}});
}

Dataset texts(const std::vector<std::string>& values, const std::string& feature = "x") {
  return Dataset::rows({{feature, values}});
}

Dataset vectors(const std::vector<std::vector<int64_t>>& values, const std::string& feature = "t") {
  return Dataset::rows({{feature, values}});
}

#define SOURCE(gives, ...) \
  Example { #__VA_ARGS__, gives, Dataset::__VA_ARGS__ }
#define EXAMPLE(gives, input, ...) \
  Example { #__VA_ARGS__, gives, (input).__VA_ARGS__ }

std::vector<Example> examples() {
  const Dataset a = texts({"a0", "a1", "a2", "a3"});
  const Dataset b = texts({"b0", "b1", "b2", "b3"});
  const std::vector<Dataset> inputs = {a, b};
  const Dataset choices = integers({0, 1, 1}, "choice");
  const Dataset abc = Dataset::zip({integers({1}, "a"), integers({2}, "b"), integers({3}, "c")});
  const Dataset pair = Dataset::zip({vectors({{1, 2, 3, 4}}, "a"), vectors({{5, 6, 7, 8}}, "b")});
  const std::vector<CsvColumn> columns = {{.name = "id", .dtype = kInt64}, {.name = "t"}};
  const RowKey key{"parity", [](const RowView& row) { return row.value<int64_t>("value") % 2; }};
  const Dataset image = Dataset::rows({{"image", std::vector<int32_t>{1, 3, 5, 7}, Shape{1, 4, 1}}});
  const Dataset sequences = vectors({{1, 2, 3}, {4, 5}, {6}});
  return {
      SOURCE("0 4 8", range(0, 10, 4)),
      SOURCE("[1,2] [3] []", rows({{"t", std::vector<std::vector<int64_t>>{{1, 2}, {3}, {}}}})),
      SOURCE("[[1,2],[3,4]] [[5,6],[7,8]]", rows({{"t", std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, Shape{2, 2}}})),
      SOURCE("a0 a1 b0 b1 a2 a3 …", interleave(inputs, {.cycle_length = 2, .block_length = 2})),
      SOURCE("a0 b0 b1", choose_from_datasets({a, b}, choices)),
      EXAMPLE("id=1 t=a", texts({"1;a"}, "record"), parse_csv(columns, {.delimiter = ';'})),
      EXAMPLE("[97,98]", texts({"ab"}), decode_raw("x", RawType::kUint8)),
      EXAMPLE("b=1 c=2", abc.drop({"c"}).rename({{"b", "c"}}), rename({{"a", "b"}})),
      EXAMPLE("c=3 a=1", abc, select({"c", "a"})),
      EXAMPLE("a=1 c=3", abc, drop({"b"})),
      EXAMPLE("[0,1,0]", integers({1}), one_hot("x", 3)),
      EXAMPLE("[[0,0,1],[0,0,0]]", vectors({{2, -1}}, "x"), one_hot("x", 3)),
      EXAMPLE("[1,2,5]", vectors({{1, 2, 3, 4, 5}}), truncate({.features = {"t"}, .head = 2, .tail = 1})),
      EXAMPLE("[6,7]", vectors({{6, 7}}), truncate({.features = {"t"}, .head = 2, .tail = 1})),
      EXAMPLE("a=[1,2,3] b=[5,6]", pair, truncate_pair({.first = {"a"}, .second = {"b"}, .length = 5})),
      EXAMPLE("0 1 0 1", integers({0, 0, 0, 1, 0, 0, 1, 0}, "class"),
              rejection_resample(
                  {.feature = "class", .target_distribution = {1, 1}, .initial_distribution = {3, 1}, .seed = 9})),
      EXAMPLE("x=a index=5 x=b index=6 …", texts({"a", "b", "c"}), enumerate(5)),
      EXAMPLE("[0,1,2] [3,4,5] [6]", Dataset::range(0, 7), batch(3)),
      EXAMPLE("[[1,2],[3],[]]", vectors({{1, 2}, {3}, {}}), ragged_batch(3)),
      EXAMPLE("0 1 2", Dataset::range(0, 3).batch(2), unbatch()),
      EXAMPLE("[1,2] [3]", vectors({{1, 2}, {3}}).ragged_batch(2), unbatch()),
      EXAMPLE("[0,1] [2,3] [4,5] [6]", Dataset::range(0, 7).batch(3), rebatch(2)),
      EXAMPLE("[[1,2,0],[4,5,6]] [[3],[7]]", vectors({{1, 2}, {3}, {4, 5, 6}, {7}}),
              bucket_by_sequence_length({"t"}, {2}, {2, 2})),
      EXAMPLE("[0,2] [1,3] [4,6] [5]", Dataset::range(0, 7), group_by_window(key, 2)),
      EXAMPLE("[0,1,2] [1,2,3] [2,3] [3]", Dataset::range(0, 4), window(3, {.shift = 1})),
      EXAMPLE("[1,2,3,6] [4,5,0,0]", sequences, pack(4)),
      EXAMPLE("[1,1,1,2] [1,1,0,0]", sequences, pack(4)),
      EXAMPLE("[0,1,2,0] [0,1,0,0]", sequences, pack(4)),
      EXAMPLE("[[[2],[6]]]", image, resize({.height = 1, .width = 2})),
      EXAMPLE("[[[3],[5]]]", image, crop({.features = {"image"}, .window = {.height = 1, .width = 2}})),
      EXAMPLE("[[[0],[1],[3],[5],[7],[0]]]", image, pad({.height = 1, .width = 6})),
      EXAMPLE("[[[-1.5],[-0.5],[0.5],[1.5]]]", image, normalize({.mean = {4}, .standard_deviation = {2}})),
  };
}

TEST(OperatorsPage, ItsExamplesGiveWhatItSays) {
  const std::string page = read_whole_file(test::source_path("docs/operators.md"));
  for (const Example& example : examples()) {
    const std::vector<std::string> given = printed(example.dataset);
    const std::string more = " …";
    const bool is_prefix = example.gives.ends_with(more);
    const std::string gives = example.gives.substr(0, example.gives.size() - (is_prefix ? more.size() : 0));
    EXPECT_TRUE(
        std::any_of(given.begin(), given.end(),
                    [&](const std::string& text) { return is_prefix ? text.starts_with(gives) : text == gives; }))
        << example.call << " gives " << given[0] << ", not " << example.gives;
    std::string cell = cell_of(page, example.call);
    for (size_t at = cell.find("`, `"); at != std::string::npos; at = cell.find("`, `", at)) cell.replace(at, 4, " ");
    cell.erase(std::remove(cell.begin(), cell.end(), '`'), cell.end());
    EXPECT_NE(cell.find(example.gives), std::string::npos)
        << example.call << " gives " << example.gives << ", the page says" << cell;
  }
}

}  // namespace
}  // namespace millrace::operators_test
