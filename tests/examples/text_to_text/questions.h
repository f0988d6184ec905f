#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/pipeline/dataset.h"

namespace millrace::test {

/// A CSV of `num_rows` questions of our own in the form of the question-quality data, with HTML, quotes and line ends
/// in it: their class follows from a word of the title. The same in every process.
std::string questions_csv(int num_rows);

/// What is in a file of rows.
struct QuestionRow {
  std::vector<int64_t> ids;
  std::vector<int64_t> mask;
  std::vector<int64_t> labels;
  std::vector<int64_t> decoder_mask;
  int64_t number = 0;

  friend bool operator==(const QuestionRow&, const QuestionRow&) = default;
};
std::vector<QuestionRow> rows_in(const std::string& file, int64_t max_length);

/// The one file whose name begins so.
std::string file_of(const std::string& folder, const std::string& beginning);

}  // namespace millrace::test
