#include "tests/examples/text_to_text/questions.h"

#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "millrace/formats/storage/local.h"

namespace millrace::test {
namespace {

std::vector<int64_t> copy(std::span<const int64_t> values) { return {values.begin(), values.end()}; }

}  // namespace

std::string questions_csv(int num_rows) {
  constexpr std::array kClasses = {"LQ_CLOSE", "LQ_EDIT", "HQ"};
  constexpr std::array kKinds = {"urgent", "messy", "careful"};
  constexpr std::array kThings = {"wheel", "gate", "mill", "stone", "race"};
  std::string csv = "Id,Title,Body,Tags,CreationDate,Y\n";
  uint32_t state = 2024;
  const auto next = [&state](size_t n) { return ((state = state * 1664525 + 1013904223) >> 16) % n; };
  for (int i = 0; i < num_rows; ++i) {
    const size_t number = next(3);
    csv += fmt::format(
        "{},a {} question about the {},\"<p>How does the <b>{}</b> turn, &quot;by water&quot;?</p>\n\n"
        "<pre><code>if (a &lt; {}) turn();\n</code></pre>\",<mill>,2016-01-01 00:00:00,{}\n",
        1000 + i, kKinds[number], kThings[next(5)], kThings[next(5)], next(100), kClasses[number]);
  }
  return csv;
}

std::vector<QuestionRow> rows_in(const std::string& file, int64_t max_length) {
  const Dataset rows =
      Dataset::tfrecord(Shards::files({file}), {.cycle_length = 1})
          .parse_example(
              {fixed_len("input_ids", {max_length}, DType::kInt64),
               fixed_len("attention_mask", {max_length}, DType::kInt64), fixed_len("labels", {2}, DType::kInt64),
               fixed_len("decoder_attention_mask", {2}, DType::kInt64), fixed_len("class", {1}, DType::kInt64)});
  std::vector<QuestionRow> result;
  Pipeline pipeline = rows.start({.threads = 1});
  while (const auto row = pipeline.next()) {
    result.push_back({.ids = copy(row->values<int64_t>("input_ids")),
                      .mask = copy(row->values<int64_t>("attention_mask")),
                      .labels = copy(row->values<int64_t>("labels")),
                      .decoder_mask = copy(row->values<int64_t>("decoder_attention_mask")),
                      .number = row->values<int64_t>("class")[0]});
  }
  return result;
}

std::string file_of(const std::string& folder, const std::string& beginning) {
  const std::vector<std::string> files = glob_local(folder + "/" + beginning + "*.tfrecord");
  if (files.size() != 1) throw std::runtime_error(fmt::format("{} files of {} in {}", files.size(), beginning, folder));
  return files[0];
}

}  // namespace millrace::test
